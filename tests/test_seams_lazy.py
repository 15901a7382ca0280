"""Seams of further libraries come with the import of the library, and never before or instead of it."""

from __future__ import annotations

import importlib
import logging
import sys
from typing import TYPE_CHECKING

import pytest

import lockscope
from lockscope import extras
from lockscope.seams import lazy
from lockscope.seams.library import SeamMovedError, require
from shim import run_python

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a folder to import from; what was imported goes afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    lazy.forget()
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_hook_runs_once_after_the_import(folder: Path) -> None:
    """The hook gets the finished module, once; module and import system are as before."""
    (folder / "later_one.py").write_text("value = 1\n")
    seen: list[int] = []
    finders = list(sys.meta_path)
    lazy.when_imported("later_one", lambda module: seen.append(module.value))
    assert seen == []
    module = importlib.import_module("later_one")
    importlib.reload(module)
    assert seen == [1]
    assert type(module.__loader__).__name__ == "SourceFileLoader"
    assert "exec_module" not in vars(module.__loader__)
    lazy.forget()
    assert sys.meta_path == finders


def test_hook_runs_now_if_imported_already() -> None:
    """For a module that is there the hook runs at once."""
    seen: list[ModuleType] = []
    lazy.when_imported("json", seen.append)
    assert seen == [sys.modules["json"]]


def test_packages_and_submodules(folder: Path) -> None:
    """A hook on a package waits for all that the package imports; one on a submodule runs with that."""
    (folder / "later_two").mkdir()
    (folder / "later_two" / "__init__.py").write_text("from later_two.part import value\nmore = value + 1\n")
    (folder / "later_two" / "part.py").write_text("value = 1\n")
    seen: list[object] = []
    lazy.when_imported("later_two", lambda module: seen.append(module.more))
    lazy.when_imported("later_two.part", lambda module: seen.append(module.value))
    importlib.import_module("later_two.part")
    assert seen == [1, 2]


def test_failing_imports_fail_as_before(folder: Path) -> None:
    """A module that is not there, or that raises, gives the same exceptions and runs no hook."""
    (folder / "later_bad.py").write_text("raise RuntimeError('mine')\n")
    seen: list[ModuleType] = []
    lazy.when_imported("later_bad", seen.append)
    lazy.when_imported("later_missing", seen.append)
    with pytest.raises(RuntimeError, match="mine"):
        importlib.import_module("later_bad")
    with pytest.raises(ModuleNotFoundError, match="later_missing"):
        importlib.import_module("later_missing")
    assert seen == []


def test_a_version_whose_calls_moved_is_told_once_and_left_alone(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A library with other calls is reported once, with what is missing, and its methods are its own."""
    (folder / "redis_lock.py").write_text(
        "class NotAcquired(Exception): pass\n"
        "class Lock:\n"
        "    def acquire(self, wait): return True\n"
        "    def release(self): pass\n"
        "    def extend(self, expire): pass\n"
    )
    real = sys.modules.pop("redis_lock", None)
    extras._complained.discard("python-redis-lock")
    try:
        with caplog.at_level(logging.WARNING, "lockscope"):
            for _ in range(2):
                lockscope.instrument()
                moved = importlib.import_module("redis_lock")
                lockscope.uninstrument()
        assert not hasattr(moved.Lock.acquire, "__wrapped__")
        assert not hasattr(moved.Lock.release, "__wrapped__")
        assert moved.Lock().acquire(wait=1) is True
        told = [
            record.getMessage() for record in caplog.records if "python-redis-lock" in record.getMessage()
        ]
        assert len(told) == 1
        assert "Lock.acquire takes no blocking, timeout, but ['self', 'wait']" in told[0]
    finally:
        sys.modules.pop("redis_lock", None)
        if real is not None:
            sys.modules["redis_lock"] = real


def test_require_checks_what_a_seam_reads() -> None:
    """A missing function and a missing parameter are told apart; a builtin without a signature passes."""
    require(dict, "update")
    with pytest.raises(SeamMovedError, match="has no nothing"):
        require(dict, "nothing")
    with pytest.raises(SeamMovedError, match="takes no color"):
        require(pytest, "raises", "color")


NOTHING_IMPORTED = """
import sys, lockscope
lockscope.instrument()
from lockscope.extras import FRAMEWORKS, LIBRARIES
names = {waited_for.partition(".")[0] for waited_for, _, _ in LIBRARIES + FRAMEWORKS}
ours = [name for name in sys.modules if name.startswith("lockscope.integrations")]
print(sorted(names & set(sys.modules)), ours)
"""


def test_nothing_is_imported_for_their_sake() -> None:
    """``instrument`` imports no lock library and no framework, nor our modules about them."""
    assert run_python(NOTHING_IMPORTED).stdout.strip() == "[] []"


IMPORTED_LATER = """
import lockscope
lockscope.instrument()
lockscope.instrument()
import redis_lock, pottery, redlock

def wrapped():
    methods = (redis_lock.Lock.acquire, pottery.Redlock.extend, redlock.Redlock.lock)
    print([hasattr(method, "__wrapped__") for method in methods])

wrapped()
lockscope.uninstrument()
wrapped()
lockscope.instrument()
wrapped()
"""


def test_libraries_imported_after_instrument() -> None:
    """Each is observed as it is imported, put back by ``uninstrument``, and observed again after."""
    done = run_python(IMPORTED_LATER)
    assert done.stderr == ""
    assert done.stdout.split("\n")[:3] == [
        "[True, True, True]",
        "[False, False, False]",
        "[True, True, True]",
    ]

"""Who may import whom, and what an import costs the application."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import lockscope
from shim import run_python

ROOT = Path(__file__).parent.parent
PACKAGES = {
    "lockscope": "instrumentation",
    "lockscope_exporter": "exporter",
    "lockscope_dashboard": "dashboard",
}
MAY_IMPORT = {
    "lockscope": {"lockscope"},
    "lockscope_exporter": {"lockscope", "lockscope_exporter"},
    "lockscope_dashboard": {"lockscope", "lockscope_exporter", "lockscope_dashboard"},
}
# What the shim may import beside the standard library: at its top, and inside functions or optional modules.
SHIM_NEEDS = {"redis", "prometheus_client"}
SHIM_MAY = SHIM_NEEDS | {"opentelemetry", "celery", "rq", "dramatiq", "arq", "huey", "taskiq", "redis_lock"}
SHIM_MAY |= {"pottery", "redlock", "aioredlock"}


def modules(package: str) -> list[Path]:
    """Return the source files of a package."""
    found = sorted((ROOT / PACKAGES[package] / package).rglob("*.py"))
    assert found
    return found


def imported(path: Path, package: str) -> set[str]:
    """Return the full names of the modules that a file imports, wherever it does."""
    names: set[str] = set()
    parts = path.relative_to(ROOT / PACKAGES[package]).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(parts[: -node.level]) + "." if node.level else ""
            names.add(base + (node.module or ""))
            names.update(f"{base}{node.module or ''}.{alias.name}" for alias in node.names)
    return names


@pytest.mark.parametrize("package", PACKAGES)
def test_rooms_import_in_one_direction(package: str) -> None:
    """The shim knows neither exporter nor dashboard, the exporter not the dashboard."""
    wrong = {
        str(path.relative_to(ROOT)): name
        for path in modules(package)
        for name in imported(path, package)
        if name.partition(".")[0] in PACKAGES and name.partition(".")[0] not in MAY_IMPORT[package]
    }
    assert wrong == {}


def test_the_shim_imports_nothing_it_does_not_declare() -> None:
    """Beside the standard library the shim names its two dependencies and the libraries it observes."""
    standard = sys.stdlib_module_names
    wrong = {
        str(path.relative_to(ROOT)): name
        for path in modules("lockscope")
        for name in imported(path, "lockscope")
        if name.partition(".")[0] not in standard | SHIM_MAY | {"lockscope"}
    }
    assert wrong == {}


def test_no_module_of_the_shim_imports_itself_in_a_circle() -> None:
    """Each module can be the first that is imported."""
    names = [
        ".".join(path.relative_to(ROOT / "instrumentation").with_suffix("").parts).removesuffix(".__init__")
        for path in modules("lockscope")
        if path.name != "__main__.py"
    ]
    script = """
import importlib, sys
import redis, prometheus_client
before = set(sys.modules)
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name.partition(".")[0] in ("lockscope", "redis", "prometheus_client"):
            raise
    for loaded in [loaded for loaded in sys.modules if loaded.partition(".")[0] == "lockscope"]:
        del sys.modules[loaded]
print("done")
"""
    done = run_python(script, *names)
    assert done.stdout.split() == ["done"], done.stderr


BLOCK = """
import sys
allowed = set(sys.stdlib_module_names) | {"lockscope", "redis", "prometheus_client", "hiredis", "jwt",
                                          "async_timeout", "typing_extensions"}
asked = set()
class Block:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in allowed and not top.startswith(("_", "sitecustomize", "usercustomize")):
            asked.add(top)
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Block())
"""


def test_the_shim_works_with_its_two_dependencies_alone(server: object) -> None:
    """With every other package out of reach, locks are observed, logged and scraped."""
    script = (
        BLOCK
        + """
import lockscope, logging, redis, prometheus_client
logging.basicConfig(level="INFO", stream=sys.stderr)
lockscope.instrument()
client = redis.Redis(unix_socket_path=sys.argv[1])
with lockscope.job("t"), client.lock("lock:1", timeout=5) as lock, lockscope.keep_alive(lock):
    pass
with lockscope.idempotent("done:1", ttl=5, client=client):
    pass
text = prometheus_client.generate_latest().decode()
assert 'redis_lock_acquire_total{job_type="t",outcome="acquired",prefix="lock:*"} 1.0' in text, text
lockscope.uninstrument()
print("worked")
"""
    )
    done = run_python(script, server.socket)
    assert done.stdout.split() == ["worked"], done.stderr
    assert "lock.acquired lock:1" in done.stderr


def test_importing_the_shim_loads_nothing_heavy() -> None:
    """``import lockscope`` adds no package to what its two dependencies load, and starts no thread."""
    script = """
import sys, threading
import redis, redis.asyncio, prometheus_client
before = {name.partition(".")[0] for name in sys.modules}
import lockscope
print(*sorted({name.partition(".")[0] for name in sys.modules} - before))
assert threading.active_count() == 1
lockscope.instrument()
print(*sorted({name.partition(".")[0] for name in sys.modules} - before))
assert threading.active_count() == 1
"""
    done = run_python(script)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    extra = (set(first.split()) | set(second.split())) - set(sys.stdlib_module_names) - {"lockscope"}
    assert extra == set()
    assert not {"click", "starlette", "opentelemetry", "pandas", "streamlit", "celery", "rq"} & extra


def test_public_names_are_there_and_no_others() -> None:
    """What the package exports exists, is documented, and is all that a star import gives."""
    for name in lockscope.__all__:
        assert getattr(lockscope, name) is not None
        if callable(getattr(lockscope, name)):
            assert getattr(lockscope, name).__doc__
    done = run_python("from lockscope import *; print(*sorted(n for n in dir() if not n.startswith('__')))")
    assert set(done.stdout.split()) == {name for name in lockscope.__all__ if not name.startswith("__")}


def test_every_public_name_is_there_whatever_was_imported_before() -> None:
    """Names that are imported on first use are in ``dir()`` and are what their own modules define."""
    code = (
        "import lockscope, lockscope.lock_decorator\n"
        "assert set(lockscope.__all__) <= set(dir(lockscope))\n"
        "assert all(getattr(lockscope, name) is not None for name in lockscope.__all__)\n"
        "assert lockscope.locked is lockscope.lock_decorator.locked\n"
        "assert not hasattr(lockscope, 'lock_everything')\n"
    )
    assert run_python(code).returncode == 0


def test_what_most_workers_never_use_is_not_imported() -> None:
    """Instrumenting a worker imports neither idempotency nor renewal."""
    code = "import sys, lockscope; lockscope.instrument(); print(*sorted(sys.modules))"
    loaded = run_python(code).stdout.split()
    assert "lockscope.record" in loaded
    assert not {"lockscope.idempotency", "lockscope.renewal", "lockscope.lock_decorator"} & set(loaded)


def test_a_list_in_a_pipe_loads_only_what_it_needs() -> None:
    """``lockscope ls`` starts without metrics, tables in colour, HTTP or frames."""
    code = (
        "import sys, click; from lockscope_exporter.cli import group, run; "
        "assert group.lockscope.get_command(click.Context(group.lockscope), 'ls'); "
        "print(*sorted({name.partition('.')[0] for name in sys.modules})); "
        "import opentelemetry.sdk.metrics"
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert "redis" in loaded
    unneeded = {
        "opentelemetry",
        "prometheus_client",
        "rich",
        "httpx",
        "starlette",
        "uvicorn",
        "yaml",
        "pandas",
        "streamlit",
    }
    assert not unneeded & loaded

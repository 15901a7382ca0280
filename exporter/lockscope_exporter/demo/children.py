"""Child processes of the demo, each in a session of its own, and their certain end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

# Settings of a person's own exporters and workers: to the demo's they would name other servers and files.
_SETTINGS = ("LOCKSCOPE_", "PROMETHEUS_MULTIPROC_DIR", "prometheus_multiproc_dir")
_FOR_ALL = frozenset({"LOCKSCOPE_DEBUG"})
_GRACE = 5.0  # seconds between SIGTERM and SIGKILL


class ChildError(Exception):
    """A child process did not come up; the message says which and what it printed last."""


@dataclass(slots=True)
class Child:
    """A running child and the file that its output goes to."""

    name: str
    popen: subprocess.Popen[bytes]
    log: Path

    def last_words(self) -> str:
        """Return the last line that the child printed, for an error message."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else "nothing"


class Children:
    """Starts children and stops them all, the last started first.

    Args:
        folder: where their output goes, a file each.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: list[Child] = []

    def start(self, name: str, command: Sequence[str], env: Mapping[str, str] | None = None) -> Child:
        """Start a child in a session of its own, so that Ctrl-C in the terminal reaches only the demo."""
        log = self.folder / f"{name}.log"
        with log.open("ab") as sink:
            popen = subprocess.Popen(  # noqa: S603 - our own commands, no shell
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={**_surroundings(os.environ), **(env or {})},
                start_new_session=True,
            )
        child = Child(name, popen, log)
        self.running.append(child)
        return child

    def python(self, name: str, module: str, *arguments: str, env: Mapping[str, str] | None = None) -> Child:
        """Start ``python -m module`` with this interpreter."""
        return self.start(name, [sys.executable, "-m", module, *arguments], env)

    def kill(self, child: Child) -> None:
        """Kill a child with SIGKILL, as an out-of-memory killer would, and forget it."""
        child.popen.send_signal(signal.SIGKILL)
        child.popen.wait()
        self.running.remove(child)

    def dead(self) -> list[Child]:
        """Return the children that ended by themselves."""
        return [child for child in self.running if child.popen.poll() is not None]

    def stop(self) -> None:
        """Ask all to end, wait, then kill what is left with all that it started."""
        for child in reversed(self.running):
            if child.popen.poll() is None:
                child.popen.terminate()
        deadline = time.monotonic() + _GRACE
        for child in reversed(self.running):
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.popen.wait(max(deadline - time.monotonic(), 0.05))
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.popen.pid, signal.SIGKILL)
            child.popen.wait()
        self.running.clear()


def _surroundings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without settings of lockscope."""
    return {
        name: value
        for name, value in environment.items()
        if name in _FOR_ALL or not name.startswith(_SETTINGS)
    }

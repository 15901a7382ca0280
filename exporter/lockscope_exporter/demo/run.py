"""Run the demo from start to end."""

from __future__ import annotations

import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockscope_exporter.demo.report import summary
from lockscope_exporter.demo.stage import Plan, Stage, describe

if TYPE_CHECKING:
    from rich.console import Console

_PAUSE = 0.4  # seconds between two looks


class _TerminatedError(Exception):
    """SIGTERM came; the demo ends as at Ctrl-C."""


def run(plan: Plan, console: Console, duration: float | None) -> bool:
    """Run the demo until ``duration`` has passed, Ctrl-C or SIGTERM; leave no process and no port behind.

    Args:
        plan: what to run.
        console: where to print.
        duration: seconds; ``None`` means until interrupted.

    Returns:
        Whether every situation was seen in the scraped metrics.

    Raises:
        ChildError: something did not come up or ended by itself.
        OSError: a port is in use.
    """

    def terminated(*_: Any) -> None:
        raise _TerminatedError

    before = signal.signal(signal.SIGTERM, terminated)
    try:
        with tempfile.TemporaryDirectory(prefix="lockscope-demo-", ignore_cleanup_errors=True) as name:
            return _run(Stage(plan, Path(name), console.print), plan, console, duration)
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(stage: Stage, plan: Plan, console: Console, duration: float | None) -> bool:
    try:
        console.print("starting workers, exporter and what else is there …")
        stage.start()
        for line in describe(plan, stage):
            console.print(line, highlight=False, markup=False, soft_wrap=True)
        console.print("Ctrl-C ends everything." if duration is None else f"runs for {duration:g} s")
        until = None if duration is None else time.monotonic() + duration
        while until is None or time.monotonic() < until:
            stage.step()
            time.sleep(_PAUSE)
    except (KeyboardInterrupt, _TerminatedError):
        console.print("stopping …")
    finally:
        stage.stop()
    return summary(console, stage.seen)

"""Run the demo from start to end."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from lockscope_exporter.demo.report import summary
from lockscope_exporter.demo.stage import EndedError, Plan, Stage, describe

if TYPE_CHECKING:
    from rich.console import Console

_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PAUSE = 0.4  # seconds between two looks


def run(plan: Plan, console: Console, duration: float | None) -> bool:
    """Run the demo until ``duration`` has passed, Ctrl-C, SIGTERM or SIGHUP; leave no process or port behind.

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
    # An exception out of a handler is lost in a finalizer and cuts cleaning up short; a note does neither.
    endings: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: endings.append(number))
        for number in _ENDINGS
        if signal.getsignal(number) is not signal.SIG_IGN  # nohup means that a closed terminal ends nothing
    }
    try:
        with tempfile.TemporaryDirectory(prefix="lockscope-demo-", ignore_cleanup_errors=True) as name:
            return _run(Stage(plan, Path(name), console.print, endings), plan, console, duration)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(stage: Stage, plan: Plan, console: Console, duration: float | None) -> bool:
    try:
        console.print("starting workers, exporter and what else is there …")
        stage.start()
        for line in describe(plan, stage):
            console.print(line, highlight=False, markup=False, soft_wrap=True)
        console.print("Ctrl-C ends everything." if duration is None else f"runs for {duration:g} s")
        stage.run(duration, _PAUSE)
    except EndedError:
        console.print("stopping …")
    finally:
        stage.stop()
    return summary(console, stage.seen)

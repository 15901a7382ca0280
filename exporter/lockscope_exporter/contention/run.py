"""Listening to several servers at once, until time, bytes or a person end it."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from lockscope_exporter.contention.report import Report, merge
from lockscope_exporter.contention.sampler import Progress, listen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lockscope_exporter.contention.sampler import Plan
    from lockscope_exporter.nodes import Server

_TICK = 0.1  # seconds between two looks at how far it is
_WORK_UP = 2.0  # seconds that working up what was heard may take after an interruption


def run(
    servers: Sequence[Server], plan: Plan, tick: Callable[[Mapping[str, Progress]], None]
) -> tuple[Report, bool]:
    """Listen to all servers at the same time.

    Args:
        servers: where; at least one.
        plan: how; its bytes are shared out between the servers.
        tick: called now and then with how far each is, by its name.

    Returns:
        What was heard, and whether a person ended it (Ctrl-C).
    """
    share = replace(plan, max_bytes=max(plan.max_bytes // len(servers), 1))
    stop = threading.Event()
    progress = {server.name: Progress() for server in servers}
    # Threads are not joined: in Python 3.11 a join that Ctrl-C interrupts takes the thread for ended.
    finished: queue.SimpleQueue[Report] = queue.SimpleQueue()
    reports: list[Report] = []
    for server in servers:
        threading.Thread(
            target=_work,
            args=(server, share, stop, progress[server.name], finished),
            name=f"lockscope-monitor-{server.name}",
            daemon=True,
        ).start()
    interrupted = False
    try:
        while len(reports) < len(servers):
            tick(progress)
            _collect(finished, reports)
    except KeyboardInterrupt:
        interrupted = True
        stop.set()
        until = time.monotonic() + 2 * plan.timeout + _WORK_UP
        while len(reports) < len(servers) and time.monotonic() < until:
            _collect(finished, reports)
    finally:
        stop.set()
    return merge(sorted(reports, key=lambda report: report.nodes)), interrupted


def _work(
    server: Server, plan: Plan, stop: threading.Event, progress: Progress, finished: queue.SimpleQueue[Report]
) -> None:
    report = Report((server.name,), stopped="lost", errors={server.name: "ended by a defect"})
    try:
        report = listen(server, plan, stop, progress)
    finally:
        finished.put(report)


def _collect(finished: queue.SimpleQueue[Report], reports: list[Report]) -> None:
    with contextlib.suppress(queue.Empty):
        reports.append(finished.get(timeout=_TICK))

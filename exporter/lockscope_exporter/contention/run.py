"""Listening to several servers at once, until time, bytes or a person end it."""

from __future__ import annotations

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


def run(
    servers: Sequence[Server], plan: Plan, tick: Callable[[Mapping[str, Progress]], None]
) -> tuple[Report, bool]:
    """Listen to all servers at the same time.

    Args:
        servers: where.
        plan: how; bytes are shared out between the servers.
        tick: called now and then with how far each is, by its name.

    Returns:
        What was heard, and whether a person ended it (Ctrl-C).
    """
    share = replace(plan, max_bytes=max(plan.max_bytes // len(servers), 1))
    stop = threading.Event()
    progress = {server.name: Progress() for server in servers}
    reports: dict[str, Report] = {}

    def work(server: Server) -> None:
        reports[server.name] = listen(server, share, stop, progress[server.name])

    threads = [
        threading.Thread(target=work, args=(server,), name=f"lockscope-monitor-{server.name}", daemon=True)
        for server in servers
    ]
    interrupted = False
    try:
        for thread in threads:
            thread.start()
        _wait(threads, lambda: tick(progress))
    except KeyboardInterrupt:
        interrupted = True
        stop.set()
        _wait(threads, lambda: None, patience=2 * plan.timeout + 2.0)
    finally:
        stop.set()
    return merge([reports[server.name] for server in servers if server.name in reports]), interrupted


def _wait(threads: Sequence[threading.Thread], tick: Callable[[], None], patience: float = 1e9) -> None:
    until = time.monotonic() + patience
    while any(thread.is_alive() for thread in threads) and time.monotonic() < until:
        tick()
        next(thread for thread in [*threads, threads[0]] if thread.is_alive() or thread is threads[0]).join(
            _TICK
        )

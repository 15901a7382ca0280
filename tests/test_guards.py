"""Critical sections of the shim: a signal handler or a fork in the middle of one leaves nobody waiting."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry

import lockscope
from lockscope import clients, presence, runtime
from lockscope.emit import Background
from lockscope.entries import Entries
from lockscope.guards import guard
from servers import wait_until
from shim import Observed

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from lockscope.events import LockEvent
    from servers import RedisServer


def child_ends(work: Callable[[], object]) -> bool:
    """Tell whether a forked child gets through ``work`` within some seconds."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(10)
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


class Elsewhere:
    """Another thread is in the critical section for as long as this block lasts."""

    def __init__(self, section: Any) -> None:
        self.section = section
        self.entered, self.leave = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        """Stay inside."""
        with self.section:
            self.entered.set()
            self.leave.wait(60)

    def __enter__(self) -> None:
        self.thread.start()
        assert self.entered.wait(30)

    def __exit__(self, *_: object) -> None:
        self.leave.set()
        self.thread.join()


def test_a_guard_is_entered_twice_and_open_in_a_child() -> None:
    """It is re-entrant, shuts others out, and a child finds it open."""
    section = guard()
    with section, section:
        pass
    with Elsewhere(section):
        assert not section.acquire(blocking=False)
        assert child_ends(lambda: section.acquire(blocking=True))
    assert section.acquire(blocking=False)


def test_a_fork_while_a_family_of_keys_is_admitted(client: redis.Redis) -> None:
    """A child counts and takes locks of new families, though a thread of its parent was admitting one."""

    def work() -> None:
        with client.lock("family of the child:1", timeout=30):
            lockscope.uninstrument()

    lockscope.instrument(registry=CollectorRegistry(), logs=False)
    try:
        assert runtime.recorder is not None
        with Elsewhere(runtime.recorder.prefixes._lock):
            assert client.lock("noted and not counted yet:1", timeout=30).acquire()
            assert child_ends(work)
    finally:
        lockscope.uninstrument()


def test_a_fork_while_observation_is_switched() -> None:
    """A child switches observation off, though a thread of its parent was switching it."""
    with Observed(), Elsewhere(sys.modules["lockscope.instrument"]._switch):
        assert child_ends(lockscope.uninstrument)


def test_a_fork_while_helpers_make_a_client(
    server: RedisServer, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child has a client of its own, though a thread of its parent was making one."""
    monkeypatch.setenv("LOCKSCOPE_REDIS_URL", f"unix://{server.socket}")

    @lockscope.locked("order:{number}", ttl=30)
    def work(number: int) -> int:
        return number

    with Elsewhere(clients._gate):
        assert child_ends(lambda: work(1))
    assert not client.exists("order:1")


def test_a_fork_inside_a_shared_context_manager() -> None:
    """A child enters and leaves an object that a thread of its parent was entering."""
    entries: Entries[int] = Entries()
    with Elsewhere(entries._gate):
        assert child_ends(lambda: (entries.push(1), entries.pop()))


def test_a_fork_while_the_thread_of_a_sink_starts(client: redis.Redis) -> None:
    """A child reports to its sinks, though a thread of its parent was starting theirs."""
    seen: list[LockEvent] = []
    sink = Background(seen.append)
    with Observed() as observed:
        assert runtime.recorder is not None
        runtime.recorder.emit.use((*runtime.recorder.emit.sinks, sink))

        def work() -> None:
            with client.lock("order:1", timeout=30):
                pass
            wait_until(lambda: len(seen) == 2)

        with Elsewhere(sink._lock):
            assert child_ends(work)
        assert observed.total("held") == 0


@pytest.mark.parametrize("where", ["start", "Announcement"])
def test_a_lock_in_a_signal_handler_while_presence_begins(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """A handler that takes a lock while the first lock of a process makes it present gets it."""
    took: list[bool] = []
    struck: list[bool] = []
    owner: Any = threading.Thread if where == "start" else presence
    real = getattr(owner, where)

    def handler(*_: object) -> None:
        with client.lock("handler:1", timeout=30):
            took.append(True)

    def interrupted(*args: Any) -> Any:
        if not struck:
            struck.append(True)
            signal.raise_signal(signal.SIGUSR1)
        return real(*args)

    def work() -> None:
        monkeypatch.setattr(presence, "_announcements", {})
        monkeypatch.setattr(owner, where, interrupted)
        with client.lock("order:1", timeout=30):
            assert took

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with Observed():
            assert child_ends(work)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_sink_that_ends_its_thread_is_counted(client: redis.Redis) -> None:
    """SystemExit in a sink is a failure like any other: the next event finds the thread alive."""
    seen: list[str] = []

    def leaves(event: LockEvent) -> None:
        seen.append(event.event)
        raise SystemExit(3)

    with Observed(sinks=[leaves]) as observed:
        with client.lock("order:1", timeout=30):
            pass
        wait_until(lambda: len(seen) == 2)
        wait_until(lambda: observed.total("redis_lock_sink_errors_total") == 2)

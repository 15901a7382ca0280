"""Work put off from the caller's path to a background thread: bounded, fork-safe, finished at exit."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakSet, ref

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_log = logging.getLogger("lockscope.sinks")
_STORM = 20  # items more than a moment ago
_COMPLAIN_EVERY = 60.0  # seconds between two log records about one failing worker


class _Run(Generic[T]):
    """The queue and the thread of one process, from start to close."""

    def __init__(self) -> None:
        self.queue: deque[T] = deque()
        self.working = threading.Lock()
        self.starting = threading.Lock()
        self.due = threading.Event()
        self.closing = threading.Event()
        self.awake = False
        self.thread: threading.Thread | None = None


class Backlog(Generic[T]):
    """A bounded queue and the thread that works it off.

    The thread starts with the first item, in each process anew: what waited at a fork stays with the parent.
    It sleeps while there is nothing to do, and lingers a moment before it begins, so that items gather.

    Args:
        name: for the thread and the log.
        work: takes items off the queue that it is passed; may block. What it raises is logged.
        size: items that may wait; what does not fit is dropped and counted in ``dropped``.
        linger: seconds to wait for more before ``work`` is called.
        patience: seconds to put ``work`` off further while more and more comes: it would take the interpreter
            from whoever makes the items. A queue that is half full ends all patience.
        again: returns in how many seconds ``work`` is to be called although nothing new came; ``None`` for
            not at all.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[deque[T]], None],
        *,
        size: int = 10_000,
        linger: float = 0.1,
        patience: float = 0.0,
        again: Callable[[], float | None] | None = None,
    ) -> None:
        self._again = again
        self.name = name
        self.dropped = 0
        self._work = work
        self._size = size
        self._linger = linger
        self._patience = patience
        self._at_exit = False
        self._complained = float("-inf")
        self._now: _Run[T] = _Run()
        _all.add(self)

    def __len__(self) -> int:
        """Return how many items wait."""
        return len(self._now.queue)

    def put(self, item: T) -> None:
        """Queue ``item``, or drop it if too many wait already. Never blocks."""
        run = self._now
        if len(run.queue) >= self._size:
            self.dropped += 1
            return
        run.queue.append(item)
        if not run.awake:
            self._wake(run)

    def drain(self, timeout: float = 2.0) -> bool:
        """Work off what waits, in the caller's thread.

        Args:
            timeout: seconds to wait for the background thread if it is at work.

        Returns:
            Whether nothing was left over.
        """
        return self._drain(self._now, timeout)

    def take(self) -> deque[T]:
        """Return what waits now, for whoever works it off in place of the thread."""
        return _taken(self._now.queue)

    def close(self, timeout: float = 2.0) -> None:
        """Work off what waits and end the thread; a later item starts it again."""
        run, self._now = self._now, _Run()
        run.closing.set()
        run.due.set()
        self._drain(run, timeout)

    def renew(self) -> None:
        """Begin with an empty queue and no thread, as in a forked child."""
        self._now = _Run()

    def _drain(self, run: _Run[T], timeout: float = -1) -> bool:
        if not run.working.acquire(timeout=timeout):
            return False
        # No more than what waits now: others may go on putting, faster than it can be worked off.
        waiting = _taken(run.queue)
        try:
            self._work(waiting)
        except Exception:  # noqa: BLE001 - telemetry stays away from the application
            self._complain()
        finally:
            run.queue.extendleft(reversed(waiting))  # what it can do nothing with yet
            run.working.release()
        return not run.queue

    def _wake(self, run: _Run[T]) -> None:
        run.awake = True
        if run.thread is None:
            with run.starting:
                if run.thread is None:
                    self._start(run)
        run.due.set()

    def _start(self, run: _Run[T]) -> None:
        if not self._at_exit:
            # Registered late, so that it runs before the exits of what was set up earlier, such as an SDK.
            atexit.register(_drain_at_exit, ref(self))
            self._at_exit = True
        thread = threading.Thread(
            target=self._attend, args=(run,), name=f"lockscope-{self.name}", daemon=True
        )
        thread.start()
        run.thread = thread

    def _attend(self, run: _Run[T]) -> None:
        while not run.closing.is_set():
            run.due.wait(self._again() if self._again is not None else None)
            run.due.clear()
            while not run.closing.wait(self._linger):
                self._wait_for_calm(run)
                self._drain(run)
                run.awake = False
                if not run.queue:  # an item that comes after this finds nobody awake and sets ``due``
                    break
                run.awake = True

    def _wait_for_calm(self, run: _Run[T]) -> None:
        ends = time.monotonic() + self._patience
        before = 0
        while (waiting := len(run.queue)) - before >= _STORM and 2 * waiting < self._size:
            if time.monotonic() >= ends or run.closing.wait(self._linger):
                return
            before = waiting

    def _complain(self) -> None:
        now = time.monotonic()
        if now - self._complained >= _COMPLAIN_EVERY:
            self._complained = now
            _log.exception("%s failed; what it was working on is lost", self.name)


def give_way() -> None:
    """Let go of the interpreter, or callers wait for it 5 ms at a time; at exit nobody goes first."""
    if threading.current_thread().daemon:
        time.sleep(0)


def _taken(queue: deque[T]) -> deque[T]:
    """Take what is in the queue now; other threads may put and take meanwhile."""
    taken: deque[T] = deque()
    try:
        for _ in range(len(queue)):
            taken.append(queue.popleft())
    except IndexError:  # another thread was faster
        pass
    return taken


def _drain_at_exit(backlog: ref[Backlog[Any]]) -> None:
    found = backlog()
    if found is not None:
        found.drain()


_all: WeakSet[Backlog[Any]] = WeakSet()


def _in_child() -> None:
    for backlog in list(_all):
        backlog.renew()


os.register_at_fork(after_in_child=_in_child)

"""Work put off from the caller's path to a background thread: bounded, fork-safe, finished at exit."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_log = logging.getLogger("lockscope.sinks")
_COMPLAIN_EVERY = 60.0  # seconds between two log records about one failing worker


class Backlog(Generic[T]):
    """A bounded queue and the thread that works it off.

    The thread starts with the first item, in each process anew: what waited at a fork stays with the parent.
    It sleeps while there is nothing to do, and lingers a moment before it begins, so that items gather.

    Args:
        name: for the thread and the log.
        work: takes items off the queue until it is empty; may block. What it raises is logged.
        size: items that may wait; what does not fit is dropped and counted in ``dropped``.
        linger: seconds to wait for more before ``work`` is called.
    """

    def __init__(
        self, name: str, work: Callable[[deque[T]], None], *, size: int = 10_000, linger: float = 0.1
    ) -> None:
        self.name = name
        self.dropped = 0
        self._work = work
        self._size = size
        self._linger = linger
        self._at_exit = False
        self.renew()
        _all.add(self)

    def __len__(self) -> int:
        """Return how many items wait."""
        return len(self._queue)

    def put(self, item: T) -> None:
        """Queue ``item``, or drop it if too many wait already. Never blocks."""
        queue = self._queue
        if len(queue) >= self._size:
            self.dropped += 1
            return
        queue.append(item)
        if not self._awake:
            self._wake()

    def drain(self, timeout: float = 2.0) -> bool:
        """Work off what waits, in the caller's thread.

        Args:
            timeout: seconds to wait for the background thread if it is at work.

        Returns:
            Whether nothing was left over.
        """
        if not self._working.acquire(timeout=timeout):
            return False
        try:
            self._work(self._queue)
        except Exception:  # noqa: BLE001 - telemetry stays away from the application
            self._complain()
        finally:
            self._working.release()
        return not self._queue

    def close(self, timeout: float = 2.0) -> None:
        """Work off what waits and end the thread; a later item starts it again."""
        self._closing.set()
        self._event.set()
        self.drain(timeout)
        if self._at_exit:
            atexit.unregister(self._exit)
        self.renew()

    def renew(self) -> None:
        """Begin with an empty queue and no thread, as in a forked child."""
        self._queue: deque[T] = deque()
        self._working = threading.Lock()
        self._starting = threading.Lock()
        self._event = threading.Event()
        self._closing = threading.Event()
        self._awake = False
        self._thread: threading.Thread | None = None
        self._complained = float("-inf")

    def _wake(self) -> None:
        self._awake = True
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    self._start()
        self._event.set()

    def _start(self) -> None:
        if not self._at_exit:
            # Registered late, so that it runs before the exits of what was set up earlier, such as an SDK.
            atexit.register(self._exit)
            self._at_exit = True
        thread = threading.Thread(target=self._run, name=f"lockscope-{self.name}", daemon=True)
        thread.start()
        self._thread = thread

    def _run(self) -> None:
        event, closing = self._event, self._closing
        while not closing.is_set():
            event.wait()
            event.clear()
            while not closing.wait(self._linger):
                self.drain()
                self._awake = False
                if not self._queue:  # an item that comes after this finds nobody awake and sets the event
                    break
                self._awake = True

    def _exit(self) -> None:
        self.drain()

    def _complain(self) -> None:
        now = time.monotonic()
        if now - self._complained >= _COMPLAIN_EVERY:
            self._complained = now
            _log.exception("%s failed; what it was working on is lost", self.name)


_all: WeakSet[Backlog[Any]] = WeakSet()


def _in_child() -> None:
    for backlog in list(_all):
        backlog.renew()


os.register_at_fork(after_in_child=_in_child)

"""Hand events to sinks, so that no sink can reach the application."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import sys
import threading
import time
from typing import TYPE_CHECKING

from lockscope.guards import guard
from lockscope.interrupts import interrupts

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockscope.events import LockEvent
    from lockscope.tally import Tally

    Sink = Callable[[LockEvent], None]

_log = logging.getLogger("lockscope.sinks")
_COMPLAIN_EVERY = 60.0  # seconds between two log records about one failing sink


class Emitter:
    """Hands each event to an immutable tuple of sinks.

    A sink that raises is counted in ``errors`` by its name and logged at most once a minute; the others
    still get the event and the caller never notices.

    Args:
        sinks: callables that take one ``LockEvent``.
    """

    def __init__(self, sinks: tuple[Sink, ...] = ()) -> None:
        self.errors: dict[str, int] = {}
        self._complained: dict[str, float] = {}
        self.use(sinks)

    def use(self, sinks: tuple[Sink, ...]) -> None:
        """Hand events to these sinks from now on.

        A sink may have ``tally``: the two events of a lock cycle that went well are then counted there
        directly, and it gets all others as events. It may have ``wants(name)``: if no sink wants one of
        those two, no event is made.
        """
        self.sinks = sinks
        self._tallies = tuple(sink for sink in sinks if hasattr(sink, "tally"))
        self._others = tuple(sink for sink in sinks if not hasattr(sink, "tally"))
        self._wants = tuple(getattr(sink, "wants", None) for sink in self._others)
        self.tally: Tally | None = self._tallies[0].tally if self._tallies else None

    def __call__(self, event: LockEvent) -> None:
        """Hand ``event`` to every sink."""
        self._hand(event, self.sinks)

    def to_others(self, event: LockEvent) -> None:
        """Hand an event that was counted directly to the sinks that do not count."""
        self._hand(event, self._others)

    def wanted(self, name: str) -> bool:
        """Tell whether a sink that does not count wants events of this name."""
        for wants in self._wants:  # noqa: SIM110 - a generator costs more than the loop, on the caller's path
            if wants is None or wants(name):
                return True
        return False

    def _hand(self, event: LockEvent, sinks: tuple[Sink, ...]) -> None:
        interrupted: BaseException | None = None
        for sink in sinks:
            try:
                sink(event)
            except BaseException as error:  # noqa: BLE001 - whatever a sink raises stays here
                if interrupts(error):
                    interrupted = error  # the sink was not to blame; the others get their event first
                else:
                    self.failed(sink_name(sink))
        if interrupted is not None:
            try:
                raise interrupted
            finally:
                del interrupted  # its traceback has this frame

    def failed(self, name: str) -> None:
        """Count a failure of the shim under a bounded name; log it with the exception being handled.

        If that is the application's, raised in the middle of the shim, it is raised again.
        """
        if interrupts(sys.exception()):
            raise  # noqa: PLE0704 - what the caller of this handles
        self.errors[name] = self.errors.get(name, 0) + 1
        now = time.monotonic()
        if now - self._complained.get(name, -_COMPLAIN_EVERY) >= _COMPLAIN_EVERY:
            self._complained[name] = now
            with contextlib.suppress(Exception):  # logging itself is broken: there is nobody left to tell
                _log.exception("%s failed (%d so far); its events are lost", name, self.errors[name])


def sink_name(sink: Sink) -> str:
    """Return the bounded name under which a sink's failures are counted."""
    return str(getattr(sink, "name", None) or getattr(sink, "__qualname__", None) or type(sink).__qualname__)


class Background:
    """Runs a sink on a thread of its own, so that one that blocks holds up nobody.

    The queue is bounded; what does not fit is dropped and counted in ``dropped``. The thread starts with the
    first event of each process, so a fork needs no care.

    Args:
        sink: the sink that may block.
        size: events that may wait.
    """

    def __init__(self, sink: Sink, size: int = 10_000) -> None:
        self.name = sink_name(sink)
        self.dropped = 0
        self._emit = Emitter((sink,))
        self._size = size
        self._pid = 0
        self._lock = guard()
        self._queue: queue.SimpleQueue[LockEvent | None] = queue.SimpleQueue()

    @property
    def errors(self) -> int:
        """Events that the sink failed to take."""
        return sum(self._emit.errors.values())

    def __call__(self, event: LockEvent) -> None:
        """Queue ``event``, or drop it if too many wait already."""
        if self._pid != os.getpid():
            self._start()
        elif threading.current_thread() is self._thread:
            return  # the sink itself takes a lock, and telling it would make it take another
        if self._queue.qsize() >= self._size:
            self.dropped += 1
        else:
            self._queue.put(event)

    def close(self, timeout: float = 1.0) -> None:
        """Let the sink finish what is queued, for at most ``timeout`` seconds."""
        if self._pid == os.getpid():
            self._queue.put(None)
            self._thread.join(timeout)
            self._pid = 0

    def _start(self) -> None:
        with self._lock:
            if self._pid == os.getpid():
                return
            self._queue = queue.SimpleQueue()
            self._thread = threading.Thread(
                target=self._run, args=(self._queue,), name=f"lockscope-{self.name}", daemon=True
            )
            self._pid = os.getpid()  # first: a signal handler that takes a lock finds it started
            try:
                self._thread.start()
            except BaseException:
                self._pid = 0
                raise

    def _run(self, events: queue.SimpleQueue[LockEvent | None]) -> None:
        while (event := events.get()) is not None:
            try:
                self._emit(event)
            except BaseException:  # noqa: BLE001 - such as SystemExit, which would end the thread in silence
                self._emit.errors[self.name] = self._emit.errors.get(self.name, 0) + 1

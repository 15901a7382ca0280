"""Lock events into the journal, a capped stream in Redis: in batches, by a thread of its own."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Any

import redis
from redis.exceptions import AskError, ClusterDownError, MasterDownError, MovedError, ReadOnlyError

from lockscope import exits, runtime
from lockscope.backlog import Backlog, give_way
from lockscope.clock import ServerClock
from lockscope.endpoints import EndpointError, endpoint_of
from lockscope.interrupts import interrupts
from lockscope.journal import KEY, Entry, Losses, Writer, encode, recorded
from lockscope.journal.gauges import Gauges
from lockscope.journal.model import MAX_EVENTS, VERSION
from lockscope.tokens import process

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

    from lockscope.endpoints import Endpoint
    from lockscope.events import LockEvent

MAX_ENTRIES = 10_000  # of the stream; some megabytes, at most some hundred
_SIZE = 10_000  # events that may wait
_LINGER = 0.25  # seconds in which events gather: four entries a second at most while they are few
_HEARTBEAT = 15.0  # seconds between two entries of a process that holds or waits, when nothing happens
_RETRY = 1.0  # seconds before an entry that could not be written is tried again
_TIMEOUT = 1.0  # seconds for one answer
_KEPT = 50  # entries that wait for Redis to come back before the oldest is given up
_COMPLAIN_EVERY = 60.0
# Refusals that end by themselves, or at another node.
_PASSING = (AskError, ClusterDownError, MasterDownError, MovedError, ReadOnlyError, redis.OutOfMemoryError)
_log = logging.getLogger("lockscope.journal")


class JournalSink:
    """Writes events to the journal; call it with each event.

    Args:
        endpoint: the server of the journal; without it that of the first lock.
        losses: returns what the process could not keep so far, without what the journal dropped.
        drain: reports leases whose lock object was dropped.
        max_entries: about how many entries the stream keeps.
        key: the stream.
    """

    name = "journal"

    def __init__(
        self,
        endpoint: Endpoint | None = None,
        *,
        losses: Callable[[], Losses] = Losses,
        drain: Callable[[], None] = lambda: None,
        max_entries: int = MAX_ENTRIES,
        key: str = KEY,
    ) -> None:
        self._endpoint = endpoint
        self._first = FirstServer()
        self._drain = drain
        self._losses = losses
        self._max_entries = max_entries
        self._key = key
        self._events: Backlog[LockEvent] = Backlog(
            "journal", self._work, size=_SIZE, linger=_LINGER, again=self._due
        )
        self._complained = float("-inf")
        self._begin()
        exits.before_exit(self._end)

    def __call__(self, event: LockEvent) -> None:
        """Queue ``event``."""
        self._events.put(event)

    @property
    def journal_dropped(self) -> int:
        """Events that were dropped because too many waited, here or for Redis to come back."""
        return self._events.dropped + self._given_up

    def reset(self) -> None:
        """Begin anew in a forked child; in the process itself nothing counts as held any more."""
        if self._pid != os.getpid():
            self._disconnect()
            self._begin()
        else:
            self._gauges.clear()

    def close(self) -> None:
        """Write what waits and say that nothing follows."""
        exits.forget(self._end)
        self._end()
        self._events.close()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._writing = threading.Lock()
        self._gauges = Gauges()
        self._clock = ServerClock()
        self._unsent: list[tuple[bytes, int]] = []
        self._sequence = 0
        self._given_up = 0
        self._ended = False
        self._moved: tuple[str, int] | None = None
        self._connection: Any = None
        self._events.dropped = 0

    # --- the background thread ---

    def _due(self) -> float | None:
        """Return in how many seconds there is work even if nothing happens."""
        if self._unsent:
            return _RETRY
        return _HEARTBEAT if self._gauges else None

    def _work(self, events: deque[LockEvent]) -> None:
        self._drain()
        with self._writing:
            if events or not self._ended:
                self._write(events)

    def _write(self, events: deque[LockEvent], *, last: bool = False) -> None:
        """Connect, pack what waits, send what is packed; what cannot be sent waits for the next time."""
        connection = None
        try:
            connection = self._connect()
            if connection is None:
                self._complain("no redis-py lock was taken yet that would tell where; pass journal=URL")
                return
            self._clock.measure(lambda: _ask(connection, "TIME"))
        except (redis.RedisError, OSError) as error:
            self._failed(error)
            connection = None
        self._pack(events, last=last)
        if connection is not None:
            try:
                self._send(connection)
            except (redis.RedisError, OSError) as error:
                self._failed(error)

    def _pack(self, events: deque[LockEvent], *, last: bool) -> None:
        """Make entries of what waits; if nothing does, a sign of life where there is something to tell."""
        if not events and (last or (self._gauges and not self._unsent)):
            self._keep([], last=last)
        while events:
            batch: list[LockEvent] = []
            while events and len(batch) < MAX_EVENTS:
                batch.append(events.popleft())
            self._keep(batch, last=last and not events)

    def _keep(self, batch: list[LockEvent], *, last: bool) -> None:
        first = self._first.endpoint
        writer = Writer(process.host, process.pid, process.worker, 0 if first is None else first.db)
        offset = self._clock.offset()
        self._sequence += 1
        for event in batch:
            self._gauges.count(event)
        entry = Entry(
            writer,
            self._sequence,
            time.time() + offset,
            tuple(recorded(event, writer, offset) for event in batch),
            self._all_losses(),
            None if batch else self._gauges.by_labels(),
            last=last,
        )
        pieces = []
        for piece in encode(entry):
            pieces.append(piece)
            give_way()
        self._unsent.append(("".join(pieces).encode(), len(batch)))
        if len(self._unsent) > _KEPT:
            self._given_up += self._unsent.pop(0)[1]

    def _send(self, connection: Any) -> None:
        """Send every packed entry. What may have arrived is sent again: readers know it by its number."""
        for body, _ in self._unsent:
            connection.send_command(
                "XADD", self._key, "MAXLEN", "~", self._max_entries, "*", "v", VERSION, "b", body
            )
        refused: Exception | None = None
        for _, count in self._unsent:
            try:
                connection.read_response()
            except _PASSING:
                raise
            except redis.ResponseError as error:  # not granted, or the key is no stream: it will stay so
                refused = error
                self._given_up += count
        self._unsent.clear()
        if refused is not None:
            self._complain(str(refused))

    def _connect(self) -> Any:
        if self._connection is None:
            endpoint = self._endpoint or self._first.endpoint
            if endpoint is None:
                return None
            self._connection = endpoint.open(timeout=_TIMEOUT, serving=self._key, at=self._moved)
        return self._connection

    def _failed(self, error: Exception) -> None:
        self._moved = (error.host, error.port) if isinstance(error, MovedError) else None
        self._disconnect()
        self._complain(str(error))

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.disconnect()

    # --- the end ---

    def _end(self) -> None:
        """Write what waits and say that this process writes no more, if it ever wrote."""
        if self._pid != os.getpid() or self._ended:
            return
        if not self._sequence and not len(self._events):
            return
        if self._writing.acquire(timeout=_TIMEOUT):
            try:
                self._ended = True
                self._write(self._events.take(), last=True)
            finally:
                self._writing.release()

    def _all_losses(self) -> Losses:
        found = self._losses()
        return Losses(self.journal_dropped, found.overflowed, found.sink_errors)

    def _complain(self, reason: str) -> None:
        now = time.monotonic()
        if now - self._complained >= _COMPLAIN_EVERY:
            self._complained = now
            _log.warning("the journal cannot be written: %s", reason)


def _ask(connection: Any, *command: str) -> Any:
    connection.send_command(*command)
    return connection.read_response()


class FirstServer:
    """The server of the first redis-py lock that this process takes, and the database there."""

    def __init__(self) -> None:
        self.endpoint: Endpoint | None = None
        runtime.meet = self._meet

    def _meet(self, client: object) -> None:
        try:
            self.endpoint = endpoint_of(client)
        except Exception as error:  # a client of unknown make; another one may come
            if interrupts(error):
                raise
        else:
            runtime.meet = None


def journal_sink(target: object, losses: Callable[[], Losses], drain: Callable[[], None]) -> JournalSink:
    """Return the sink that ``instrument(journal=target)`` asks for.

    Args:
        target: a URL, a client of redis-py, or ``True`` for ``LOCKSCOPE_REDIS_URL`` or else the server of the
            first lock.
        losses: returns what the process could not keep so far.
        drain: reports leases whose lock object was dropped.

    Raises:
        ValueError: the URL or client cannot be used.
    """
    if target is True:
        target = os.environ.get("LOCKSCOPE_REDIS_URL") or None
    endpoint = None
    if target is not None:
        try:
            client = redis.Redis.from_url(target) if isinstance(target, str) else target
            endpoint = endpoint_of(client)
        except (ValueError, EndpointError) as error:
            raise ValueError(f"journal: {error}") from error
    return JournalSink(endpoint, losses=losses, drain=drain)

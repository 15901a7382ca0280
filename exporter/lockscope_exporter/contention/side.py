"""Connections beside the one that listens: is a lock there, and does the server still live?"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

import redis
from redis.exceptions import ResponseError

from lockscope_exporter.sampling.answers import value
from lockscope_exporter.sampling.wire import pack

if TYPE_CHECKING:
    from collections.abc import Callable

    from redis.connection import AbstractConnection

    from lockscope_exporter.contention.replay import Lock

ASKED = b"pTtL"  # PTTL, spelled so that the line in MONITOR is known for our own
_BEAT = 0.5  # seconds between two signs of life that are asked for
_MAX_DBS = 16


class Side:
    """A connection beside the one that listens: asks for locks and for signs of life, in order.

    Args:
        connection: a fresh connection.
        timeout: seconds for one answer.
    """

    def __init__(self, connection: AbstractConnection, timeout: float) -> None:
        self._connection = connection
        self._timeout = timeout
        self._sent: deque[tuple[Lock | None, float]] = deque()
        self._ready: deque[tuple[Lock, int]] = deque()
        self._refused: list[tuple[Lock, ResponseError]] = []
        self._beaten = 0.0

    @property
    def next(self) -> Lock | None:
        """The lock that MONITOR shows the question for next, ``None`` if nothing was asked."""
        if self._ready:
            return self._ready[0][0]
        return next((lock for lock, _ in self._sent if lock is not None), None)

    def call(self, *parts: bytes) -> Any:
        """Ask and wait; nothing else may be under way.

        Raises:
            redis.ResponseError: the server refuses.
        """
        self._send(*parts)
        return value(self._read())

    def ask(self, lock: Lock) -> None:
        """Ask when a lock expires, for ``take`` to return later."""
        self._send(ASKED, lock.key)
        self._sent.append((lock, time.monotonic()))

    def take(self) -> int | None:
        """Return the answer for ``next``, milliseconds as PTTL says; ``None`` if the server refused it."""
        while not self._ready and self._sent:
            wanted = self._sent[0][0] is not None
            self._receive()
            if wanted and not self._ready:
                return None
        return self._ready.popleft()[1] if self._ready else None

    def pump(self) -> list[tuple[Lock, ResponseError]]:
        """Take the answers that are there; return those that were refused, which MONITOR does not show.

        Raises:
            redis.TimeoutError: the server has not answered for too long.
        """
        while self._sent and self._connection.can_read(0):
            self._receive()
        if self._sent and time.monotonic() - self._sent[0][1] > self._timeout:
            raise redis.TimeoutError("Timeout reading from socket")
        refused, self._refused = self._refused, []
        return refused

    def beat(self) -> None:
        """Ask for a sign of life now and then."""
        now = time.monotonic()
        if now - self._beaten > _BEAT:
            self._beaten = now
            self._send(b"PING")
            self._sent.append((None, now))

    def settle(self) -> None:
        """Wait for every answer that is still on its way."""
        while self._sent:
            self._receive()

    def _receive(self) -> None:
        answer = self._read()
        lock, _ = self._sent.popleft()
        if lock is None:
            return
        if isinstance(answer, ResponseError):
            self._refused.append((lock, answer))
        else:
            self._ready.append((lock, int(answer)))

    def _send(self, *parts: bytes) -> None:
        self._connection.send_packed_command([pack(*parts)])  # type: ignore[no-untyped-call]

    def _read(self) -> Any:
        try:
            return self._connection.read_response()
        except ResponseError as error:
            return error


class Sides:
    """One ``Side`` for each database that anybody uses a lock in.

    Args:
        open_connection: returns a fresh connection to a database.
        timeout: seconds for one answer.

    Attributes:
        main: the one to the URL's own database.
    """

    def __init__(self, open_connection: Callable[..., AbstractConnection], timeout: float) -> None:
        self._open = open_connection
        self._timeout = timeout
        connection = open_connection()
        self.main = Side(connection, timeout)
        self._by_db: dict[int, Side | None] = {int(connection.db): self.main}

    def of(self, db: int) -> Side | None:
        """Return the connection to a database, ``None`` if there can be none."""
        if db not in self._by_db and len(self._by_db) < _MAX_DBS:
            try:
                self._by_db[db] = Side(self._open(db=db), self._timeout)
            except ResponseError:
                self._by_db[db] = None
        return self._by_db.get(db)

    def known(self, db: int) -> Side | None:
        """Return the connection to a database if there is one already."""
        return self._by_db.get(db)

    def all(self) -> list[Side]:
        """Return every connection."""
        return [side for side in self._by_db.values() if side is not None]

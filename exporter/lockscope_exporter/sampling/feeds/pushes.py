"""A connection that the server writes to without being asked, and a heartbeat that tells if it stopped."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import redis
from redis.exceptions import ResponseError

from lockscope_exporter.sampling.answers import value
from lockscope_exporter.sampling.wire import pack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from redis.connection import AbstractConnection

PUSHED = object()
"""What a push handler returns, so that a push is told apart from the answer to a command."""

_HEARTBEAT = 0.5  # seconds of silence after which the server is asked for a sign of life
_PING = pack(b"PING")
_MAX_DRAIN = 100_000  # pushes taken in one go, so that the caller gets to read


class Pushes:
    """Takes what a server pushes.

    Args:
        connection: a connection whose push handlers return ``PUSHED``; of RESP2, ``take`` gets the messages.
        timeout: seconds of silence after which the server counts as lost.
        take: takes a message that came as a plain answer (RESP2) and tells whether it was one.
    """

    def __init__(
        self, connection: AbstractConnection, timeout: float, take: Callable[[Any], bool] = lambda _: False
    ) -> None:
        self._connection = connection
        self._timeout = timeout
        self._take = take
        self._asked: float | None = None
        self.last = time.monotonic()

    def command(self, *parts: bytes) -> Any:
        """Send a command and return its answer; pushes that come before it are taken.

        Raises:
            redis.RedisError: the server refuses, or the connection is lost.
        """
        if self._asked is not None:  # the heartbeat's answer comes first
            self._answer()
            self._asked = None
        self._connection.send_packed_command([pack(*parts)])  # type: ignore[no-untyped-call]
        return value(self._answer())

    def send(self, commands: Iterable[bytes]) -> None:
        """Send packed commands whose answers are messages."""
        self._connection.send_packed_command([b"".join(commands)])  # type: ignore[no-untyped-call]

    def drain(self, wait: float) -> None:
        """Take everything that has come, after waiting up to ``wait`` seconds for the first.

        Raises:
            redis.ConnectionError, redis.TimeoutError: the connection is lost, or silent for too long.
        """
        connection = self._connection
        # What has come already is taken before silence is judged: the caller may have been busy for long.
        if connection.can_read(timeout=0) or connection.can_read(timeout=min(wait, self._beat())):
            for _ in range(_MAX_DRAIN):
                answer = connection.read_response(push_request=True)
                if answer is not PUSHED and not self._take(answer):
                    self._asked = None
                if not connection.can_read(timeout=0):
                    break
            self.last = time.monotonic()

    def settle(self) -> None:
        """Take everything that the server sent before it answered this call.

        Raises:
            redis.ConnectionError, redis.TimeoutError: the connection is lost, or silent for too long.
        """
        self.command(b"PING")
        self.last = time.monotonic()

    def close(self) -> None:
        """Close the connection."""
        self._connection.disconnect()  # type: ignore[no-untyped-call]

    def _answer(self) -> Any:
        """Return the next answer to a command."""
        while True:
            try:
                answer = self._connection.read_response(push_request=True)
            except ResponseError as error:
                return error
            if answer is not PUSHED and not self._take(answer):
                return answer

    def _beat(self) -> float:
        """Ask for a sign of life when it is time; return the seconds until the next look is needed."""
        now = time.monotonic()
        if self._asked is not None:
            patience = max(self._timeout - _HEARTBEAT, self._timeout / 2)
            if now - self._asked > patience:
                self._connection.disconnect()  # type: ignore[no-untyped-call]
                raise redis.TimeoutError(f"no answer to PING within {self._timeout:g} s")
            return self._asked + patience - now + 0.001
        silence = now - self.last
        if silence >= _HEARTBEAT:
            self.send((_PING,))
            self._asked = now
            return _HEARTBEAT
        return _HEARTBEAT - silence

"""A connection in MONITOR mode, read as bytes: redis-py's parser would cost more than everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import redis
from redis.exceptions import ResponseError

from lockscope_exporter.sampling.wire import pack

if TYPE_CHECKING:
    import socket

    from redis.connection import AbstractConnection

FULL = 16_000  # bytes received at once that say that there are more: TLS gives out 16 KiB at a time
_RECEIVE = 1 << 18


class MonitorFeed:
    """What a server is told, as long as nobody closes it.

    Args:
        connection: a fresh connection in RESP2.
        timeout: seconds for the server to begin.

    Raises:
        redis.RedisError, OSError: the server refuses or does not answer.
    """

    def __init__(self, connection: AbstractConnection, timeout: float) -> None:
        self._connection = connection
        raw: Any = connection._sock  # noqa: SLF001 - redis-py offers no other way to its bytes
        self._socket: socket.socket = raw
        self._head = b""
        self._socket.settimeout(timeout)
        self._socket.sendall(pack(b"MONITOR"))
        answer = b""
        while b"\n" not in answer:
            received = self._socket.recv(_RECEIVE)
            if not received:
                raise redis.ConnectionError("Connection closed by server.")
            answer += received
        first, _, self._head = answer.partition(b"\n")
        if first.startswith(b"-"):
            text = first[1:].strip().decode("utf-8", "replace")
            kind = redis.exceptions.NoPermissionError if text.startswith("NOPERM") else ResponseError
            raise kind(text.removeprefix("NOPERM ").removeprefix("ERR "))
        if not first.startswith(b"+"):
            raise redis.InvalidResponse(f"no answer to MONITOR: {first[:40]!r}")

    def receive(self, wait: float) -> bytes:
        """Return what came in, nothing if nothing came.

        Args:
            wait: seconds to wait for something.

        Raises:
            redis.ConnectionError, OSError: the connection is lost.
        """
        if self._head:
            head, self._head = self._head, b""
            return head
        self._socket.settimeout(max(wait, 0.001))  # 0 would be non-blocking, which TLS answers otherwise
        try:
            received = self._socket.recv(_RECEIVE)
        except TimeoutError:
            return b""
        if not received:
            raise redis.ConnectionError("Connection closed by server.")
        return received

    def close(self) -> None:
        """End it; what the server has not sent yet it drops."""
        self._connection.disconnect()  # type: ignore[no-untyped-call]

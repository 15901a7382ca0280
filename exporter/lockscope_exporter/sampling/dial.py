"""The connections of one session: opened as they are needed, closed together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockscope_exporter.sampling.answers import Abilities
from lockscope_exporter.sampling.clock import ServerClock
from lockscope_exporter.sampling.wire import Line

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis
    from redis.connection import AbstractConnection

_PEXPIRETIME_SINCE = 7  # major version, which knows EVAL_RO too


class Dial:
    """Opens connections to one server.

    Args:
        open_client: returns a fresh client of one database.

    Attributes:
        clock: the server's clock, learned over every line.
    """

    def __init__(self, open_client: Callable[[int], redis.Redis]) -> None:
        self.clock = ServerClock()
        self._abilities = Abilities()
        self._open_client = open_client
        self._clients: list[redis.Redis] = []
        self._connections: list[AbstractConnection] = []

    def line(self, db: int) -> Line:
        """Return a line to one database, and learn what the server can do.

        Raises:
            redis.RedisError, OSError: it cannot be reached.
        """
        connection = self.connection(db)
        line = Line(connection, self._abilities, self.clock)
        said: dict[Any, Any] = connection.handshake_metadata or {}
        version = said.get(b"version") or line.info().get("redis_version", "7").encode()
        if int(version.split(b".")[0]) < _PEXPIRETIME_SINCE:
            self._abilities.pexpiretime = False
            self._abilities.script = b"EVAL"
        self._abilities.cluster = said.get(b"mode") == b"cluster"
        return line

    def connection(self, db: int) -> AbstractConnection:
        """Return a further connection to one database.

        Raises:
            redis.RedisError, OSError: it cannot be reached.
        """
        client = self._open_client(db)
        self._clients.append(client)
        connection: AbstractConnection = client.connection_pool.get_connection()
        self._connections.append(connection)
        return connection

    def close(self) -> None:
        """Close every connection."""
        for connection in self._connections:
            connection.disconnect()  # type: ignore[no-untyped-call]
        for client in self._clients:
            client.close()

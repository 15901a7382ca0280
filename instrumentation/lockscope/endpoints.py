"""Where an application's Redis client connects to, so that lockscope can open a connection of its own there.

The same host, credentials and TLS, whatever kind the client is: blocking or asyncio, standalone, Sentinel or
Cluster. The connections are blocking ones, for background threads.
"""

from __future__ import annotations

import contextlib
import inspect
import weakref
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import redis
import redis.asyncio.connection as aio
from redis.backoff import NoBackoff
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.crc import key_slot
from redis.retry import Retry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from redis.connection import AbstractConnection

    Connections = Callable[[float, str | None, tuple[str, int] | None], Iterator[AbstractConnection]]

TIMEOUT = 5.0  # seconds to connect and for one answer
# Settings of the application's connections that do not carry over to a connection of ours.
_NOT_OURS = frozenset(
    {
        "connection_pool",
        "client_name",
        "command_packer",
        "db",
        "decode_responses",
        "driver_info",
        "encoding",
        "encoding_errors",
        "event_dispatcher",
        "health_check_interval",
        "himport_registry",
        "legacy_responses",
        "lib_name",
        "lib_version",
        "parser_class",
        "protocol",
        "retry",
        "retry_on_error",
        "retry_on_timeout",
        "socket_timeout",
    }
)


class EndpointError(Exception):
    """No connection like the client's can be opened; the text says why."""


class Endpoint:
    """A server, or a group of servers that is one to its clients.

    Args:
        key: equal for clients that connect to the same place.
        connections: yields unconnected connections in the order in which to try them.
        db: the client's database number; not part of the key.
    """

    def __init__(self, key: tuple[object, ...], connections: Connections, db: int = 0) -> None:
        self.key = key
        self.db = db
        self._connections = connections

    def open(
        self,
        made: Callable[[AbstractConnection], None] | None = None,
        *,
        timeout: float = TIMEOUT,
        serving: str | None = None,
        at: tuple[str, int] | None = None,
    ) -> AbstractConnection:
        """Connect.

        Args:
            made: told of each connection before it connects, so that it can be closed in a forked child.
            timeout: seconds to connect and for one answer.
            serving: in a cluster, the key that is to be used.
            at: in a cluster, the node that is said to serve it.

        Raises:
            redis.RedisError, OSError: nothing answers.
        """
        failure: Exception = redis.ConnectionError("there is no node to connect to")
        for connection in self._connections(timeout, serving, at):
            if made is not None:
                made(connection)
            try:
                connection.connect()  # type: ignore[no-untyped-call]
            except (redis.RedisError, OSError) as error:
                failure = error
            else:
                return connection
        raise failure


def endpoint_of(client: Any) -> Endpoint:
    """Return where a client connects to.

    Args:
        client: any client of redis-py.

    Raises:
        EndpointError: it is none, or one whose connections cannot be copied.
    """
    manager = getattr(client, "nodes_manager", None)
    if manager is not None:
        return _cluster(client, manager)
    pool = getattr(client, "connection_pool", None)
    arguments = getattr(pool, "connection_kwargs", None)
    kind = getattr(pool, "connection_class", None)
    if not isinstance(arguments, dict) or not isinstance(kind, type):
        raise EndpointError(f"{type(client).__name__} is no redis-py client")
    if hasattr(pool, "sentinel_manager"):
        return _sentinel(pool, kind, arguments)
    if "path" in arguments:
        where: tuple[object, ...] = ("unix", arguments["path"])
    else:
        where = (arguments.get("host", "localhost"), arguments.get("port", 6379))
    blocking = _blocking(kind)
    settings = _settings(blocking, arguments)

    def connections(timeout: float, *_: object) -> Iterator[AbstractConnection]:
        yield _make(blocking, settings, timeout)

    return Endpoint((*where, arguments.get("username")), connections, arguments.get("db") or 0)


def _sentinel(pool: Any, kind: type, arguments: dict[str, Any]) -> Endpoint:
    service = pool.service_name
    asked = [each.connection_pool for each in pool.sentinel_manager.sentinels]
    sentinels = [(_plain(each.connection_class), each.connection_kwargs) for each in asked]
    blocking = _plain(kind)
    settings = _settings(blocking, arguments)

    def connections(timeout: float, *_: object) -> Iterator[AbstractConnection]:
        failure: Exception = redis.ConnectionError(f"no Sentinel knows a master {service!r}")
        for each_kind, each in sentinels:
            try:
                host, port = _master(_make(each_kind, _settings(each_kind, each), timeout), service)
            except (redis.RedisError, OSError) as error:
                failure = error
            else:
                yield _make(blocking, {**settings, "host": host, "port": port}, timeout)
        raise failure

    addresses = frozenset((each.get("host", "localhost"), each.get("port", 26379)) for _, each in sentinels)
    return Endpoint(("sentinel", service, addresses), connections, arguments.get("db") or 0)


def _master(connection: Any, service: str) -> tuple[str, int]:
    """Ask one Sentinel for the address of the master."""
    try:
        connection.connect()
        connection.send_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service)
        answer = connection.read_response()
    finally:
        connection.disconnect()
    if not answer:
        raise redis.ConnectionError(f"the Sentinel knows no master {service!r}")
    return answer[0].decode(), int(answer[1])


def _plain(kind: type) -> type[Connection]:
    """Return the class that connects over TCP, with TLS where ``kind`` uses it."""
    return SSLConnection if issubclass(kind, SSLConnection | aio.SSLConnection) else Connection


def _cluster(client: Any, manager: Any) -> Endpoint:
    arguments = getattr(client, "connection_kwargs", None) or getattr(manager, "connection_kwargs", {})
    arguments = {name: value for name, value in arguments.items() if name != "redis_connect_func"}
    seeds = [(node.host, node.port) for node in manager.startup_nodes.values()]
    blocking = (
        SSLConnection if arguments.get("ssl") else _plain(arguments.get("connection_class", Connection))
    )
    settings = _settings(blocking, arguments)
    known = weakref.ref(manager)

    def connections(
        timeout: float, serving: str | None = None, at: tuple[str, int] | None = None
    ) -> Iterator[AbstractConnection]:
        # A subscription works at any node; the primaries come first, they are what readers ask.
        nodes = known()
        found = [] if nodes is None else list(nodes.get_nodes_by_server_type("primary"))
        if nodes is not None and serving is not None:
            with contextlib.suppress(Exception):  # a cluster with holes; the other nodes say where to go
                found.insert(0, nodes.get_node_from_slot(key_slot(serving.encode())))
        addresses = [(node.host, node.port) for node in found] + seeds
        for host, port in dict.fromkeys(addresses if at is None else [at, *addresses]):
            yield _make(blocking, {**settings, "host": host, "port": port}, timeout)

    return Endpoint(("cluster", frozenset(seeds)), connections)


def _blocking(kind: type) -> type[AbstractConnection]:
    """Return the blocking class that connects as ``kind`` does."""
    if issubclass(kind, redis.connection.AbstractConnection):
        return kind
    if not issubclass(kind, aio.AbstractConnection):
        raise EndpointError(f"{kind.__qualname__} is no connection of redis-py")
    if not kind.__module__.startswith("redis."):
        raise EndpointError(f"{kind.__qualname__} has no blocking counterpart")
    if issubclass(kind, aio.UnixDomainSocketConnection):
        return UnixDomainSocketConnection
    return SSLConnection if issubclass(kind, aio.SSLConnection) else Connection


def _settings(kind: type, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return those of the application's settings that a connection of class ``kind`` takes and needs."""
    known = _parameters(kind)
    return {
        name: value
        for name, value in arguments.items()
        if name not in _NOT_OURS
        and not name.startswith(("maint", "orig_", "oss_"))
        and (known is None or name in known)
    }


def _make(kind: type[AbstractConnection], settings: dict[str, Any], timeout: float) -> AbstractConnection:
    # RESP2, which every server and proxy speaks, and one try: whoever opens it knows when to try again.
    times = {
        "socket_timeout": timeout,
        "socket_connect_timeout": min(settings.get("socket_connect_timeout") or timeout, timeout),
    }
    return kind(protocol=2, retry=Retry(NoBackoff(), 0), **{**settings, **times})


@lru_cache(maxsize=32)
def _parameters(kind: type) -> frozenset[str] | None:
    """Return the names of the arguments of a redis-py class and its bases; ``None`` for foreign classes."""
    if not kind.__module__.startswith("redis."):
        return None
    return frozenset(
        name
        for base in kind.__mro__
        if base is not object
        for name in inspect.signature(base.__init__).parameters  # type: ignore[misc]  # only read
    )

"""Where an application's Redis client connects to, so that lockscope can open a connection of its own there.

The same host, credentials and TLS, whatever kind the client is: blocking or asyncio, standalone, Sentinel or
Cluster. The connections are blocking ones, for background threads.
"""

from __future__ import annotations

import inspect
import weakref
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import redis
import redis.asyncio.connection as aio
from redis.backoff import NoBackoff
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.retry import Retry
from redis.sentinel import Sentinel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from redis.connection import AbstractConnection

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
        "maint_notifications_config",
        "maint_notifications_pool_handler",
        "oss_cluster_maint_notifications_handler",
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
    """

    def __init__(
        self, key: tuple[object, ...], connections: Callable[[], Iterator[AbstractConnection]]
    ) -> None:
        self.key = key
        self._connections = connections

    def open(self, made: Callable[[AbstractConnection], None] | None = None) -> AbstractConnection:
        """Connect.

        Args:
            made: told of each connection before it connects, so that it can be closed in a forked child.

        Raises:
            redis.RedisError, OSError: nothing answers.
        """
        failure: Exception = redis.ConnectionError("there is no node to connect to")
        for connection in self._connections():
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
    return Endpoint((*where, arguments.get("username")), lambda: iter((_make(blocking, settings),)))


def _sentinel(pool: Any, kind: type, arguments: dict[str, Any]) -> Endpoint:
    service = pool.service_name
    known = [sentinel.connection_pool.connection_kwargs for sentinel in pool.sentinel_manager.sentinels]
    addresses = [(each.get("host", "localhost"), each.get("port", 26379)) for each in known]
    if not addresses:
        raise EndpointError("the client knows no Sentinels")
    secure = issubclass(kind, SSLConnection | aio.SSLConnection)
    blocking: type[Connection] = SSLConnection if secure else Connection
    settings = _settings(blocking, arguments)
    secure_sentinels = issubclass(
        pool.sentinel_manager.sentinels[0].connection_pool.connection_class, SSLConnection | aio.SSLConnection
    )
    sentinel_class: type[Connection] = SSLConnection if secure_sentinels else Connection
    asking = {
        name: value
        for name, value in _settings(sentinel_class, known[0]).items()
        if name not in ("host", "port")
    } | {"socket_timeout": TIMEOUT, "ssl": secure_sentinels}

    def connections() -> Iterator[AbstractConnection]:
        sentinels = Sentinel(addresses, sentinel_kwargs=asking)  # type: ignore[no-untyped-call]
        try:
            host, port = sentinels.discover_master(service)  # type: ignore[no-untyped-call]
        finally:
            for each in sentinels.sentinels:
                each.close()
        yield _make(blocking, {**settings, "host": host, "port": port})

    return Endpoint(("sentinel", service, frozenset(addresses)), connections)


def _cluster(client: Any, manager: Any) -> Endpoint:
    arguments = getattr(client, "connection_kwargs", None) or getattr(manager, "connection_kwargs", {})
    arguments = {name: value for name, value in arguments.items() if name != "redis_connect_func"}
    seeds = [(node.host, node.port) for node in manager.startup_nodes.values()]
    secure = bool(arguments.get("ssl")) or issubclass(
        arguments.get("connection_class", Connection), SSLConnection | aio.SSLConnection
    )
    blocking: type[Connection] = SSLConnection if secure else Connection
    settings = _settings(blocking, arguments)
    known = weakref.ref(manager)

    def connections() -> Iterator[AbstractConnection]:
        # A subscription works at any node; the primaries come first, they are what readers ask.
        nodes = known()
        primaries = [] if nodes is None else nodes.get_nodes_by_server_type("primary")
        addresses = dict.fromkeys([(node.host, node.port) for node in primaries] + seeds)
        for host, port in addresses:
            yield _make(blocking, {**settings, "host": host, "port": port})

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
    settings = {
        name: value
        for name, value in arguments.items()
        if name not in _NOT_OURS and (known is None or name in known)
    }
    settings["socket_timeout"] = TIMEOUT
    if settings.get("socket_connect_timeout") is None:
        settings["socket_connect_timeout"] = TIMEOUT
    return settings


def _make(kind: type[AbstractConnection], settings: dict[str, Any]) -> AbstractConnection:
    # RESP2, which every server and proxy speaks, and one try: whoever opens it knows when to try again.
    return kind(protocol=2, retry=Retry(NoBackoff(), 0), **settings)


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

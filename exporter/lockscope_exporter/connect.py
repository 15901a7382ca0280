"""From a Redis URL to a client that only reads, and says in one line why it cannot."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import redis
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.connection import ConnectionPool, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import RedisClusterException
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry
from redis.sentinel import Sentinel

from lockscope_exporter.explain import NO_ANSWER, explain
from lockscope_exporter.redis_url import RedisUrl, UrlError, format_address, parse_redis_url

if TYPE_CHECKING:
    from collections.abc import Iterable

    from redis.connection import AbstractConnection

DEFAULT_TIMEOUT = 2.0

_FILES = ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile")


class ConnectError(Exception):
    """Redis cannot be reached or used; the text is one line: what, which server, what to do."""


def connect(
    url: RedisUrl | str, *, timeout: float = DEFAULT_TIMEOUT, db: int | None = None, **overrides: Any
) -> redis.Redis:
    """Return a client of one server, or of the master that Sentinels name; it connects at first use.

    It reads bytes, never retries by itself, and sends nothing that an old server would refuse or a
    least-privilege user may not run (no ``CLIENT SETINFO``, ``SETNAME`` or ``MAINT_NOTIFICATIONS``).

    Args:
        url: where to connect; of a cluster URL, the first seed.
        timeout: seconds for a connection and for one answer, unless the URL says otherwise.
        db: database number instead of the URL's.
        overrides: redis-py connection arguments that win over everything else.

    Raises:
        UrlError: the URL cannot be used.
    """
    url = parse_redis_url(url) if isinstance(url, str) else url
    arguments = _arguments(url, timeout)
    arguments["db"] = url.db if db is None else db
    arguments.update(overrides)
    if url.kind == "sentinel":
        return _sentinel_client(url, timeout, arguments)
    if url.path:
        arguments.update(path=url.path, connection_class=UnixDomainSocketConnection)
        return redis.Redis(connection_pool=ConnectionPool(**arguments))
    return _tcp_client(url, *url.addresses[0], arguments)


def connect_node(
    url: RedisUrl, host: str, port: int, *, timeout: float = DEFAULT_TIMEOUT, **overrides: Any
) -> redis.Redis:
    """Return a client of one node of a cluster or a Sentinel group, with the URL's credentials and TLS."""
    arguments = _arguments(url, timeout)
    arguments["db"] = url.db
    arguments.update(overrides)
    return _tcp_client(url, host, port, arguments)


def connect_cluster(
    url: RedisUrl | str, *, timeout: float = DEFAULT_TIMEOUT, **overrides: Any
) -> RedisCluster:
    """Return a cluster client; it reads the cluster's layout at once.

    Raises:
        UrlError: the URL cannot be used.
        redis.exceptions.RedisError: no seed answers.
    """
    url = parse_redis_url(url) if isinstance(url, str) else url
    arguments = _arguments(url, timeout)
    retry = arguments.pop("retry")
    arguments.pop("driver_info")
    arguments.update(overrides)
    seeds = [
        ClusterNode(host, port)  # type: ignore[no-untyped-call]
        for host, port in url.addresses
    ]
    return RedisCluster(
        startup_nodes=seeds, ssl=url.tls, retry=retry, require_full_coverage=False, **arguments
    )


def check_files(url: RedisUrl | str) -> None:
    """Look whether the files that a URL names for TLS can be read.

    Raises:
        UrlError: one cannot, or the URL cannot be used.
    """
    url = parse_redis_url(url) if isinstance(url, str) else url
    for name in _FILES:
        if name in url.options and not os.access(url.options[name], os.R_OK):
            raise UrlError(f'Redis URL "{url.shown}": {name} names no file that can be read')


def verify(url: RedisUrl | str, *, timeout: float = DEFAULT_TIMEOUT) -> None:
    """Connect once and ask something harmless.

    Raises:
        UrlError: the URL cannot be used.
        ConnectError: nothing usable answers there.
    """
    url = parse_redis_url(url) if isinstance(url, str) else url
    try:
        if url.kind == "cluster":
            connect_cluster(url, timeout=timeout).close()
            return
        client = connect(url, timeout=timeout)
        try:
            client.ping()
        finally:
            client.close()
    except (redis.RedisError, RedisClusterException, OSError) as error:
        raise failure(error, url) from error


def verify_any(urls: Iterable[str], *, timeout: float = DEFAULT_TIMEOUT) -> None:
    """Check that one of several servers can be used, and ask no more of them than it takes.

    Raises:
        UrlError: a URL cannot be used.
        ConnectError: nothing usable answers anywhere; the first one's.
    """
    first: ConnectError | None = None
    for url in urls:
        try:
            verify(url, timeout=timeout)
        except ConnectError as error:
            first = first or error
        else:
            return
    if first is not None:
        raise first


def failure(error: BaseException, url: RedisUrl) -> ConnectError:
    """Return the one line that tells a person what is wrong with ``url`` and what to do."""
    what, fix = explain(error)
    if url.tls and what == NO_ANSWER:
        fix += "; a port without TLS does not answer rediss:// either"
    return ConnectError(f"Redis {url.shown}: {what}; {fix}")


def _arguments(url: RedisUrl, timeout: float) -> dict[str, Any]:
    """Return redis-py connection arguments of a URL, without the address."""
    check_files(url)
    return {
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        "username": url.username,
        "password": url.password,
        "protocol": 3,
        "retry": Retry(NoBackoff(), 0),
        "driver_info": None,
        "maint_notifications_config": MaintNotificationsConfig(enabled=False),
        **url.options,
    }


def _tcp_client(url: RedisUrl, host: str, port: int, arguments: dict[str, Any]) -> redis.Redis:
    if url.tls:
        arguments = {**arguments, "connection_class": SSLConnection}
    return redis.Redis(connection_pool=ConnectionPool(host=host, port=port, **arguments))


def _sentinel_client(url: RedisUrl, timeout: float, arguments: dict[str, Any]) -> redis.Redis:
    sentinels = sentinel(url, timeout=timeout)
    client: redis.Redis = sentinels.master_for(  # type: ignore[no-untyped-call]
        url.service, ssl=url.tls, **arguments
    )
    return client


def sentinel(url: RedisUrl, *, timeout: float = DEFAULT_TIMEOUT) -> Sentinel:
    """Return redis-py's view of the Sentinels of a ``sentinel://`` URL; it connects at first use."""
    arguments = _arguments(url, timeout)
    arguments.update(username=url.sentinel_username, password=url.sentinel_password, ssl=url.tls)
    return Sentinel(url.addresses, sentinel_kwargs=arguments)  # type: ignore[no-untyped-call]


def own_connection(client: redis.Redis) -> AbstractConnection:
    """Return a fresh connection of a client, for the caller alone, who has to disconnect it.

    The pool's ``get_connection`` takes whatever can be read from a new connection for a leftover and gives
    up; with TLS 1.3 that is often the server's session tickets.

    Raises:
        redis.RedisError, OSError: it cannot be made.
    """
    connection: Any = client.connection_pool.make_connection()
    connection.connect()
    return connection  # type: ignore[no-any-return]  # make_connection promises less than it returns


def shown_node(client: redis.Redis) -> str:
    """Return ``host:port`` or the socket path that a client connects to."""
    arguments = client.connection_pool.connection_kwargs
    path = arguments.get("path")
    return path or format_address(arguments.get("host", "localhost"), arguments.get("port", 6379))

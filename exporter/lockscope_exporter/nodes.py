"""The servers that a Redis URL stands for now, each with a way to open connections to it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import redis
from redis.exceptions import RedisClusterException

from lockscope_exporter.connect import connect, connect_node, failure
from lockscope_exporter.redis_url import parse_redis_url
from lockscope_exporter.sampling.layout import cluster_layout, name_of, sentinel_layout

if TYPE_CHECKING:
    from collections.abc import Callable


class Server(NamedTuple):
    """One server.

    Attributes:
        name: ``host:port`` or socket path.
        open: returns a fresh client; takes redis-py connection arguments that win over the URL's.
    """

    name: str
    open: Callable[..., redis.Redis]


def servers(url: str, timeout: float) -> tuple[Server, ...]:
    """Return the one server, the master that Sentinels name, or every primary of a cluster.

    Args:
        url: a Redis URL.
        timeout: seconds for one answer.

    Raises:
        UrlError: the URL cannot be used.
        ConnectError: no Sentinel or no node of the cluster answers.
    """
    parsed = parse_redis_url(url)
    if parsed.kind == "standalone":
        return (Server(parsed.node, partial(connect, parsed, timeout=timeout)),)
    try:
        if parsed.kind == "sentinel":
            layout = sentinel_layout(parsed, timeout)
        else:
            layout = cluster_layout(parsed, (), timeout)
    except (redis.RedisError, RedisClusterException, OSError) as error:
        raise failure(error, parsed) from error
    return tuple(
        Server(name_of(address), partial(connect_node, parsed, *address, timeout=timeout))
        for address in layout.addresses
    )

"""Which servers a target consists of right now: the master that Sentinels name, a cluster's primaries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import redis
from redis.crc import key_slot

from lockscope_exporter.connect import connect_node, sentinel
from lockscope_exporter.redis_url import format_address

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockscope_exporter.redis_url import RedisUrl

_UNKNOWN_HOST = ("", "?")  # what a node says of a host name that it was not told

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the keys of a target are.

    Attributes:
        addresses: the servers to sample.
        ranges: first and last slot and the address that serves them; empty outside clusters.
    """

    addresses: tuple[Address, ...]
    ranges: tuple[tuple[int, int, Address], ...] = ()

    def owner(self, key: bytes) -> str | None:
        """Return the name of the node that serves a key, ``None`` if none does."""
        if not self.ranges:
            return name_of(self.addresses[0])
        slot = key_slot(key)
        for first, last, address in self.ranges:
            if first <= slot <= last:
                return name_of(address)
        return None


def name_of(address: Address) -> str:
    """Return ``host:port``."""
    return format_address(*address)


def sentinel_layout(url: RedisUrl, timeout: float) -> Layout:
    """Ask the Sentinels for the master.

    Args:
        url: a ``sentinel://`` URL.
        timeout: seconds for one answer.

    Raises:
        redis.RedisError: no Sentinel answers, or none knows a master that is up.
    """
    sentinels = sentinel(url, timeout=timeout)
    try:
        host, port = sentinels.discover_master(url.service)  # type: ignore[no-untyped-call]
    finally:
        for client in sentinels.sentinels:
            client.close()
    return Layout(((str(host), int(port)),))


def cluster_layout(url: RedisUrl, known: Iterable[Address], timeout: float) -> Layout:
    """Ask the first node that answers for the cluster's layout.

    Args:
        url: a ``cluster://`` URL.
        known: nodes that were part of it a moment ago; the URL's seeds come after them.
        timeout: seconds for one answer.

    Raises:
        redis.RedisError: no node answers.
    """
    failure: Exception = redis.ConnectionError("no node of the cluster answers")
    for host, port in dict.fromkeys((*known, *url.addresses)):
        client = connect_node(url, host, port, timeout=timeout)
        try:
            answer: Any = client.execute_command("CLUSTER SLOTS")  # type: ignore[no-untyped-call]
            layout = parse_slots(answer, host)
        except (redis.RedisError, OSError) as error:
            failure = error
        else:
            if layout.addresses:
                return layout
            failure = redis.ConnectionError(f"{host}:{port} serves no slot and knows no node that does")
        finally:
            client.close()
    raise failure


def parse_slots(answer: Any, asked: str) -> Layout:
    """Return the layout in an answer to ``CLUSTER SLOTS``.

    Args:
        answer: redis-py's dictionary of slot ranges, or the raw list.
        asked: host that answered, which is what an empty host means.
    """
    rows: list[tuple[int, int, Any, Any]] = []
    if isinstance(answer, dict):
        rows = [(first, last, *row["primary"][:2]) for (first, last), row in answer.items()]
    else:
        rows = [(row[0], row[1], *row[2][:2]) for row in answer]
    ranges = []
    for first, last, host, port in rows:
        named = host.decode() if isinstance(host, bytes) else host
        ranges.append(
            (int(first), int(last), (asked if named in _UNKNOWN_HOST or not named else named, int(port)))
        )
    return Layout(tuple(dict.fromkeys(address for _, _, address in ranges)), tuple(sorted(ranges)))

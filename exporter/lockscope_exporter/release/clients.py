"""Clients for whoever acts on one lock."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import redis
from redis.exceptions import RedisClusterException

from lockscope.journal import DB
from lockscope_exporter.connect import ConnectError, connect, connect_cluster, failure
from lockscope_exporter.redis_url import parse_redis_url
from lockscope_exporter.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockscope_exporter.configuration import Options
    from lockscope_exporter.release.model import Client
    from lockscope_exporter.state import LockState


def open_client(options: Options, lock: LockState) -> Client:
    """Return a client of the database, or the cluster, that a lock is in; it connects at first use.

    Raises:
        ConnectError: no node of the cluster answers, or the lock is on several servers.
    """
    return _open(options, lock.target, lock.db)


@contextmanager
def open_journal(options: Options, target: str) -> Iterator[Client]:
    """Give a client of the database that the journal of a target is in.

    Raises:
        ConnectError: no node of the cluster answers.
    """
    client = _open(options, target, DB)
    try:
        yield client
    finally:
        client.close()


def _open(options: Options, name: str, db: int) -> Client:
    target = next((one for one in options.targets() if one.name == name), None)
    if target is None:  # a lock of a Redlock group carries the group's name, and has a copy on each member
        raise ConnectError(f"{shown(name, 60)} is no single server; say which one with --target")
    url = parse_redis_url(target.url)
    timeout = options.sampling().timeout
    if url.kind != "cluster":
        return connect(url, timeout=timeout, db=db)
    try:
        return connect_cluster(url, timeout=timeout)
    except (redis.RedisError, RedisClusterException, OSError) as error:
        raise failure(error, url) from error

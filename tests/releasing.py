"""Locks as they are seen before they are freed, and keyspaces compared byte by byte."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from lockscope.tokens import fingerprint
from lockscope_exporter.cli.one import read_one
from lockscope_exporter.configuration import Options
from lockscope_exporter.release import STREAM
from lockscope_exporter.state import Holder, LockState

if TYPE_CHECKING:
    import redis


def see(url: str, key: str, dialect: str | None = None) -> LockState:
    """Return the only lock of a key, read as the commands read it."""
    locks = (f"{key}={dialect}",) if dialect else ()
    [lock] = read_one(Options(redis_url=url, locks=locks), key).locks
    return lock


def dump(client: redis.Redis, *without: bytes) -> dict[bytes, tuple[bytes | None, int]]:
    """Return value and expiry of every key but these and the audit trail."""
    left_out = {STREAM, *without}
    return {
        key: (client.dump(key), client.pexpiretime(key)) for key in client.scan_iter() if key not in left_out
    }


def gone(lock: LockState) -> LockState:
    """Return a lock as it is seen once its holders are known to be gone."""
    holders = tuple(replace(holder, alive="gone", gone_since=time.time() - 1) for holder in lock.holders)
    return lock._replace(holders=holders, state="orphaned", evidence=("its holder is gone",))


def string_lock(key: bytes, token: bytes, expires_at: float | None = None, **more: object) -> LockState:
    """Return a redis-py lock, seen now, whose holder is known to be gone."""
    now = time.time()
    lock = LockState(
        key=key,
        prefix="lock:*",
        dialect="redis-py",
        state="orphaned",
        evidence=("its holder is gone",),
        ttl_seconds=None if expires_at is None else expires_at - now,
        sampled_at=now,
        holders=(Holder(token, fingerprint(token), host="web-1", pid=7, alive="gone"),),
        value=token,
    )
    return lock._replace(**more)

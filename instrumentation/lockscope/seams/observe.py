"""Observe one lock object."""

from __future__ import annotations

from typing import Any, TypeVar

from redis.asyncio.lock import Lock as AsyncLock
from redis.lock import Lock

from lockscope.instrument import ensure_recorder
from lockscope.seams import redis_py

L = TypeVar("L")


def observe(lock: L) -> L:
    """Observe one lock object, also where ``instrument`` was not called.

    Args:
        lock: a redis-py ``Lock`` or ``asyncio.Lock``.

    Returns:
        The same object.

    Raises:
        TypeError: the object is no lock that lockscope knows.
    """
    known: Any = lock
    if not isinstance(known, Lock | AsyncLock):
        raise TypeError(f"observe takes a redis-py lock, not {type(lock).__name__}")
    ensure_recorder()
    redis_py.observe(known)
    return lock

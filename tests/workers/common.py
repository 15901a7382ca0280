"""What every worker application here does: take locks, and write down what was observed of them."""

from __future__ import annotations

import json
import logging
import os

import redis
import redis.asyncio

import lockscope

URL = os.environ["WORK_REDIS"]
client = redis.Redis.from_url(URL)


class ToRedis(logging.Handler):
    """Appends each record of lockscope to a list in Redis, from whichever process it comes."""

    def emit(self, record: logging.LogRecord) -> None:
        """Append ``record``."""
        fields = ("event", "job_type", "job_id", "reason", "lock_key", "pid")
        client.rpush("events", json.dumps({name: getattr(record, name, None) for name in fields}))


def observe() -> None:
    """Observe as an application would, with one line, and collect the log."""
    logger = logging.getLogger("lockscope")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(ToRedis())
    logger.propagate = False
    lockscope.instrument()


def guarded(key: str) -> None:
    """Take a lock and write down the token that stands in Redis meanwhile."""
    with client.lock(key, timeout=30):
        client.rpush("seen", client.get(key))


async def guarded_async(key: str) -> None:
    """Do the same in asyncio."""
    async with redis.asyncio.Redis.from_url(URL) as aio, aio.lock(key, timeout=30):
        await aio.rpush("seen", await aio.get(key))


def busy(key: str) -> None:
    """Take a lock without waiting; raises redis-py's ``LockError`` while somebody holds it."""
    with client.lock(key, timeout=30, blocking=False):
        client.rpush("done", key)

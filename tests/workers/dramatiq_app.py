"""A Dramatiq application."""

from __future__ import annotations

import common
import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import AsyncIO
from redis.exceptions import LockError

common.observe()
broker = RedisBroker(url=common.URL)
broker.add_middleware(AsyncIO())
dramatiq.set_broker(broker)


@dramatiq.actor
def generate(key: str) -> None:
    """Guarded work."""
    common.guarded(key)


@dramatiq.actor
async def generate_async(key: str) -> None:
    """Guarded work in asyncio."""
    await common.guarded_async(key)


@dramatiq.actor(max_retries=5, min_backoff=50, max_backoff=100)
def busy() -> None:
    """Work that another job's lock forbids for now."""
    try:
        common.busy("busy:dramatiq")
    finally:
        common.client.delete("busy:dramatiq")


@dramatiq.actor(max_retries=0)
def given_up() -> None:
    """Fails because of a lock, and is not tried again."""
    raise LockError("held")


@dramatiq.actor(max_retries=1, min_backoff=10, max_backoff=20)
def other_reason() -> None:
    """Fails for another reason."""
    raise RuntimeError("weather")


def send() -> None:
    """Send what the test waits for."""
    for number in range(2):
        generate.send(f"order:{number}")
    generate_async.send("order:2")
    for actor in (given_up, other_reason, busy):
        actor.send()

"""A Huey application."""

from __future__ import annotations

import common
from huey import RedisHuey, crontab

common.observe()
huey = RedisHuey("shop", url=common.URL)


@huey.task()
def generate(key: str) -> None:
    """Guarded work."""
    common.guarded(key)


@huey.task(retries=5, retry_delay=0)
def busy() -> None:
    """Work that another job's lock forbids for now."""
    try:
        common.busy("busy:huey")
    finally:
        common.client.delete("busy:huey")


@huey.task(retries=20, retry_delay=0)
def huey_locked() -> None:
    """Work behind Huey's own lock, which frees itself at the second try."""
    if common.client.incr("tries") > 1:
        huey.lock_task("own").clear()
    with huey.lock_task("own"):
        common.client.rpush("done", "own")


@huey.task(retries=1)
def other_reason() -> None:
    """Fails for another reason."""
    raise RuntimeError("weather")


@huey.periodic_task(crontab(minute="0", hour="0"))
def nightly() -> None:
    """Never due in a test."""


def send() -> None:
    """Send what the test waits for."""
    huey.lock_task("own").acquire()
    for number in range(2):
        generate(f"order:{number}")
    busy()
    huey_locked()
    other_reason()

"""A taskiq application."""

from __future__ import annotations

import asyncio

import common
from taskiq import SimpleRetryMiddleware
from taskiq_redis import ListQueueBroker

common.observe()
broker = ListQueueBroker(common.URL, socket_timeout=60).with_middlewares(
    SimpleRetryMiddleware(default_retry_count=5)
)


@broker.task(task_name="invoice:generate")
def generate(key: str) -> None:
    """Guarded work in the thread pool."""
    common.guarded(key)


@broker.task(task_name="invoice:generate_async")
async def generate_async(key: str) -> None:
    """Guarded work in the event loop."""
    await common.guarded_async(key)


@broker.task(retry_on_error=True)
def busy() -> None:
    """Work that another job's lock forbids for now."""
    try:
        common.busy("busy:taskiq")
    finally:
        common.client.delete("busy:taskiq")


@broker.task(retry_on_error=True, max_retries=2)
def other_reason() -> None:
    """Fails for another reason."""
    raise RuntimeError("weather")


async def _send() -> None:
    await broker.startup()
    for number in range(2):
        await generate.kicker().with_task_id(f"task-{number}").kiq(f"order:{number}")
    await generate_async.kicker().with_task_id("task-2").kiq("order:2")
    await other_reason.kiq()
    await busy.kicker().with_task_id("busy").kiq()
    await broker.shutdown()


def send() -> None:
    """Send what the test waits for."""
    asyncio.run(_send())

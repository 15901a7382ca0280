"""An arq application; run as a program it enqueues its jobs and works until none is left."""

from __future__ import annotations

import asyncio

import common
from arq import Retry, create_pool
from arq.connections import RedisSettings
from arq.worker import Worker, func
from redis.exceptions import LockError

import lockscope

common.observe()
settings = RedisSettings.from_dsn(common.URL)


async def generate(_ctx: dict, key: str) -> None:
    """Guarded work."""
    await common.guarded_async(key)


async def busy(_ctx: dict) -> None:
    """Work that another job's lock forbids for now."""
    try:
        common.busy("busy:arq")
    except LockError as error:
        common.client.delete("busy:arq")
        raise Retry(defer=0.05) from error


async def loses(ctx: dict) -> None:
    """Loses its lock once; ``keep_alive`` cancels it and arq runs it again."""
    lock = ctx["redis"].lock("lost", timeout=1)
    if ctx["job_try"] == 1:
        await lock.acquire()
        async with lockscope.keep_alive(lock, every=0.05, cancel=True):
            common.client.delete("lost")
            await asyncio.sleep(30)
    common.client.rpush("done", "lost")


async def other_reason(ctx: dict) -> None:
    """Is put off for another reason."""
    if ctx["job_try"] == 1:
        raise Retry(defer=0.01)


async def main() -> None:
    """Enqueue and work."""
    pool = await create_pool(settings)
    for number in range(2):
        await pool.enqueue_job("invoice.generate", f"order:{number}", _job_id=f"task-{number}")
    for name in ("busy", "loses", "other_reason"):
        await pool.enqueue_job(name, _job_id=name)
    worker = Worker(
        functions=[func(generate, name="invoice.generate"), busy, loses, other_reason],
        redis_pool=pool,
        burst=True,
        poll_delay=0.02,
        handle_signals=False,
    )
    await worker.main()
    await worker.close()


if __name__ == "__main__":
    asyncio.run(main())

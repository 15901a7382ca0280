"""Which job the current code works for, across threads, tasks, decorators and generators."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

import lockscope
from lockscope import Job, current_job, job, jobs
from lockscope.jobs import NO_JOB
from shim import Observed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


def test_a_job_is_in_force_inside_the_block_only() -> None:
    """The block gives the job and puts back what was before, also when it raises."""
    assert current_job() == NO_JOB
    with job("invoice.generate", job_id="8812", resource_id="order-7") as running:
        assert running == current_job() == Job("invoice.generate", "8812", "order-7")
    assert current_job() == NO_JOB
    with pytest.raises(ZeroDivisionError), job("a"):
        _ = 1 / 0
    assert current_job() == NO_JOB


def test_inner_jobs_inherit_what_they_leave_out() -> None:
    """A job inside another keeps the outer's fields except those it names, and gives way to it again."""
    with job("outer", job_id="1", resource_id="r"):
        with job(resource_id="s"):
            assert current_job() == Job("outer", "1", "s")
            with job("inner", job_id=""):
                assert current_job() == Job("inner", "", "s")
        assert current_job() == Job("outer", "1", "r")


def test_identities_become_text() -> None:
    """Ids of any type are kept as text; an empty job type is none."""
    with job("t", job_id=8812, resource_id=("a", 1)) as running:
        assert running == Job("t", "8812", "('a', 1)")
    with job("") as nameless:
        assert nameless.job_type == "none"


def test_a_plain_thread_starts_without_a_job() -> None:
    """Neither ``Thread`` nor a pool inherits the job; what runs in a copied context does."""
    with job("parent"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(current_job).result() == NO_JOB
        seen: list[Job] = []
        thread = threading.Thread(target=lambda: seen.append(current_job()))
        thread.start()
        thread.join()
        assert seen == [NO_JOB]
        copied = contextvars.copy_context()
        assert pool.submit(copied.run, current_job).result() == Job("parent")


def test_concurrent_threads_do_not_see_each_other() -> None:
    """Jobs of threads that run at the same time stay apart."""
    meet = threading.Barrier(8)

    def work(number: int) -> bool:
        for _ in range(50):
            with job(f"job-{number}", job_id=str(number)):
                meet.wait(10)
                if current_job() != Job(f"job-{number}", str(number)):
                    return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


async def test_tasks_inherit_and_do_not_see_each_other() -> None:
    """A task starts with the job of where it was made; its own jobs stay in it, as does ``to_thread``."""

    async def work(number: int) -> Job:
        with job(job_id=str(number)):
            await asyncio.sleep(0)
            inner = await asyncio.to_thread(current_job)
            assert inner == current_job()
            return inner

    with job("batch"):
        found = await asyncio.gather(*(work(number) for number in range(20)))
        assert found == [Job("batch", str(number)) for number in range(20)]
        assert current_job() == Job("batch")
    assert current_job() == NO_JOB


async def test_a_task_outlives_the_block_with_its_job() -> None:
    """A task that goes on after the block ended still works for the job it was made in."""
    ended = asyncio.Event()

    async def work() -> Job:
        await ended.wait()
        return current_job()

    with job("background"):
        task = asyncio.create_task(work())
    ended.set()
    assert await task == Job("background")


def test_a_decorated_function_works_for_the_job() -> None:
    """Each call of a decorated function has the job, also when it calls itself; name and signature stay."""

    @job("recursive")
    def countdown(number: int, *, seen: list[Job]) -> list[Job]:
        """Count down."""
        seen.append(current_job())
        return countdown(number - 1, seen=seen) if number else seen

    assert countdown(2, seen=[]) == [Job("recursive")] * 3
    assert current_job() == NO_JOB
    assert countdown.__name__ == "countdown"
    assert countdown.__doc__ == "Count down."
    assert list(inspect.signature(countdown).parameters) == ["number", "seen"]


async def test_a_decorated_coroutine_function_works_for_the_job() -> None:
    """The job is in force while the body runs, not only while the coroutine is made; calls stay apart."""

    @job("async.task")
    async def work(number: int) -> tuple[int, Job]:
        await asyncio.sleep(0)
        with job(job_id=str(number)):
            await asyncio.sleep(0)
            return number, current_job()

    assert inspect.iscoroutinefunction(work)
    assert await asyncio.gather(*(work(number) for number in range(10))) == [
        (number, Job("async.task", str(number))) for number in range(10)
    ]
    assert current_job() == NO_JOB


async def test_a_cancelled_coroutine_puts_the_job_back() -> None:
    """Cancellation inside the block ends the job there."""

    async def work() -> Job:
        try:
            with job("cancelled"):
                await asyncio.Event().wait()
        finally:
            assert current_job() == NO_JOB
        return current_job()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_generator_functions_are_refused_by_the_decorator() -> None:
    """A decorator could only wrap the making of a generator, so it says what to do instead."""
    with pytest.raises(TypeError, match="use with in it"):

        @job("gen")
        def numbers() -> Iterator[int]:
            yield 1

    with pytest.raises(TypeError, match="use with in it"):

        @job("agen")
        async def more() -> AsyncIterator[int]:
            yield 1


def test_a_block_in_a_generator_ends_with_it() -> None:
    """A job inside a generator is in force while its body runs and gone when it is exhausted or closed."""

    def rows() -> Iterator[Job]:
        with job("export"):
            yield current_job()
            yield current_job()

    assert list(rows()) == [Job("export")] * 2
    assert current_job() == NO_JOB
    unfinished = rows()
    next(unfinished)
    unfinished.close()
    assert current_job() == NO_JOB


def test_a_generator_finalised_elsewhere_does_no_harm() -> None:
    """A generator that another context closes, or the collector, neither raises nor disturbs that context."""

    def rows() -> Iterator[Job]:
        with job("export"):
            yield current_job()

    generator = rows()
    contextvars.copy_context().run(next, generator)
    with job("other"):
        generator.close()
        assert current_job() == Job("other")
    forgotten = rows()
    contextvars.copy_context().run(next, forgotten)
    del forgotten
    gc.collect()
    assert current_job() == NO_JOB


def test_one_scope_serves_again() -> None:
    """What ``job`` returned may be entered again after it was left."""
    scope = job("again")
    for _ in range(2):
        with scope:
            assert current_job() == Job("again")
        assert current_job() == NO_JOB


def test_a_listener_that_raises_does_not_reach_the_application(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is told of jobs may fail: the job runs and ends as if nobody had been told."""

    def listen(_: Job) -> None:
        raise RuntimeError("listener")

    monkeypatch.setattr(jobs, "entered", listen)
    with job("a"):
        assert current_job() == Job("a")
    assert current_job() == NO_JOB


def test_events_carry_the_job_of_their_moment() -> None:
    """What is counted without a lock, such as a retry, carries the job in force."""
    with Observed() as observed:
        with job("mail.send", job_id="5"):
            lockscope.retried("contended", "lock:mail:7")
        lockscope.retried("contended")
        first, second = observed.events("retry")
        assert (first.job, first.prefix, first.reason) == (Job("mail.send", "5"), "lock:mail:*", "contended")
        assert (second.job, second.prefix) == (NO_JOB, "none")

"""The job that the current code works for: a bounded type, and identities that never become labels."""

from __future__ import annotations

import contextlib
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NO_JOB_TYPE = "none"  # label value outside any job


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker is working on.

    Attributes:
        job_type: bounded name of the task, such as ``invoice.generate``; a metric label.
        job_id: the queue's id of this run; logs, spans and tokens only.
        resource_id: what the job works on, such as an order number; logs and spans only.
    """

    job_type: str = NO_JOB_TYPE
    job_id: str | None = None
    resource_id: str | None = None


NO_JOB = Job()
current: ContextVar[Job] = ContextVar("lockscope_job", default=NO_JOB)
entered: Callable[[Job], None] | None = None  # told of every job that begins, in its context


def current_job() -> Job:
    """Return the job of this context, or the job of type ``none``."""
    return current.get()


@contextlib.contextmanager
def job(
    job_type: str | None = None, *, job_id: str | None = None, resource_id: str | None = None
) -> Iterator[Job]:
    """Name the job that the enclosed code works for; also usable as a decorator.

    Follows ``contextvars``: asyncio tasks and ``asyncio.to_thread`` inherit it, a plain thread starts
    without one, concurrent jobs never see each other's. What is left out is inherited from the job around.

    Args:
        job_type: bounded name of the task.
        job_id: the queue's id of this run.
        resource_id: what the job works on.

    Yields:
        The job now in force.
    """
    outer = current.get()
    inner = Job(
        job_type=str(job_type) if job_type is not None else outer.job_type,
        job_id=str(job_id) if job_id is not None else outer.job_id,
        resource_id=str(resource_id) if resource_id is not None else outer.resource_id,
    )
    token = current.set(inner)
    if entered is not None:
        entered(inner)
    try:
        yield inner
    finally:
        with contextlib.suppress(
            ValueError
        ):  # a generator finalised in another context has nothing to restore
            current.reset(token)

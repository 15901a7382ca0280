"""The job that the current code works for: a bounded type, and identities that never become labels."""

from __future__ import annotations

import contextlib
import functools
import inspect
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from lockscope import runtime

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Token

F = TypeVar("F", bound="Callable[..., Any]")

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


def job(
    job_type: str | None = None, *, job_id: str | None = None, resource_id: str | None = None
) -> JobScope:
    """Name the job that the enclosed code works for; also a decorator of functions, blocking or async.

    Follows ``contextvars``: asyncio tasks and ``asyncio.to_thread`` inherit it, a plain thread starts
    without one, concurrent jobs never see each other's. What is left out is inherited from the job around.

    Args:
        job_type: bounded name of the task.
        job_id: the queue's id of this run.
        resource_id: what the job works on.

    Returns:
        A context manager that gives the job then in force; each call of a decorated function enters anew.

    Raises:
        TypeError: it decorates a generator function, whose body runs in the contexts of its callers.
    """
    return JobScope(job_type, job_id, resource_id)


class JobScope:
    """What ``job`` returns."""

    __slots__ = ("_given", "_reset")

    def __init__(self, job_type: object, job_id: object, resource_id: object) -> None:
        self._given = job_type, job_id, resource_id
        self._reset: Token[Job] | None = None

    def __enter__(self) -> Job:
        """Put the job in force and return it."""
        job_type, job_id, resource_id = self._given
        outer = current.get()
        inner = Job(
            job_type=outer.job_type if job_type is None else str(job_type) or NO_JOB_TYPE,
            job_id=outer.job_id if job_id is None else str(job_id),
            resource_id=outer.resource_id if resource_id is None else str(resource_id),
        )
        self._reset = current.set(inner)
        if entered is not None:
            try:
                entered(inner)
            except Exception:  # noqa: BLE001 - the application's job goes on
                if runtime.recorder is not None:
                    runtime.recorder.trouble("job")
        return inner

    def __exit__(self, *_: object) -> None:
        """Put back the job that was in force before."""
        reset, self._reset = self._reset, None
        if reset is not None:
            with contextlib.suppress(ValueError):  # another context, such as a generator's that is finalised
                current.reset(reset)

    def __call__(self, function: F) -> F:
        """Decorate ``function``: each call works for the job."""
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"job takes no generator function such as {function!r}: use with in it")
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def run_async(*args: Any, **kwargs: Any) -> Any:
                with JobScope(*self._given):
                    return await function(*args, **kwargs)

            return cast("F", run_async)

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with JobScope(*self._given):
                return function(*args, **kwargs)

        return cast("F", run)

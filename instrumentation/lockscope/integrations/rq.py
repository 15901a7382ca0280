"""RQ: the job's function and id, and retries because of a lock.

A work-horse is a process of its own for each job: what it counts in Prometheus metrics goes with it, unless
multiprocess mode or the journal is on. Call ``instrument`` in the worker's process, as in a settings module
(``rq worker -c settings``): in the jobs' own module it comes too late for the first job's retry.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

from lockscope import runtime
from lockscope.integrations.reasons import count_retry
from lockscope.jobs import job
from lockscope.seams.library import require
from lockscope.seams.patching import patch, unpatch

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_RAISED = "_lockscope_raised"
_job_class: Any = None


def install(module: ModuleType) -> None:
    """Observe ``rq.job.Job``.

    Raises:
        SeamMovedError: this version's calls are not the ones known.
    """
    global _job_class  # noqa: PLW0603 - one RQ a process
    require(module.Job, "perform")
    require(module.Job, "retry", "queue", "pipeline")
    patch(module.Job, "perform", _in_job)
    patch(module.Job, "retry", _counting)
    _job_class = module.Job
    _adopt(module)


def remove() -> None:
    """Put ``Job`` back."""
    if _job_class is not None:
        unpatch(_job_class, "perform")
        unpatch(_job_class, "retry")


def _adopt(module: ModuleType) -> None:
    """Name the job that is running already, where observation began in the module of a work-horse's job."""
    running = module.get_current_job()
    if running is not None and os.environ.get("RQ_JOB_ID") == running.id:
        job(running.func_name, job_id=running.id).__enter__()  # for what is left of this process


def _in_job(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def perform(self: Any, *args: Any, **kwargs: Any) -> Any:
        if runtime.recorder is None:
            return original(self, *args, **kwargs)
        with job(self.func_name, job_id=self.id):
            try:
                return original(self, *args, **kwargs)
            except BaseException as error:
                setattr(self, _RAISED, error)
                raise

    return perform


def _counting(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def retry(self: Any, *args: Any, **kwargs: Any) -> Any:
        answer = original(self, *args, **kwargs)
        raised = vars(self).pop(_RAISED, None)
        if raised is not None:
            with job(self.func_name, job_id=self.id):
                count_retry(raised)
        return answer

    return retry

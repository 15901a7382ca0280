"""Huey: the task's name and id, and retries because of a lock, of Redis or of Huey's own ``lock_task``."""

from __future__ import annotations

import functools
from contextvars import ContextVar
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lockscope import errors, runtime
from lockscope.integrations.reasons import count_retry
from lockscope.jobs import job
from lockscope.seams.library import require
from lockscope.seams.patching import patch, unpatch

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_raised: ContextVar[BaseException | None] = ContextVar("lockscope_huey_raised", default=None)
_huey_class: Any = None


def install(module: ModuleType) -> None:
    """Observe ``huey.api.Huey``.

    Raises:
        SeamMovedError: this version's calls are not the ones known.
    """
    global _huey_class  # noqa: PLW0603 - one Huey a process
    huey = module.Huey
    require(huey, "_execute", "task")
    require(huey, "_run_post_execute", "task", "exception")
    require(huey, "_requeue_task", "task")
    patch(huey, "_execute", _in_job)
    patch(huey, "_run_post_execute", _noting)
    patch(huey, "_requeue_task", _counting)
    locked = getattr(import_module("huey.exceptions"), "TaskLockedException", None)
    if locked is not None:
        errors.FURTHER[locked] = "contended"
    _huey_class = huey


def remove() -> None:
    """Put ``Huey`` back."""
    if _huey_class is not None:
        for name in ("_execute", "_run_post_execute", "_requeue_task"):
            unpatch(_huey_class, name)


def _in_job(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def execute(self: Any, task: Any, *args: Any, **kwargs: Any) -> Any:
        if runtime.recorder is None:
            return original(self, task, *args, **kwargs)
        kind = type(task)
        reset = _raised.set(None)
        try:
            with job(f"{kind.__module__}.{kind.__name__}", job_id=task.id):
                return original(self, task, *args, **kwargs)
        finally:
            _raised.reset(reset)

    return execute


def _noting(original: Callable[..., Any]) -> Callable[..., Any]:
    """Note what the task raised: Huey keeps it to itself."""

    @functools.wraps(original)
    def run_post_execute(self: Any, task: Any, task_value: Any, exception: Any) -> Any:
        _raised.set(exception)
        return original(self, task, task_value, exception)

    return run_post_execute


def _counting(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def requeue(self: Any, task: Any, *args: Any, **kwargs: Any) -> Any:
        answer = original(self, task, *args, **kwargs)
        count_retry(_raised.get())
        return answer

    return requeue

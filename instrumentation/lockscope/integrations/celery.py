"""Celery: the task's name and id, and retries because of a lock, through Celery's own signals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockscope.integrations.reasons import count_retry
from lockscope.jobs import job
from lockscope.seams.library import require

if TYPE_CHECKING:
    from types import ModuleType

_ON_REQUEST = "_lockscope_job"
_signals: Any = None


def install(signals: ModuleType) -> None:
    """Connect to the signals of ``celery.signals``.

    Raises:
        SeamMovedError: a signal is not there.
    """
    global _signals  # noqa: PLW0603 - one Celery a process
    for name in ("task_prerun", "task_postrun", "task_retry"):
        require(getattr(signals, name, signals), "connect")
    signals.task_prerun.connect(_begin, weak=False, dispatch_uid="lockscope")
    signals.task_postrun.connect(_end, weak=False, dispatch_uid="lockscope")
    signals.task_retry.connect(_retried, weak=False, dispatch_uid="lockscope")
    _signals = signals


def remove() -> None:
    """Disconnect."""
    if _signals is not None:
        for name in ("task_prerun", "task_postrun", "task_retry"):
            getattr(_signals, name).disconnect(dispatch_uid="lockscope")


def _begin(task: Any = None, task_id: str | None = None, **_: Any) -> None:
    running = job(task.name, job_id=task_id)
    running.__enter__()
    setattr(task.request, _ON_REQUEST, running)


def _end(task: Any = None, state: str = "", retval: Any = None, **_: Any) -> None:
    if state == "REJECTED" and getattr(retval, "requeue", False):
        count_retry(retval)
    running = getattr(task.request, _ON_REQUEST, None)
    if running is not None:
        running.__exit__(None, None, None)


def _retried(reason: Any = None, **_: Any) -> None:
    count_retry(reason)

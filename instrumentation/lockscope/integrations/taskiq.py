"""taskiq: the task's name and id, and retries because of a lock by its own retry middlewares.

A task in a process pool runs outside the receiver's process, so its locks have no job.
"""

from __future__ import annotations

import functools
from contextvars import ContextVar
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lockscope import runtime
from lockscope.integrations.reasons import count_retry
from lockscope.jobs import job
from lockscope.seams.library import require
from lockscope.seams.patching import patch, unpatch

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_SENDS = ("kiq", "schedule_by_time")
_failed: ContextVar[BaseException | None] = ContextVar("lockscope_taskiq_failed", default=None)
_patched: list[tuple[Any, str]] = []


def install(module: ModuleType) -> None:
    """Observe ``taskiq.receiver.receiver.Receiver`` and the retry middlewares.

    Raises:
        SeamMovedError: this version's calls are not the ones known.
    """
    middlewares = import_module("taskiq.middlewares")
    kicker = import_module("taskiq.kicker").AsyncKicker
    require(module.Receiver, "run_task", "target", "message")
    for name in _SENDS:
        require(kicker, name)
    retries = [
        found
        for name in ("SimpleRetryMiddleware", "SmartRetryMiddleware")
        if (found := getattr(middlewares, name, None)) is not None
    ]
    for middleware in retries:
        require(middleware, "on_error", "message", "exception")
    seams = [(module.Receiver, "run_task", _in_job)]
    seams += [(middleware, "on_error", _noting) for middleware in retries]
    seams += [(kicker, name, _counting) for name in _SENDS]
    for owner, name, make in seams:
        patch(owner, name, make)
    _patched[:] = [(owner, name) for owner, name, _ in seams]


def remove() -> None:
    """Put them back."""
    for owner, name in _patched:
        unpatch(owner, name)


def _in_job(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def run_task(self: Any, target: Any, message: Any, *args: Any, **kwargs: Any) -> Any:
        if runtime.recorder is None:
            return await original(self, target, message, *args, **kwargs)
        with job(message.task_name, job_id=message.task_id):
            return await original(self, target, message, *args, **kwargs)

    return run_task


def _noting(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def on_error(self: Any, message: Any, result: Any, exception: Any) -> Any:
        reset = _failed.set(exception)
        try:
            return await original(self, message, result, exception)
        finally:
            _failed.reset(reset)

    return on_error


def _counting(original: Callable[..., Any]) -> Callable[..., Any]:
    """Count what a retry middleware sends; it calls nothing else that sends."""

    @functools.wraps(original)
    async def send(self: Any, *args: Any, **kwargs: Any) -> Any:
        failed = _failed.get()
        reset = _failed.set(None)
        try:
            answer = await original(self, *args, **kwargs)
        finally:
            _failed.reset(reset)
        if failed is not None:
            count_retry(failed)
        return answer

    return send

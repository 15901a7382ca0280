"""arq: the function's name and the job's id, and retries because of a lock."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

from lockscope import runtime
from lockscope.errors import LostMessage
from lockscope.integrations.reasons import count_retry
from lockscope.jobs import job
from lockscope.seams.library import SeamMovedError, require
from lockscope.seams.patching import patch, unpatch

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_worker_class: Any = None


def install(module: ModuleType) -> None:
    """Observe the functions of every ``arq.worker.Worker``.

    Raises:
        SeamMovedError: this version's calls are not the ones known.
    """
    global _worker_class  # noqa: PLW0603 - one arq a process
    require(module.Worker, "__init__", "functions")
    fields = {field.name for field in dataclasses.fields(module.Function)}
    if not {"name", "coroutine"} <= fields:
        raise SeamMovedError(f"arq.worker.Function has no name and coroutine, but {sorted(fields)}")
    require(module, "Retry")
    require(module, "RetryJob")
    again = (module.Retry, module.RetryJob)
    patch(module.Worker, "__init__", functools.partial(_wrapping, again))
    _worker_class = module.Worker


def remove() -> None:
    """Leave new workers alone; the functions of existing ones pass through."""
    if _worker_class is not None:
        unpatch(_worker_class, "__init__")


def _wrapping(again: tuple[type[BaseException], ...], original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self.functions = {
            name: dataclasses.replace(function, coroutine=_in_job(function.coroutine, name, again))
            for name, function in self.functions.items()
        }

    return init


def _in_job(
    coroutine: Callable[..., Any], name: str, again: tuple[type[BaseException], ...]
) -> Callable[..., Any]:
    @functools.wraps(coroutine)
    async def run(ctx: dict[Any, Any], *args: Any, **kwargs: Any) -> Any:
        if runtime.recorder is None:
            return await coroutine(ctx, *args, **kwargs)
        with job(name, job_id=ctx.get("job_id")):
            try:
                return await coroutine(ctx, *args, **kwargs)
            except BaseException as error:
                # arq runs a cancelled job again; of a loss we know that it was the lock.
                cancelled = bool(error.args) and isinstance(error.args[0], LostMessage)
                if cancelled or isinstance(error, again):
                    count_retry(error)
                raise

    return run

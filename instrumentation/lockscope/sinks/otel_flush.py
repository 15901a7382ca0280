"""Have the SDK's flush include what waits here. Needs ``opentelemetry-api``."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from opentelemetry import trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.trace import TracerProvider

    from lockscope.backlog import Backlog

_MARK = "_lockscope_waiting"


def flush_first(provider: TracerProvider | None, backlog: Backlog[Any]) -> bool:
    """See to it that the provider's ``force_flush`` and ``shutdown`` also send what waits in ``backlog``.

    The API has no such hook, so these methods of the SDK's provider are wrapped, on the one object and once.

    Returns:
        Whether there is a provider that can be flushed.
    """
    target: Any = trace.get_tracer_provider() if provider is None else provider
    if not hasattr(target, "force_flush"):
        return False
    waiting: WeakSet[Backlog[Any]] | None = getattr(target, _MARK, None)
    if waiting is None:
        waiting = WeakSet()
        setattr(target, _MARK, waiting)
        for name in ("force_flush", "shutdown"):
            setattr(target, name, _after(waiting, getattr(target, name)))
    waiting.add(backlog)
    return True


def _after(waiting: WeakSet[Backlog[Any]], original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def flush(*args: Any, **kwargs: Any) -> Any:
        for backlog in list(waiting):
            backlog.drain()
        return original(*args, **kwargs)

    return flush

"""Wrap the methods of a further lock library, so that each call is reported as its ``Library`` reads it.

What goes wrong in reading is logged once and never reaches the application: the call then goes unobserved.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from lockscope import runtime
from lockscope.interrupts import interrupts
from lockscope.record import observed_lease
from lockscope.seams.library import Call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lockscope.record import Recorder
    from lockscope.seams.library import Library
    from lockscope.seams.operations import Operation

    Function = Callable[..., Any]

_log = logging.getLogger("lockscope.seams")
_complained: set[str] = set()


class _Inside:
    """The call that a context is inside of.

    Tasks and connections that a call opens copy its context and outlive it, so this counts only while the
    call lasts, and keeps neither lock nor lease alive.
    """

    __slots__ = ("lasts", "lock_id")

    def __init__(self, lock: object) -> None:
        self.lock_id = id(lock)
        self.lasts = True


_inside: ContextVar[_Inside | None] = ContextVar("lockscope_inside", default=None)


def observed(
    library: Library, kind: type[Operation], original: Function, switch: Any = runtime.everywhere
) -> Function:
    """Return ``original``, a method or function of a lock object, with each call observed.

    Args:
        library: how its calls are read.
        kind: ``Acquire``, ``Renew`` or ``Release``.
        original: takes the lock object first; blocking, or async, or returning an awaitable.
        switch: has the ``recorder`` to report to: for a class what ``instrument`` made, for one object
            ``runtime`` itself.

    Returns:
        A function of the same signature, async if the original is.
    """
    if inspect.iscoroutinefunction(original):

        @functools.wraps(original)
        async def call_async(self: Any, *args: Any, **kwargs: Any) -> Any:
            operation = _begin(switch.recorder, library, kind, Call(self, args, kwargs))
            if operation is None:
                return await original(self, *args, **kwargs)
            return await _finish(operation, original(self, *args, **kwargs))

        return call_async

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        operation = _begin(switch.recorder, library, kind, Call(self, args, kwargs))
        if operation is None:
            return original(self, *args, **kwargs)
        inside = _Inside(self)
        reset = _inside.set(inside)
        try:
            result = original(self, *args, **kwargs)
        except BaseException as error:
            if _report(operation.library, operation.raised, error):
                _ask(operation)
            raise
        finally:
            inside.lasts = False
            _inside.reset(reset)
        if inspect.isawaitable(result):
            return _finish(operation, result)
        if _report(operation.library, operation.returned, result):
            _ask(operation)
        return result

    return call


def _begin(
    recorder: Recorder | None, library: Library, kind: type[Operation], call: Call
) -> Operation | None:
    """Begin to observe a call, unless observation is off or a wrapper further out observes it already."""
    if recorder is None:
        return None
    outer = _inside.get()
    if outer is not None and outer.lasts and outer.lock_id == id(call.lock):
        return None
    renewing = observed_lease()
    if renewing is not None and renewing.lock_id == id(call.lock):
        return None  # by keep_alive, which reports for itself
    try:
        return kind(library, recorder, call)
    except Exception as error:  # noqa: BLE001 - a call that cannot be read goes on unobserved
        _complain(library, error)
        return None


async def _finish(operation: Operation, pending: Awaitable[Any]) -> Any:
    inside = _Inside(operation.call.lock)
    reset = _inside.set(inside)
    try:
        result = await pending
    except BaseException as error:
        if _report(operation.library, operation.raised, error):
            await _ask_async(operation)
        raise
    finally:
        inside.lasts = False
        with contextlib.suppress(ValueError):  # a coroutine that is closed in another context than its own
            _inside.reset(reset)
    if _report(operation.library, operation.returned, result):
        await _ask_async(operation)
    return result


def _ask(operation: Operation) -> None:
    """Read who holds the lock and report the refusal."""
    try:
        holder = operation.library.holder(operation.call)
    except BaseException as error:
        _report(operation.library, operation.not_told, error)
        if interrupts(error):
            raise
        return
    _report(operation.library, operation.told, holder)


async def _ask_async(operation: Operation) -> None:
    try:
        holder = operation.library.holder(operation.call)
        if inspect.isawaitable(holder):
            holder = await holder
    except BaseException as error:
        _report(operation.library, operation.not_told, error)
        if interrupts(error):
            raise
        return
    _report(operation.library, operation.told, holder)


def _report(library: Library, report: Callable[[Any], Any], what: Any) -> Any:
    try:
        return report(what)
    except Exception as error:  # noqa: BLE001 - telemetry's failure is not the application's
        _complain(library, error)
        return None


def _complain(library: Library, error: Exception) -> None:
    """Say once that a call went unobserved; an interruption of the application's is raised again."""
    if interrupts(error):
        raise error
    name = type(library).__qualname__
    if name not in _complained:
        _complained.add(name)
        _log.warning("a call of %s could not be read and goes unobserved: %r", library.package or name, error)

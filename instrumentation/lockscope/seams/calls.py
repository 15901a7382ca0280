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

from redis.exceptions import RedisError

from lockscope import runtime, tokens
from lockscope.record import observing
from lockscope.seams.library import Call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lockscope.record import Lease, Recorder
    from lockscope.seams.library import Library
    from lockscope.tokens import Owner

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


class Operation:
    """One observed call, from before it until its outcome is reported."""

    def __init__(self, library: Library, recorder: Recorder, call: Call) -> None:
        self.library = library
        self.recorder = recorder
        self.call = call
        self.lease = self.begin()

    def begin(self) -> Lease:
        """Return the lease that the call is about."""
        lease = self.library.kept(self.call)
        if lease is None:
            lease = self.recorder.unknown_lease(self.call.lock, self.library.key(self.call))
        return lease

    def raised(self, error: BaseException) -> bool:
        """Report that the call raised; return true if the holder is to be read first."""
        raise NotImplementedError

    def returned(self, result: Any) -> bool:
        """Report that the call returned; return true if the holder is to be read first."""
        raise NotImplementedError

    def told(self, holder: Any) -> None:
        """Report the refusal, now that the key was read."""
        self.recorder.refused(self.lease, waited=self.lease.waiting, blocked_by=_owner(holder))

    def not_told(self, error: BaseException) -> None:
        """Report the refusal, though the key could not be read."""
        if self.library.hides_errors and isinstance(error, RedisError | OSError):
            self.recorder.acquire_failed(self.lease, error, gave_up=False)
        else:
            self.recorder.refused(self.lease, waited=self.lease.waiting)


class Acquire(Operation):
    """A call that acquires a lock."""

    def begin(self) -> Lease:
        """Open an attempt."""
        waits = self.library.waits(self.call)
        attempt = self.recorder.begin(self.call.lock, self.library.key(self.call))
        if waits:
            # The library hides its tries, so whoever is ready to wait counts as waiting from the start.
            self.recorder.waiting(attempt)
        return attempt

    def raised(self, error: BaseException) -> bool:
        """Report a refusal or a failure."""
        if self.library.refused(error):
            return self._refused()
        own = type(error).__module__.partition(".")[0] == self.library.package
        self.recorder.acquire_failed(self.lease, error, gave_up=False if own else None)
        return False

    def returned(self, result: Any) -> bool:
        """Report a lease or a refusal."""
        if not self.library.got(self.call, result):
            return self._refused()
        token = self.library.token(self.call, result)
        raw = token.encode() if isinstance(token, str) else token
        lease = self.recorder.acquired(self.lease, raw, self.library.ttl(self.call))
        self.library.keep(self.call, result, lease)
        return False

    def _refused(self) -> bool:
        hidden = self.library.failure(self.call)
        if hidden is not None:
            self.recorder.acquire_failed(self.lease, hidden, gave_up=False)
            return False
        waits = self.lease.waiting
        if self.library.hides_errors or self.recorder.wants_blocked_by(self.lease, waited=waits):
            return True
        self.recorder.refused(self.lease, waited=waits)
        return False


class Renew(Operation):
    """A call that renews a held lock."""

    def raised(self, error: BaseException) -> bool:
        """Report a loss or a failure."""
        if self.library.lost(error):
            self.recorder.renew_lost(self.lease)
        else:
            self.recorder.renew_error(self.lease, error)
        return False

    def returned(self, result: Any) -> bool:
        """Report a renewal or a loss."""
        if self.library.renewal(self.call, self.lease, result) == "lost":
            self.recorder.renew_lost(self.lease)
        else:
            self.recorder.renewed(self.lease, self.library.renewed_ttl(self.call, self.lease) or 0.0)
        return False


class Release(Operation):
    """A call that releases a held lock."""

    def raised(self, error: BaseException) -> bool:
        """Report a loss or a failure."""
        if self.library.lost(error):
            self.recorder.release_lost(self.lease)
            self.library.drop(self.call)
        else:
            self.recorder.release_error(self.lease, error, ended=False)
        return False

    def returned(self, result: Any) -> bool:
        """Report a release or a loss."""
        if self.library.release_lost(self.call, self.lease, result):
            self.recorder.release_lost(self.lease)
        else:
            self.recorder.released(self.lease)
        self.library.drop(self.call)
        return False


def observed(library: Library, kind: type[Operation], original: Function) -> Function:
    """Return ``original``, a method or function of a lock object, with each call observed.

    Args:
        library: how its calls are read.
        kind: ``Acquire``, ``Renew`` or ``Release``.
        original: takes the lock object first; blocking, or async, or returning an awaitable.

    Returns:
        A function of the same signature, async if the original is.
    """
    if inspect.iscoroutinefunction(original):

        @functools.wraps(original)
        async def call_async(self: Any, *args: Any, **kwargs: Any) -> Any:
            operation = _begin(library, kind, Call(self, args, kwargs))
            if operation is None:
                return await original(self, *args, **kwargs)
            return await _finish(operation, original(self, *args, **kwargs))

        return call_async

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        operation = _begin(library, kind, Call(self, args, kwargs))
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


def _begin(library: Library, kind: type[Operation], call: Call) -> Operation | None:
    """Begin to observe a call, unless observation is off or a wrapper further out observes it already."""
    recorder = runtime.recorder
    if recorder is None:
        return None
    outer = _inside.get()
    if outer is not None and outer.lasts and outer.lock_id == id(call.lock):
        return None
    renewing = observing.get()
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
    except Exception as error:  # noqa: BLE001 - a courtesy; the refusal stands
        _report(operation.library, operation.not_told, error)
        return
    _report(operation.library, operation.told, holder)


async def _ask_async(operation: Operation) -> None:
    try:
        holder = operation.library.holder(operation.call)
        if inspect.isawaitable(holder):
            holder = await holder
    except Exception as error:  # noqa: BLE001 - a courtesy; the refusal stands
        _report(operation.library, operation.not_told, error)
        return
    except BaseException as error:
        _report(operation.library, operation.not_told, error)
        raise
    _report(operation.library, operation.told, holder)


def _report(library: Library, report: Callable[[Any], Any], what: Any) -> Any:
    try:
        return report(what)
    except Exception as error:  # noqa: BLE001 - telemetry's failure is not the application's
        _complain(library, error)
        return None


def _complain(library: Library, error: Exception) -> None:
    name = type(library).__qualname__
    if name not in _complained:
        _complained.add(name)
        _log.warning("a call of %s could not be read and goes unobserved: %r", library.package or name, error)


def _owner(value: Any) -> Owner | None:
    """Read a token that may have been decoded by the client; nobody if the key is gone by now."""
    if value is None:
        return None
    raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)
    return tokens.parse(raw) or tokens.uuid1_owner(raw) or tokens.Owner()

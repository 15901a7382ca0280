"""redis-py's ``Lock`` and ``asyncio.Lock``, and all that builds on them.

The public calls are observed (acquire, release, extend, reacquire) and the single try (``do_acquire``), which
counts attempts and tells when waiting begins. The lease is kept beside the token in ``lock.local``, so it
follows ``thread_local`` exactly as the token does.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from typing import TYPE_CHECKING, Any
from weakref import ref

from redis.asyncio.lock import Lock as AsyncLock
from redis.lock import Lock

from lockscope import runtime
from lockscope.record import observed_lease, observing
from lockscope.seams import redis_py_calls as calls
from lockscope.seams.patching import patch, patch_object, unpatch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextvars import Token

    from lockscope.record import Lease, Recorder

    Function = Callable[..., Any]
    Switch = Any  # what has ``recorder``: ``runtime.everywhere``, or ``runtime`` for one object


def install() -> None:
    """Observe both classes; harmless when they are observed already."""
    for owner, seams in ((Lock, _SYNC_SEAMS), (AsyncLock, _ASYNC_SEAMS)):
        for name, make in seams.items():
            patch(owner, name, functools.partial(make, runtime.everywhere))


def remove() -> None:
    """Put both classes back as far as other tools' wrappers allow."""
    for name in _SYNC_SEAMS:
        unpatch(Lock, name)
        unpatch(AsyncLock, name)


def _nested(lock: Any) -> bool:
    """Tell whether a wrapper further out observes this very call already."""
    found = observing.get()
    outer = None if found is None else found()
    return outer is not None and outer.lock_id == id(lock)


def _reset(before: Token[ref[Lease] | None]) -> None:
    """End what ``observing.set`` began, also where a coroutine is closed in another context than its own."""
    with contextlib.suppress(ValueError):
        observing.reset(before)


def _told(recorder: Recorder, tell: Callable[..., None], *what: Any) -> None:
    """Tell the recorder of a call that ended; what fails in that never becomes the caller's exception."""
    try:
        tell(*what)
    except Exception:  # noqa: BLE001
        recorder.trouble("seam")


def _acquire(switch: Switch, original: Function) -> Function:
    parameters = calls.parameters_of(original, calls.SYNC_ACQUIRE)

    @functools.wraps(original)
    def acquire(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = switch.recorder
        if recorder is None or _nested(self):
            return original(self, *args, **kwargs)
        try:
            lease = calls.begin(recorder, self, parameters, args, kwargs)
        except Exception:  # noqa: BLE001 - what ails the shim is not the caller's
            recorder.trouble("seam")
            return original(self, *args, **kwargs)
        before = observing.set(ref(lease))
        try:
            got = original(self, *args, **kwargs)
        except BaseException as error:
            _told(recorder, recorder.acquire_failed, lease, error)
            raise
        finally:
            observing.reset(before)
        try:
            if got:
                calls.got(lease, self)
            else:
                calls.refused(recorder, self, lease)
        except Exception:  # noqa: BLE001
            recorder.trouble("seam")
        return got

    return acquire


def _acquire_async(switch: Switch, original: Function) -> Function:
    parameters = calls.parameters_of(original, calls.ASYNC_ACQUIRE)

    @functools.wraps(original)
    async def acquire(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = switch.recorder
        if recorder is None or _nested(self):
            return await original(self, *args, **kwargs)
        try:
            lease = calls.begin(recorder, self, parameters, args, kwargs)
        except Exception:  # noqa: BLE001
            recorder.trouble("seam")
            return await original(self, *args, **kwargs)
        before = observing.set(ref(lease))
        try:
            got = await original(self, *args, **kwargs)
        except BaseException as error:
            _told(recorder, recorder.acquire_failed, lease, error)
            raise
        finally:
            _reset(before)
        try:
            if got:
                calls.got(lease, self)
            else:
                await calls.refused_async(recorder, self, lease)
        except Exception:  # noqa: BLE001
            recorder.trouble("seam")
        return got

    return acquire


def _try(_switch: Switch, original: Function) -> Function:
    @functools.wraps(original)
    def do_acquire(self: Any, *args: Any, **kwargs: Any) -> Any:
        lease = observed_lease()
        if lease is None or lease.lock_id != id(self) or lease.trying:
            return original(self, *args, **kwargs)
        lease.attempts += 1
        lease.trying = True  # a wrapper of ours further in, behind another tool's, does not count again
        try:
            got = original(self, *args, **kwargs)
        finally:
            lease.trying = False
        if not got:
            _try_refused(lease, self)
        return got

    return do_acquire


def _try_async(_switch: Switch, original: Function) -> Function:
    @functools.wraps(original)
    async def do_acquire(self: Any, *args: Any, **kwargs: Any) -> Any:
        lease = observed_lease()
        if lease is None or lease.lock_id != id(self) or lease.trying:
            return await original(self, *args, **kwargs)
        lease.attempts += 1
        lease.trying = True
        try:
            got = await original(self, *args, **kwargs)
        finally:
            lease.trying = False
        if not got:
            _try_refused(lease, self)
        return got

    return do_acquire


def _try_refused(lease: Lease, lock: Any) -> None:
    try:
        if lease.attempts == 1 and calls.will_wait(lock, lease.given):
            lease.recorder.waiting(lease)
    except Exception:  # noqa: BLE001
        lease.recorder.trouble("seam")


def _call(operation: calls.Operation, switch: Switch, original: Function) -> Function:
    after = operation.after

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = switch.recorder
        if recorder is None or _nested(self):
            return original(self, *args, **kwargs)
        lease = calls.lease_of(recorder, self)
        if lease is None:
            return original(self, *args, **kwargs)
        before = observing.set(ref(lease))
        try:
            answer = original(self, *args, **kwargs)
        except BaseException as error:
            _told(recorder, operation.failed, recorder, self, lease, error)
            raise
        finally:
            observing.reset(before)
        try:
            after(recorder, self, lease, args, kwargs)
        except Exception:  # noqa: BLE001
            recorder.trouble("seam")
        return answer

    return call


async def _finish(
    operation: calls.Operation,
    lock: Any,
    recorder: Recorder,
    lease: Lease,
    pending: Awaitable[Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Await what a call returned, and tell how it ended."""
    before = observing.set(ref(lease))
    try:
        answer = await pending
    except BaseException as error:
        _told(recorder, operation.failed, recorder, lock, lease, error)
        raise
    finally:
        _reset(before)
    _told(recorder, operation.after, recorder, lock, lease, args, kwargs)
    return answer


def _call_async(operation: calls.Operation, switch: Switch, original: Function) -> Function:
    finish = functools.partial(_finish, operation)

    if inspect.iscoroutinefunction(original):

        @functools.wraps(original)
        async def call_async(self: Any, *args: Any, **kwargs: Any) -> Any:
            recorder = switch.recorder
            if recorder is None or _nested(self):
                return await original(self, *args, **kwargs)
            lease = calls.lease_of(recorder, self)
            if lease is None:
                return await original(self, *args, **kwargs)
            return await finish(self, recorder, lease, original(self, *args, **kwargs), args, kwargs)

        return call_async

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        # Such a method checks token and timeout when called and talks to Redis when awaited; so does this.
        recorder = switch.recorder
        if recorder is None or _nested(self):
            return original(self, *args, **kwargs)
        lease = calls.lease_of(recorder, self)
        if lease is None:
            return original(self, *args, **kwargs)
        before = observing.set(ref(lease))
        try:
            pending = original(self, *args, **kwargs)
        except BaseException as error:
            _told(recorder, operation.failed, recorder, self, lease, error)
            raise
        finally:
            observing.reset(before)
        return finish(self, recorder, lease, pending, args, kwargs)

    return call


_SYNC_SEAMS: dict[str, Callable[[Switch, Function], Function]] = {
    "acquire": _acquire,
    "do_acquire": _try,
    **{name: functools.partial(_call, operation) for name, operation in calls.OPERATIONS.items()},
}
_ASYNC_SEAMS: dict[str, Callable[[Switch, Function], Function]] = {
    "acquire": _acquire_async,
    "do_acquire": _try_async,
    **{name: functools.partial(_call_async, operation) for name, operation in calls.OPERATIONS.items()},
}


def observe(lock: Any) -> None:
    """Observe one lock object; nothing changes if its class or the object is observed already.

    Args:
        lock: a redis-py ``Lock`` or ``asyncio.Lock``.
    """
    seams = _ASYNC_SEAMS if isinstance(lock, AsyncLock) else _SYNC_SEAMS
    for name, make in seams.items():
        patch_object(lock, name, functools.partial(make, runtime))

"""redis-py's ``Lock`` and ``asyncio.Lock``, and all that builds on them.

The public calls are observed (acquire, release, extend, reacquire) and the single try (``do_acquire``), which
counts attempts and tells when waiting begins. The lease is kept beside the token in ``lock.local``, so it
follows ``thread_local`` exactly as the token does.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

from redis.asyncio.lock import Lock as AsyncLock
from redis.exceptions import LockNotOwnedError, RedisError
from redis.lock import Lock

from lockscope import runtime, tokens
from lockscope.prefixes import key_bytes
from lockscope.record import observed_lease, observing
from lockscope.seams.patching import patch, patch_object, unpatch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from contextvars import Token

    from lockscope.record import Attempt, Lease, Recorder
    from lockscope.tokens import Owner

    Function = Callable[..., Any]
    Switch = Any  # what has ``recorder``: ``runtime.everywhere``, or ``runtime`` for one object


class _Parameters(NamedTuple):
    """How a function that acquires takes its arguments.

    Attributes:
        names: names of its positional parameters, without the lock.
        before_token: how many arguments may be passed by position before the token; -1 if it takes none.
    """

    names: tuple[str, ...]
    before_token: int


_SYNC_ACQUIRE = _Parameters(("sleep", "blocking", "blocking_timeout", "token"), 3)
_ASYNC_ACQUIRE = _Parameters(("blocking", "blocking_timeout", "token"), 2)


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


def _parameters(acquire: Function, usual: _Parameters) -> _Parameters:
    """Return how ``acquire`` takes its arguments: a subclass may do so in its own way."""
    try:
        _, *parameters = inspect.signature(acquire).parameters.values()
    except (TypeError, ValueError):
        return usual
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return usual  # it passes on what it is given
    names = tuple(parameter.name for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY)
    if not any(parameter.name == "token" for parameter in parameters):
        return _Parameters(names, -1)
    return _Parameters(names, names.index("token") if "token" in names else len(names))


def _will_wait(lock: Any, given: Mapping[str, Any]) -> bool:
    """Tell whether acquire, called with these arguments, sleeps and tries again after a refusal."""
    blocking, limit, sleep = lock.blocking, lock.blocking_timeout, lock.sleep
    if given:
        blocking = blocking if given.get("blocking") is None else given["blocking"]
        limit = limit if given.get("blocking_timeout") is None else given["blocking_timeout"]
        sleep = sleep if given.get("sleep") is None else given["sleep"]
    return bool(blocking) and (limit is None or limit >= sleep)


def _begin(
    recorder: Recorder, lock: Any, parameters: _Parameters, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Lease:
    """Begin a call to acquire; pass a token that says who holds the lock, unless the caller passes one."""
    describe = runtime.describe_owner and len(args) <= parameters.before_token and kwargs.get("token") is None
    presence = runtime.announce(lock.redis) if describe else ""
    if runtime.meet is not None:
        runtime.meet(lock.redis)
    lease = recorder.begin(lock, lock.name)
    if args or kwargs:
        lease.given = dict(zip(parameters.names, args, strict=False)) | kwargs
    if describe:
        kwargs["token"] = tokens.describe(lease.job, lease.started_at, presence)
    return lease


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
    """Tell the recorder of a call that ended; what fails in that neither replaces nor becomes an exception."""
    try:
        tell(*what)
    except Exception:  # noqa: BLE001
        recorder.trouble("seam")


def _lease(recorder: Recorder, lock: Any) -> Lease:
    lease: Lease | None = getattr(lock.local, "lockscope_lease", None)
    return lease if lease is not None else recorder.unknown_lease(lock, lock.name)


def _got(lease: Lease, lock: Any) -> None:
    """Note the lease beside the lock's token."""
    local = lock.local
    token, timeout = local.token, lock.timeout
    if type(token) is str:
        token = token.encode()
    local.lockscope_lease = lease.recorder.acquired(
        lease, token, int(timeout * 1000) / 1000 if timeout else None
    )


def _extended(
    recorder: Recorder, _lock: Any, lease: Lease, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    additional = kwargs.get("additional_time", args[0] if args else 0)
    replaces = kwargs.get("replace_ttl", args[1] if len(args) > 1 else False)
    recorder.renewed(lease, int(additional * 1000) / 1000, add=not replaces)


def _reacquired(
    recorder: Recorder, lock: Any, lease: Lease, _args: tuple[Any, ...], _kwargs: dict[str, Any]
) -> None:
    recorder.renewed(lease, int(lock.timeout * 1000) / 1000)


def _renewal_failed(recorder: Recorder, _lock: Any, lease: Lease, error: BaseException) -> None:
    if isinstance(error, LockNotOwnedError):
        recorder.renew_lost(lease)
    else:
        recorder.renew_error(lease, error)


def _released(
    recorder: Recorder, lock: Any, lease: Lease, _args: tuple[Any, ...], _kwargs: dict[str, Any]
) -> None:
    _forget(lock, lease)
    recorder.released(lease)


def _forget(lock: Any, lease: Lease) -> None:
    """Take the lease from the lock, unless another task has taken the lock with the same object by now."""
    if getattr(lock.local, "lockscope_lease", None) is lease:
        lock.local.lockscope_lease = None


def _release_failed(recorder: Recorder, lock: Any, lease: Lease, error: BaseException) -> None:
    ended = getattr(lock.local, "token", None) is None  # a thread that never saw the lock has no token at all
    if ended:
        _forget(lock, lease)
    if isinstance(error, LockNotOwnedError):
        recorder.release_lost(lease)
    else:
        recorder.release_error(lease, error, ended=ended)


def _owner(value: Any) -> Owner | None:
    """Read a token that may have been decoded by the client."""
    if value is None:
        return None
    raw = key_bytes(value) if isinstance(value, str | bytes) else b""  # a callback of the client's made it
    return tokens.parse(raw) or tokens.uuid1_owner(raw) or tokens.Owner()


def _has_waited(lock: Any, attempt: Attempt) -> bool:
    """Tell whether a refused call slept; a subclass with tries of its own hides them."""
    if attempt.generation is not attempt.recorder.generation:
        return attempt.waiting  # observation ended meanwhile, further tries were not seen
    return attempt.attempts > 1 if attempt.attempts else _will_wait(lock, attempt.given)


def _refused(recorder: Recorder, lock: Any, attempt: Attempt) -> None:
    waited = _has_waited(lock, attempt)
    blocked_by = None
    try:
        if recorder.wants_blocked_by(attempt, waited=waited):
            with contextlib.suppress(RedisError, OSError, UnicodeError):  # a courtesy; the refusal stands
                blocked_by = _owner(lock.redis.get(lock.name))
    finally:
        recorder.refused(attempt, waited=waited, blocked_by=blocked_by)


async def _refused_async(recorder: Recorder, lock: Any, attempt: Attempt) -> None:
    waited = _has_waited(lock, attempt)
    blocked_by = None
    try:
        if recorder.wants_blocked_by(attempt, waited=waited):
            with contextlib.suppress(RedisError, OSError, UnicodeError):
                blocked_by = _owner(await lock.redis.get(lock.name))
    finally:
        recorder.refused(attempt, waited=waited, blocked_by=blocked_by)


def _acquire(switch: Switch, original: Function) -> Function:
    parameters = _parameters(original, _SYNC_ACQUIRE)

    @functools.wraps(original)
    def acquire(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = switch.recorder
        if recorder is None or _nested(self):
            return original(self, *args, **kwargs)
        try:
            lease = _begin(recorder, self, parameters, args, kwargs)
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
                _got(lease, self)
            else:
                _refused(recorder, self, lease)
        except Exception:  # noqa: BLE001
            recorder.trouble("seam")
        return got

    return acquire


def _acquire_async(switch: Switch, original: Function) -> Function:
    parameters = _parameters(original, _ASYNC_ACQUIRE)

    @functools.wraps(original)
    async def acquire(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = switch.recorder
        if recorder is None or _nested(self):
            return await original(self, *args, **kwargs)
        try:
            lease = _begin(recorder, self, parameters, args, kwargs)
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
                _got(lease, self)
            else:
                await _refused_async(recorder, self, lease)
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
        if lease.attempts == 1 and _will_wait(lock, lease.given):
            lease.recorder.waiting(lease)
    except Exception:  # noqa: BLE001
        lease.recorder.trouble("seam")


class _Operation(NamedTuple):
    """What is told of a call that renews or releases."""

    after: Callable[[Recorder, Any, Lease, tuple[Any, ...], dict[str, Any]], None]
    failed: Callable[[Recorder, Any, Lease, BaseException], None]


def _lease_of(recorder: Recorder, lock: Any) -> Lease | None:
    """Return the lease that a call is about, ``None`` if the shim itself fails."""
    try:
        return _lease(recorder, lock)
    except Exception:  # noqa: BLE001
        recorder.trouble("seam")
        return None


def _call(operation: _Operation, switch: Switch, original: Function) -> Function:
    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = switch.recorder
        if recorder is None or _nested(self):
            return original(self, *args, **kwargs)
        lease = _lease_of(recorder, self)
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
        _told(recorder, operation.after, recorder, self, lease, args, kwargs)
        return answer

    return call


def _call_async(operation: _Operation, switch: Switch, original: Function) -> Function:
    async def finish(
        self: Any, recorder: Recorder, pending: Awaitable[Any], lease: Lease, args: Any, kwargs: Any
    ) -> Any:
        before = observing.set(ref(lease))
        try:
            answer = await pending
        except BaseException as error:
            _told(recorder, operation.failed, recorder, self, lease, error)
            raise
        finally:
            _reset(before)
        _told(recorder, operation.after, recorder, self, lease, args, kwargs)
        return answer

    if inspect.iscoroutinefunction(original):

        @functools.wraps(original)
        async def call_async(self: Any, *args: Any, **kwargs: Any) -> Any:
            recorder = switch.recorder
            if recorder is None or _nested(self):
                return await original(self, *args, **kwargs)
            lease = _lease_of(recorder, self)
            if lease is None:
                return await original(self, *args, **kwargs)
            return await finish(self, recorder, original(self, *args, **kwargs), lease, args, kwargs)

        return call_async

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        # Such a method checks token and timeout when called and talks to Redis when awaited; so does this.
        recorder = switch.recorder
        if recorder is None or _nested(self):
            return original(self, *args, **kwargs)
        lease = _lease_of(recorder, self)
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
        return finish(self, recorder, pending, lease, args, kwargs)

    return call


_OPERATIONS = {
    "release": _Operation(_released, _release_failed),
    "extend": _Operation(_extended, _renewal_failed),
    "reacquire": _Operation(_reacquired, _renewal_failed),
}
_SYNC_SEAMS: dict[str, Callable[[Switch, Function], Function]] = {
    "acquire": _acquire,
    "do_acquire": _try,
    **{name: functools.partial(_call, operation) for name, operation in _OPERATIONS.items()},
}
_ASYNC_SEAMS: dict[str, Callable[[Switch, Function], Function]] = {
    "acquire": _acquire_async,
    "do_acquire": _try_async,
    **{name: functools.partial(_call_async, operation) for name, operation in _OPERATIONS.items()},
}


def observe(lock: Any) -> None:
    """Observe one lock object; nothing changes if its class or the object is observed already.

    Args:
        lock: a redis-py ``Lock`` or ``asyncio.Lock``.
    """
    seams = _ASYNC_SEAMS if isinstance(lock, AsyncLock) else _SYNC_SEAMS
    for name, make in seams.items():
        patch_object(lock, name, functools.partial(make, runtime))

"""redis-py's ``Lock`` and ``asyncio.Lock``, and all that builds on them.

The public calls are observed (acquire, release, extend, reacquire) and the single try (``do_acquire``), which
counts attempts and tells when waiting begins. The lease is kept beside the token in ``lock.local``, so it
follows ``thread_local`` exactly as the token does.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

from redis.asyncio.lock import Lock as AsyncLock
from redis.exceptions import LockNotOwnedError, RedisError
from redis.lock import Lock

from lockscope import runtime, tokens
from lockscope.record import observing
from lockscope.seams.patching import patch, unpatch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lockscope.record import Attempt, Lease, Recorder
    from lockscope.tokens import Owner

_TOKEN_POSITION = 3  # of acquire(sleep, blocking, blocking_timeout, token)
_SYNC = "acquire", "do_acquire", "release", "extend", "reacquire"


def install() -> None:
    """Observe both classes; harmless when they are observed already."""
    for name, make in _SYNC_SEAMS.items():
        patch(Lock, name, make)
    for name, make in _ASYNC_SEAMS.items():
        patch(AsyncLock, name, make)


def remove() -> None:
    """Put both classes back as far as other tools' wrappers allow."""
    for name in _SYNC:
        unpatch(Lock, name)
        unpatch(AsyncLock, name)


def _will_wait(lock: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Tell whether acquire, called with these arguments, sleeps and tries again after a refusal."""
    blocking, limit, sleep = lock.blocking, lock.blocking_timeout, lock.sleep
    if args or kwargs:
        given = dict(zip(("sleep", "blocking", "blocking_timeout"), args, strict=False)) | kwargs
        blocking = blocking if given.get("blocking") is None else given["blocking"]
        limit = limit if given.get("blocking_timeout") is None else given["blocking_timeout"]
        if isinstance(lock, Lock) and given.get("sleep") is not None:  # the asyncio lock ignores it
            sleep = given["sleep"]
    return bool(blocking) and (limit is None or limit >= sleep)


def _begin(recorder: Recorder, lock: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Lease:
    """Begin a call to acquire; pass a token that says who holds the lock, unless the caller passes one."""
    describe = runtime.describe_owner and len(args) <= _TOKEN_POSITION and kwargs.get("token") is None
    presence = runtime.announce(lock.redis) if describe else ""
    lease = recorder.begin(lock, lock.name)
    if args or kwargs:
        lease.call = args, kwargs.copy()
    if describe:
        kwargs["token"] = tokens.describe(lease.job, lease.started_at, presence)
    return lease


def _nested(lock: Any) -> bool:
    """Tell whether a wrapper further out observes this very call already."""
    outer = observing.get()
    return outer is not None and outer.lock_id == id(lock)


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


def _renewal_failed(recorder: Recorder, lease: Lease, error: BaseException) -> None:
    if isinstance(error, LockNotOwnedError):
        recorder.renew_lost(lease)
    else:
        recorder.renew_error(lease, error)


def _released(recorder: Recorder, lock: Any, lease: Lease) -> None:
    lock.local.lockscope_lease = None
    recorder.released(lease)


def _release_failed(recorder: Recorder, lock: Any, lease: Lease, error: BaseException) -> None:
    ended = getattr(lock.local, "token", None) is None  # a thread that never saw the lock has no token at all
    if ended:
        lock.local.lockscope_lease = None
    if isinstance(error, LockNotOwnedError):
        recorder.release_lost(lease)
    else:
        recorder.release_error(lease, error, ended=ended)


def _owner(value: Any) -> Owner | None:
    """Read a token that may have been decoded by the client."""
    if value is None:
        return None
    raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)
    return tokens.parse(raw) or tokens.uuid1_owner(raw) or tokens.Owner()


def _refused(recorder: Recorder, lock: Any, attempt: Attempt) -> None:
    waited = attempt.attempts > 1
    blocked_by = None
    try:
        if recorder.wants_blocked_by(attempt, waited=waited):
            with contextlib.suppress(RedisError, OSError, UnicodeError):  # a courtesy; the refusal stands
                blocked_by = _owner(lock.redis.get(lock.name))
    finally:
        recorder.refused(attempt, waited=waited, blocked_by=blocked_by)


async def _refused_async(recorder: Recorder, lock: Any, attempt: Attempt) -> None:
    waited = attempt.attempts > 1
    blocked_by = None
    try:
        if recorder.wants_blocked_by(attempt, waited=waited):
            with contextlib.suppress(RedisError, OSError, UnicodeError):
                blocked_by = _owner(await lock.redis.get(lock.name))
    finally:
        recorder.refused(attempt, waited=waited, blocked_by=blocked_by)


def _acquire(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def acquire(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = runtime.recorder
        if recorder is None or _nested(self):
            return original(self, *args, **kwargs)
        try:
            lease = _begin(recorder, self, args, kwargs)
        except Exception:  # noqa: BLE001 - what ails the shim is not the caller's
            recorder.trouble("seam")
            return original(self, *args, **kwargs)
        reset = observing.set(lease)
        try:
            got = original(self, *args, **kwargs)
        except BaseException as error:
            recorder.acquire_failed(lease, error)
            raise
        finally:
            observing.reset(reset)
        try:
            if got:
                _got(lease, self)
            else:
                _refused(recorder, self, lease)
        except Exception:  # noqa: BLE001
            recorder.trouble("seam")
        return got

    return acquire


def _acquire_async(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def acquire(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = runtime.recorder
        if recorder is None or _nested(self):
            return await original(self, *args, **kwargs)
        try:
            lease = _begin(recorder, self, args, kwargs)
        except Exception:  # noqa: BLE001
            recorder.trouble("seam")
            return await original(self, *args, **kwargs)
        reset = observing.set(lease)
        try:
            got = await original(self, *args, **kwargs)
        except BaseException as error:
            recorder.acquire_failed(lease, error)
            raise
        finally:
            observing.reset(reset)
        try:
            if got:
                _got(lease, self)
            else:
                await _refused_async(recorder, self, lease)
        except Exception:  # noqa: BLE001
            recorder.trouble("seam")
        return got

    return acquire


def _try(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def do_acquire(self: Any, *args: Any, **kwargs: Any) -> Any:
        got = original(self, *args, **kwargs)
        lease = observing.get()
        if lease is not None and lease.lock_id == id(self):
            lease.attempts += 1
            if not got:
                _try_refused(lease, self)
        return got

    return do_acquire


def _try_async(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def do_acquire(self: Any, *args: Any, **kwargs: Any) -> Any:
        got = await original(self, *args, **kwargs)
        lease = observing.get()
        if lease is not None and lease.lock_id == id(self):
            lease.attempts += 1
            if not got:
                _try_refused(lease, self)
        return got

    return do_acquire


def _try_refused(lease: Lease, lock: Any) -> None:
    if lease.attempts == 1 and _will_wait(lock, *lease.call):
        lease.recorder.waiting(lease)


def _release(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def release(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = runtime.recorder
        if recorder is None or _nested(self):
            return original(self, *args, **kwargs)
        lease = _lease(recorder, self)
        reset = observing.set(lease)
        try:
            answer = original(self, *args, **kwargs)
        except BaseException as error:
            _release_failed(recorder, self, lease, error)
            raise
        finally:
            observing.reset(reset)
        try:
            _released(recorder, self, lease)
        except Exception:  # noqa: BLE001
            recorder.trouble("seam")
        return answer

    return release


def _release_async(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def release(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = runtime.recorder
        if recorder is None or _nested(self):
            return await original(self, *args, **kwargs)
        lease = _lease(recorder, self)
        reset = observing.set(lease)
        try:
            answer = await original(self, *args, **kwargs)
        except BaseException as error:
            _release_failed(recorder, self, lease, error)
            raise
        finally:
            observing.reset(reset)
        try:
            _released(recorder, self, lease)
        except Exception:  # noqa: BLE001
            recorder.trouble("seam")
        return answer

    return release


def _renew(after: Callable[..., None]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def renew(self: Any, *args: Any, **kwargs: Any) -> Any:
            recorder = runtime.recorder
            if recorder is None or _nested(self):
                return original(self, *args, **kwargs)
            lease = _lease(recorder, self)
            reset = observing.set(lease)
            try:
                answer = original(self, *args, **kwargs)
            except BaseException as error:
                _renewal_failed(recorder, lease, error)
                raise
            finally:
                observing.reset(reset)
            try:
                after(recorder, self, lease, args, kwargs)
            except Exception:  # noqa: BLE001
                recorder.trouble("seam")
            return answer

        return renew

    return make


def _renew_async(after: Callable[..., None]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        async def finish(self: Any, pending: Awaitable[Any], lease: Lease, args: Any, kwargs: Any) -> Any:
            recorder = lease.recorder
            try:
                answer = await pending
            except BaseException as error:
                _renewal_failed(recorder, lease, error)
                raise
            try:
                after(recorder, self, lease, args, kwargs)
            except Exception:  # noqa: BLE001
                recorder.trouble("seam")
            return answer

        @functools.wraps(original)
        def renew(self: Any, *args: Any, **kwargs: Any) -> Any:
            # redis-py checks token and timeout when called and talks to Redis when awaited; so does this.
            recorder = runtime.recorder
            if recorder is None or _nested(self):
                return original(self, *args, **kwargs)
            lease = _lease(recorder, self)
            try:
                pending = original(self, *args, **kwargs)
            except BaseException as error:
                _renewal_failed(recorder, lease, error)
                raise
            return finish(self, pending, lease, args, kwargs)

        return renew

    return make


_SYNC_SEAMS = {
    "acquire": _acquire,
    "do_acquire": _try,
    "release": _release,
    "extend": _renew(_extended),
    "reacquire": _renew(_reacquired),
}
_ASYNC_SEAMS = {
    "acquire": _acquire_async,
    "do_acquire": _try_async,
    "release": _release_async,
    "extend": _renew_async(_extended),
    "reacquire": _renew_async(_reacquired),
}


def observe(lock: Any) -> None:
    """Observe one lock object; nothing happens if its class or the object is observed already.

    Args:
        lock: a redis-py ``Lock`` or ``asyncio.Lock``.
    """
    seams = _ASYNC_SEAMS if isinstance(lock, AsyncLock) else _SYNC_SEAMS
    for name, make in seams.items():
        if name not in vars(lock):
            method = getattr(type(lock), name)
            setattr(lock, name, functools.partial(make(method), lock))

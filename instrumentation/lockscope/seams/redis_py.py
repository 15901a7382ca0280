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


def _begin(recorder: Recorder, lock: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Attempt:
    """Read the call's arguments as acquire will, and pass a token that says who holds the lock."""
    blocking, limit = lock.blocking, lock.blocking_timeout
    if args or kwargs:
        given = dict(zip(("sleep", "blocking", "blocking_timeout"), args, strict=False)) | kwargs
        if given.get("blocking") is not None:
            blocking = given["blocking"]
        if given.get("blocking_timeout") is not None:
            limit = given["blocking_timeout"]
    will_wait = bool(blocking) and (limit is None or limit >= lock.sleep)
    attempt = recorder.begin(lock, lock.name, will_wait=will_wait)
    if runtime.describe_owner and len(args) <= _TOKEN_POSITION and kwargs.get("token") is None:
        kwargs["token"] = tokens.describe(attempt.job, attempt.started_at)
    return attempt


def _ttl(lock: Any) -> float | None:
    return int(lock.timeout * 1000) / 1000 if lock.timeout else None


def _nested(lock: Any) -> bool:
    """Tell whether a wrapper further out observes this very call already."""
    outer = observing.get()
    return outer is not None and outer.lock_id == id(lock)


def _lease(recorder: Recorder, lock: Any) -> Lease:
    lease: Lease | None = getattr(lock.local, "lockscope_lease", None)
    return lease if lease is not None else recorder.unknown_lease(lock, lock.name)


def _got(recorder: Recorder, lock: Any, attempt: Attempt) -> None:
    token = lock.local.token
    if isinstance(token, str):
        token = token.encode()
    lock.local.lockscope_lease = recorder.acquired(attempt, token, _ttl(lock))


def _extended(
    recorder: Recorder, _lock: Any, lease: Lease, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    additional = kwargs.get("additional_time", args[0] if args else 0)
    replaces = kwargs.get("replace_ttl", args[1] if len(args) > 1 else False)
    recorder.renewed(lease, int(additional * 1000) / 1000, add=not replaces)


def _reacquired(
    recorder: Recorder, lock: Any, lease: Lease, _args: tuple[Any, ...], _kwargs: dict[str, Any]
) -> None:
    recorder.renewed(lease, _ttl(lock) or 0.0)


def _renewal_failed(recorder: Recorder, lease: Lease, error: BaseException) -> None:
    if isinstance(error, LockNotOwnedError):
        recorder.renew_lost(lease)
    else:
        recorder.renew_error(lease, error)


def _release_failed(recorder: Recorder, lock: Any, lease: Lease, error: BaseException) -> None:
    if isinstance(error, LockNotOwnedError):
        recorder.release_lost(lease)
    else:
        recorder.release_error(lease, error, ended=lock.local.token is None)


def _owner(value: Any) -> Owner | None:
    """Read a token that may have been decoded by the client."""
    if value is None:
        return None
    raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)
    return tokens.parse(raw) or tokens.uuid1_owner(raw) or tokens.Owner()


def _refused(recorder: Recorder, lock: Any, attempt: Attempt) -> None:
    waited = attempt.attempts > 1
    blocked_by = None
    if recorder.wants_blocked_by(attempt, waited=waited):
        with contextlib.suppress(RedisError, OSError, UnicodeError):  # a courtesy; the refusal stands
            blocked_by = _owner(lock.redis.get(lock.name))
    recorder.refused(attempt, waited=waited, blocked_by=blocked_by)


async def _refused_async(recorder: Recorder, lock: Any, attempt: Attempt) -> None:
    waited = attempt.attempts > 1
    blocked_by = None
    if recorder.wants_blocked_by(attempt, waited=waited):
        try:
            blocked_by = _owner(await lock.redis.get(lock.name))
        except (RedisError, OSError, UnicodeError):
            pass
        except BaseException:
            recorder.refused(attempt, waited=waited)
            raise
    recorder.refused(attempt, waited=waited, blocked_by=blocked_by)


def _acquire(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def acquire(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = runtime.recorder
        if recorder is None or _nested(self):
            return original(self, *args, **kwargs)
        attempt = _begin(recorder, self, args, kwargs)
        reset = observing.set(attempt)
        try:
            got = original(self, *args, **kwargs)
        except BaseException as error:
            recorder.acquire_failed(attempt, error)
            raise
        finally:
            observing.reset(reset)
        if got:
            _got(recorder, self, attempt)
        else:
            _refused(recorder, self, attempt)
        return got

    return acquire


def _acquire_async(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def acquire(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = runtime.recorder
        if recorder is None or _nested(self):
            return await original(self, *args, **kwargs)
        attempt = _begin(recorder, self, args, kwargs)
        reset = observing.set(attempt)
        try:
            got = await original(self, *args, **kwargs)
        except BaseException as error:
            recorder.acquire_failed(attempt, error)
            raise
        finally:
            observing.reset(reset)
        if got:
            _got(recorder, self, attempt)
        else:
            await _refused_async(recorder, self, attempt)
        return got

    return acquire


def _try(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def do_acquire(self: Any, *args: Any, **kwargs: Any) -> Any:
        got = original(self, *args, **kwargs)
        _tried(self, got)
        return got

    return do_acquire


def _try_async(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def do_acquire(self: Any, *args: Any, **kwargs: Any) -> Any:
        got = await original(self, *args, **kwargs)
        _tried(self, got)
        return got

    return do_acquire


def _tried(lock: Any, got: Any) -> None:
    attempt = observing.get()
    if attempt is not None and attempt.lock_id == id(lock):
        attempt.attempts += 1
        if not got and attempt.will_wait and runtime.recorder is not None:
            runtime.recorder.waiting(attempt)


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
        recorder.released(lease)
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
        recorder.released(lease)
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
            after(recorder, self, lease, args, kwargs)
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
            after(recorder, self, lease, args, kwargs)
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

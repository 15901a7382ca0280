"""``@locked``: run a function only while holding a lock."""

from __future__ import annotations

import contextlib
import functools
import inspect
from typing import TYPE_CHECKING, Any, TypeVar, cast

from redis.exceptions import RedisError

from lockscope.clients import asyncio_client, blocking_client
from lockscope.durations import seconds
from lockscope.errors import LockRefusedError
from lockscope.renewal import keep_alive
from lockscope.templates import KeyTemplate

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


def locked(
    key: str,
    ttl: float,
    *,
    client: Any = None,
    wait: float | None = 0.0,
    renew: bool = False,
) -> Callable[[F], F]:
    """Run a function, blocking or async, only while holding a redis-py lock.

    ::

        @lockscope.locked("order:{order_id}", ttl=30)
        def ship(order_id): ...

    Args:
        key: the lock's key, a ``str.format`` template over the function's parameters.
        ttl: seconds after which the lock frees itself if the process dies.
        client: a Redis client (an asyncio one for an async function) or a function that returns one; the
            default connects to ``LOCKSCOPE_REDIS_URL``.
        wait: seconds to wait for the lock; 0 tries once, ``None`` waits for ever.
        renew: keep the lock alive while the function runs; otherwise ``ttl`` must be longer than it takes.

    Returns:
        The decorator. The function then raises ``LockRefusedError`` if it did not get the lock, and
        ``LockNotOwnedError`` after it returned if the lock was lost meanwhile.

    Raises:
        ValueError: ``ttl`` or ``wait`` cannot be, or the template names what is no parameter.
        TypeError: a generator function, which would hold the lock for as long as nobody finishes it.
    """
    timeout = max(seconds(ttl, "ttl"), 0.001)  # below a millisecond Redis would refuse it at every call
    patience = (
        seconds(wait, "wait (unless it is 0, or None for ever)") if wait is not None and wait != 0 else None
    )

    def decorate(function: F) -> F:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"locked takes no generator function such as {function.__qualname__}")
        template = KeyTemplate(key, function)
        is_async = inspect.iscoroutinefunction(function)

        def lock(name: str) -> Any:
            redis_client = asyncio_client(client) if is_async else blocking_client(client)
            return redis_client.lock(name, timeout=timeout, blocking=wait != 0, blocking_timeout=patience)

        make = _locked_async if is_async else _locked
        return cast("F", make(function, template, lock, renew=renew))

    return decorate


def _locked(
    function: Callable[..., Any], template: KeyTemplate, make_lock: Callable[[str], Any], *, renew: bool
) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        key = template.key(args, kwargs)
        lock = make_lock(key)
        if not lock.acquire():
            raise _refused(function, key)
        try:
            with keep_alive(lock) if renew else contextlib.nullcontext():
                answer = function(*args, **kwargs)
        except BaseException:
            with contextlib.suppress(RedisError, OSError):  # recorded; what the function raised matters more
                lock.release()
            raise
        lock.release()
        return answer

    return run


def _locked_async(
    function: Callable[..., Any], template: KeyTemplate, make_lock: Callable[[str], Any], *, renew: bool
) -> Callable[..., Any]:
    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        key = template.key(args, kwargs)
        lock = make_lock(key)
        if not await lock.acquire():
            raise _refused(function, key)
        try:
            async with keep_alive(lock) if renew else contextlib.nullcontext():
                answer = await function(*args, **kwargs)
        except BaseException:
            with contextlib.suppress(RedisError, OSError):  # recorded; what the function raised matters more
                await lock.release()
            raise
        await lock.release()
        return answer

    return run


def _refused(function: Callable[..., Any], key: str) -> LockRefusedError:
    return LockRefusedError(f"{function.__qualname__} did not run: lock {key!r} is held", lock_name=key)

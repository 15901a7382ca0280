"""Observe one lock object."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar

from redis.asyncio.lock import Lock as AsyncLock
from redis.lock import Lock

from lockscope import runtime
from lockscope.instrument import ensure_recorder
from lockscope.seams import redis_py
from lockscope.seams.calls import observed
from lockscope.seams.given import Given, key_of
from lockscope.seams.operations import Acquire, Operation, Release, Renew
from lockscope.seams.patching import patch_object

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockscope.seams.library import Call

L = TypeVar("L")


def observe(
    lock: L,
    *,
    acquire: str = "acquire",
    release: str = "release",
    extend: str | None = None,
    key: bytes | str | Callable[[Call], bytes | str] | None = None,
    ttl: float | Callable[[Call], float | None] | None = None,
    token: Callable[[Call, Any], bytes | str | None] | None = None,
    acquired: Callable[[Any], bool] = bool,
    lost: tuple[type[BaseException], ...] = (),
) -> L:
    """Observe one lock object, also where ``instrument`` was not called.

    For a redis-py lock nothing else is needed; what is built on one is observed by ``instrument`` already.
    Any other object is told by the names of its methods, blocking or async::

        lockscope.observe(lock, acquire="take", release="give_back", key="jobs:nightly", ttl=30)

    An object that hands out many locks takes functions of the call (``call.lock``, ``call.args``,
    ``call.kwargs``), which name the same key for acquire and for release::

        lockscope.observe(manager, acquire="lock", release="unlock", key=lambda call: call.args[0])

    Only calls through the object are seen: not those that its own ``with`` makes past these methods.

    Args:
        lock: the object; its methods are replaced on the object, its class stays as it is.
        acquire: method that acquires.
        release: method that releases; it says that the lock was lost by returning ``False``, or by raising
            one of ``lost``.
        extend: method that renews to the full TTL, in the same way; ``None`` if there is none.
        key: the Redis key; the default is the object's ``key``, ``name`` or ``resource``.
        ttl: seconds until the lock frees itself; ``None`` if unknown.
        token: returns the owner token from the call and its result.
        acquired: tells from what ``acquire`` returned whether the lock was had.
        lost: exceptions that say that the lock is not ours any more; redis-py's ``LockNotOwnedError`` is.

    Returns:
        The same object.

    Raises:
        TypeError: the object has no such method, names no key, or lets nothing be replaced.
    """
    known: Any = lock
    if isinstance(known, Lock | AsyncLock):
        ensure_recorder()
        redis_py.observe(known)
        return lock
    kinds: list[tuple[str, type[Operation]]] = [(acquire, Acquire), (release, Release)]
    if extend is not None:
        kinds.append((extend, Renew))
    for name, _ in kinds:
        if not callable(getattr(known, name, None)):
            raise TypeError(f"{type(known).__name__} has no method {name}")
    if key is None:
        key_of(known)
    library = Given(key=key, ttl=ttl, token=token, acquired=acquired, lost=lost)
    for name, kind in kinds:
        try:
            patch_object(known, name, functools.partial(observed, library, kind, switch=runtime))
        except AttributeError:
            raise TypeError(
                f"{type(known).__name__} lets no method be replaced; observe a subclass of it"
            ) from None
    ensure_recorder()
    return lock

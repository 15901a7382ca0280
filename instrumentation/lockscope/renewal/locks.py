"""How one lock object is renewed by its owner: the part of ``keep_alive`` that knows lock libraries."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any
from weakref import ref

from redis.asyncio.lock import Lock as AsyncLock
from redis.exceptions import LockError, LockNotOwnedError
from redis.lock import Lock

from lockscope import runtime
from lockscope.prefixes import key_bytes
from lockscope.record import observing

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockscope.record import Lease


@dataclass(frozen=True, slots=True)
class Renewable:
    """One held lock as ``keep_alive`` sees it.

    Attributes:
        key: the full Redis key.
        ttl: what a renewal sets the lease to, in seconds.
        is_async: ``renew`` returns an awaitable.
        renew: renews, checked by owner in Redis; raises if that failed.
        is_loss: tells whether such an exception says that the lock is no longer ours.
        released: tells whether the application has released the lock meanwhile.
        adopt: lets the calling thread act as the owner.
        lease: the books that the seam keeps about this lock, if it is observed.
    """

    key: bytes
    ttl: float
    is_async: bool
    renew: Callable[[], Any]
    is_loss: Callable[[BaseException], bool]
    released: Callable[[], bool]
    adopt: Callable[[], None]
    lease: Lease | None


# Further libraries by the top-level module of the lock's class: the seam whose `renewable` knows such locks.
_SEAMS = {"redis_lock": "lockscope.seams.python_redis_lock", "pottery": "lockscope.seams.pottery"}


def renewable(lock: Any) -> Renewable:
    """Return how to renew ``lock``, which this thread holds now.

    Args:
        lock: a held lock.

    Returns:
        What ``keep_alive`` needs.

    Raises:
        TypeError: lockscope does not know how to renew such an object.
        LockError: the lock is not held by this thread.
        ValueError: the lock has no TTL, so there is nothing to renew.
    """
    if isinstance(lock, Lock | AsyncLock):
        return _redis_py(lock)
    for base in type(lock).__mro__:
        seam = _SEAMS.get(base.__module__.partition(".")[0])
        found: Renewable | None = None if seam is None else import_module(seam).renewable(lock)
        if found is not None:
            return found
    raise TypeError(f"keep_alive does not know how to renew a {type(lock).__module__}.{type(lock).__name__}")


def _redis_py(lock: Any) -> Renewable:
    # The owner's own view of the token, readable from the renewing thread too, whatever thread_local says.
    owner_sees: dict[str, Any] = lock.local.__dict__
    token = owner_sees.get("token")
    if token is None:
        raise LockError(f"keep_alive needs a lock that this thread holds; {lock.name!r} is not held")
    if not lock.timeout:
        raise ValueError(f"lock {lock.name!r} has no timeout, so there is nothing to keep alive")

    def adopt() -> None:
        if lock.thread_local:
            lock.local.token = token

    lease = owner_sees.get("lockscope_lease")
    recorder = runtime.recorder
    if lease is None and recorder is not None:
        lease = recorder.unknown_lease(lock, lock.name)
    return Renewable(
        key=key_bytes(lock.name),
        ttl=int(lock.timeout * 1000) / 1000,
        is_async=isinstance(lock, AsyncLock),
        renew=_unseen_async(lock, lease) if isinstance(lock, AsyncLock) else _unseen(lock, lease),
        is_loss=lambda error: isinstance(error, LockNotOwnedError),
        released=lambda: owner_sees.get("token") != token,
        adopt=adopt,
        lease=lease,
    )


def _unseen(lock: Any, lease: Lease | None) -> Callable[[], Any]:
    """Return ``reacquire`` without the seam's report: ``keep_alive`` knows better what a failure means."""

    def renew() -> None:
        reset = observing.set(None if lease is None else ref(lease))
        try:
            lock.reacquire()
        finally:
            observing.reset(reset)

    return renew


def _unseen_async(lock: Any, lease: Lease | None) -> Callable[[], Any]:
    async def renew() -> None:
        reset = observing.set(None if lease is None else ref(lease))
        try:
            await lock.reacquire()
        finally:
            observing.reset(reset)

    return renew


def by_extending(
    lock: Any,
    *,
    key: bytes | str,
    ttl: float | None,
    extend: Callable[[], Any],
    loss: type[BaseException],
    lease: Lease | None,
    is_async: bool = False,
) -> Renewable:
    """Return how to renew a lock whose own method sets its TTL anew.

    Args:
        lock: the lock.
        key: its full Redis key.
        ttl: what ``extend`` sets the lease to, in seconds; ``None`` if it never expires.
        extend: renews, checked by owner in Redis.
        loss: raised by ``extend`` if the lock is not ours any more.
        lease: the books of its seam; a release can be told from a loss only with them.
        is_async: ``extend`` returns an awaitable.

    Raises:
        ValueError: the lock has no TTL, so there is nothing to renew.
    """
    if ttl is None:
        raise ValueError(f"lock {key!r} has no expiry, so there is nothing to keep alive")
    recorder = runtime.recorder
    seen = lease is not None
    if lease is None and recorder is not None:
        lease = recorder.unknown_lease(lock, key)

    def renew() -> None:
        reset = observing.set(None if lease is None else ref(lease))
        try:
            extend()
        finally:
            observing.reset(reset)

    async def renew_async() -> None:
        reset = observing.set(None if lease is None else ref(lease))
        try:
            await extend()
        finally:
            observing.reset(reset)

    return Renewable(
        key=key_bytes(key),
        ttl=ttl,
        is_async=is_async,
        renew=renew_async if is_async else renew,
        is_loss=lambda error: isinstance(error, loss),
        released=lambda: seen and lease is not None and not lease.held,
        adopt=lambda: None,
        lease=lease,
    )

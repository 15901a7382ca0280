"""python-redis-lock: ``redis_lock.Lock``, with the renewals of its own thread.

That thread ends at its first failure and tells nobody; here the failure is a renewal that was lost or failed,
and the lease then runs out.
"""

# ruff: noqa: SLF001 - the library has no public names for what a reader needs
from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lockscope import errors
from lockscope.renewal.locks import Renewable, by_extending
from lockscope.seams.calls import observed
from lockscope.seams.library import Call, OnObject, require
from lockscope.seams.operations import Acquire, Release, Renew
from lockscope.seams.patching import patch, unpatch

if TYPE_CHECKING:
    from types import ModuleType

    from lockscope.record import Lease

MODULE = "redis_lock"
METHODS = ("acquire", "extend", "release")


class RedisLock(OnObject):
    """Reads the calls of ``redis_lock.Lock``, whose attributes are all private."""

    package = MODULE

    def __init__(self, module: Any) -> None:
        self.lock_class = module.Lock
        self._not_acquired = module.NotAcquired

    def key(self, call: Call) -> str:  # noqa: D102
        return str(call.lock._name)

    def ttl(self, call: Call) -> float | None:  # noqa: D102
        return _seconds(call.lock._expire)

    def token(self, call: Call, result: Any) -> str:  # noqa: ARG002, D102
        return str(call.lock.id)

    def waits(self, call: Call) -> bool:  # noqa: D102
        return bool(call.argument(0, "blocking", default=True))

    def renewed_ttl(self, call: Call, lease: Lease) -> float | None:  # noqa: ARG002, D102
        return _seconds(call.argument(0, "expire")) or _seconds(call.lock._expire)

    def lost(self, error: BaseException) -> bool:  # noqa: D102
        return isinstance(error, self._not_acquired)

    def holder(self, call: Call) -> Any:  # noqa: D102
        return call.lock._client.get(call.lock._name)


_library: RedisLock | None = None


def install(module: ModuleType) -> None:
    """Observe ``redis_lock.Lock``.

    Raises:
        SeamMovedError: this version's calls are not the ones known.
    """
    global _library  # noqa: PLW0603 - one library a process
    lock = module.Lock
    require(lock, "acquire", "blocking", "timeout")
    require(lock, "extend", "expire")
    require(lock, "release")
    library = _library or RedisLock(module)
    for name, kind in zip(METHODS, (Acquire, Renew, Release), strict=True):
        patch(lock, name, partial(observed, library, kind))
    errors.FURTHER[module.NotAcquired] = "contended"
    _library = library


def remove() -> None:
    """Put ``redis_lock.Lock`` back."""
    if _library is not None:
        for name in METHODS:
            unpatch(_library.lock_class, name)


def renewable(lock: Any) -> Renewable | None:
    """Return how ``keep_alive`` renews a ``redis_lock.Lock``; ``None`` for anything else."""
    module = import_module(MODULE)  # imported already: `lock` is of a class of its
    if not isinstance(lock, module.Lock):
        return None
    call = Call(lock, (), {})
    return by_extending(
        lock,
        key=lock._name,
        ttl=_seconds(lock._expire),
        extend=lock.extend,
        loss=module.NotAcquired,
        lease=None if _library is None else _library.kept(call),
    )


def _seconds(expire: Any) -> float | None:
    return float(int(expire)) if expire else None

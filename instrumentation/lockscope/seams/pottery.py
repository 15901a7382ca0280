"""pottery: ``Redlock`` and ``AIORedlock``.

Their ``with`` blocks call private aliases of ``acquire`` and ``release``, so those are observed too. A quorum
that fails because servers fail is an error here, also where pottery only returns ``False``.
"""

# ruff: noqa: SLF001 - the library has no public names for what a reader needs
from __future__ import annotations

from contextvars import ContextVar
from functools import partial, wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lockscope import errors, runtime
from lockscope.renewal.locks import Renewable, by_extending
from lockscope.seams.calls import observed
from lockscope.seams.library import Call, InTable, require
from lockscope.seams.operations import Acquire, Release, Renew
from lockscope.seams.patching import patch, unpatch

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from lockscope.record import Lease

MODULE = "pottery"
KINDS = {"acquire": Acquire, "extend": Renew, "release": Release}
ALIASED = ("acquire", "release")
_server_errors: ContextVar[tuple[BaseException, ...]] = ContextVar("lockscope_pottery_errors", default=())


class Redlock(InTable):
    """Reads the calls of both classes; their objects have slots and cannot be referred to weakly."""

    package = MODULE

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.classes = (module.Redlock, module.AIORedlock)
        self._gone = (module.ExtendUnlockedLock, module.ReleaseUnlockedLock)

    def key(self, call: Call) -> str:  # noqa: D102
        return str(call.lock.key)

    def ttl(self, call: Call) -> float | None:  # noqa: D102
        return int(call.lock.auto_release_time * 1000) / 1000

    def token(self, call: Call, result: Any) -> str:  # noqa: ARG002, D102
        return str(call.lock._uuid)

    def identity(self, call: Call, result: Any) -> Any:  # noqa: ARG002, D102
        return call.lock.key, call.lock._uuid  # drawn anew by each try to acquire

    def waits(self, call: Call) -> bool:  # noqa: D102
        _server_errors.set(())
        return bool(call.kwargs.get("blocking", True))

    def renewed_ttl(self, call: Call, lease: Lease) -> float | None:  # noqa: ARG002, D102
        return self.ttl(call)

    def lost(self, error: BaseException) -> bool:  # noqa: D102
        # Raised too when servers failed; then nothing is known about the lock.
        return isinstance(error, self._gone) and not getattr(error, "redis_errors", ())

    def failure(self, call: Call) -> BaseException | None:  # noqa: D102
        failed = _server_errors.get()
        return failed[0] if len(failed) > len(call.lock.masters) // 2 else None

    def holder(self, call: Call) -> Any:  # noqa: D102
        return next(iter(call.lock.masters)).get(call.lock.key)


_library: Redlock | None = None


def install(module: ModuleType) -> None:
    """Observe both classes.

    Raises:
        SeamMovedError: this version's calls are not the ones known.
    """
    global _library  # noqa: PLW0603 - one library a process
    library = _library or Redlock(module)
    for owner in library.classes:
        require(owner, "acquire", "blocking", "timeout")
        require(owner, "extend")
        require(owner, "release")
        for name in ALIASED:
            require(owner, _private(owner, name))
        require(owner, "_check_enough_masters_up", "raise_on_redis_errors", "redis_errors")
    for owner in library.classes:
        for name, kind in KINDS.items():
            patch(owner, name, partial(observed, library, kind))
        for name in ALIASED:
            patch(
                owner,
                _private(owner, name),
                partial(observed, library, KINDS[name]),
            )
        patch(owner, "_check_enough_masters_up", _noting_errors)
    errors.FURTHER[module.QuorumNotAchieved] = "contended"
    _library = library


def remove() -> None:
    """Put both classes back."""
    for owner in () if _library is None else _library.classes:
        for name in KINDS:
            unpatch(owner, name)
        for name in ALIASED:
            unpatch(owner, _private(owner, name))
        unpatch(owner, "_check_enough_masters_up")


def renewable(lock: Any) -> Renewable | None:
    """Return how ``keep_alive`` renews such a lock; ``None`` for anything else.

    pottery itself ends the renewals after ``num_extensions``, three by default.
    """
    module = import_module(MODULE)  # imported already: `lock` is of a class of its
    if not isinstance(lock, module.Redlock | module.AIORedlock):
        return None
    return by_extending(
        lock,
        key=lock.key,
        ttl=int(lock.auto_release_time * 1000) / 1000,
        extend=lock.extend,
        loss=module.ExtendUnlockedLock,
        lease=None if _library is None else _library.kept(Call(lock, (), {})),
        is_async=isinstance(lock, module.AIORedlock),
    )


def _private(owner: type, name: str) -> str:
    return f"_{owner.__name__}__{name}"


def _noting_errors(original: Callable[..., Any]) -> Callable[..., Any]:
    """Note the servers' errors that the check after each try is given, whether or not it raises."""

    @wraps(original)
    def check(self: Any, raise_on_redis_errors: Any, redis_errors: Any) -> Any:
        if runtime.recorder is not None:
            _server_errors.set(tuple(redis_errors))
        return original(self, raise_on_redis_errors, redis_errors)

    return check

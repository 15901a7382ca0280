"""aioredlock: ``Aioredlock``, with the renewals of its own watchdogs.

``lock`` raises for a refusal and for failing servers alike; the exception's class tells which. A watchdog
keeps its failure to itself; here it is a renewal that was lost or failed.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from lockscope import errors
from lockscope.seams.calls import observed
from lockscope.seams.library import Call, InTable, require
from lockscope.seams.operations import Acquire, Release, Renew
from lockscope.seams.patching import patch, unpatch

if TYPE_CHECKING:
    from types import ModuleType

    from lockscope.record import Lease

MODULE = "aioredlock"
METHODS = {"lock": Acquire, "extend": Renew, "unlock": Release}


class Aioredlock(InTable):
    """Reads the calls of the manager class; TTLs are seconds."""

    package = MODULE

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.manager = module.Aioredlock
        self._held_by_another = module.LockAcquiringError
        self._failed = module.LockRuntimeError

    def key(self, call: Call) -> bytes | str:  # noqa: D102
        first: Any = call.args[0] if call.args else call.kwargs.get("lock", call.kwargs.get("resource"))
        name: bytes | str = first if isinstance(first, str | bytes) else first.resource
        return name

    def ttl(self, call: Call) -> float | None:  # noqa: D102
        return float(call.argument(1, "lock_timeout") or call.lock.internal_lock_timeout)

    def token(self, call: Call, result: Any) -> str:  # noqa: ARG002, D102
        return str(result.id)

    def identity(self, call: Call, result: Any) -> Any:  # noqa: D102
        lock: Any = result if result is not None else call.argument(0, "lock")
        return lock.resource, lock.id

    def got(self, call: Call, result: Any) -> bool:  # noqa: ARG002, D102
        return bool(result.valid)

    def refused(self, error: BaseException) -> bool:  # noqa: D102
        return isinstance(error, self._held_by_another)

    def renewed_ttl(self, call: Call, lease: Lease) -> float | None:  # noqa: D102
        return self.ttl(call) if call.argument(1, "lock_timeout") else lease.ttl

    def lost(self, error: BaseException) -> bool:  # noqa: D102
        # A watchdog that finds the lock taken unlocks it, which cancels the watchdog itself in the middle.
        return isinstance(error, self._held_by_another) or isinstance(
            error.__context__, self._held_by_another
        )

    def release_lost(self, call: Call, lease: Lease, result: Any) -> bool:  # noqa: ARG002, D102
        # unlock answers OK as well where the key had expired
        return lease.deadline is not None and time.monotonic() > lease.deadline


_library: Aioredlock | None = None


def install(module: ModuleType) -> None:
    """Observe the manager class.

    Raises:
        SeamMovedError: this version's calls are not the ones known.
    """
    global _library  # noqa: PLW0603 - one library a process
    manager = module.Aioredlock
    require(manager, "lock", "resource", "lock_timeout")
    require(manager, "extend", "lock", "lock_timeout")
    require(manager, "unlock", "lock")
    library = _library or Aioredlock(module)
    for name, kind in METHODS.items():
        patch(manager, name, partial(observed, library, kind))
    errors.FURTHER[module.LockAcquiringError] = "contended"
    _library = library


def remove() -> None:
    """Put the manager class back."""
    if _library is not None:
        for name in METHODS:
            unpatch(_library.manager, name)

"""redlock-ng (``Redlock``, ``AsyncRedlock``) and redlock-py (``Redlock``), which share a module name.

Both acquire through a manager and hand out lock objects. redlock-ng swallows every error of the servers, so
after a refusal the key is read to tell a held lock from servers that fail; and neither says whether a release
found the lock still there, so a release past the deadline counts as lost.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from lockscope import errors
from lockscope.seams.calls import observed
from lockscope.seams.library import Call, InTable, Renewal, require
from lockscope.seams.operations import Acquire, Operation, Release, Renew
from lockscope.seams.patching import patch, unpatch

if TYPE_CHECKING:
    from types import ModuleType

    from lockscope.record import Lease

MODULE = "redlock"


class _Manager(InTable):
    package = MODULE
    hides_errors = True
    methods: dict[str, type[Operation]]

    def key(self, call: Call) -> bytes | str:
        name: bytes | str = self._named(call)[0]
        return name

    def ttl(self, call: Call) -> float | None:
        return int(call.argument(1, "ttl")) / 1000

    def token(self, call: Call, result: Any) -> bytes | str:  # noqa: ARG002
        token: bytes | str = _parts(result)[1]
        return token

    def identity(self, call: Call, result: Any) -> Any:
        return self._named(call) if result is None else _parts(result)

    def release_lost(self, call: Call, lease: Lease, result: Any) -> bool:  # noqa: ARG002
        return lease.deadline is not None and time.monotonic() > lease.deadline

    def _named(self, call: Call) -> tuple[Any, Any]:
        """Return resource and token of a call that names a lock object, a pair, or the resource itself."""
        first = call.args[0] if call.args else call.kwargs.get("lock", call.kwargs.get("resource"))
        if isinstance(first, str | bytes):
            return first, call.argument(1, "token")
        return _parts(first)


class RedlockNG(_Manager):
    """Reads the calls of redlock-ng; TTLs are milliseconds."""

    methods = {"acquire": Acquire, "extend": Renew, "release": Release, "unlock": Release}  # noqa: RUF012

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.classes = (module.Redlock, module.AsyncRedlock)

    def waits(self, call: Call) -> bool:  # noqa: D102
        return bool(call.argument(2, "blocking", default=False))

    def renewal(self, call: Call, lease: Lease, result: Any) -> Renewal:  # noqa: ARG002, D102
        return "renewed" if result else "lost"

    def renewed_ttl(self, call: Call, lease: Lease) -> float | None:  # noqa: ARG002, D102
        return int(call.argument(1, "additional_ttl")) / 1000

    def holder(self, call: Call) -> Any:  # noqa: D102
        return call.lock.client.instances[0].get(self.key(call))


class RedlockPy(_Manager):
    """Reads the calls of redlock-py; it raises what the servers raised unless a quorum refused."""

    methods = {"lock": Acquire, "unlock": Release}  # noqa: RUF012

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.classes = (module.Redlock,)

    def holder(self, call: Call) -> Any:  # noqa: D102
        return call.lock.servers[0].get(self.key(call))


_library: RedlockNG | RedlockPy | None = None


def install(module: ModuleType) -> None:
    """Observe whichever of the two distributions this module is.

    Raises:
        SeamMovedError: this version's calls are not the ones known.
    """
    global _library  # noqa: PLW0603 - one library a process
    library: RedlockNG | RedlockPy
    if hasattr(module, "AsyncRedlock"):
        library = _library or RedlockNG(module)
        for owner in library.classes:
            require(owner, "acquire", "resource", "ttl", "blocking")
            require(owner, "release", "lock")
            require(owner, "unlock", "resource", "token")
        require(module.Redlock, "extend", "lock", "additional_ttl")
    else:
        require(module, "Redlock")
        library = _library or RedlockPy(module)
        require(module.Redlock, "lock", "resource", "ttl")
        require(module.Redlock, "unlock", "lock")
        errors.FURTHER[module.CannotObtainLock] = "contended"
    for owner in library.classes:
        for name, kind in library.methods.items():
            if hasattr(owner, name):
                patch(owner, name, partial(observed, library, kind))
    _library = library


def remove() -> None:
    """Put the classes back."""
    for owner in () if _library is None else _library.classes:
        for name in () if _library is None else _library.methods:
            unpatch(owner, name)


def _parts(lock: Any) -> tuple[Any, Any]:
    """Return resource and token of a lock: redlock-ng's, redlock-py's, or a plain pair."""
    if hasattr(lock, "value"):
        return lock.resource, lock.value
    if hasattr(lock, "resource"):
        return lock.resource, lock.key
    return lock[0], lock[1]

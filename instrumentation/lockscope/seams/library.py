"""How the calls of one lock library are read; each further library is one subclass of ``Library``."""

from __future__ import annotations

import inspect
import time
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from lockscope.guards import guard

if TYPE_CHECKING:
    from lockscope.record import Lease

Renewal = Literal["renewed", "lost"]

_FORGET_AFTER = 60.0  # seconds past its deadline after which an unreleased lease is dropped
_LOOK_EVERY = 10.0  # seconds between two looks for such leases


class Call(NamedTuple):
    """One call to a method of a lock object.

    Attributes:
        lock: the object.
        args: positional arguments, without the object.
        kwargs: keyword arguments.
    """

    lock: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        """Return an argument however it was passed."""
        return self.args[position] if len(self.args) > position else self.kwargs.get(name, default)


class SeamMovedError(Exception):
    """A library's calls are not what its seam expects; the message says which."""


class Library:
    """How one library's calls are read. What a subclass leaves out is not known of that library.

    Attributes:
        package: its top-level module; exceptions from there are errors, never a caller that gave up.
        hides_errors: a failing server looks like a refusal, so ``holder`` is asked each time to tell them
            apart.
    """

    package = ""
    hides_errors = False

    def key(self, call: Call) -> bytes | str:
        """Return the full Redis key of a call to acquire, renew or release."""
        raise NotImplementedError

    def ttl(self, call: Call) -> float | None:  # noqa: ARG002
        """Return the length in seconds of the lease that a call to acquire asks for."""
        return None

    def token(self, call: Call, result: Any) -> bytes | str | None:  # noqa: ARG002
        """Return the owner token after an acquire that succeeded."""
        return None

    def waits(self, call: Call) -> bool:  # noqa: ARG002
        """Tell whether a call to acquire waits for a held lock."""
        return False

    def got(self, call: Call, result: Any) -> bool:  # noqa: ARG002
        """Tell whether an acquire that returned got the lock."""
        return bool(result)

    def refused(self, error: BaseException) -> bool:  # noqa: ARG002
        """Tell whether an acquire that raised says that somebody else has the lock."""
        return False

    def renewal(self, call: Call, lease: Lease, result: Any) -> Renewal:  # noqa: ARG002
        """Tell what a renewal that returned did."""
        return "renewed"

    def renewed_ttl(self, call: Call, lease: Lease) -> float | None:  # noqa: ARG002
        """Return the length in seconds of the lease that a renewal sets."""
        return lease.ttl

    def lost(self, error: BaseException) -> bool:  # noqa: ARG002
        """Tell whether a renewal or release that raised says that the lock is not ours any more."""
        return False

    def release_lost(self, call: Call, lease: Lease, result: Any) -> bool:  # noqa: ARG002
        """Tell whether a release that returned found that the lock was not ours any more."""
        return False

    def holder(self, call: Call) -> Any:  # noqa: ARG002
        """Return what a refused lock's key holds, or an awaitable of that; ``None`` if unreadable."""
        return None

    def failure(self, call: Call) -> BaseException | None:  # noqa: ARG002
        """Return the server's error that hides behind a refusal, if the library swallowed one."""
        return None

    def keep(self, call: Call, result: Any, lease: Lease) -> None:
        """Remember the lease of a lock that was acquired."""
        raise NotImplementedError

    def kept(self, call: Call) -> Lease | None:
        """Return the lease that a call to renew or release is about, if its acquire was seen."""
        raise NotImplementedError

    def drop(self, call: Call) -> None:
        """Forget the lease that a release ended."""


class OnObject(Library):
    """A library whose lock objects carry their own lease."""

    _attribute = "_lockscope_lease"

    def keep(self, call: Call, result: Any, lease: Lease) -> None:  # noqa: ARG002, D102
        setattr(call.lock, self._attribute, lease)

    def kept(self, call: Call) -> Lease | None:  # noqa: D102
        lease: Lease | None = getattr(call.lock, self._attribute, None)
        return lease

    def drop(self, call: Call) -> None:  # noqa: D102
        if hasattr(call.lock, self._attribute):
            delattr(call.lock, self._attribute)


class InTable(Library):
    """A library whose lock objects cannot carry a lease: it is found by what ``identity`` returns."""

    def __init__(self) -> None:
        self._leases: dict[Any, Lease] = {}
        self._look_at = 0.0
        self._gate = guard()

    def identity(self, call: Call, result: Any) -> Any:
        """Return a hashable that names one acquired lock; ``result`` is ``None`` for renew and release."""
        raise NotImplementedError

    def keep(self, call: Call, result: Any, lease: Lease) -> None:  # noqa: D102
        name = self.identity(call, result)
        with self._gate:
            dropped = self._lapsed()
            replaced = self._leases.get(name)
            self._leases[name] = lease
        del dropped, replaced  # outside the lock: a lease that goes may report itself as abandoned

    def kept(self, call: Call) -> Lease | None:  # noqa: D102
        return self._leases.get(self.identity(call, None))

    def drop(self, call: Call) -> None:  # noqa: D102
        name = self.identity(call, None)
        with self._gate:
            dropped = self._leases.pop(name, None)
        del dropped

    def _lapsed(self) -> list[Lease]:
        """Take out leases that lapsed long ago unreleased: nobody will ask for them."""
        now = time.monotonic()
        if now < self._look_at:
            return []
        self._look_at = now + _LOOK_EVERY
        gone = [
            name
            for name, lease in tuple(self._leases.items())
            if lease.deadline is not None and lease.deadline < now - _FORGET_AFTER
        ]
        return [self._leases.pop(name) for name in gone]


def require(owner: Any, name: str, *parameters: str) -> None:
    """Check that ``owner.name`` is a function that takes the parameters a seam reads.

    Raises:
        SeamMovedError: there is no such function, or it does not take one of them.
    """
    function = getattr(owner, name, None)
    if not callable(function):
        raise SeamMovedError(f"{getattr(owner, '__qualname__', owner)} has no {name}")
    try:
        there = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return
    missing = [parameter for parameter in parameters if parameter not in there]
    if missing:
        raise SeamMovedError(
            f"{getattr(owner, '__qualname__', owner)}.{name} takes no {', '.join(missing)}, but {list(there)}"
        )

"""Read the calls of a lock object of which nothing is known but what the caller of ``observe`` says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redis.exceptions import LockNotOwnedError

from lockscope.prefixes import key_bytes
from lockscope.seams.library import Call, InTable, Renewal

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockscope.record import Lease

_NAMES = ("key", "name", "resource")  # attributes that hold the key where the caller names none


class Given(InTable):
    """Reads one lock object, or one manager of many locks.

    Args:
        key: the key, or a function of the call; ``None`` for the object's ``key``, ``name`` or ``resource``.
        ttl: seconds, or a function of the call; ``None`` if unknown.
        token: a function of the call and its result; ``None`` if unknown.
        acquired: tells from the call's result whether the lock was had.
        lost: exceptions of release and extend that say that the lock is not ours any more.
    """

    def __init__(
        self,
        *,
        key: bytes | str | Callable[[Call], bytes | str] | None,
        ttl: float | Callable[[Call], float | None] | None,
        token: Callable[[Call, Any], bytes | str | None] | None,
        acquired: Callable[[Any], bool],
        lost: tuple[type[BaseException], ...],
    ) -> None:
        super().__init__()
        self._key = key
        self._ttl = ttl
        self._token = token
        self._acquired = acquired
        self._lost: tuple[type[BaseException], ...] = (LockNotOwnedError, *lost)

    def key(self, call: Call) -> bytes | str:  # noqa: D102
        if callable(self._key):
            return self._key(call)
        return self._key if self._key is not None else key_of(call.lock)

    def ttl(self, call: Call) -> float | None:  # noqa: D102
        return self._ttl(call) if callable(self._ttl) else self._ttl

    def token(self, call: Call, result: Any) -> bytes | str | None:  # noqa: D102
        return None if self._token is None else self._token(call, result)

    def got(self, call: Call, result: Any) -> bool:  # noqa: ARG002, D102
        return bool(self._acquired(result))

    def identity(self, call: Call, result: Any) -> Any:  # noqa: ARG002, D102
        return key_bytes(self.key(call))

    def renewal(self, call: Call, lease: Lease, result: Any) -> Renewal:  # noqa: ARG002, D102
        return "lost" if result is False else "renewed"

    def lost(self, error: BaseException) -> bool:  # noqa: D102
        return isinstance(error, self._lost)

    def release_lost(self, call: Call, lease: Lease, result: Any) -> bool:  # noqa: ARG002, D102
        return result is False


def key_of(lock: Any) -> bytes | str:
    """Return the key that a lock object names itself.

    Raises:
        TypeError: it names none.
    """
    for name in _NAMES:
        value = getattr(lock, name, None)
        if isinstance(value, str | bytes):
            return value
    raise TypeError(f"{type(lock).__name__} has no {', '.join(_NAMES)} that is text or bytes; pass key=")

"""Every lock library's format: what its keys look like, who owns them, and how one may be freed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockscope import tokens
from lockscope_exporter.dialects.model import MAX_VALUE, Decoded, Reading, ReadPlan
from lockscope_exporter.state import Holder
from lockscope_exporter.targets import LockPattern

if TYPE_CHECKING:
    from lockscope_exporter.dialects.model import Dialect

__all__ = ["DEFAULT_PATTERNS", "DIALECTS", "Decoded", "ReadPlan", "Reading", "decode", "dialect", "plan", "wants"]

DIALECTS: dict[str, Dialect] = {}
DEFAULT_PATTERNS: tuple[LockPattern, ...] = (LockPattern(b"lock*"), LockPattern(b"redlock:*"))


def wants(key: bytes, forced: str | None = None) -> bool:
    """Tell by the key alone whether it could be a lock."""
    return not key.startswith((b"lockscope:", b"lock-signal:", b"lock.event:"))


def plan(key: bytes, type: str, forced: str | None = None) -> ReadPlan | None:  # noqa: A002
    """Say how to read a key of this Redis type, ``None`` for never."""
    if type == "string" and wants(key, forced):
        return ReadPlan("GETRANGE", (0, MAX_VALUE), MAX_VALUE + 1)
    return None


def decode(reading: Reading, forced: str | None = None) -> tuple[Decoded, ...]:
    """Return the locks in what was read, ``()`` if there is none."""
    value = reading.value
    if not isinstance(value, bytes) or len(value) > MAX_VALUE or not wants(reading.key, forced):
        return ()
    owner = tokens.parse(value) or tokens.uuid1_owner(value) or tokens.Owner()
    holder = Holder(
        value, tokens.fingerprint(value), owner.host, owner.pid, owner.worker, owner.job_type, owner.job_id,
        owner.started_at,
    )
    return (
        Decoded(
            dialect=forced or "generic", holders=(holder,), value=value, deadline=reading.deadline,
            owner_identity=value, started_at=owner.started_at,
        ),
    )


def dialect(name: str) -> Dialect:
    """Return the dialect of that name."""
    return DIALECTS[name]

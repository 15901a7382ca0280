"""Read the audit trail back, whatever somebody else may have written there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from lockscope.printable import printable
from lockscope_exporter.release.audit import LONGEST, STREAM, VERSION

if TYPE_CHECKING:
    from lockscope_exporter.release.model import Client, Outcome

_OUTCOMES = frozenset(
    ("attempted", "refused", "released", "resurrected", "changed", "gone", "failed", "unknown")
)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One attempt to free a lock.

    Attributes:
        id: id of its last entry in the stream.
        at: unix time in seconds of that entry, by the server's clock.
        attempt: id of the attempt.
        outcome: what came of it; ``attempted`` if nothing was recorded after the beginning.
        key: the lock's key, at most its first KiB; ``field`` where the lock was a field or member.
        db: database number.
        target: name of the target.
        prefix: family of the key.
        dialect: name of the format.
        state: state of the lock as it was seen; ``evidence`` says why.
        owner: fingerprints of the owner tokens, separated by commas.
        holder: the holder in words.
        way: how it was to be freed.
        user, reason, forced: see ``Attempt``.
        detail: what came of it in words.
        host, pid: where the person worked.
    """

    id: str
    at: float
    attempt: str
    outcome: Outcome
    key: bytes
    field: bytes | None = None
    db: int = 0
    target: str = ""
    prefix: str = ""
    dialect: str = ""
    state: str = ""
    evidence: str = ""
    owner: str = ""
    holder: str = ""
    way: str = ""
    user: str = ""
    reason: str = ""
    forced: bool = False
    detail: str = ""
    host: str = ""
    pid: int = 0


def read_audit(client: Client, count: int = 100) -> list[AuditEntry]:
    """Read the audit trail.

    Args:
        client: reads bytes.
        count: attempts to return at most.

    Returns:
        The latest attempts, newest first. Entries of another version or with parts missing are left out or
        filled with what is there; no text in them holds control characters.

    Raises:
        redis.RedisError, OSError: the stream could not be read.
    """
    if count < 1:
        return []
    raw = cast("list[tuple[bytes, dict[bytes, bytes] | None]]", client.xrevrange(STREAM, count=2 * count))
    found: dict[str, AuditEntry] = {}
    for id_, fields in raw:
        entry = parse(id_, fields or {})
        if entry is not None:  # newest first: what came of an attempt stands before its beginning
            found.setdefault(entry.attempt or entry.id, entry)
    return list(found.values())[:count]


def parse(id_: bytes, fields: dict[bytes, bytes]) -> AuditEntry | None:
    """Return the entry in the fields of a stream entry, ``None`` if it is none of this version."""
    key = fields.get(b"key")
    outcome = fields.get(b"outcome", b"").decode("ascii", "replace")
    if fields.get(b"v") != VERSION or key is None or outcome not in _OUTCOMES:
        return None

    def text(name: str) -> str:
        return printable(fields.get(name.encode(), b""), LONGEST)

    def number(name: str) -> int:
        digits = fields.get(name.encode(), b"")
        return int(digits) if digits.isdigit() and len(digits) < 10 else 0  # noqa: PLR2004 - 32 bits

    return AuditEntry(
        id=id_.decode("ascii", "replace"),
        at=_milliseconds(id_) / 1000,
        attempt=text("attempt"),
        outcome=cast("Outcome", outcome),
        key=key,
        field=fields.get(b"field"),
        db=number("db"),
        target=text("target"),
        prefix=text("prefix"),
        dialect=text("dialect"),
        state=text("state"),
        evidence=text("evidence"),
        owner=text("owner"),
        holder=text("holder"),
        way=text("way"),
        user=text("user"),
        reason=text("reason"),
        forced=fields.get(b"forced") == b"1",
        detail=text("detail"),
        host=text("host"),
        pid=number("pid"),
    )


def _milliseconds(id_: bytes) -> int:
    digits = id_.partition(b"-")[0]
    return int(digits) if digits.isdigit() else 0

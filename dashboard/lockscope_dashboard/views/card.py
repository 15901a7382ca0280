"""Everything about one live lock, counting on its own between refreshes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockscope_dashboard import text
from lockscope_dashboard.components import load
from lockscope_exporter.moments import span

if TYPE_CHECKING:
    from lockscope_exporter.state import Holder, LockState

ALIVE = {
    "alive": "alive",
    "gone": "gone",
    "unknown": "not known",
}


def data(lock: LockState, now: float) -> dict[str, Any]:
    """Lay a lock out for the ``card`` component.

    Args:
        lock: the lock as sampled.
        now: unix time in seconds by the server's clock.

    Returns:
        JSON-serialisable values; times are absolute unix seconds.
    """
    since = None if lock.age_seconds is None else lock.sampled_at - lock.age_seconds
    deadline = None if lock.ttl_seconds is None else lock.sampled_at + lock.ttl_seconds
    held_note = f"since {text.absolute(since)}" if since is not None else "nothing tells when it was taken"
    if lock.age_at_least:
        held_note = f"at least since {text.absolute(since)}, when sampling began"
    if lock.expected_hold_seconds:
        held_note += f" · expected at most {span(lock.expected_hold_seconds)}"
    return {
        "now": now,
        "state": lock.state,
        "key": text.show(lock.key),
        "evidence": list(lock.evidence),
        "since": since,
        "at_least": lock.age_at_least,
        "expected": lock.expected_hold_seconds,
        "deadline": deadline,
        "lease": max(lock.lease_seconds or lock.ttl_seconds or 0.0, 0.001),
        "held_note": held_note,
        "left_note": _left_note(lock, deadline),
        "facts": facts(lock),
    }


def facts(lock: LockState) -> list[dict[str, Any]]:
    """List what is known of a lock and its holders, unknown things left out."""
    found: list[tuple[str, str, str, bool]] = []
    for number, holder in enumerate(lock.holders[:4], start=1):
        found += _holder_facts(holder, "" if len(lock.holders) == 1 else f" {number}", lock.sampled_at)
    if len(lock.holders) > 4:  # noqa: PLR2004 - as many as are laid out above
        found.append(("Further holders", f"{len(lock.holders) - 4:,}", "", False))
    if not lock.holders:
        found.append(("Holder", "this format names no owner", "", False))
    found += [
        ("Renewals seen", f"{lock.renewals:,}", "since this explorer first saw the lock", False),
        ("Prefix", text.safe(lock.prefix), "", True),
        ("Format", lock.dialect, "the library that writes locks like this one", False),
    ]
    if lock.field is not None:
        found.append(("Field", text.show(lock.field), "", True))
    found.append(("Database", f"{lock.db} on {lock.node or lock.target}", "", False))
    if lock.quorum is not None:
        copies, servers = lock.quorum
        found.append(
            ("Redlock copies", f"{copies} of {servers} servers", "a majority is needed to hold it", False)
        )
    if lock.weak_owner:
        found.append(("Owner value", "constant or shared: a release cannot be verified", "", False))
    return [
        {"label": label, "value": value, "title": title, "mono": mono}
        for label, value, title, mono in found
        if value
    ]


def draw(lock: LockState, now: float, key: str) -> None:
    """Draw the card."""
    load("card")(key=key, data=data(lock, now))


def _holder_facts(holder: Holder, number: str, now: float) -> list[tuple[str, str, str, bool]]:
    process = text.safe(holder.host)
    if holder.pid is not None:
        process += f" / {holder.pid}"
    life = ALIVE[holder.alive]
    if holder.gone_since is not None:
        life += f" for {span(now - holder.gone_since)}"
    return [
        (f"Holder{number}", process or "not known", "host and process id", False),
        (f"Process{number}", life, "by its presence connection" if holder.worker else "", False),
        (
            f"Job{number}",
            " ".join(filter(None, (text.safe(holder.job_type), text.safe(holder.job_id)))),
            "",
            False,
        ),
        (f"Acquire began{number}", text.absolute(holder.started_at), "", False),
        (f"Token fingerprint{number}", holder.fingerprint, "first 8 hex digits of the token's SHA-256", True),
        (f"Count{number}", str(holder.count) if holder.count != 1 else "", "re-entries or permits", False),
    ]


def _left_note(lock: LockState, deadline: float | None) -> str:
    if deadline is not None:
        return f"at {text.absolute(deadline)}"
    return "no expiry" + (
        ", though locks of this kind should have one" if lock.ttl_expected else ", normal for this format"
    )

"""What changed between two looks at all live locks. Pure.

Locks that came and went between two looks are not seen one by one; the sampler's counts by family have them,
and what they count beyond the single changes is told as a number.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lockscope_exporter.evidence import holder_name
from lockscope_exporter.moments import span
from lockscope_exporter.watching.happenings import Happening

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockscope_exporter.state import Family, LockState, NodeStatus

    Place = tuple[str, int, bytes, bytes | None]

_STATES = {"orphaned": "orphaned", "stalled": "stalled", "no_ttl": "no expiry", "overdue": "overdue"}
_SLACK = 0.05  # seconds by which a lock may be gone before its deadline and still have expired
# What the sampler counts, and what it is called here.
_COUNTED = {
    "acquired": "acquired",
    "takeover": "taken over",
    "released": "released",
    "expired": "expired",
    "evicted": "evicted",
    "flushed": "flushed",
}


class Changes:
    """Compares each look with the one before."""

    def __init__(self) -> None:
        self._locks: dict[Place, LockState] | None = None
        self._counts: dict[tuple[str, int, str], Counter[str]] = {}

    def look(
        self,
        locks: Iterable[LockState],
        families: Sequence[Family],
        nodes: Iterable[NodeStatus],
        now: float,
    ) -> list[Happening]:
        """Return what happened since the last look; the first one only remembers.

        Args:
            locks: every live lock.
            families: the counts, read after the locks.
            nodes: how sampling of each node stands; locks of one that is down are remembered as they were.
            now: unix time in seconds by this host's clock, for what is only counted.
        """
        after = {(lock.target, lock.db, lock.key, lock.field): lock for lock in locks}
        counts = {(one.target, one.db, one.prefix): _counts(one) for one in families}
        before, earlier = self._locks, self._counts
        self._counts = {**earlier, **counts}
        if before is None:
            self._locks = after
            return []
        down = {node.node for node in nodes if not node.up}
        happened: list[Happening] = []
        for place, lock in after.items():
            old = before.get(place)
            happened += _came(lock) if old is None else _differs(old, lock)
        remembered = {}
        for place, old in before.items():
            if place in after:
                continue
            if old.node in down:
                remembered[place] = old
            else:
                happened.append(_went(old, now))
        self._locks = {**after, **remembered}
        return happened + _uncounted(happened, earlier, counts, now)


def _came(lock: LockState) -> list[Happening]:
    by = f"by {holder_name(lock.holder)}" if lock.holder else ""
    found = [_of(lock, "acquired", by)]
    if lock.state in _STATES:
        found.append(_of(lock, _STATES[lock.state], _evidence(lock)))
    return found


def _differs(old: LockState, lock: LockState) -> list[Happening]:
    found = []
    before, after = ({holder.token for holder in one.holders} for one in (old, lock))
    if before and after and not before & after:
        ended = _ended(old, lock.sampled_at)
        by = (
            f"{holder_name(lock.holder)} after {holder_name(old.holder)}"
            if lock.holder and old.holder
            else ""
        )
        if ended == "expired":
            found.append(_of(lock, "taken over", f"{by}, whose time was up"))
        else:
            found.append(_of(lock, "passed on", f"to {by}"))
    elif lock.state != old.state and lock.state in _STATES:
        found.append(_of(lock, _STATES[lock.state], _evidence(lock)))
    elif old.state == "stalled" and lock.state == "held":
        found.append(_of(lock, "renewed again", ""))
    return found


def _went(old: LockState, now: float) -> Happening:
    how = _ended(old, now)
    held = ""
    if old.age_seconds is not None:
        least = "at least " if old.age_at_least else ""
        more = max(now - old.sampled_at, 0.0)
        if how == "expired" and old.ttl_seconds is not None:  # whenever that was noticed
            more = min(more, max(old.ttl_seconds, 0.0))
        held = f"after {least}{span(old.age_seconds + more)}"
    by = f" by {holder_name(old.holder)}" if old.holder else ""
    return _of(old, how, f"{held}{by}".strip(), now)


def _ended(old: LockState, now: float) -> str:
    """Say how a lock ended that is gone, or another's, at a unix time."""
    if old.ttl_seconds is not None and old.sampled_at + old.ttl_seconds <= now + _SLACK:
        return "expired"
    return "released"


def _uncounted(
    happened: Sequence[Happening],
    earlier: dict[tuple[str, int, str], Counter[str]],
    counts: dict[tuple[str, int, str], Counter[str]],
    now: float,
) -> list[Happening]:
    """Return what the sampler counted since, and nobody saw."""
    seen: Counter[tuple[str, str]] = Counter()
    for one in happened:
        if one.what == "passed on":
            seen["acquired", one.prefix] += one.count
            seen["released", one.prefix] += one.count
        elif one.what == "taken over":
            seen["acquired", one.prefix] += one.count
            seen["expired", one.prefix] += one.count
            seen["taken over", one.prefix] += one.count
        else:
            seen[one.what, one.prefix] += one.count
    more: Counter[tuple[str, str]] = Counter()
    for place, counted in counts.items():
        for name, number in counted.items():
            more[name, place[2]] += max(number - earlier.get(place, Counter())[name], 0)
    return [
        Happening(now, what, prefix, text="between two looks", count=number - seen[what, prefix])
        for (what, prefix), number in more.items()
        if number > seen[what, prefix]
    ]


def _counts(family: Family) -> Counter[str]:
    found = Counter({_COUNTED["acquired"]: family.acquired, _COUNTED["takeover"]: family.takeover})
    for how, number in family.ended.items():
        found[_COUNTED[how]] = number
    return found


def _of(lock: LockState, what: str, text: str, at: float | None = None) -> Happening:
    return Happening(lock.sampled_at if at is None else at, what, lock.prefix, lock.key, lock.field, text)


def _evidence(lock: LockState) -> str:
    return lock.evidence[0] if lock.evidence else ""

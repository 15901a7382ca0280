"""Running counts of one family, kept at every change so that a scrape need not walk the locks. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from statistics import median
from typing import TYPE_CHECKING

from lockscope.catalog import ENDED_HOW, TTL_BUCKETS
from lockscope_exporter.sampling.ordered import Ordered
from lockscope_exporter.state import Family

if TYPE_CHECKING:
    from lockscope_exporter.classify import Expected
    from lockscope_exporter.sampling.entry import Entry
    from lockscope_exporter.state import State

NO_EXPIRY = -1
_LATEST = 31  # TTLs and intervals that "usual" is the median of


def bucket_of(remaining: float) -> int:
    """Return the index of the TTL bucket that a remaining time in seconds is counted in."""
    return bisect_left(TTL_BUCKETS, remaining)


def leaves_bucket(deadline: float, slot: int) -> float:
    """Return the unix time in seconds when a lock with this deadline drops into the next lower bucket."""
    return deadline - (TTL_BUCKETS[slot - 1] if slot > 0 else 0.0)


class Counts:
    """The counts of one family.

    Deadlines are summed as whole milliseconds, so that a sum that is only ever added to and taken from
    stays exact for years.

    Args:
        prefix: bounded family; ``db`` and ``target`` as in ``Family``.
    """

    def __init__(self, prefix: str, db: int, target: str) -> None:
        self.prefix = prefix
        self.db = db
        self.target = target
        self.keys: dict[tuple[str, State], int] = {}
        self.live = 0
        self.without_ttl = 0
        self.weak = 0
        self.acquired = 0
        self.renewed = 0
        self.takeover = 0
        self.ended = dict.fromkeys(ENDED_HOW, 0)
        self.expected: Expected | None = None
        self.usual_hold: float | None = None
        self._ttls: deque[float] = deque(maxlen=_LATEST)
        self._intervals: deque[float] = deque(maxlen=_LATEST)
        self._slots = [0] * (len(TTL_BUCKETS) + 1)
        self._deadlines_ms = 0
        self._oldest: Ordered[Entry] = Ordered(_held_since)
        self._soonest: Ordered[Entry] = Ordered(_deadline)

    def enter(self, entry: Entry, now: float) -> None:
        """Count a lock in, by the state it is in and the deadline it has."""
        decoded = entry.decoded
        pair = (decoded.dialect, entry.state)
        self.keys[pair] = self.keys.get(pair, 0) + 1
        self.live += 1
        self.weak += decoded.weak_owner
        if decoded.deadline is None:
            self.without_ttl += 1
            entry.slot = NO_EXPIRY
        else:
            entry.slot = bucket_of(decoded.deadline - now)
            self._slots[entry.slot] += 1
            self._deadlines_ms += round(decoded.deadline * 1000)
            self._soonest.add(entry)

    def leave(self, entry: Entry) -> None:
        """Count a lock out; what it says of itself must still be what it was counted in by."""
        decoded = entry.decoded
        self.keys[decoded.dialect, entry.state] -= 1
        self.live -= 1
        self.weak -= decoded.weak_owner
        if entry.slot == NO_EXPIRY:
            self.without_ttl -= 1
        else:
            self._slots[entry.slot] -= 1
            self._deadlines_ms -= round((decoded.deadline or 0.0) * 1000)

    def started(self, entry: Entry) -> None:
        """Take note of when a lock is held since: once an acquisition, and when it comes back into view."""
        self._oldest.add(entry)

    def given(self, ttl: float | None, interval: float | None = None) -> None:
        """Take note of the seconds that a lock was given, and of those since it was last renewed."""
        if ttl is not None:
            self._ttls.append(ttl)
        if interval is not None:
            self._intervals.append(interval)

    def move(self, entry: Entry, state: State, now: float) -> None:
        """Count a lock that no news came of where it belongs by now."""
        dialect = entry.decoded.dialect
        if state != entry.state:
            self.keys[dialect, entry.state] -= 1
            self.keys[dialect, state] = self.keys.get((dialect, state), 0) + 1
            entry.state = state
        deadline = entry.decoded.deadline
        if deadline is not None:
            slot = bucket_of(deadline - now)
            self._slots[entry.slot] -= 1
            self._slots[slot] += 1
            entry.slot = slot

    def family(self, now: float) -> Family:
        """Return the counts as they stand."""
        oldest, soonest = self._oldest.first(), self._soonest.first()
        cumulative = []
        total = 0
        for number in self._slots:
            total += number
            cumulative.append(total)
        return Family(
            prefix=self.prefix,
            db=self.db,
            target=self.target,
            keys=dict(self.keys),
            without_ttl=self.without_ttl,
            oldest_age=None if oldest is None else max(now - oldest.held_since, 0.0),
            ttl_min=None if soonest is None else max((_deadline(soonest) or now) - now, 0.0),
            ttl_buckets=tuple(cumulative),
            ttl_sum=max(self._deadlines_ms / 1000 - total * now, 0.0),
            expected_hold=None if self.expected is None else self.expected.seconds,
            weak_owner=self.weak,
            acquired=self.acquired,
            renewed=self.renewed,
            takeover=self.takeover,
            ended=dict(self.ended),
            usual_ttl=median(self._ttls) if self._ttls else None,
            usual_hold=self.usual_hold,
            renewal_interval=median(self._intervals) if self._intervals else None,
        )


def _held_since(entry: Entry) -> float | None:
    return entry.held_since if entry.live and not entry.hidden else None


def _deadline(entry: Entry) -> float | None:
    return entry.decoded.deadline if entry.live and not entry.hidden else None

"""Which locks are counted where, and when to look at each again. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockscope_exporter.sampling.counts import NO_EXPIRY, Counts, leaves_bucket
from lockscope_exporter.sampling.ordered import Ordered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lockscope.prefixes import Prefixes
    from lockscope_exporter.sampling.entry import Entry, Presence
    from lockscope_exporter.sampling.expectations import Expectations
    from lockscope_exporter.state import Family

_AT_LEAST = 30.0  # seconds between two looks at a lock: what is expected of it is learned all the time
_RELEARN = 10.0  # seconds between two looks at what was learned
_SOON = 0.001  # seconds; a lock is never looked at again sooner, whatever rounding says


class Accounts:
    """The running counts of every family, the locks by worker, and the time of the next look at each lock.

    Args:
        target: the target's name.
        prefixes: names families; shared by the targets of a process.
        expectations: how long locks are expected to be held.
        presence: tells of a holder at a unix time whether it lives, and since when not.
        counting: keep the counts; a list that is read once has no use for them.
    """

    def __init__(
        self,
        target: str,
        prefixes: Prefixes,
        expectations: Expectations,
        presence: Presence,
        *,
        counting: bool = True,
    ) -> None:
        self._counting = counting
        self._target = target
        self._prefixes = prefixes
        self._expectations = expectations
        self._presence = presence
        self._families: dict[tuple[str, int], Counts] = {}
        self._workers: dict[str, set[Entry]] = {}
        self._timers: Ordered[Entry] = Ordered(_look_at)
        self._relearn = 0.0

    def of(self, key: bytes, db: int, now: float) -> Counts:
        """Return the counts of a key's family, new ones if it is the first."""
        prefix = self._prefixes.of(key)
        counts = self._families.get((prefix, db))
        if counts is None:
            counts = self._families[prefix, db] = Counts(prefix, db, self._target)
            self._expect(counts, now)
        return counts

    def families(self, now: float) -> list[Family]:
        """Return the counts of every family known."""
        return [counts.family(now) for counts in self._families.values()]

    def workers(self) -> list[str]:
        """Return the names of the instrumented workers that hold locks."""
        return list(self._workers)

    def of_worker(self, worker: str) -> Iterable[Entry]:
        """Return the locks that a worker holds."""
        return tuple(self._workers.get(worker, ()))

    def due(self, now: float) -> Iterator[Entry]:
        """Yield the locks whose next look has come; each is to be hidden or judged, or never comes again."""
        if now >= self._relearn:
            self._relearn = now + _RELEARN
            for counts in self._families.values():
                self._expect(counts, now)
        for entry in self._timers.due(now):
            entry.look_at = None
            yield entry

    def open(self, entry: Entry, now: float) -> None:
        """Take a new lock in."""
        for holder in entry.decoded.holders:
            if holder.worker is not None:
                self._workers.setdefault(holder.worker, set()).add(entry)
        self.show(entry, now)

    def show(self, entry: Entry, now: float, *, seen: bool = False) -> None:
        """Count a lock in.

        Args:
            entry: the lock.
            now: unix time in seconds.
            seen: it was in view a moment ago: its place among the oldest is as it was.
        """
        if not self._counting:
            self._schedule_end(entry)
            return
        entry.state = entry.state_now(now, self._presence, entry.counts.expected)
        entry.counts.enter(entry, now)
        if not seen:
            entry.counts.started(entry)
        self._schedule(entry, now)

    def leave(self, entry: Entry) -> None:
        """Count a lock out, to be shown again or not."""
        if self._counting:
            entry.counts.leave(entry)

    def hide(self, entry: Entry) -> None:
        """Count a lock out that may come back."""
        self.leave(entry)
        entry.hidden = True
        entry.look_at = None

    def judge(self, entry: Entry, now: float) -> None:
        """Count a lock where it belongs by now."""
        if not self._counting:
            if entry.look_at is None:
                self._schedule_end(entry, now)
            return
        state = entry.state_now(now, self._presence, entry.counts.expected)
        entry.counts.move(entry, state, now)
        self._schedule(entry, now)

    def close(self, entry: Entry) -> None:
        """Count a lock out for good."""
        if not entry.hidden:
            self.leave(entry)
        entry.live = False
        entry.look_at = None
        for holder in entry.decoded.holders:
            entries = self._workers.get(holder.worker or "")
            if entries is not None:
                entries.discard(entry)
                if not entries:
                    del self._workers[holder.worker or ""]

    def _schedule(self, entry: Entry, now: float) -> None:
        """Note when the lock's state or TTL bucket may change next without any news."""
        decoded = entry.decoded
        soonest = now + _AT_LEAST  # compared one by one: this runs once and more for each of many thousand
        if decoded.deadline is not None and entry.slot != NO_EXPIRY:
            at = leaves_bucket(decoded.deadline, entry.slot)
            if now < at < soonest:
                soonest = at
        if decoded.next_change is not None and now < decoded.next_change < soonest:
            soonest = decoded.next_change
        expected = entry.counts.expected
        limit = expected.seconds if expected is not None else entry.first_lease
        if limit is not None:
            at = entry.held_since + limit + _SOON
            if now < at < soonest:
                soonest = at
        missed = entry.cadence.missed_two_at()
        if missed is not None and now < missed + _SOON < soonest:
            soonest = missed + _SOON
        entry.look_at = max(soonest, now + _SOON)
        self._timers.add(entry)

    def _schedule_end(self, entry: Entry, after: float = 0.0) -> None:
        """Note when the lock ends or its holders change without any news, at a unix time after this one."""
        times = (entry.decoded.deadline, entry.decoded.next_change)
        entry.look_at = min((at for at in times if at is not None and at > after), default=None)
        self._timers.add(entry)

    def _expect(self, counts: Counts, now: float) -> None:
        counts.expected = self._expectations.of(counts.prefix, now)
        counts.usual_hold = self._expectations.usual(counts.prefix, now)


def _look_at(entry: Entry) -> float | None:
    return entry.look_at if entry.live and not entry.hidden else None

"""What is locked now, and what happened: readings go in, live locks and counted events come out. Pure.

The clock comes in with every call. One ledger serves one target; the nodes of a cluster share it, so that a
lock whose slot moves to another node is the same lock.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from lockscope_exporter.classify import Cadence, classify
from lockscope_exporter.dialects import decode
from lockscope_exporter.sampling.counts import NO_EXPIRY, Counts, leaves_bucket
from lockscope_exporter.sampling.entry import Entry
from lockscope_exporter.sampling.ordered import Ordered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lockscope.prefixes import Prefixes
    from lockscope_exporter.dialects import Decoded, Reading
    from lockscope_exporter.sampling.entry import Presence
    from lockscope_exporter.sampling.expectations import Expectations
    from lockscope_exporter.state import Family, LockState

How = Literal["released", "expired", "evicted", "flushed"]

TAKEOVER_WITHIN = 1.0  # seconds after an expiry in which the next owner counts as having taken over
_REMEMBERED = 10_000  # expiries kept for that
_SOON = 0.001  # seconds; a lock is never looked at again sooner, whatever rounding says


@dataclass(frozen=True, slots=True)
class News:
    """How a reading came about.

    Attributes:
        at: unix time in seconds when the change was noticed, by the server's clock.
        seen: the change was seen to happen, by a feed that misses none; else it was found later.
        initial: nobody had looked before: what is there now is no event.
        writes: writes to the key that the feed told of since it was last read; 0 if it cannot tell.
        end: how the lock ended, if the feed said so.
        slack: seconds by which deadlines and ``at`` may disagree.
    """

    at: float
    seen: bool = True
    initial: bool = False
    writes: int = 0
    end: How | None = None
    slack: float = 0.005


class Ledger:
    """The live locks of one target and the counts by family. Not safe between threads.

    Args:
        target: the target's name.
        prefixes: names families; shared by the targets of a process.
        expectations: how long locks are expected to be held.
        presence: tells of a worker's name whether it lives, and since when not.
    """

    def __init__(
        self, target: str, prefixes: Prefixes, expectations: Expectations, presence: Presence
    ) -> None:
        self.target = target
        self.presence = presence
        self.confirm: list[tuple[str, int, bytes]] = []
        self._prefixes = prefixes
        self._expectations = expectations
        self._dbs: dict[int, dict[bytes, tuple[Entry, ...]]] = {}
        self._families: dict[tuple[str, int], Counts] = {}
        self._timers: Ordered[Entry] = Ordered(_look_at)
        self._workers: dict[str, set[Entry]] = {}
        self._expired: OrderedDict[tuple[int, bytes, bytes | None], tuple[float, bytes]] = OrderedDict()

    # --- news from Redis ---

    def take(self, db: int, node: str, reading: Reading, dialect: str | None, news: News) -> bool:
        """Take in what a key holds now.

        Args:
            db: database number.
            node: the node that was read.
            reading: the key as read.
            dialect: the dialect it is to be read as, ``None`` to recognise it.
            news: how the reading came about.

        Returns:
            Whether it differed from what the ledger said.
        """
        keys = self._dbs.setdefault(db, {})
        before = keys.get(reading.key, ())
        found = decode(reading, dialect)
        if not before and not found:
            return False
        old = {entry.decoded.field: entry for entry in before}
        after: list[Entry] = []
        differs = False
        for decoded in found:
            entry = old.pop(decoded.field, None)
            if entry is None:
                entry = self._acquire(db, node, reading.key, decoded, news)
                differs = True
            elif entry.decoded.owner_identity == decoded.owner_identity:
                differs |= self._update(entry, node, decoded, news)
            else:
                entry = self._change_owner(entry, node, decoded, news)
                differs = True
            after.append(entry)
        for entry in old.values():
            self._end(entry, news)
            differs = True
        if after:
            keys[reading.key] = tuple(after)
        else:
            keys.pop(reading.key, None)
        return differs

    def gone(self, db: int, node: str, key: bytes, news: News) -> bool:
        """Take in that a node says a key does not exist; return whether the ledger said otherwise."""
        entries = self._dbs.get(db, {}).get(key, ())
        if not entries or entries[0].node != node:
            return False
        del self._dbs[db][key]
        for entry in entries:
            self._end(entry, news)
        return True

    def tick(self, now: float) -> None:
        """Let time pass: deadlines, buckets, states. Keys that need to be read go to ``confirm``."""
        for entry in self._timers.due(now):
            entry.look_at = None
            deadline = entry.decoded.deadline
            if deadline is not None and deadline <= now:
                self._hide(entry)
                self.confirm.append((entry.node, entry.db, entry.key))
                continue
            if entry.decoded.next_change is not None and entry.decoded.next_change <= now:
                entry.decoded = replace(entry.decoded, next_change=None)
                self.confirm.append((entry.node, entry.db, entry.key))
            self._judge(entry, now)
        while self._expired:
            at, _ = next(iter(self._expired.values()))
            if at > now - TAKEOVER_WITHIN and len(self._expired) <= _REMEMBERED:
                break
            self._expired.popitem(last=False)

    def suspend(self, node: str) -> None:
        """Count out the locks of a node that is out of reach; they come back when they are read again."""
        for entry in self._entries():
            if entry.node == node and not entry.hidden:
                self._hide(entry)

    def reconsider(self, workers: Iterable[str], now: float) -> None:
        """Judge the locks of these workers anew, because their presence changed."""
        for worker in workers:
            for entry in self._workers.get(worker, ()):
                if not entry.hidden:
                    self._judge(entry, now)

    # --- questions ---

    def families(self, now: float) -> list[Family]:
        """Return the counts of every family known."""
        self.tick(now)
        return [counts.family(now) for counts in self._families.values()]

    def states(self, now: float) -> Iterator[LockState]:
        """Yield every live lock, judged now."""
        self.tick(now)
        for entry in self._entries():
            if not entry.hidden:
                yield entry.to_state(entry.facts(now, self.presence, entry.counts.expected))

    def find(self, key: bytes, now: float) -> list[LockState]:
        """Return the live locks of one key, in every database."""
        self.tick(now)
        entries = [entry for keys in self._dbs.values() for entry in keys.get(key, ()) if not entry.hidden]
        return [entry.to_state(entry.facts(now, self.presence, entry.counts.expected)) for entry in entries]

    def knows(self, db: int, key: bytes) -> bool:
        """Tell whether a key held a lock when last read."""
        return key in self._dbs.get(db, ())

    def keys(self, db: int, node: str) -> list[bytes]:
        """Return the keys of one database that hold locks on a node, as far as known."""
        return [key for key, entries in self._dbs.get(db, {}).items() if entries[0].node == node]

    def workers(self) -> list[str]:
        """Return the names of the instrumented workers that hold locks."""
        return list(self._workers)

    def next_tick(self) -> float | None:
        """Return the unix time in seconds before which ``tick`` has nothing to do."""
        return self._timers.next_position()

    # --- what happened to one lock ---

    def _acquire(self, db: int, node: str, key: bytes, decoded: Decoded, news: News) -> Entry:
        counts = self._counts(key, db)
        entry = Entry(key, db, node, counts, decoded, news.at)
        if news.seen and not news.initial:
            entry.lease = entry.first_lease = _remaining(decoded, news.at)
        elif decoded.started_at is not None and decoded.started_at <= news.at:
            entry.held_since = decoded.started_at
        else:
            entry.since_at_least = True
        entry.cadence = Cadence(last=news.at)
        if not news.initial:
            counts.acquired += 1
            taken = self._expired.pop((db, key, decoded.field), None)
            if taken is not None and taken[1] != decoded.owner_identity:
                counts.takeover += 1
        for holder in decoded.holders:
            if holder.worker is not None:
                self._workers.setdefault(holder.worker, set()).add(entry)
        self._show(entry, news.at)
        return entry

    def _update(self, entry: Entry, node: str, decoded: Decoded, news: News) -> bool:
        """Take in a reading with the owner unchanged; return whether anything else changed."""
        before, after = entry.decoded.deadline, decoded.deadline
        entry.node = node
        later = before is not None and after is not None and after - before > news.slack
        changed = entry.decoded != decoded and (later or not _close(before, after, news.slack))
        if not entry.hidden:
            entry.counts.leave(entry)
        if later:
            entry.counts.renewed += 1
            entry.renewed(decoded, news.at)
        entry.decoded = decoded
        was_hidden, entry.hidden = entry.hidden, False
        self._show(entry, news.at, known=not was_hidden)
        return changed

    def _change_owner(self, entry: Entry, node: str, decoded: Decoded, news: News) -> Entry:
        """Take in that a lock has other holders now; return its entry."""
        old = {holder.token for holder in entry.decoded.holders}
        new = {holder.token for holder in decoded.holders}
        counts = entry.counts
        if len(old) > 1 or len(new) > 1 or old & new:
            counts.acquired += len(new - old)
            counts.ended[self._how(entry, news)] += len(old - new)
            self._forget_workers(entry)
            if not entry.hidden:
                counts.leave(entry)
            fresh = replace(entry, node=node, decoded=decoded, hidden=False, look_at=None)
            entry.live = False
            for holder in decoded.holders:
                if holder.worker is not None:
                    self._workers.setdefault(holder.worker, set()).add(fresh)
            self._show(fresh, news.at)
            return fresh
        if self._how(entry, news) == "released" and news.writes == 1 and news.end is None:
            counts.takeover += 1
            self._drop(entry)
        else:
            self._end(entry, news)
        return self._acquire(entry.db, node, entry.key, decoded, news)

    def _end(self, entry: Entry, news: News) -> None:
        how = self._how(entry, news)
        entry.counts.ended[how] += 1
        if how == "expired" and news.seen:
            self._expired[entry.db, entry.key, entry.decoded.field] = (
                news.at,
                entry.decoded.owner_identity,
            )
        if how == "released" and news.seen and not entry.since_at_least:
            self._expectations.learn(entry.counts.prefix, news.at - entry.held_since, news.at)
        self._drop(entry)

    def _how(self, entry: Entry, news: News) -> How:
        deadline = entry.decoded.deadline
        if news.end not in (None, "released", "flushed"):
            return news.end
        if deadline is not None and news.at >= deadline - news.slack:
            return "expired"
        return news.end or "released"

    # --- bookkeeping ---

    def _show(self, entry: Entry, now: float, *, known: bool = False) -> None:
        """Count an entry in; ``known``: its place among the oldest is as it was."""
        entry.state = classify(entry.facts(now, self.presence, entry.counts.expected))[0]
        entry.counts.enter(entry, now)
        if not known:
            entry.counts.started(entry)
        self._schedule(entry, now)

    def _hide(self, entry: Entry) -> None:
        entry.counts.leave(entry)
        entry.hidden = True
        entry.look_at = None

    def _judge(self, entry: Entry, now: float) -> None:
        state = classify(entry.facts(now, self.presence, entry.counts.expected))[0]
        entry.counts.move(entry, state, now)
        self._schedule(entry, now)

    def _schedule(self, entry: Entry, now: float) -> None:
        """Note when the entry's state or TTL bucket may change next without any news."""
        decoded = entry.decoded
        times = []
        if decoded.deadline is not None and entry.slot != NO_EXPIRY:
            times.append(leaves_bucket(decoded.deadline, entry.slot))
        if decoded.next_change is not None:
            times.append(decoded.next_change)
        expected = entry.counts.expected
        limit = expected.seconds if expected is not None else entry.first_lease
        if limit is not None and entry.held_since + limit > now:
            times.append(entry.held_since + limit)
        interval = entry.cadence.interval
        if interval is not None and entry.state != "stalled":
            missed = entry.cadence.last + 1.5 * interval
            times.append(missed if missed > now else now + max(interval / 4, 0.1))
        entry.look_at = max(min(times), now + _SOON) if times else None
        self._timers.add(entry)

    def _drop(self, entry: Entry) -> None:
        if not entry.hidden:
            entry.counts.leave(entry)
        entry.live = False
        entry.look_at = None
        self._forget_workers(entry)

    def _forget_workers(self, entry: Entry) -> None:
        for holder in entry.decoded.holders:
            if holder.worker is not None:
                entries = self._workers.get(holder.worker)
                if entries is not None:
                    entries.discard(entry)
                    if not entries:
                        del self._workers[holder.worker]

    def _counts(self, key: bytes, db: int) -> Counts:
        prefix = self._prefixes.of(key)
        counts = self._families.get((prefix, db))
        if counts is None:
            counts = self._families[prefix, db] = Counts(prefix, db, self.target)
            counts.expected = self._expectations.of(prefix)
        return counts

    def _entries(self) -> Iterator[Entry]:
        for keys in self._dbs.values():
            for entries in keys.values():
                yield from entries


def _look_at(entry: Entry) -> float | None:
    return entry.look_at if entry.live and not entry.hidden else None


def _remaining(decoded: Decoded, now: float) -> float | None:
    return None if decoded.deadline is None else max(decoded.deadline - now, 0.0)


def _close(before: float | None, after: float | None, slack: float) -> bool:
    if before is None or after is None:
        return before == after
    return abs(before - after) <= slack

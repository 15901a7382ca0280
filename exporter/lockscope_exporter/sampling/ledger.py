"""What is locked now, and what happened: readings go in, live locks and counted events come out. Pure.

The clock comes in with every call. One ledger serves one target; the nodes of a cluster share it, so that a
lock whose slot moves to another node is the same lock.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING

from lockscope_exporter.classify import Cadence
from lockscope_exporter.dialects import decode
from lockscope_exporter.sampling.accounts import Accounts
from lockscope_exporter.sampling.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lockscope.prefixes import Prefixes
    from lockscope_exporter.dialects import Decoded, Reading
    from lockscope_exporter.sampling.entry import Presence
    from lockscope_exporter.sampling.expectations import Expectations
    from lockscope_exporter.sampling.news import News
    from lockscope_exporter.sampling.reader import Glance
    from lockscope_exporter.state import Family, Holder, LockState

TAKEOVER_WITHIN = 1.0  # seconds after an expiry in which the next owner counts as having taken over
_REMEMBERED = 10_000  # expiries kept for that
_COMING = 0.05  # seconds before a deadline in which a missing key is no surprise
_MOVING = 0.25  # seconds by which MIGRATE may shift a deadline, which travels as a remaining time


class Ledger:
    """The live locks of one target and the counts by family. Not safe between threads.

    Args:
        target: the target's name.
        prefixes: names families; shared by the targets of a process.
        expectations: how long locks are expected to be held.
        presence: tells of a holder at a unix time whether it lives, and since when not.
        counting: keep the counts by family; without them ``families`` says nothing.
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
        self.presence = presence
        self._confirm: list[tuple[str, int, bytes]] = []
        self._accounts = Accounts(target, prefixes, expectations, presence, counting=counting)
        self._expectations = expectations
        self._dbs: dict[int, dict[bytes, tuple[Entry, ...]]] = {}
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
            Whether it differed from what the ledger said, other than by the passing of time.
        """
        keys = self._dbs.setdefault(db, {})
        before = keys.get(reading.key, ())
        found = _same_value(before, reading) or decode(reading, dialect)
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
                differs |= not _coming(entry, news.at)
                entry = self._change_owner(entry, node, decoded, news)
            entry.expires = reading.deadline
            after.append(entry)
        for entry in old.values():
            differs |= not _coming(entry, news.at)
            self._end(entry, news)
        if after:
            keys[reading.key] = tuple(after)
        else:
            keys.pop(reading.key, None)
        return differs

    def gone(self, db: int, node: str, key: bytes, news: News) -> bool:
        """Take in that a node says a key does not exist; return whether that is a surprise."""
        entries = self._dbs.get(db, {}).get(key, ())
        if not entries or entries[0].node != node:
            return False
        del self._dbs[db][key]
        surprise = not any(_coming(entry, news.at) for entry in entries)
        for entry in entries:
            self._end(entry, news)
        return surprise

    def forget(self, db: int, node: str, key: bytes) -> None:
        """Take in that a key may not be read any more: what becomes of its locks is unknown."""
        entries = self._dbs.get(db, {}).get(key, ())
        if entries and entries[0].node == node:
            del self._dbs[db][key]
            for entry in entries:
                self._accounts.close(entry)

    def tick(self, now: float) -> None:
        """Let time pass: deadlines, buckets, states. ``take_due`` says what has to be read."""
        for entry in self._accounts.due(now):
            deadline = entry.decoded.deadline
            if deadline is not None and deadline <= now:
                self._accounts.hide(entry)
                self._confirm.append((entry.node, entry.db, entry.key))
                continue
            if entry.decoded.next_change is not None and entry.decoded.next_change <= now:
                self._confirm.append((entry.node, entry.db, entry.key))
            self._accounts.judge(entry, now)
        while self._expired:
            at, _ = next(iter(self._expired.values()))
            if at > now - TAKEOVER_WITHIN and len(self._expired) <= _REMEMBERED:
                break
            self._expired.popitem(last=False)

    def take_due(self, node: str) -> list[tuple[int, bytes]]:
        """Return database and key of what is to be read on a node because time passed; once."""
        due = [(db, key) for where, db, key in self._confirm if where == node]
        if due:
            self._confirm = [item for item in self._confirm if item[0] != node]
        return due

    def assign(self, owner: Callable[[bytes], str | None]) -> list[tuple[str, int, bytes]]:
        """Give every lock to the node that owns its key now.

        Args:
            owner: returns the name of a key's node, ``None`` if no node serves it.

        Returns:
            New node, database and key of those that moved, to be read there.
        """
        moved = []
        for entry in self._entries():
            node = owner(entry.key)
            if node is not None and node != entry.node:
                entry.node, entry.moved = node, True
                moved.append((node, entry.db, entry.key))
        return moved

    def assign_key(self, db: int, key: bytes, node: str) -> None:
        """Give the locks of one key to a node that is about to be read for it."""
        for entry in self._dbs.get(db, {}).get(key, ()):
            entry.node, entry.moved = node, True

    def suspend(self, node: str) -> None:
        """Count out the locks of a node that is out of reach; they come back when they are read again."""
        for entry in self._entries():
            if entry.node == node and not entry.hidden:
                self._accounts.hide(entry)

    def reconsider(self, workers: Iterable[str], now: float) -> None:
        """Judge the locks of these workers anew, because their presence changed."""
        for worker in workers:
            for entry in self._accounts.of_worker(worker):
                if not entry.hidden:
                    self._accounts.judge(entry, now)

    # --- questions ---

    def families(self, now: float) -> list[Family]:
        """Return the counts of every family known."""
        self.tick(now)
        return self._accounts.families(now)

    def entries(self) -> list[Entry]:
        """Return every live lock, to be turned into states a few at a time."""
        return [entry for entry in self._entries() if not entry.hidden]

    def states(self, entries: Iterable[Entry], now: float) -> list[LockState]:
        """Return those of the locks that are still live, judged now."""
        return [
            entry.to_state(entry.facts(now, self.presence, entry.counts.expected))
            for entry in entries
            if entry.live and not entry.hidden
        ]

    def find(self, key: bytes, now: float) -> list[LockState]:
        """Return the live locks of one key, in every database."""
        self.tick(now)
        return self.states([entry for keys in self._dbs.values() for entry in keys.get(key, ())], now)

    def early(self, db: int, node: str, key: bytes, now: float) -> bool:
        """Tell whether the key of a live lock has no business to be gone yet."""
        entries = self._dbs.get(db, {}).get(key, ())
        mine = bool(entries) and entries[0].node == node
        return mine and not any(_coming(entry, now) for entry in entries)

    def knows(self, db: int, key: bytes, _node: str = "") -> bool:
        """Tell whether a key held a lock when last read, on whichever node: each key is on one alone."""
        return key in self._dbs.get(db, ())

    def changes_owner(self, db: int, reading: Reading, dialect: str | None) -> bool:
        """Tell whether a reading has other owners than were known, and there were some."""
        before = self._dbs.get(db, {}).get(reading.key, ())
        if not before or _same_value(before, reading):
            return False
        found = decode(reading, dialect)
        owners = {entry.decoded.owner_identity for entry in before}
        return bool(found) and owners.isdisjoint(one.owner_identity for one in found)

    def is_string(self, db: int, key: bytes) -> bool:
        """Tell whether a key was a string with a lock when last read."""
        entries = self._dbs.get(db, {}).get(key, ())
        return bool(entries) and entries[0].decoded.value is not None

    def agrees(self, db: int, node: str, glance: Glance, now: float, jitter: float) -> bool:
        """Tell whether a glance at a key fits what the ledger says of it.

        One whose deadline has come is not judged: it is about to be read anyway.

        Args:
            db: database number.
            node: the node that was looked at.
            glance: what was seen.
            now: unix time in seconds.
            jitter: seconds by which two readings of one deadline may differ.
        """
        entries = self._dbs.get(db, {}).get(glance.key, ())
        if not entries or entries[0].node != node:
            return glance.type == "none"
        if any(entry.hidden or _coming(entry, now) for entry in entries):
            return True
        return agrees(entries[0].expires, glance, jitter)

    def keys(self, db: int, node: str) -> list[bytes]:
        """Return the keys of one database that hold locks on a node, as far as known."""
        return [key for key, entries in self._dbs.get(db, {}).items() if entries[0].node == node]

    def workers(self) -> list[str]:
        """Return the names of the instrumented workers that hold locks."""
        return self._accounts.workers()

    def holders(self, worker: str) -> Iterator[Holder]:
        """Yield what the tokens say with which a worker holds locks."""
        for entry in self._accounts.of_worker(worker):
            yield from (holder for holder in entry.decoded.holders if holder.worker == worker)

    # --- what happened to one lock ---

    def _acquire(self, db: int, node: str, key: bytes, decoded: Decoded, news: News) -> Entry:
        counts = self._accounts.of(key, db, news.at)
        entry = Entry(key, db, node, counts, decoded, news.at)
        if not news.initial:
            entry.lease = entry.first_lease = _remaining(decoded, news.at)
            counts.given(entry.lease)
        if news.seen and not news.initial:
            pass
        elif decoded.started_at is not None and decoded.started_at <= news.at:
            entry.held_since = decoded.started_at
        else:
            entry.since_at_least = True
        entry.cadence = Cadence(last=news.at)
        if not news.initial:
            counts.acquired += _weight(decoded)
            taken = self._expired.pop((db, key, decoded.field), None)
            if taken is not None and self._took_over(taken, decoded, news):
                counts.takeover += 1
        self._accounts.open(entry, news.at)
        return entry

    @staticmethod
    def _took_over(expired: tuple[float, bytes], decoded: Decoded, news: News) -> bool:
        """Tell whether a lock that has just expired is another owner's now."""
        at, owner = expired
        return news.at - at <= TAKEOVER_WITHIN and owner != decoded.owner_identity

    def _update(self, entry: Entry, node: str, decoded: Decoded, news: News) -> bool:
        """Take in a reading with the owner unchanged; return whether anything else changed."""
        before, after = entry.decoded.deadline, decoded.deadline
        jitter = max(news.jitter, _MOVING) if entry.moved or entry.node != node else news.jitter
        entry.node, entry.moved = node, False
        later = before is not None and after is not None and after - before > jitter
        changed = not (_close(before, after, jitter) or _coming(entry, news.at))
        if not entry.hidden:
            self._accounts.leave(entry)
        if later:
            entry.counts.renewed += 1
            entry.renewed(decoded, news.at, missed=entry.hidden and not news.seen)
            entry.counts.given(entry.lease, entry.cadence.interval)
        entry.decoded = decoded
        was_hidden, entry.hidden = entry.hidden, False
        self._accounts.show(entry, news.at, seen=not was_hidden)
        return changed

    def _change_owner(self, entry: Entry, node: str, decoded: Decoded, news: News) -> Entry:
        """Take in that a lock has other holders now; return its entry."""
        old = {holder.token for holder in entry.decoded.holders}
        new = {holder.token for holder in decoded.holders}
        counts = entry.counts
        if old & new:
            counts.acquired += len(new - old)
            counts.ended[news.left(entry.decoded)] += len(old - new)
            self._accounts.close(entry)
            entry = replace(entry, node=node, decoded=decoded, live=True, hidden=False, look_at=None)
            self._accounts.open(entry, news.at)
            return entry
        if news.overwrite and news.ended(entry.decoded) == "released":
            counts.takeover += 1
            self._accounts.close(entry)
        else:
            self._end(entry, news)
        return self._acquire(entry.db, node, entry.key, decoded, news)

    def _end(self, entry: Entry, news: News) -> None:
        how = news.ended(entry.decoded)
        entry.counts.ended[how] += _weight(entry.decoded)
        if how == "expired" and news.seen:
            self._expired[entry.db, entry.key, entry.decoded.field] = (
                news.at,
                entry.decoded.owner_identity,
            )
        if how == "released" and news.seen and not entry.since_at_least:
            self._expectations.learn(entry.counts.prefix, news.at - entry.held_since, news.at)
        self._accounts.close(entry)

    def _entries(self) -> Iterator[Entry]:
        for keys in self._dbs.values():
            for entries in keys.values():
                yield from entries


def coming(decoded: Decoded, now: float) -> bool:
    """Tell whether a lock is about to change by the mere passing of time, or has."""
    times = (decoded.deadline, decoded.next_change)
    return any(time is not None and time <= now + _COMING for time in times)


def agrees(expires: float | None, glance: Glance, jitter: float) -> bool:
    """Tell whether a glance fits a key that was read before.

    A key that never expires never agrees: its value may have changed without a trace, only reading tells.

    Args:
        expires: unix time in seconds when the key was to expire.
        glance: what was seen.
        jitter: seconds by which two readings of one deadline may differ.
    """
    return expires is not None and glance.type != "none" and _close(expires, glance.deadline, jitter)


def _coming(entry: Entry, now: float) -> bool:
    over = entry.expires is not None and entry.expires <= now + _COMING
    return entry.hidden or over or coming(entry.decoded, now)


def _same_value(before: tuple[Entry, ...], reading: Reading) -> tuple[Decoded, ...]:
    """Return what is known of a string lock that was merely renewed, which saves decoding it again.

    Only between two deadlines: a lock with none may be another library's.
    """
    if len(before) != 1 or reading.type != "string" or reading.deadline is None:
        return ()
    decoded = before[0].decoded
    if decoded.value is None or decoded.value != reading.value or decoded.deadline is None:
        return ()
    return (replace(decoded, deadline=reading.deadline),)


def _weight(decoded: Decoded) -> int:
    """Return for how many holders a lock counts when it is taken or ends."""
    return max(len(decoded.holders), 1)


def _remaining(decoded: Decoded, now: float) -> float | None:
    return None if decoded.deadline is None else max(decoded.deadline - now, 0.0)


def _close(before: float | None, after: float | None, slack: float) -> bool:
    if before is None or after is None:
        return before == after
    return abs(before - after) <= slack

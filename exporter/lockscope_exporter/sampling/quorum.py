"""Redlock: copies of one lock on several independent servers are one lock, held while enough are left. Pure.

What is on fewer servers than a majority is no lock: an attempt that failed or is under way, or the rest of a
lock. It counts nowhere, but an operator is told of what stays.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from lockscope_exporter.dialects import decode
from lockscope_exporter.sampling.ledger import Ledger, agrees, coming

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lockscope_exporter.dialects import Decoded, Reading
    from lockscope_exporter.sampling.entry import Entry
    from lockscope_exporter.sampling.news import News
    from lockscope_exporter.sampling.reader import Glance
    from lockscope_exporter.state import Family, Holder, LockState

_STAYS = 5.0  # seconds after which an attempt is no longer under way
_APART = 0.25  # seconds between the deadlines of copies of one lock, which are set one after the other
_GROUP = ""  # the node that the ledger beneath knows: all of them together


class Copy(NamedTuple):
    """What one server holds of a key, and since when its owner is known to have it there."""

    reading: Reading
    dialect: str | None
    decoded: Decoded
    since: float


class QuorumLedger:
    """A ledger for servers that hold copies of the same locks. Not safe between threads.

    It takes readings of each server, like ``Ledger``, and tells a ledger beneath it about the locks that a
    majority holds.

    Args:
        ledger: the ledger beneath.
        size: servers in the group.
    """

    def __init__(self, ledger: Ledger, size: int) -> None:
        self.size = size
        self.majority = size // 2 + 1
        self._ledger = ledger
        self._copies: dict[tuple[int, bytes], dict[str, Copy]] = {}
        self._due: dict[str, set[tuple[int, bytes]]] = {}
        self._away: set[str] = set()

    # --- news from Redis ---

    def take(self, db: int, node: str, reading: Reading, dialect: str | None, news: News) -> bool:
        """Take in what a key holds now on one server; return whether that is a surprise."""
        found = decode(reading, dialect)
        if not found:
            return self.gone(db, node, reading.key, news)
        copies = self._copies.setdefault((db, reading.key), {})
        before = copies.get(node)
        same = before is not None and before.decoded.owner_identity == found[0].owner_identity
        since = before.since if before is not None and same else news.at
        copies[node] = Copy(reading, dialect, found[0], since)
        self._away.discard(node)
        self._combine(db, reading.key, news)
        if before is None:
            return True
        return not (same and before.reading.deadline == reading.deadline) and not coming(
            before.decoded, news.at
        )

    def gone(self, db: int, node: str, key: bytes, news: News) -> bool:
        """Take in that a server has no such key; return whether that is a surprise."""
        copies = self._copies.get((db, key), {})
        before = copies.pop(node, None)
        if before is None:
            return False
        self._combine(db, key, news)
        return not coming(before.decoded, news.at)

    def forget(self, db: int, node: str, key: bytes) -> None:
        """Do nothing: what may not be read any more counts until its deadline, as that of a lost server."""

    def tick(self, now: float) -> None:
        """Let time pass."""
        self._ledger.tick(now)
        for db, key in self._ledger.take_due(_GROUP):
            for node in self._copies.get((db, key), ()):
                self._due.setdefault(node, set()).add((db, key))

    def take_due(self, node: str) -> list[tuple[int, bytes]]:
        """Return database and key of what is to be read on a server because time passed; once."""
        return list(self._due.pop(node, ()))

    def suspend(self, node: str) -> None:
        """Note it: what a server out of reach held counts until its deadline, as for Redlock itself."""
        self._away.add(node)

    def assign(self, _owner: object) -> list[tuple[str, int, bytes]]:
        """Do nothing: keys do not move between independent servers."""
        return []

    def assign_key(self, db: int, key: bytes, node: str) -> None:
        """Do nothing: keys do not move between independent servers."""

    def reconsider(self, workers: Iterable[str], now: float) -> None:
        """Judge the locks of these workers anew, because their presence changed."""
        self._ledger.reconsider(workers, now)

    # --- questions ---

    def families(self, now: float) -> list[Family]:
        """Return the counts of every family known."""
        self.tick(now)
        return self._ledger.families(now)

    def entries(self) -> list[Entry]:
        """Return every lock that a majority holds."""
        return self._ledger.entries()

    def states(self, entries: Iterable[Entry], now: float) -> list[LockState]:
        """Return those of the locks that are still live, judged now, with their copies."""
        return [self._with_copies(state) for state in self._ledger.states(entries, now)]

    def find(self, key: bytes, now: float) -> list[LockState]:
        """Return the live locks of one key, in every database."""
        self.tick(now)
        return [self._with_copies(state) for state in self._ledger.find(key, now)]

    def early(self, db: int, node: str, key: bytes, now: float) -> bool:
        """Tell whether a copy has no business to be gone yet."""
        copy = self._copies.get((db, key), {}).get(node)
        return copy is not None and not coming(copy.decoded, now)

    def knows(self, db: int, key: bytes, node: str) -> bool:
        """Tell whether a server had a copy of a lock of this key when last read; the others do not count."""
        return node in self._copies.get((db, key), {})

    def changes_owner(self, db: int, reading: Reading, dialect: str | None) -> bool:  # noqa: ARG002
        """Return ``False``: one write on one server changes no owner of a group."""
        return False

    def is_string(self, db: int, key: bytes) -> bool:
        """Tell whether a key was a string with a lock on some server when last read."""
        copies = self._copies.get((db, key), {})
        return any(copy.decoded.value is not None for copy in copies.values())

    def agrees(self, db: int, node: str, glance: Glance, now: float, jitter: float) -> bool:
        """Tell whether a glance at a key on one server fits what is known."""
        copy = self._copies.get((db, glance.key), {}).get(node)
        if copy is None:
            return glance.type == "none"
        return coming(copy.decoded, now) or agrees(copy.reading.deadline, glance, jitter)

    def keys(self, db: int, node: str) -> list[bytes]:
        """Return the keys of one database that have copies on a server, as far as known."""
        return [key for (number, key), copies in self._copies.items() if number == db and node in copies]

    def workers(self) -> list[str]:
        """Return the names of the instrumented workers that hold locks."""
        return self._ledger.workers()

    def holders(self, worker: str) -> Iterator[Holder]:
        """Yield what the tokens say with which a worker holds locks."""
        return self._ledger.holders(worker)

    # --- copies ---

    def leftovers(self, now: float) -> int:
        """Return how many keys have been on too few servers to be held for a while."""
        found = 0
        for copies in self._copies.values():
            winners = _winners([copy for copy in copies.values() if not _over(copy, now)])
            if 0 < len(winners) < self.majority:
                found += all(copy.since < now - _STAYS for copy in winners)
        return found

    def _combine(self, db: int, key: bytes, news: News) -> None:
        """Tell the ledger beneath what a key is now, all servers taken together."""
        copies = self._copies.get((db, key), {})
        if not copies:
            self._copies.pop((db, key), None)
        winners = _winners([copy for copy in copies.values() if not _over(copy, news.at)])
        if len(winners) < self.majority:
            self._ledger.gone(db, _GROUP, key, news)
            return
        news = replace(news, jitter=max(news.jitter, _APART))
        # The lock is held until fewer copies than a majority are left.
        last = winners[self.majority - 1]
        self._ledger.take(db, _GROUP, last.reading, last.dialect, news)

    def _with_copies(self, state: LockState) -> LockState:
        copies = self._copies.get((state.db, state.key), {})
        winners = _winners([copy for copy in copies.values() if not _over(copy, state.sampled_at)])
        number = len(winners)
        sentence = f"on {number} of {self.size} servers, {self.majority} make a quorum"
        away = sum(copies[node] in winners for node in self._away & copies.keys())
        if away:
            are = "is" if away == 1 else "are"
            sentence += f"; {away} of them {are} out of reach and counted as last seen"
        nodes = ", ".join(sorted(copies))
        return state._replace(node=nodes, quorum=(number, self.size), evidence=(*state.evidence, sentence))


def _winners(copies: Sequence[Copy]) -> list[Copy]:
    """Return the copies of the owner who has most, those that last longest first."""
    by_owner: dict[bytes, list[Copy]] = {}
    for copy in copies:
        by_owner.setdefault(copy.decoded.owner_identity, []).append(copy)
    best = max(by_owner.values(), key=lambda mine: (len(mine), min(map(_lasts, mine))), default=[])
    return sorted(best, key=_lasts, reverse=True)


def _lasts(copy: Copy) -> float:
    deadline = copy.decoded.deadline
    return float("inf") if deadline is None else deadline


def _over(copy: Copy, now: float) -> bool:
    return copy.decoded.deadline is not None and copy.decoded.deadline <= now

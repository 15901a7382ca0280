"""From keys that may have changed to a ledger that says what they hold: read, and hand over."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from lockscope_exporter.sampling.news import News
from lockscope_exporter.sampling.reader import CHUNK, Asked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from threading import Event

    from lockscope_exporter.sampling.clock import ServerClock
    from lockscope_exporter.sampling.feeds.changes import Change
    from lockscope_exporter.sampling.news import How
    from lockscope_exporter.sampling.reader import Glance, Reader, Sample
    from lockscope_exporter.sampling.shared import Shared

_ROUNDS = 3  # times that a key which changes while it is read is read again at once
_SLACK = 0.005  # seconds by which the clocks of one host may seem to disagree
_ASKED_AGAIN = 8  # forbidden keys asked for at a time: each is an error on the server
_MAX_UNREADABLE = 10_000  # keys remembered as forbidden


@dataclass(frozen=True, slots=True)
class Cause:
    """Why keys are read.

    Attributes:
        seen: a feed that misses nothing told of them just now.
        initial: nobody had looked at this node before.
        end: how locks that are gone ended, if that is known.
        asking: a cluster node is asked for slots that it is about to take over.
    """

    seen: bool = False
    initial: bool = False
    end: How | None = None
    asking: bool = False


class Intake:
    """Reads keys of one database of one node, and tells the ledger.

    Args:
        node: name of the node.
        db: database number.
        reader: reads its keys.
        shared: what the nodes of a target read and write.
        stopping: set once the node is no longer to be listened to.

    Attributes:
        again: keys that changed each time they were read; to be read later.
        elsewhere: keys that another cluster node serves now, and its host and port.
        unreadable: keys that this user may not read, those first that were asked for longest ago.
        told_again: says which keys the feed told of again by now.
        evictions: says how many of so many locks that are gone early, of so many live ones, were evicted;
            ``None`` for a server that evicts nothing.
        no_locks: type and deadline of keys that were read and hold no lock, if anybody wants to know.
        last: monotonic time in seconds of the last answer.
    """

    def __init__(self, node: str, db: int, reader: Reader, shared: Shared, stopping: Event) -> None:
        self.db = db
        self.reader = reader
        self.again: set[bytes] = set()
        self.elsewhere: list[tuple[bytes, tuple[str, int]]] = []
        self.unreadable: dict[bytes, None] = {}
        self.told_again: Callable[[Iterable[bytes]], set[bytes]] = lambda _: set()
        self.evictions: Callable[[int, int], int] | None = None
        self.no_locks: dict[bytes, tuple[str, float | None]] | None = None
        self.last = time.monotonic()
        self._node = node
        self._watch = shared.watch
        self._ledger = shared.ledger
        self._guard = shared.guard
        self._stopping = stopping

    @property
    def clock(self) -> ServerClock:
        """The server's clock."""
        return self.reader.line.clock

    def known(self) -> list[bytes]:
        """Return the keys that hold locks here, as far as known."""
        with self._guard:
            return self._ledger.keys(self.db, self._node)

    def follow(self, changes: Mapping[bytes, Change], cause: Cause) -> set[bytes]:
        """Read keys that a feed told of at the moment of this call.

        Args:
            changes: what the feed said of each.
            cause: why they are read.

        Returns:
            Those that differed from the ledger.
        """
        at = self.clock.now() - min(self.clock.round_trip, 1.0) / 2  # the news travelled for half of that
        return self._read(changes, changes, cause, at)

    def look(self, keys: Iterable[bytes], cause: Cause) -> set[bytes]:
        """Read keys that no feed told of; return those that differed from the ledger."""
        return self._read(keys, {}, cause, None)

    def knows(self, key: bytes) -> bool:
        """Tell whether a key held a lock here when last read."""
        return self._ledger.knows(self.db, key, self._node)

    def glances(self, keys: Iterable[bytes]) -> list[Glance]:
        """Return type and expiry of keys; touches none of them."""
        found = []
        for chunk in self._chunks(keys):
            found += self.reader.glance(chunk)
            self.last = time.monotonic()
        return found

    def ask_again(self) -> None:
        """Ask for a few of the keys that this user may not read, and for all once one of them may be read."""
        few = list(islice(self.unreadable, _ASKED_AGAIN))
        for key in few:
            del self.unreadable[key]
        self.look(few, Cause(initial=True))
        if not all(key in self.unreadable for key in few):
            rest, self.unreadable = list(self.unreadable), {}
            self.look(rest, Cause(initial=True))

    def suspects(self, keys: Sequence[bytes]) -> list[bytes]:
        """Return the keys that do not look like what the ledger says of them, or cannot be looked at."""
        jitter = self.reader.abilities.jitter
        glances = self.glances(keys)
        now = self.clock.now()
        seen = {glance.key for glance in glances}
        silent = [key for key in keys if key not in seen and key not in self.unreadable]
        with self._guard:
            return silent + [
                glance.key
                for glance in glances
                if not self._ledger.agrees(self.db, self._node, glance, now, jitter)
            ]

    def _up_to_date(
        self, sample: Sample, dialects: Mapping[bytes, str | None], changes: Mapping[bytes, Change]
    ) -> Mapping[bytes, Change]:
        """Return the changes with what came between the feed's news and the reading.

        A release that the feed told of, and the next owner who came before the key was read, look like one
        write that changed the owner; that write is told of by now.
        """
        with self._guard:
            doubtful = [
                reading.key
                for reading in sample.readings
                if reading.key in changes
                and changes[reading.key].overwrite
                and self._ledger.changes_owner(self.db, reading, dialects[reading.key])
            ]
        if not doubtful:
            return changes
        again = self.told_again(doubtful)
        return {**changes, **{key: replace(changes[key], overwrite=False) for key in again}}

    def _evicted(self, sample: Sample, changes: Mapping[bytes, Change]) -> set[bytes]:
        """Return the keys that are gone before their time because the server evicted them."""
        if self.evictions is None:
            return set()
        with self._guard:
            early = [
                key
                for key, at in sample.gone
                if self._ledger.early(self.db, self._node, key, at) and not _end_told(changes, key)
            ]
            live = len(self._ledger.keys(self.db, self._node)) if early else 0
        return set(early[: self.evictions(len(early), live)]) if early else set()

    def _is_string(self, key: bytes) -> bool:
        return self._ledger.is_string(self.db, key)

    def _chunks(self, keys: Iterable[bytes]) -> Iterator[Sequence[Asked]]:
        chunk: list[Asked] = []
        for key in keys:
            wanted, dialect = self._watch.lock(key)
            if wanted and key not in self.unreadable:
                chunk.append(Asked(key, dialect))
                if len(chunk) == CHUNK:
                    yield chunk
                    chunk = []
        if chunk:
            yield chunk

    def _read(
        self, keys: Iterable[bytes], changes: Mapping[bytes, Change], cause: Cause, at: float | None
    ) -> set[bytes]:
        differing: set[bytes] = set()
        line = self.reader.line
        line.asking = cause.asking
        try:
            for chunk in self._chunks(keys):
                asked = chunk
                for _ in range(_ROUNDS):
                    sample = self.reader.read(asked, self._is_string)
                    self.last = time.monotonic()
                    differing |= self._hand_over(sample, dict(asked), changes, cause, at)
                    asked = sample.again
                    if not asked:
                        break
                self.again.update(item.key for item in asked)
        finally:
            line.asking = False
        return differing

    def _hand_over(
        self,
        sample: Sample,
        dialects: Mapping[bytes, str | None],
        changes: Mapping[bytes, Change],
        cause: Cause,
        at: float | None,
    ) -> set[bytes]:
        differing: set[bytes] = set()
        changes = self._up_to_date(sample, dialects, changes)
        evicted = self._evicted(sample, changes)
        exact = self.reader.abilities.pexpiretime
        tell = _Teller(
            cause,
            changes,
            slack=_SLACK + min(self.clock.round_trip, 1.0) / 2 + (0.0 if exact else 0.05),
            jitter=self.reader.abilities.jitter,
        )
        with self._guard:
            if self._stopping.is_set():
                return differing
            for reading in sample.readings:
                news = tell(reading.key, at or reading.read_at or 0.0)
                if self._ledger.take(self.db, self._node, reading, dialects[reading.key], news):
                    differing.add(reading.key)
                if self.no_locks is not None and not self.knows(reading.key):
                    self.no_locks[reading.key] = (reading.type, reading.deadline)
            for key, read_at in sample.gone:
                news = tell(key, at or read_at, evicted=key in evicted)
                if self._ledger.gone(self.db, self._node, key, news):
                    differing.add(key)
            for key in sample.forbidden:
                self._ledger.forget(self.db, self._node, key)
        self.elsewhere += sample.elsewhere
        if len(self.unreadable) < _MAX_UNREADABLE:
            self.unreadable.update(dict.fromkeys(sample.forbidden))
        return differing


def _end_told(changes: Mapping[bytes, Change], key: bytes) -> bool:
    return key in changes and changes[key].end is not None


class _Teller:
    """Makes the news of keys read together; most are the same, so each is made once.

    Args:
        cause: why the keys were read.
        changes: what a feed said of each.
        slack: seconds by which a deadline and the moment of the news may disagree.
        jitter: seconds by which two readings of one deadline may differ.
    """

    def __init__(self, cause: Cause, changes: Mapping[bytes, Change], slack: float, jitter: float) -> None:
        self._cause = cause
        self._changes = changes
        self._slack = slack
        self._jitter = jitter
        self._made: dict[tuple[float, bool, How | None], News] = {}

    def __call__(self, key: bytes, at: float, *, evicted: bool = False) -> News:
        """Return the news of one key."""
        change = self._changes.get(key)
        overwrite = change is not None and change.overwrite
        end = (change.end if change is not None else None) or self._cause.end
        if evicted and end is None:
            end = "evicted"
        news = self._made.get((at, overwrite, end))
        if news is None:
            cause = self._cause
            news = self._made[at, overwrite, end] = News(
                at,
                seen=cause.seen,
                initial=cause.initial,
                overwrite=overwrite,
                end=end,
                slack=self._slack,
                jitter=self._jitter,
            )
        return news

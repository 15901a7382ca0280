"""Everything that the journal of one target tells, put together. Pure."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from lockscope.journal import FormatError, decode
from lockscope.prefixes import OTHER
from lockscope_exporter.journal.history import History
from lockscope_exporter.journal.leases import Leases

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockscope.journal import Entry
    from lockscope_exporter.journal.books import Books
    from lockscope_exporter.journal.leases import Overlap, Takeover

_REMEMBERED = 200  # overlaps and takeovers that are kept to be shown
_MAX_PREFIXES = 200


class Observer(Protocol):
    """Whoever wants to know of news at once."""

    def told(self, entry: Entry) -> None:
        """Take in an entry that nobody has counted before."""

    def overlapped(self, overlap: Overlap) -> None:
        """Take in an overlap that became certain."""


class JournalLedger:
    """Takes in entries; answers with counts, timelines, takeovers and overlaps. Not safe between threads.

    Args:
        books: the worker metrics, which all targets share.
        observer: is told of what is news.

    Attributes:
        malformed: entries that are none of a journal, or hold events that cannot be read.
        read: entries that could be read.
        history: what happened to each key.
        found: the last overlaps, latest last.
        takeovers: the last takeovers, latest last.
        overlaps: by prefix and database, how many overlaps there were and how many seconds.
    """

    def __init__(self, books: Books, observer: Observer | None = None) -> None:
        self.books = books
        self._observer = observer
        self.malformed = 0
        self.read = 0
        self.history = History()
        self.found: deque[Overlap] = deque(maxlen=_REMEMBERED)
        self.takeovers: deque[Takeover] = deque(maxlen=_REMEMBERED)
        self.overlaps: dict[tuple[str, int], tuple[int, float]] = {}
        self._leases = Leases()

    def take(self, fields: Mapping[bytes, bytes], *, count: bool = True) -> Entry | None:
        """Take in one stream entry, whatever it holds.

        Args:
            fields: as Redis returns them.
            count: it is news; ``False`` for one that an earlier reader has counted.

        Returns:
            The entry, ``None`` if it is none or came before.
        """
        try:
            entry = decode(fields)
        except FormatError:
            self.malformed += 1
            return None
        self.read += 1
        self.malformed += entry.skipped > 0
        if count:
            if not self.books.take(entry):
                return None
        else:
            self.books.look(entry)
        self.history.take(entry.events)
        for recorded in entry.events:
            takeover = self._leases.take(recorded)
            if takeover is not None:
                self.takeovers.append(takeover)
            if count:  # every prefix that is known has its counters, at 0
                self._counted(recorded.event.prefix, recorded.writer.db)
        if count and self._observer is not None:
            self._observer.told(entry)
        return entry

    def tick(self, now: float, *, count: bool = True) -> list[Overlap]:
        """Let time pass.

        Args:
            now: unix time in seconds by the server's clock.
            count: overlaps found now are news.

        Returns:
            Overlaps that became certain.
        """
        self.books.tick(now)
        found = self._leases.overlaps(now)
        self._leases.forget(now)
        for overlap in found:
            self.found.append(overlap)
            if count:
                labels = self._counted(overlap.prefix, overlap.db)
                times, seconds = self.overlaps[labels]
                self.overlaps[labels] = times + 1, seconds + overlap.seconds
                if self._observer is not None:
                    self._observer.overlapped(overlap)
        return found

    def _counted(self, prefix: str, db: int) -> tuple[str, int]:
        """Return the labels under which overlaps of a prefix are counted; bounded, and there at 0."""
        labels = prefix, db
        if labels not in self.overlaps:
            if len(self.overlaps) >= _MAX_PREFIXES:
                labels = OTHER, 0
            self.overlaps.setdefault(labels, (0, 0.0))
        return labels

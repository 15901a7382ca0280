"""One session of watching: looks at the sampler and the journal now and then, and keeps a board of it."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Self

from lockscope_exporter.journal.books import Books
from lockscope_exporter.journal.ledger import JournalLedger
from lockscope_exporter.journal.reader import JournalReader
from lockscope_exporter.sampling import open_source
from lockscope_exporter.watching import told
from lockscope_exporter.watching.changes import Changes
from lockscope_exporter.watching.happenings import Happening, folded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lockscope.journal import Entry
    from lockscope_exporter.journal.leases import Overlap
    from lockscope_exporter.targets import SamplingOptions, Target
    from lockscope_exporter.watching.board import Board

_SHARE = 4  # a look may take a fourth of the time, whatever the number of locks
_LOST = 10_000  # happenings of the journal that wait for a look


class Session:
    """Watches until it is closed; a context manager.

    Args:
        targets: what to watch.
        sampling: how.
        board: filled at every look.
        journal: read the journals, too.
        refresh: seconds between two looks, at least.
    """

    def __init__(
        self,
        targets: Sequence[Target],
        sampling: SamplingOptions,
        board: Board,
        *,
        journal: bool = True,
        refresh: float = 0.5,
    ) -> None:
        self.board = board
        self._source = open_source(targets, sampling)
        self._began = time.time()
        self._refresh = refresh
        self._due = 0.0
        self._changes = Changes()
        self._waiting: deque[Happening] = deque(maxlen=_LOST)
        self._logs = _Logs(self._waiting)
        self._loggers = [logging.getLogger(name) for name in ("lockscope_exporter", "lockscope")]
        self._readers: list[JournalReader] = []
        if journal:
            self._readers = [
                JournalReader(target, _Listening(self._waiting, self._began), threading.RLock())
                for target in targets
            ]

    def __enter__(self) -> Self:
        """Begin in the background."""
        # Whatever is logged would be written over the screen: it becomes a line of the board instead.
        for logger in self._loggers:
            logger.addHandler(self._logs)
            logger.propagate = False
        self._source.start()
        for reader in self._readers:
            reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End, and close every connection."""
        for reader in self._readers:
            reader.stop()
        self._source.stop()
        for reader in self._readers:
            reader.join()
        for logger in self._loggers:
            logger.removeHandler(self._logs)
            logger.propagate = True

    def wait_ready(self, timeout: float) -> bool:
        """Wait until everything was read once; return whether it was."""
        return self._source.wait_ready(timeout)

    def until_due(self) -> float:
        """Return the seconds until the next look."""
        return max(self._due - time.monotonic(), 0.0)

    def look(self) -> list[Happening]:
        """Look once; return what happened since the last time."""
        began = time.monotonic()
        locks = self._source.locks()
        families = self._source.families()
        now = time.time()
        nodes = self._source.nodes()
        self.board.look(locks, nodes, families, now)
        happened = self._changes.look(locks, families, nodes, now)
        while self._waiting:
            happened.append(self._waiting.popleft())
        happened = folded(one for one in happened if self.board.concerns(one))
        self.board.happened.extend(happened)
        self.board.notes = tuple(f"journal: {reader.error}" for reader in self._readers if reader.error)
        took = time.monotonic() - began
        self._due = began + max(self._refresh, _SHARE * took)
        return happened


class _Listening(JournalLedger):
    """Hands on what entries of the journal tell.

    Args:
        waiting: takes happenings.
        since: unix time in seconds before which nothing is handed on.
    """

    def __init__(self, waiting: deque[Happening], since: float) -> None:
        super().__init__(Books())
        self._waiting = waiting
        self._since = since

    def take(self, fields: Mapping[bytes, bytes], *, count: bool = True) -> Entry | None:
        """Take in an entry."""
        entry = super().take(fields, count=count)
        if entry is not None and entry.at >= self._since:
            found = (told.happening(recorded) for recorded in entry.events)
            self._waiting.extend(one for one in found if one is not None)
        return entry

    def tick(self, now: float, *, count: bool = True) -> list[Overlap]:
        """Let time pass."""
        overlaps = super().tick(now, count=count)
        self._waiting.extend(told.overlap(one) for one in overlaps if one.began_at >= self._since)
        return overlaps


class _Logs(logging.Handler):
    """Turns warnings into happenings."""

    def __init__(self, waiting: deque[Happening]) -> None:
        super().__init__(logging.WARNING)
        self._waiting = waiting

    def emit(self, record: logging.LogRecord) -> None:
        """Take in one record; overlaps are told of otherwise."""
        if getattr(record, "event", "") != "lock.overlap":
            self._waiting.append(Happening(record.created, "note", "", None, None, record.getMessage()))

"""The journals of all targets, read in the background and answered from memory."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from lockscope import catalog
from lockscope_exporter.journal.books import Books
from lockscope_exporter.journal.ledger import JournalLedger
from lockscope_exporter.journal.reader import JournalReader
from lockscope_exporter.text import label_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prometheus_client.core import Metric as Family

    from lockscope.journal import Recorded
    from lockscope_exporter.journal.leases import Overlap, Takeover
    from lockscope_exporter.journal.ledger import Observer
    from lockscope_exporter.targets import Target


class JournalFeed(Collector):
    """Reads journals and serves what they tell; a collector of the worker metrics. Safe from any thread.

    Args:
        targets: whose journals.
        max_prefixes: cap on distinct prefixes.
        observer: is told of news at once, by the threads that read.

    Raises:
        UrlError: a target's URL cannot be used.
    """

    def __init__(
        self, targets: Sequence[Target], max_prefixes: int = 200, observer: Observer | None = None
    ) -> None:
        self._guard = threading.RLock()
        self._books = Books(max_prefixes)
        self._ledgers = {target.name: JournalLedger(self._books, observer) for target in targets}
        self._readers = [JournalReader(target, self._ledgers[target.name], self._guard) for target in targets]

    def start(self) -> None:
        """Begin to read in background threads."""
        for reader in self._readers:
            reader.start()

    def stop(self) -> None:
        """Stop the threads; idempotent."""
        for reader in self._readers:
            reader.stop()
        for reader in self._readers:
            reader.join()

    def wait_ready(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds until every journal was read to its end, or cannot be read."""
        deadline = time.monotonic() + timeout
        return all(reader.caught_up.wait(max(deadline - time.monotonic(), 0.0)) for reader in self._readers)

    def errors(self) -> list[str]:
        """Return one line for every journal that cannot be read."""
        return [reader.error for reader in self._readers if reader.error]

    def troubles(self) -> list[str]:
        """Return one line for every journal that cannot be read, or not all of it."""
        found = []
        for (name, ledger), reader in zip(self._ledgers.items(), self._readers, strict=True):
            if reader.error:
                found.append(f"the journal of {name} cannot be read: {reader.error}")
            if ledger.malformed:
                entries = "1 entry" if ledger.malformed == 1 else f"{ledger.malformed:,} entries"
                found.append(f"left out of the journal of {name}, being of another format: {entries}")
        return found

    def collectors(self) -> tuple[JournalFeed, ...]:
        """Return itself if there is any journal to read."""
        return (self,) if self._readers else ()

    def timeline(self, key: bytes, db: int | None = None) -> tuple[Recorded, ...]:
        """Return what happened to a key lately, oldest first, in all targets.

        Args:
            key: the full Redis key.
            db: database number; ``None`` for any.
        """
        with self._guard:
            return tuple(each for ledger in self._ledgers.values() for each in ledger.history.of(key, db))

    def recent(self, since: float) -> tuple[Recorded, ...]:
        """Return what happened to any key since a unix time in seconds, in all targets; bounded."""
        with self._guard:
            return tuple(each for ledger in self._ledgers.values() for each in ledger.history.recent(since))

    def overlaps(self) -> tuple[Overlap, ...]:
        """Return the last times that two holders had one lock at once."""
        with self._guard:
            found = [overlap for ledger in self._ledgers.values() for overlap in ledger.found]
        return tuple(sorted(found, key=lambda overlap: overlap.began_at))

    def heard(self) -> dict[str, float]:
        """Return when each worker last wrote, in unix seconds by the server's clock."""
        with self._guard:
            return {
                name: at for ledger in self._ledgers.values() for name, at in ledger.books.heard().items()
            }

    def takeovers(self) -> tuple[Takeover, ...]:
        """Return the last times that a lock went to another owner without a release."""
        with self._guard:
            found = [takeover for ledger in self._ledgers.values() for takeover in ledger.takeovers]
        return tuple(sorted(found, key=lambda takeover: takeover.after.acquired_at))

    def describe(self) -> Iterable[Family]:
        """Return nothing: what is served depends on what the journal tells."""
        return ()

    def collect(self) -> Iterable[Family]:
        """Return the worker metrics, the overlaps and how reading goes."""
        overlap = CounterMetricFamily(
            catalog.OVERLAP.name, catalog.OVERLAP.help, labels=catalog.OVERLAP.labels
        )
        seconds = CounterMetricFamily(
            catalog.OVERLAP_SECONDS.name, catalog.OVERLAP_SECONDS.help, labels=catalog.OVERLAP_SECONDS.labels
        )
        entries = CounterMetricFamily(
            catalog.JOURNAL_ENTRIES.name, catalog.JOURNAL_ENTRIES.help, labels=catalog.JOURNAL_ENTRIES.labels
        )
        with self._guard:
            families = self._books.families()
            for name, ledger in self._ledgers.items():
                for (prefix, db), (count, lasted) in ledger.overlaps.items():
                    labels = [label_text(prefix), str(db), label_text(name)]
                    overlap.add_metric(labels, count)
                    seconds.add_metric(labels, lasted)
                entries.add_metric([label_text(name), "read"], ledger.read)
                entries.add_metric([label_text(name), "malformed"], ledger.malformed)
        return [*families, overlap, seconds, entries]

"""The worker metrics, from entries of the journal: what processes without a port would have told. Pure."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily

from lockscope import catalog
from lockscope.jobs import Job
from lockscope.journal.gauges import Gauges
from lockscope.journal.model import Losses
from lockscope.prefixes import OTHER
from lockscope.sinks.prometheus import bookkeeping
from lockscope.tally import JobTypes, Tally

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric as Family

    from lockscope.catalog import Metric
    from lockscope.events import LockEvent
    from lockscope.journal import Entry

GIVE_UP = 60.0  # seconds of silence after which a process holds nothing any more: four signs of life missed
_MAX_WORKERS = 20_000
_GAUGES = {catalog.HELD.name, catalog.WAITERS.name}


@dataclass(slots=True)
class _Worker:
    """One process that writes.

    Attributes:
        sequence: number of its last entry.
        heard: unix time in seconds of that, by the server's clock.
        losses: what it could not keep by then.
        gauges: what it holds and waits for.
    """

    sequence: int = 0
    heard: float = 0.0
    losses: Losses = field(default_factory=Losses)
    gauges: Gauges = field(default_factory=Gauges)


class Books:
    """Counts of many processes. Not safe between threads.

    Args:
        max_prefixes: distinct prefixes before further ones fold into ``other``.

    Attributes:
        entries: entries counted.
        repeated: entries that came a second time.
        missed: entries that were trimmed before they were read.
    """

    def __init__(self, max_prefixes: int = 200) -> None:
        self.entries = 0
        self.repeated = 0
        self.missed = 0
        self._tally = Tally()
        self._max_prefixes = max_prefixes
        self._prefixes: set[str] = set()
        self._job_types = JobTypes()
        self._workers: OrderedDict[str, _Worker] = OrderedDict()
        self._dropped = 0
        self._overflowed = 0
        self._sink_errors: dict[str, int] = {}

    def take(self, entry: Entry) -> bool:
        """Count an entry; return false if it was counted before."""
        name = entry.writer.worker
        worker = self._workers.get(name)
        if worker is None:
            worker = self._workers[name] = _Worker(sequence=entry.sequence - 1)
        elif entry.sequence <= worker.sequence:
            self.repeated += 1
            return False
        self._workers.move_to_end(name)
        self.entries += 1
        self.missed += entry.sequence - worker.sequence - 1
        worker.sequence, worker.heard = entry.sequence, entry.at
        for recorded in entry.events:
            self._count(worker, recorded.event)
        if entry.gauges is not None:
            worker.gauges.replace({self._labels(*labels): both for labels, both in entry.gauges.items()})
        self._lose(worker, entry.losses)
        if entry.last:
            worker.gauges.clear()
        if len(self._workers) > _MAX_WORKERS:
            self._workers.popitem(last=False)
        return True

    def look(self, entry: Entry) -> None:
        """Remember an entry from before counting began: what it tells of now, not what it counts."""
        worker = self._workers.setdefault(entry.writer.worker, _Worker())
        self._workers.move_to_end(entry.writer.worker)
        worker.sequence, worker.heard, worker.losses = entry.sequence, entry.at, entry.losses
        for recorded in entry.events:
            worker.gauges.count(self._folded(recorded.event))
        if entry.gauges is not None:
            worker.gauges.replace({self._labels(*labels): both for labels, both in entry.gauges.items()})
        if entry.last:
            worker.gauges.clear()

    def heard(self) -> dict[str, float]:
        """Return when each process was last heard of, in unix seconds, by its worker name."""
        return {name: worker.heard for name, worker in self._workers.items()}

    def tick(self, now: float) -> None:
        """Give up processes that have not been heard of for a while: they are dead, and hold nothing.

        Args:
            now: unix time in seconds by the server's clock.
        """
        for worker in self._workers.values():
            if worker.gauges and now - worker.heard > GIVE_UP:
                worker.gauges.clear()

    def families(self) -> list[Family]:
        """Return the families that processes serve themselves, summed up."""
        found = [family for family in self._tally.families() if family.name not in _GAUGES]
        held, waiting = self._gauges()
        return [
            *found,
            held,
            waiting,
            *bookkeeping(self._overflowed, self._sink_errors, self._dropped),
        ]

    def _count(self, worker: _Worker, event: LockEvent) -> None:
        folded = self._folded(event)
        worker.gauges.count(folded)
        self._tally.add(folded)

    def _folded(self, event: LockEvent) -> LockEvent:
        """Return the event under a prefix and a job type that are within the caps."""
        prefix, job_type = self._labels(event.prefix, event.job.job_type)
        if prefix != event.prefix:
            self._overflowed += 1
            event = event._replace(prefix=prefix)
        return event if job_type == event.job.job_type else event._replace(job=Job(job_type))

    def _labels(self, prefix: str, job_type: str) -> tuple[str, str]:
        if prefix not in self._prefixes:
            if len(self._prefixes) >= self._max_prefixes:
                prefix = OTHER
            else:
                self._prefixes.add(prefix)
        return prefix, self._job_types.bounded(job_type)

    def _lose(self, worker: _Worker, losses: Losses) -> None:
        before, worker.losses = worker.losses, losses
        self._dropped += max(losses.dropped - before.dropped, 0)
        self._overflowed += max(losses.overflowed - before.overflowed, 0)
        for sink, count in losses.sink_errors.items():
            if sink in self._sink_errors or len(self._sink_errors) < 20:  # noqa: PLR2004 - names are hostile input
                more = max(count - before.sink_errors.get(sink, 0), 0)
                self._sink_errors[sink] = self._sink_errors.get(sink, 0) + more

    def _gauges(self) -> tuple[Family, Family]:
        totals = {labels: [0, 0] for labels, _ in self._tally.rows()}
        for worker in self._workers.values():
            for labels, (held, waiting) in worker.gauges.by_labels().items():
                total = totals.setdefault(labels, [0, 0])
                total[0] += held
                total[1] += waiting
        rows = sorted(totals.items())
        return (
            _gauge(catalog.HELD, ((labels, held) for labels, (held, _) in rows)),
            _gauge(catalog.WAITERS, ((labels, waiting) for labels, (_, waiting) in rows)),
        )


def _gauge(metric: Metric, rows: Iterable[tuple[tuple[str, str], int]]) -> Family:
    family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, value in rows:
        family.add_metric(labels, value)
    return family

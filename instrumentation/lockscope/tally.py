"""Counts of lock events by prefix and job type: plain numbers in memory, families when somebody scrapes.

Counting in plain Python and building families at a scrape costs a fraction of one ``prometheus_client`` child
per event, and the same counts serve events that came by the journal.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left
from operator import itemgetter
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, Exemplar, GaugeMetricFamily, HistogramMetricFamily

from lockscope import catalog, events
from lockscope.prefixes import OTHER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client.core import Metric as Family

    from lockscope.catalog import Metric
    from lockscope.events import LockEvent
    from lockscope.jobs import Job
    from lockscope.traces import Trace

    Handler = Callable[["Series", LockEvent, Trace | None], None]
    # Half a lock cycle: key, job; wait and whether it waited (acquire), else hold and TTL used (release); the
    # generation of the lease, None if it counts no more; time.monotonic, trace. Seconds. A plain tuple: it is
    # made on the caller's path.
    Cycle = tuple[
        bytes | str, Job, float | None, bool, float | None, float | None, object, float, Trace | None
    ]

_CACHED_LABELS = 4096
_MAX_LABEL = 160  # characters

# Held while counting and across every fork: a child must not inherit a lock that another thread holds.
_gate = threading.RLock()
os.register_at_fork(before=_gate.acquire, after_in_parent=_gate.release, after_in_child=_gate.release)


class Distribution:
    """Observations of one histogram series: counts by bucket, not cumulative, and their sum."""

    __slots__ = ("bounds", "counts", "exemplars", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        self.exemplars: dict[int, Exemplar] = {}

    def add(self, value: float, trace: Trace | None, at: float) -> None:
        """Count one observation made at unix time ``at``; a trace becomes its bucket's exemplar."""
        index = bisect_left(self.bounds, value)
        self.counts[index] += 1
        self.total += value
        if trace is not None:
            self.exemplars[index] = Exemplar(trace._asdict(), value, at)


class Series:
    """All that is counted of one prefix and job type."""

    __slots__ = (
        "acquire", "headroom", "held", "hold", "idempotency", "release", "renew", "retry", "unprotected",
        "used", "wait", "waiters",
    )  # fmt: skip

    def __init__(self) -> None:
        self.acquire = dict.fromkeys(catalog.ACQUIRE_OUTCOMES, 0)
        self.renew = dict.fromkeys(catalog.RENEW_OUTCOMES, 0)
        self.release = dict.fromkeys(catalog.RELEASE_OUTCOMES, 0)
        self.idempotency: dict[str, int] = {}
        self.retry: dict[str, int] = {}
        self.wait: dict[str, Distribution] = {}
        self.hold = Distribution(catalog.HOLD_BUCKETS)
        self.headroom = Distribution(catalog.RATIO_BUCKETS)
        self.used = Distribution(catalog.USED_BUCKETS)
        self.unprotected = 0.0
        self.held = 0
        self.waiters = 0

    def acquired(self, wait: float, trace: Trace | None, at: float) -> None:
        """Count a call to acquire that got the lock; whether it is held is the caller's to count."""
        self.acquire["acquired"] += 1
        waits = self.wait.get("acquired")
        if waits is None:
            waits = self.wait["acquired"] = Distribution(catalog.WAIT_BUCKETS)
        waits.add(wait, trace, at)

    def released(
        self, outcome: str, hold: float | None, used: float | None, trace: Trace | None, at: float
    ) -> None:
        """Count a release by outcome, with the time held and the share of the TTL used where known."""
        self.release[outcome] += 1
        if hold is not None:
            self.hold.add(hold, trace, at)
            if used is not None:
                self.used.add(used, trace, at)


class Bounded:
    """Keeps a label bounded whose values the application chooses: ``job_type``, ``reason``.

    Args:
        limit: distinct values before further ones fold into ``other``.
    """

    def __init__(self, limit: int = 200) -> None:
        self._limit = limit
        self._known: set[str] = set()

    def bounded(self, value: str) -> str:
        """Return the label's value: valid UTF-8 of bounded length, or ``other`` once the cap is reached."""
        value = value[:_MAX_LABEL].encode("utf-8", "replace").decode()
        if value not in self._known:
            if len(self._known) >= self._limit:
                return OTHER
            self._known.add(value)
        return value


class JobTypes(Bounded):
    """Keeps ``job_type`` bounded."""


class Reasons(Bounded):
    """Keeps ``reason`` bounded."""

    def __init__(self) -> None:
        super().__init__(limit=20)


class Tally:
    """Counts events; bounded by the caps on prefixes and job types, safe between threads and forks.

    Args:
        trace: returns the trace that the caller is in, for exemplars, or ``None``.
    """

    def __init__(self, trace: Callable[[], Trace | None] | None = None) -> None:
        self._trace = trace
        self._job_types = JobTypes()
        self._reasons = Reasons()
        self._series: dict[tuple[str, str], Series] = {}
        self._cache: dict[tuple[str, str], Series] = {}

    def add(self, event: LockEvent) -> None:
        """Count ``event``, also if a signal handler raises in the middle of it."""
        handler = _HANDLERS.get(event.event)
        if handler is None:
            return
        counted: list[bool] = []
        try:
            self._count(handler, event, counted)
        except BaseException:
            if not counted:
                self._count(handler, event, counted)
            raise

    def _count(self, handler: Handler, event: LockEvent, counted: list[bool]) -> None:
        with _gate:
            series = self._cache.get((event.prefix, event.job.job_type))
            if series is None:
                series = self._admit(event.prefix, event.job.job_type)
            if event.reason:
                event = event._replace(reason=self._reasons.bounded(event.reason))
            trace = self._trace() if self._trace is not None else None
            counted.append(True)
            handler(series, event, trace)

    def add_cycles(
        self,
        cycles: Iterable[Cycle],
        prefix_of: Callable[[bytes | str], str],
        generation: Callable[[], object],
    ) -> None:
        """Count acquires and releases that went well, noted on the caller's path and counted here.

        Args:
            cycles: what was noted.
            prefix_of: returns the family of a key.
            generation: returns the generation of leases that count as held now.
        """
        with _gate:
            alive = generation()
            to_unix = time.time() - time.monotonic()
            for name, job, wait, waited, hold, used, made, now, trace in cycles:
                at = now + to_unix
                prefix = prefix_of(name)
                series = self._cache.get((prefix, job.job_type))
                if series is None:
                    series = self._admit(prefix, job.job_type)
                if wait is not None:
                    series.acquired(wait, trace, at)
                    if made is alive:
                        series.held += 1
                        series.waiters -= waited
                else:
                    series.released("released", hold, used, trace, at)
                    series.held -= made is alive

    def reset_gauges(self) -> None:
        """Count nothing as held or waiting any more."""
        with _gate:
            for series in self._series.values():
                series.held = series.waiters = 0

    def rows(self) -> list[tuple[tuple[str, str], Series]]:
        """Return prefix, job type and live counts of every series, sorted; the counts go on changing."""
        with _gate:
            return sorted(self._series.items(), key=itemgetter(0))

    def families(self) -> list[Family]:
        """Return the shim's metric families as they stand, for a ``prometheus_client`` collector."""
        with _gate:
            return list(_families(self._series))

    def _admit(self, prefix: str, job_type: str) -> Series:
        series = self._series.setdefault((prefix, self._job_types.bounded(job_type)), Series())
        if len(self._cache) >= _CACHED_LABELS:
            self._cache = {}
        self._cache[prefix, job_type] = series
        return series


def _wait(series: Series, event: LockEvent, trace: Trace | None) -> None:
    outcome = event.outcome
    series.acquire[outcome] += 1
    waits = series.wait.get(outcome)
    if waits is None:
        waits = series.wait[outcome] = Distribution(catalog.WAIT_BUCKETS)
    waits.add(event.wait_seconds or 0.0, trace, event.at)
    if event.waited:
        series.waiters -= 1


def _acquired(series: Series, event: LockEvent, trace: Trace | None) -> None:
    series.acquired(event.wait_seconds or 0.0, trace, event.at)
    series.waiters -= event.waited
    series.held += not event.ends_lease


def _waiting(series: Series, _event: LockEvent, _trace: object) -> None:
    series.waiters += 1


def _renewed(series: Series, event: LockEvent, trace: Trace | None) -> None:
    series.renew[event.outcome] += 1
    headroom = event.headroom
    if headroom is not None:
        series.headroom.add(headroom, trace, event.at)
    _ended(series, event)


def _released(series: Series, event: LockEvent, trace: Trace | None) -> None:
    series.released(event.outcome, event.hold_seconds, event.ttl_used, trace, event.at)
    _ended(series, event)


def _ended(series: Series, event: LockEvent, _trace: object = None) -> None:
    series.unprotected += event.unprotected_seconds
    if event.ends_lease:
        series.held -= 1


def _retry(series: Series, event: LockEvent, _trace: object) -> None:
    series.retry[event.reason] = series.retry.get(event.reason, 0) + 1


def _idempotency(series: Series, event: LockEvent, _trace: object) -> None:
    if not series.idempotency:
        series.idempotency = dict.fromkeys(catalog.IDEMPOTENCY_OUTCOMES, 0)
    series.idempotency[event.outcome] += 1


_HANDLERS: dict[str, Handler] = {
    events.ACQUIRED: _acquired,
    events.CONTENDED: _wait,
    events.ACQUIRE_TIMEOUT: _wait,
    events.ACQUIRE_ERROR: _wait,
    events.WAITING: _waiting,
    events.RENEWED: _renewed,
    events.RENEW_LOST: _renewed,
    events.RENEW_ERROR: _renewed,
    events.RELEASED: _released,
    events.RELEASE_LOST: _released,
    events.RELEASE_ERROR: _released,
    events.ABANDONED: _ended,
    events.RETRY: _retry,
    events.IDEMPOTENCY: _idempotency,
    events.DUPLICATE: _idempotency,
}


def _families(series: dict[tuple[str, str], Series]) -> Iterator[Family]:
    items = sorted(series.items())
    yield _counter(catalog.ACQUIRE, ((labels, s.acquire) for labels, s in items))
    yield _histogram(
        catalog.ACQUIRE_WAIT,
        (((*labels, outcome), waits) for labels, s in items for outcome, waits in sorted(s.wait.items())),
    )
    yield _histogram(catalog.HOLD, ((labels, s.hold) for labels, s in items))
    yield _counter(catalog.RENEW, ((labels, s.renew) for labels, s in items))
    yield _histogram(catalog.RENEW_HEADROOM, ((labels, s.headroom) for labels, s in items))
    yield _counter(catalog.RELEASE, ((labels, s.release) for labels, s in items))
    yield _histogram(catalog.TTL_USED, ((labels, s.used) for labels, s in items))
    unprotected = CounterMetricFamily(
        catalog.UNPROTECTED.name, catalog.UNPROTECTED.help, labels=catalog.SHIM_LABELS
    )
    held = GaugeMetricFamily(catalog.HELD.name, catalog.HELD.help, labels=catalog.SHIM_LABELS)
    waiters = GaugeMetricFamily(catalog.WAITERS.name, catalog.WAITERS.help, labels=catalog.SHIM_LABELS)
    for labels, one in items:
        unprotected.add_metric(labels, one.unprotected)
        held.add_metric(labels, one.held)
        waiters.add_metric(labels, one.waiters)
    yield unprotected
    yield held
    yield waiters
    yield _counter(catalog.RETRY, ((labels, s.retry) for labels, s in items))
    yield _counter(catalog.IDEMPOTENCY, ((labels, s.idempotency) for labels, s in items))


def _counter(metric: Metric, rows: Iterable[tuple[tuple[str, ...], dict[str, int]]]) -> Family:
    family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, counts in rows:
        for value, count in counts.items():
            family.add_metric((*labels, value), count)
    return family


def _histogram(metric: Metric, rows: Iterable[tuple[tuple[str, ...], Distribution]]) -> Family:
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    bounds = [*(str(bound) for bound in metric.buckets), "+Inf"]
    for labels, observed in rows:
        buckets: list[tuple[str, float] | tuple[str, float, Exemplar]] = []
        running = 0
        for index, (bound, count) in enumerate(zip(bounds, observed.counts, strict=True)):
            running += count
            exemplar = observed.exemplars.get(index)
            buckets.append((bound, running) if exemplar is None else (bound, running, exemplar))
        family.add_metric(labels, buckets, observed.total)
    return family

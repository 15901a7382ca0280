"""Lock events as metrics of ``prometheus_client``, in the application's own registry."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily

from lockscope import catalog, events
from lockscope.prefixes import OTHER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client.core import Metric as Family

    from lockscope.catalog import Metric
    from lockscope.events import LockEvent

_ON_REGISTRY = "_lockscope_metrics"
_MAX_SERIES_KEYS = 4096
# Held while counting and across every fork: a child must not inherit a metric that a thread has locked.
_gate = threading.RLock()
os.register_at_fork(before=_gate.acquire, after_in_parent=_gate.release, after_in_child=_gate.release)

_SHIM = tuple(metric for metric in catalog.CATALOG if metric.origin == "shim")


class _Series:
    """The metric children of one prefix and job type, looked up once."""

    __slots__ = (
        "acquire",
        "headroom",
        "held",
        "hold",
        "release",
        "renew",
        "unprotected",
        "used",
        "wait",
        "waiters",
    )

    def __init__(self, metrics: dict[str, Any], labels: tuple[str, str]) -> None:
        def children(metric: Metric) -> dict[str, Any]:
            return {value: metrics[metric.name].labels(*labels, value) for value in metric.values["outcome"]}

        self.acquire = children(catalog.ACQUIRE)
        self.renew = children(catalog.RENEW)
        self.release = children(catalog.RELEASE)
        self.wait: dict[str, Any] = {}
        self.hold = metrics[catalog.HOLD.name].labels(*labels)
        self.headroom = metrics[catalog.RENEW_HEADROOM.name].labels(*labels)
        self.used = metrics[catalog.TTL_USED.name].labels(*labels)
        self.unprotected = metrics[catalog.UNPROTECTED.name].labels(*labels)
        self.held = metrics[catalog.HELD.name].labels(*labels)
        self.waiters = metrics[catalog.WAITERS.name].labels(*labels)


class PrometheusSink:
    """Counts lock events; call it with each event.

    Works with multiprocess mode (``PROMETHEUS_MULTIPROC_DIR``): gauges are the sum over live processes. A
    second sink on the same registry, as after a reload, goes on with the metrics that are there.

    Args:
        registry: where the metrics live; the default is ``prometheus_client``'s global registry.
        before_collect: called at each scrape, before the metrics are read.
        overflowed: returns how many keys the prefix cap has folded so far.
        sink_errors: returns how many events each sink failed to take.
        max_job_types: distinct job types before further ones fold into ``other``.
    """

    name = "prometheus"

    def __init__(
        self,
        registry: CollectorRegistry | None = None,
        *,
        before_collect: Callable[[], None] | None = None,
        overflowed: Callable[[], int] | None = None,
        sink_errors: Callable[[], dict[str, int]] | None = None,
        max_job_types: int = 200,
    ) -> None:
        self.registry = REGISTRY if registry is None else registry
        self._max_job_types = max_job_types
        self._job_types: set[str] = set()
        self._series: dict[tuple[str, str], _Series] = {}
        self._known: set[tuple[str, str]] = set()
        books = _Books(before_collect, overflowed, sink_errors)
        present = getattr(self.registry, _ON_REGISTRY, None)
        if present is None:
            present = {"books": books}
            self.registry.register(books)
            present |= {
                metric.name: _make(metric, self.registry) for metric in _SHIM if metric.labels[0] == "prefix"
            }
            setattr(self.registry, _ON_REGISTRY, present)
        else:
            present["books"].follow(books)
        self._metrics: dict[str, Any] = present
        self._handlers: dict[str, Callable[[_Series, LockEvent], None]] = {
            events.ACQUIRED: self._acquired,
            events.RELEASED: self._released,
            events.CONTENDED: self._not_acquired,
            events.ACQUIRE_TIMEOUT: self._not_acquired,
            events.ACQUIRE_ERROR: self._not_acquired,
            events.WAITING: self._waiting,
            events.RENEWED: self._renewed,
            events.RENEW_LOST: self._renewed,
            events.RENEW_ERROR: self._renewed,
            events.RELEASE_LOST: self._released,
            events.RELEASE_ERROR: self._released,
            events.ABANDONED: self._abandoned,
            events.RETRY: self._retry,
            events.IDEMPOTENCY: self._idempotency,
            events.DUPLICATE: self._idempotency,
        }

    def __call__(self, event: LockEvent) -> None:
        """Count ``event``."""
        handler = self._handlers.get(event.event)
        if handler is None:
            return
        with _gate:
            series = self._series.get((event.prefix, event.job.job_type))
            if series is None:
                series = self._admit(event)
            handler(series, event)

    def reset(self) -> None:
        """Count nothing as held or waiting any more."""
        with _gate:
            for labels in self._known:
                self._metrics[catalog.HELD.name].labels(*labels).set(0)
                self._metrics[catalog.WAITERS.name].labels(*labels).set(0)

    def labels(self, event: LockEvent) -> tuple[str, str]:
        """Return the bounded label values ``prefix, job_type`` of an event."""
        job_type = event.job.job_type
        if job_type not in self._job_types:
            if len(self._job_types) >= self._max_job_types:
                job_type = OTHER
            else:
                self._job_types.add(job_type)
        return event.prefix, job_type.encode("utf-8", "replace").decode()

    def _admit(self, event: LockEvent) -> _Series:
        labels = self.labels(event)
        self._known.add(labels)
        series = _Series(self._metrics, labels)
        if len(self._series) >= _MAX_SERIES_KEYS:
            self._series = {}
        self._series[event.prefix, event.job.job_type] = series
        return series

    def _wait(self, series: _Series, event: LockEvent) -> None:
        histogram = series.wait.get(event.outcome)
        if histogram is None:
            histogram = self._metrics[catalog.ACQUIRE_WAIT.name].labels(*self.labels(event), event.outcome)
            series.wait[event.outcome] = histogram
        histogram.observe(event.wait_seconds)
        if event.waited:
            series.waiters.dec()

    def _acquired(self, series: _Series, event: LockEvent) -> None:
        series.acquire["acquired"].inc()
        series.held.inc()
        self._wait(series, event)

    def _not_acquired(self, series: _Series, event: LockEvent) -> None:
        series.acquire[event.outcome].inc()
        self._wait(series, event)

    def _waiting(self, series: _Series, _event: LockEvent) -> None:
        series.waiters.inc()

    def _renewed(self, series: _Series, event: LockEvent) -> None:
        series.renew[event.outcome].inc()
        if event.ttl and event.ttl_remaining is not None:
            series.headroom.observe(min(max(event.ttl_remaining / event.ttl, 0.0), 1.0))
        self._ended(series, event)

    def _released(self, series: _Series, event: LockEvent) -> None:
        series.release[event.outcome].inc()
        if event.hold_seconds is not None:
            series.hold.observe(event.hold_seconds)
            if event.ttl and event.ttl_remaining is not None:
                series.used.observe((event.ttl - event.ttl_remaining) / event.ttl)
        self._ended(series, event)

    def _ended(self, series: _Series, event: LockEvent) -> None:
        if event.unprotected_seconds:
            series.unprotected.inc(event.unprotected_seconds)
        if event.ends_lease:
            series.held.dec()

    def _abandoned(self, series: _Series, _event: LockEvent) -> None:
        series.held.dec()

    def _retry(self, _series: _Series, event: LockEvent) -> None:
        self._metrics[catalog.RETRY.name].labels(*self.labels(event), event.reason[:80]).inc()

    def _idempotency(self, _series: _Series, event: LockEvent) -> None:
        labels = self.labels(event)
        for outcome in catalog.IDEMPOTENCY_OUTCOMES:
            child = self._metrics[catalog.IDEMPOTENCY.name].labels(*labels, outcome)
            if outcome == event.outcome:
                child.inc()


class _Books:
    """Reads, at each scrape, what is counted outside ``prometheus_client``."""

    def __init__(
        self,
        before_collect: Callable[[], None] | None,
        overflowed: Callable[[], int] | None,
        sink_errors: Callable[[], dict[str, int]] | None,
    ) -> None:
        self.before_collect = before_collect
        self.overflowed = overflowed
        self.sink_errors = sink_errors

    def follow(self, other: _Books) -> None:
        """Read from where ``other`` reads, from now on."""
        self.before_collect = other.before_collect
        self.overflowed = other.overflowed
        self.sink_errors = other.sink_errors

    def describe(self) -> Iterable[Family]:
        """Name the families, so that registration need not collect."""
        return self._families()

    def collect(self) -> Iterable[Family]:
        """Return the families with their samples."""
        if self.before_collect is not None:
            self.before_collect()
        overflow, errors = self._families()
        if self.overflowed is not None:
            overflow.add_metric([], self.overflowed())
        for sink, count in (self.sink_errors() if self.sink_errors is not None else {}).items():
            errors.add_metric([sink], count)
        return overflow, errors

    @staticmethod
    def _families() -> tuple[Any, Any]:
        return (
            CounterMetricFamily(catalog.PREFIX_OVERFLOW.name, catalog.PREFIX_OVERFLOW.help),
            CounterMetricFamily(
                catalog.SINK_ERRORS.name, catalog.SINK_ERRORS.help, labels=catalog.SINK_ERRORS.labels
            ),
        )


def _make(metric: Metric, registry: CollectorRegistry) -> Any:
    if metric.kind == "counter":
        return Counter(metric.name, metric.help, metric.labels, registry=registry)
    if metric.kind == "gauge":
        return Gauge(metric.name, metric.help, metric.labels, registry=registry, multiprocess_mode="livesum")
    return Histogram(metric.name, metric.help, metric.labels, registry=registry, buckets=metric.buckets)

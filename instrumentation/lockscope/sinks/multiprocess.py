"""Lock events as metrics of ``prometheus_client`` in multiprocess mode: values in files, a set a process."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from lockscope import catalog, events
from lockscope.tally import JobTypes, Reasons

if TYPE_CHECKING:
    from lockscope.catalog import Metric
    from lockscope.events import LockEvent

_ON_REGISTRY = "_lockscope_metrics"
_SHIM = tuple(metric for metric in catalog.CATALOG if metric.labels[:2] == catalog.SHIM_LABELS)
_OUTCOMES = {
    **dict.fromkeys(
        (events.ACQUIRED, events.CONTENDED, events.ACQUIRE_TIMEOUT, events.ACQUIRE_ERROR), catalog.ACQUIRE
    ),
    **dict.fromkeys((events.RENEWED, events.RENEW_LOST, events.RENEW_ERROR), catalog.RENEW),
    **dict.fromkeys((events.RELEASED, events.RELEASE_LOST, events.RELEASE_ERROR), catalog.RELEASE),
    **dict.fromkeys((events.IDEMPOTENCY, events.DUPLICATE), catalog.IDEMPOTENCY),
}

# Held while counting and across every fork: a child must not inherit a metric that a thread has locked.
_gate = threading.RLock()
os.register_at_fork(before=_gate.acquire, after_in_parent=_gate.release, after_in_child=_gate.release)


class MultiprocessSink:
    """Counts lock events in the files of ``PROMETHEUS_MULTIPROC_DIR``; call it with each event.

    Gauges are the sum over live processes. What the prefix cap folds and what sinks fail to take is not
    counted in this mode: those are numbers of one process that no file carries.

    Args:
        registry: where the metrics are declared; scrapes read the files, not this registry.
    """

    name = "prometheus"

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = REGISTRY if registry is None else registry
        metrics = getattr(registry, _ON_REGISTRY, None)
        if metrics is None:
            metrics = {metric.name: _make(metric, registry) for metric in _SHIM}
            setattr(registry, _ON_REGISTRY, metrics)
        self._metrics: dict[str, Any] = metrics
        self._job_types = JobTypes()
        self._reasons = Reasons()
        self._known: set[tuple[str, str]] = set()

    def __call__(self, event: LockEvent) -> None:
        """Count ``event``."""
        with _gate:
            labels = event.prefix, self._job_types.bounded(event.job.job_type)
            if labels not in self._known:
                self._known.add(labels)
                self._begin_at_zero(labels)
            self._count(event, labels)

    def reset(self) -> None:
        """Count nothing as held or waiting any more."""
        with _gate:
            for labels in self._known:
                self._of(catalog.HELD, *labels).set(0)
                self._of(catalog.WAITERS, *labels).set(0)

    def _count(self, event: LockEvent, labels: tuple[str, str]) -> None:
        counter = _OUTCOMES.get(event.event)
        if counter is catalog.IDEMPOTENCY:
            for outcome in catalog.IDEMPOTENCY_OUTCOMES:
                self._of(counter, *labels, outcome).inc(outcome == event.outcome)
        elif counter is not None:
            self._of(counter, *labels, event.outcome).inc()
        elif event.event == events.RETRY:
            self._of(catalog.RETRY, *labels, self._reasons.bounded(event.reason)).inc()
        self._gauges(event, labels)
        self._observe(event, labels, counter)

    def _gauges(self, event: LockEvent, labels: tuple[str, str]) -> None:
        if event.event == events.WAITING:
            self._of(catalog.WAITERS, *labels).inc()
        elif event.waited:
            self._of(catalog.WAITERS, *labels).dec()
        if event.event == events.ACQUIRED:
            self._of(catalog.HELD, *labels).inc()
        if event.ends_lease:
            self._of(catalog.HELD, *labels).dec()

    def _observe(self, event: LockEvent, labels: tuple[str, str], counter: Metric | None) -> None:
        if counter is catalog.ACQUIRE:
            self._of(catalog.ACQUIRE_WAIT, *labels, event.outcome).observe(event.wait_seconds or 0.0)
        if event.unprotected_seconds:
            self._of(catalog.UNPROTECTED, *labels).inc(event.unprotected_seconds)
        if counter is catalog.RENEW and (headroom := event.headroom) is not None:
            self._of(catalog.RENEW_HEADROOM, *labels).observe(headroom)
        if counter is catalog.RELEASE and event.hold_seconds is not None:
            self._of(catalog.HOLD, *labels).observe(event.hold_seconds)
            if (used := event.ttl_used) is not None:
                self._of(catalog.TTL_USED, *labels).observe(used)

    def _begin_at_zero(self, labels: tuple[str, str]) -> None:
        for counter in (catalog.ACQUIRE, catalog.RENEW, catalog.RELEASE):
            for outcome in counter.values["outcome"]:
                self._of(counter, *labels, outcome)
        self._of(catalog.UNPROTECTED, *labels)

    def _of(self, metric: Metric, *labels: str) -> Any:
        return self._metrics[metric.name].labels(*labels)


def _make(metric: Metric, registry: CollectorRegistry) -> Any:
    if metric.kind == "counter":
        return Counter(metric.name, metric.help, metric.labels, registry=registry)
    if metric.kind == "gauge":
        return Gauge(metric.name, metric.help, metric.labels, registry=registry, multiprocess_mode="livesum")
    return Histogram(metric.name, metric.help, metric.labels, registry=registry, buckets=metric.buckets)

"""Lock events as OpenTelemetry metrics, under the dotted names of the catalogue. Needs ``opentelemetry-api``.

Counters and gauges are read from a tally when a reader collects, which costs the caller nothing. The API has
no such way for histograms: their values are recorded later, in the context of the call for exemplars, at the
latest when a reader collects.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from opentelemetry import metrics
from opentelemetry.metrics import Observation

from lockscope import catalog, events
from lockscope._version import __version__
from lockscope.guards import guard
from lockscope.sinks.otel_attributes import ACQUIRES
from lockscope.tally import JobTypes, Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from opentelemetry.context import Context
    from opentelemetry.metrics import Histogram, MeterProvider

    from lockscope.catalog import Metric
    from lockscope.events import LockEvent
    from lockscope.tally import Series

_RENEWALS = frozenset({events.RENEWED, events.RENEW_LOST, events.RENEW_ERROR})
_RELEASES = frozenset({events.RELEASED, events.RELEASE_LOST, events.RELEASE_ERROR})
VALUED = ACQUIRES | _RENEWALS | _RELEASES
_CACHED_LABELS = 4096


def _nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class Books:
    """Where the counts are read.

    Attributes:
        tally: counts that another sink of the same events keeps already; ``None`` to keep own ones.
        before_collect: called before they are read.
        overflowed: returns how many keys the prefix cap has folded so far.
        sink_errors: returns how many events each sink failed to take.
        journal_dropped: returns how many events the journal dropped.
    """

    tally: Tally | None = None
    before_collect: Callable[[], None] = _nothing
    overflowed: Callable[[], int] = int
    sink_errors: Callable[[], Mapping[str, int]] = dict
    journal_dropped: Callable[[], int] = int


class Values:
    """Records what lock events hold for one meter provider.

    A second one for the same provider goes on with the instruments and counts that are there: the API has no
    way to take an instrument back.

    Args:
        meter_provider: where metrics go; the default is the global provider.
        books: where counts are read.
        catch_up: records the values that are due.
    """

    def __init__(
        self, meter_provider: MeterProvider | None, books: Books, catch_up: Callable[[], object]
    ) -> None:
        self._instruments = instruments = _instruments_of(meter_provider)
        if books.tally is None:
            books = dataclasses.replace(books, tally=instruments.own)
            self.count: Callable[[LockEvent], None] | None = instruments.own.add
        else:
            self.count = None
        instruments.books = books
        instruments.catch_up = catch_up
        self._job_types = JobTypes()
        self._labels: dict[tuple[str, str, str], dict[str, str]] = {}

    def reset(self) -> None:
        """Count nothing as held or waiting any more."""
        if self.count is not None:
            self._instruments.own.reset_gauges()

    def record(self, event: LockEvent, context: Context | None) -> None:
        """Record the seconds and shares of an event, in the context of its call."""
        name = event.event
        instruments = self._instruments
        if name in ACQUIRES:
            labels = self._labels_of(event, event.outcome)
            instruments.wait.record(event.wait_seconds or 0.0, labels, context)
        elif name in _RELEASES and event.hold_seconds is not None:
            labels = self._labels_of(event)
            instruments.hold.record(event.hold_seconds, labels, context)
            if event.ttl_used is not None:
                instruments.used.record(max(event.ttl_used, 0.0), labels, context)
        elif name in _RENEWALS and event.headroom is not None:
            instruments.headroom.record(event.headroom, self._labels_of(event), context)

    def _labels_of(self, event: LockEvent, outcome: str = "") -> dict[str, str]:
        labels = self._labels.get((event.prefix, event.job.job_type, outcome))
        if labels is None:
            labels = {"prefix": event.prefix, "job_type": self._job_types.bounded(event.job.job_type)}
            if outcome:
                labels["outcome"] = outcome
            if len(self._labels) >= _CACHED_LABELS:
                self._labels = {}
            self._labels[event.prefix, event.job.job_type, outcome] = labels
        return labels


class _Instruments:
    """The instruments of one meter provider, and where their values are read."""

    def __init__(self, meter_provider: MeterProvider | None) -> None:
        self.own = Tally()
        self.books = Books(self.own)
        self.catch_up: Callable[[], object] = _nothing
        meter = metrics.get_meter("lockscope", __version__, meter_provider)

        def histogram(metric: Metric) -> Histogram:
            return meter.create_histogram(
                metric.otel_name,
                metric.unit,
                metric.help,
                explicit_bucket_boundaries_advisory=metric.buckets,
            )

        def observed(metric: Metric, read: Callable[[Metric], Iterable[Observation]]) -> None:
            create: Any = (
                meter.create_observable_counter
                if metric.kind == "counter"
                else meter.create_observable_up_down_counter
            )
            create(metric.otel_name, [lambda _options: read(metric)], metric.unit, metric.help)

        self.wait = histogram(catalog.ACQUIRE_WAIT)
        self.hold = histogram(catalog.HOLD)
        self.headroom = histogram(catalog.RENEW_HEADROOM)
        self.used = histogram(catalog.TTL_USED)
        for metric in (catalog.ACQUIRE, catalog.RENEW, catalog.RELEASE, catalog.RETRY, catalog.IDEMPOTENCY):
            observed(metric, self._counts)
        for metric in (catalog.UNPROTECTED, catalog.HELD, catalog.WAITERS):
            observed(metric, self._numbers)
        observed(catalog.PREFIX_OVERFLOW, self._overflow)
        observed(catalog.JOURNAL_DROPPED, self._dropped)
        observed(catalog.SINK_ERRORS, self._errors)

    def _rows(self) -> list[tuple[tuple[str, str], Series]]:
        self.books.before_collect()
        self.catch_up()
        return [] if self.books.tally is None else self.books.tally.rows()

    def _counts(self, metric: Metric) -> Iterable[Observation]:
        *_, label = metric.labels
        for (prefix, job_type), series in self._rows():
            for value, count in list(_COUNTS[metric.name](series).items()):
                yield Observation(count, {"prefix": prefix, "job_type": job_type, label: value})

    def _numbers(self, metric: Metric) -> Iterable[Observation]:
        for (prefix, job_type), series in self._rows():
            yield Observation(_NUMBERS[metric.name](series), {"prefix": prefix, "job_type": job_type})

    def _overflow(self, _metric: Metric) -> Iterable[Observation]:
        return [Observation(self.books.overflowed())]

    def _dropped(self, _metric: Metric) -> Iterable[Observation]:
        return [Observation(self.books.journal_dropped())]

    def _errors(self, _metric: Metric) -> Iterable[Observation]:
        return [Observation(count, {"sink": sink}) for sink, count in self.books.sink_errors().items()]


_COUNTS: dict[str, Callable[[Series], dict[str, int]]] = {
    catalog.ACQUIRE.name: lambda series: series.acquire,
    catalog.RENEW.name: lambda series: series.renew,
    catalog.RELEASE.name: lambda series: series.release,
    catalog.RETRY.name: lambda series: series.retry,
    catalog.IDEMPOTENCY.name: lambda series: series.idempotency,
}
_NUMBERS: dict[str, Callable[[Series], float]] = {
    catalog.UNPROTECTED.name: lambda series: series.unprotected,
    catalog.HELD.name: lambda series: series.held,
    catalog.WAITERS.name: lambda series: series.waiters,
}

_making = guard()
_of_provider: WeakKeyDictionary[MeterProvider, _Instruments] = WeakKeyDictionary()
_of_global: list[_Instruments] = []  # the global provider, set already or not: there is only ever one


def _instruments_of(meter_provider: MeterProvider | None) -> _Instruments:
    with _making:
        if meter_provider is None:
            if not _of_global:
                _of_global.append(_Instruments(None))
            return _of_global[0]
        found = _of_provider.get(meter_provider)
        if found is None:
            found = _of_provider[meter_provider] = _Instruments(meter_provider)
        return found

"""Lock events as Prometheus metrics in the application's own registry."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily

from lockscope import catalog
from lockscope.tally import Tally
from lockscope.traces import current_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric as Family

    from lockscope.events import LockEvent

_ON_REGISTRY = "_lockscope_collector"


class PrometheusSink:
    """Counts lock events for one registry; call it with each event.

    A second sink on the same registry, as after a reload, goes on with the counts that are there. In
    multiprocess mode use ``MultiprocessSink``.

    Args:
        registry: where the metrics are served; the default is ``prometheus_client``'s global registry.
        before_collect: called at each scrape, before the counts are read.
        overflowed: returns how many keys the prefix cap has folded so far.
        sink_errors: returns how many events each sink failed to take.
        journal_dropped: returns how many events the journal dropped.
    """

    name = "prometheus"

    def __init__(
        self,
        registry: CollectorRegistry | None = None,
        *,
        before_collect: Callable[[], None] | None = None,
        overflowed: Callable[[], int] | None = None,
        sink_errors: Callable[[], dict[str, int]] | None = None,
        journal_dropped: Callable[[], int] | None = None,
    ) -> None:
        registry = REGISTRY if registry is None else registry
        present = getattr(registry, _ON_REGISTRY, None)
        if present is None:
            present = _Collector(Tally(trace=current_trace))
            registry.register(present)
            setattr(registry, _ON_REGISTRY, present)
        else:
            with contextlib.suppress(ValueError):  # it is registered, unless somebody emptied the registry
                registry.register(present)
        present.before_collect = before_collect
        present.overflowed = overflowed
        present.sink_errors = sink_errors
        present.journal_dropped = journal_dropped
        self.tally: Tally = present.tally
        self._add = self.tally.add

    def __call__(self, event: LockEvent) -> None:
        """Count ``event``."""
        self._add(event)

    def reset(self) -> None:
        """Count nothing as held or waiting any more."""
        self.tally.reset_gauges()


class _Collector:
    """Builds the families at each scrape."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.before_collect: Callable[[], None] | None = None
        self.overflowed: Callable[[], int] | None = None
        self.sink_errors: Callable[[], dict[str, int]] | None = None
        self.journal_dropped: Callable[[], int] | None = None

    def describe(self) -> Iterable[Family]:
        """Name the families, so that registration need not collect."""
        return [*Tally().families(), *bookkeeping(0, {})]

    def collect(self) -> Iterable[Family]:
        """Return the families with their samples."""
        if self.before_collect is not None:
            self.before_collect()
        overflowed = self.overflowed() if self.overflowed is not None else 0
        errors = self.sink_errors() if self.sink_errors is not None else {}
        dropped = self.journal_dropped() if self.journal_dropped is not None else 0
        return [*self.tally.families(), *bookkeeping(overflowed, errors, dropped)]


def bookkeeping(overflowed: int, sink_errors: dict[str, int], journal_dropped: int = 0) -> list[Family]:
    """Return the families that say what the shim itself could not keep."""
    overflow = CounterMetricFamily(
        catalog.PREFIX_OVERFLOW.name, catalog.PREFIX_OVERFLOW.help, labels=catalog.PREFIX_OVERFLOW.labels
    )
    overflow.add_metric([], overflowed)
    errors = CounterMetricFamily(
        catalog.SINK_ERRORS.name, catalog.SINK_ERRORS.help, labels=catalog.SINK_ERRORS.labels
    )
    for sink, count in sink_errors.items():
        errors.add_metric([sink], count)
    dropped = CounterMetricFamily(
        catalog.JOURNAL_DROPPED.name, catalog.JOURNAL_DROPPED.help, labels=catalog.JOURNAL_DROPPED.labels
    )
    dropped.add_metric([], journal_dropped)
    return [overflow, errors, dropped]

"""Collectors put together, and cut down to one target. Pure, but for what they collect from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily
from prometheus_client.core import Metric as Samples
from prometheus_client.registry import Collector

from lockscope import catalog

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockscope_exporter.source import Source


class Together(Collector):
    """Several collectors as one: a family that more than one has comes once, equal series are summed.

    The exporter and the workers of a journal each count keys that were folded into ``other``; a family twice
    in one answer would make all of it invalid.

    Args:
        collectors: what to put together.
    """

    def __init__(self, *collectors: Collector) -> None:
        self._collectors = collectors

    def describe(self) -> Iterable[Samples]:
        """Return nothing: asking at registration would be a scrape."""
        return ()

    def collect(self) -> Iterable[Samples]:
        """Return the families in the order in which they first come."""
        found: dict[str, Samples] = {}
        for collector in self._collectors:
            for family in collector.collect():
                known = found.get(family.name)
                found[family.name] = family if known is None else _sum(known, family)
        return found.values()


class OfTarget(Collector):
    """What a collector tells of one target: the series whose ``target`` label is one of these.

    Args:
        collector: what to cut down.
        names: of the target; those of its servers too if it is a group.
    """

    def __init__(self, collector: Collector, names: frozenset[str]) -> None:
        self._collector = collector
        self._names = names

    def describe(self) -> Iterable[Samples]:
        """Return nothing: asking at registration would be a scrape."""
        return ()

    def collect(self) -> Iterable[Samples]:
        """Return the families that have such series."""
        found = []
        for family in self._collector.collect():
            samples = [sample for sample in family.samples if sample.labels.get("target") in self._names]
            if samples:
                mine = Samples(family.name, family.documentation, family.type, family.unit)
                mine.samples = samples
                found.append(mine)
        return found


class Overflow(Collector):
    """How many keys the cap on prefixes folded into ``other``, in all targets together.

    Args:
        source: the running view of live locks.
    """

    def __init__(self, source: Source) -> None:
        self._source = source

    def describe(self) -> Iterable[Samples]:
        """Return nothing, like every collector here."""
        return ()

    def collect(self) -> Iterable[Samples]:
        """Return the one counter."""
        metric = catalog.PREFIX_OVERFLOW
        return [CounterMetricFamily(metric.name, metric.help, value=self._source.overflowed())]


def _sum(one: Samples, other: Samples) -> Samples:
    total = Samples(one.name, one.documentation, one.type, one.unit)
    series = {(sample.name, *sorted(sample.labels.items())): sample for sample in one.samples}
    for sample in other.samples:
        place = (sample.name, *sorted(sample.labels.items()))
        known = series.get(place)
        series[place] = sample if known is None else sample._replace(value=known.value + sample.value)
    total.samples = list(series.values())
    return total

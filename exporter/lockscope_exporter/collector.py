"""Live counts to Prometheus families, built anew at each scrape, so that no series outlives what it tells."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, get_args

from prometheus_client.core import Metric as Samples
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from lockscope import catalog
from lockscope_exporter.state import State
from lockscope_exporter.text import label_text
from lockscope_exporter.ttl_advice import recommend_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lockscope_exporter.source import Source
    from lockscope_exporter.state import Family, NodeStatus, ProgressFamily

_BOUNDS = tuple(str(floatToGoString(bound)) for bound in (*catalog.TTL_BUCKETS, math.inf))  # type: ignore[no-untyped-call]


class LockCollector(Collector):
    """Collector of everything that a ``Source`` knows; its cost grows with the prefixes, not with the locks.

    Args:
        source: the running view of live locks.
    """

    def __init__(self, source: Source) -> None:
        self._source = source

    def describe(self) -> Iterable[Samples]:
        """Return nothing: asking the source at registration would be a scrape."""
        return ()

    def collect(self) -> Iterator[Samples]:
        """Yield the families that have samples."""
        scrape = _Scrape()
        for node in self._source.nodes():
            scrape.node(node)
        for family in self._source.families():
            scrape.family(family)
        for progress in self._source.progress():
            scrape.progress(progress)
        return scrape.families()


class _Scrape:
    """The families of one scrape."""

    def __init__(self) -> None:
        self._by_name: dict[str, Samples] = {}

    def families(self) -> Iterator[Samples]:
        """Yield what was filled, in the order of the catalogue."""
        for metric in catalog.CATALOG:
            if metric.name in self._by_name:
                yield self._by_name[metric.name]

    def node(self, node: NodeStatus) -> None:
        """Add the samples of one node."""
        labels = {"target": label_text(node.target), "node": label_text(node.node)}
        self._put(catalog.UP, labels, node.up)
        for mode in catalog.MODES:
            self._put(catalog.SAMPLER_MODE, {**labels, "mode": mode}, mode == node.mode)
        self._put(catalog.MIRROR_AGE, labels, node.age_seconds)
        self._put(catalog.MIRROR_CORRECTIONS, labels, node.corrections)
        for reason, count in node.resyncs.items():
            self._put(catalog.MIRROR_RESYNC, {**labels, "reason": reason}, count)
        if node.eviction_safe is not None:
            self._put(catalog.EVICTION_SAFE, labels, node.eviction_safe)
        if node.evicted_keys is not None:
            self._put(catalog.EVICTED, labels, node.evicted_keys)

    def family(self, family: Family) -> None:
        """Add the samples of one prefix.

        Every counter and every state exists from the start, at 0. While no node of the target answers, what
        is live is unknown, so the gauges are left out; counters keep what was seen.
        """
        labels = {
            "prefix": label_text(family.prefix),
            "db": str(family.db),
            "target": label_text(family.target),
        }
        if family.known:
            self._live(family, labels)
        if family.expected_hold is not None:
            self._put(catalog.EXPECTED_HOLD, labels, family.expected_hold)
        self._ttl(family, labels)
        self._put(catalog.OBSERVED_ACQUIRED, labels, family.acquired)
        self._put(catalog.OBSERVED_RENEWED, labels, family.renewed)
        self._put(catalog.OBSERVED_TAKEOVER, labels, family.takeover)
        for how in catalog.ENDED_HOW:
            self._put(catalog.OBSERVED_ENDED, {**labels, "how": how}, family.ended.get(how, 0))

    def _ttl(self, family: Family, labels: dict[str, str]) -> None:
        if family.usual_ttl is not None:
            self._put(catalog.TTL_USUAL, labels, family.usual_ttl)
        advised = recommend_for(family).seconds
        if advised is not None:
            self._put(catalog.TTL_RECOMMENDED, labels, advised)

    def _live(self, family: Family, labels: dict[str, str]) -> None:
        for dialect in dict.fromkeys(dialect for dialect, _ in family.keys):
            for state in get_args(State):
                count = family.keys.get((dialect, state), 0)
                self._put(catalog.KEYS, {**labels, "dialect": dialect, "state": state}, count)
        self._put(catalog.KEYS_WITHOUT_TTL, labels, family.without_ttl)
        self._put(catalog.WEAK_OWNER, labels, family.weak_owner)
        self._put(catalog.OLDEST_AGE, labels, _oldest(family))
        self._put(catalog.TTL_MIN, labels, math.nan if family.ttl_min is None else family.ttl_min)
        self._histogram(catalog.TTL, labels, family.ttl_buckets, family.ttl_sum)

    def progress(self, family: ProgressFamily) -> None:
        """Add the samples of one prefix of job-progress keys."""
        labels = {
            "prefix": label_text(family.prefix),
            "db": str(family.db),
            "target": label_text(family.target),
        }
        for state in catalog.PROGRESS_STATES:
            self._put(catalog.PROGRESS_KEYS, {**labels, "state": state}, family.keys.get(state, 0))
        self._put(catalog.PROGRESS_STALE, labels, family.silent_seconds)

    def _put(self, metric: catalog.Metric, labels: dict[str, str], value: float) -> None:
        self._samples(metric).add_sample(metric.name, labels, value)

    def _histogram(
        self, metric: catalog.Metric, labels: dict[str, str], cumulative: tuple[int, ...], total: float
    ) -> None:
        samples = self._samples(metric)
        for bound, count in zip(_BOUNDS, cumulative, strict=True):
            samples.add_sample(f"{metric.name}_bucket", {**labels, "le": bound}, count)
        samples.add_sample(f"{metric.name}_gcount", labels, cumulative[-1])
        samples.add_sample(f"{metric.name}_gsum", labels, total)

    def _samples(self, metric: catalog.Metric) -> Samples:
        samples = self._by_name.get(metric.name)
        if samples is None:
            samples = Samples(metric.name.removesuffix("_total"), metric.help, metric.kind)
            self._by_name[metric.name] = samples
        return samples


def _oldest(family: Family) -> float:
    """Return the oldest age in seconds: 0 without locks, NaN while nothing tells an age."""
    if family.oldest_age is not None:
        return family.oldest_age
    return math.nan if any(family.keys.values()) else 0.0

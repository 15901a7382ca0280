"""Read exposition text over HTTP and hold what was ever seen in it."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections import defaultdict
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from lockscope.catalog import CATALOG, SHIM_LABELS

if TYPE_CHECKING:
    from collections.abc import Iterator

    Labels = frozenset[tuple[str, str]]

# What workers expose themselves; the exporter has it too, from the journal, and nothing may count twice.
WORKER_METRICS = frozenset(
    metric.name.removesuffix("_total") for metric in CATALOG if metric.labels[:2] == SHIM_LABELS
)

_TIMEOUT = 3.0


def fetch(url: str) -> str | None:
    """Return the text at ``url``, or ``None`` if nobody answers with it."""
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:  # noqa: S310 - own loopback URLs
            text: str = answer.read().decode()
            return text
    except (urllib.error.URLError, OSError):
        return None


class Seen:
    """The samples of several instances over time.

    Attributes:
        latest: last value by instance, then by sample name and labels.
        highest: the highest value that any instance ever showed, by sample name and labels.
    """

    def __init__(self) -> None:
        self.latest: dict[str, dict[tuple[str, Labels], float]] = defaultdict(dict)
        self.highest: dict[tuple[str, Labels], float] = {}

    def take(self, instance: str, text: str, without: frozenset[str] = frozenset()) -> None:
        """Take in one scrape, but for the families named in ``without``."""
        for family in text_string_to_metric_families(text):
            if family.name in without:
                continue
            for sample in family.samples:
                key = sample.name, frozenset(sample.labels.items())
                self.latest[instance][key] = sample.value
                self.highest[key] = max(sample.value, self.highest.get(key, sample.value))

    def total(self, name: str, **labels: str) -> float:
        """Return the sum over instances of the last values of a sample that has these labels."""
        wanted = labels.items()
        return sum(
            value
            for samples in self.latest.values()
            for (sample, found), value in samples.items()
            if sample == name and wanted <= found
        )

    def peak(self, name: str, **labels: str) -> float:
        """Return the highest value that one sample with these labels ever had, 0 if there was none."""
        wanted = labels.items()
        return max(
            (value for (sample, found), value in self.highest.items() if sample == name and wanted <= found),
            default=0.0,
        )

    def rows(self, name: str) -> Iterator[tuple[dict[str, str], float, float]]:
        """Yield labels, sum of last values and highest value of each labelled series of a sample."""
        sums: dict[Labels, float] = defaultdict(float)
        for samples in self.latest.values():
            for (sample, found), value in samples.items():
                if sample == name:
                    sums[found] += value
        for found in sorted(sums, key=sorted):
            yield dict(found), sums[found], self.highest[name, found]

"""Worker metrics that lie at hand as families, as those of the journal do: sums and quantiles."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric as Family

    from lockscope.catalog import Metric

LABELS: Final = ("prefix", "job_type", "outcome", "reason", "le")


def samples_frame(families: Iterable[Family]) -> pd.DataFrame:
    """Lay the samples of metric families out.

    Args:
        families: as a collector of ``prometheus_client`` gives them.

    Returns:
        One row a sample: ``name``, ``value``, and each of ``LABELS`` (empty where the sample has none).
    """
    rows = [
        (sample.name, float(sample.value), *(sample.labels.get(label, "") for label in LABELS))
        for family in families
        for sample in family.samples
    ]
    return pd.DataFrame(rows, columns=["name", "value", *LABELS])


def summed(frame: pd.DataFrame, metric: Metric, *labels: str, outcome: str = "") -> pd.DataFrame:
    """Add a metric up by labels.

    Args:
        frame: of ``samples_frame``.
        metric: a counter or gauge.
        labels: labels to keep.
        outcome: count only this one.

    Returns:
        One row a combination: the labels and ``value``.
    """
    found = frame[frame["name"] == metric.name]
    if outcome:
        found = found[found["outcome"] == outcome]
    return found.groupby(list(labels), sort=False)["value"].sum().reset_index()


def quantiles(frame: pd.DataFrame, metric: Metric, share: float, *labels: str) -> pd.DataFrame:
    """Estimate a quantile of a histogram by labels, as PromQL's ``histogram_quantile`` does.

    Args:
        frame: of ``samples_frame``.
        metric: a histogram.
        share: between 0 and 1.
        labels: labels to keep.

    Returns:
        One row a combination with observations: the labels and ``value``.
    """
    found = frame[frame["name"] == f"{metric.name}_bucket"]
    totals = found.groupby([*labels, "le"], sort=False)["value"].sum().reset_index()
    rows = []
    for key, group in totals.groupby(list(labels), sort=False):
        buckets = sorted(
            (float(le.replace("+Inf", "inf")), value)
            for le, value in zip(group["le"], group["value"], strict=True)
        )
        value = _quantile(buckets, share)
        if value is not None:
            rows.append((*(key if isinstance(key, tuple) else (key,)), value))
    return pd.DataFrame(rows, columns=[*labels, "value"])


def _quantile(buckets: list[tuple[float, float]], share: float) -> float | None:
    """Interpolate in cumulative buckets; beyond the last finite bound that bound is all one can say."""
    if not buckets or buckets[-1][1] <= 0:
        return None
    rank = share * buckets[-1][1]
    low = below = 0.0
    for high, upto in buckets:
        if upto >= rank and upto > below:
            if math.isinf(high):
                return low
            return low + (high - low) * (rank - below) / (upto - below)
        low, below = (low if math.isinf(high) else high), upto
    return low

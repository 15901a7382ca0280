"""Answers of Prometheus as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockscope_dashboard.prometheus import Series


def instant_frame(series: Sequence[Series], *labels: str) -> pd.DataFrame:
    """Lay the values of one instant out.

    Args:
        series: of ``Prometheus.instant``.
        labels: labels that become columns; a missing one is empty.

    Returns:
        One row a series with a value: the labels (text) and ``value``.
    """
    rows = [
        (*(one.labels.get(name, "") for name in labels), one.points[-1][1]) for one in series if one.points
    ]
    frame = pd.DataFrame(rows, columns=[*labels, "value"])
    return frame.astype({**dict.fromkeys(labels, "str"), "value": "float64"})


def range_frame(series: Sequence[Series], *labels: str) -> pd.DataFrame:
    """Lay the course of values out.

    Args:
        series: of ``Prometheus.range``.
        labels: labels that become columns.

    Returns:
        One row a point: the labels, ``at`` (datetime, UTC) and ``value``.
    """
    rows = [
        (*(one.labels.get(name, "") for name in labels), at, value)
        for one in series
        for at, value in one.points
    ]
    frame = pd.DataFrame(rows, columns=[*labels, "at", "value"])
    frame["at"] = pd.to_datetime(frame["at"].astype("float64"), unit="s", utc=True)
    return frame.astype({**dict.fromkeys(labels, "str"), "value": "float64"})


def spread(frame: pd.DataFrame, index: str, column: str) -> pd.DataFrame:
    """Turn one row a pair into one row an ``index`` value with a column for each ``column`` value."""
    return frame.pivot_table(index=index, columns=column, values="value", aggfunc="sum", fill_value=0.0)


def per_bucket(frame: pd.DataFrame) -> pd.DataFrame:
    """Turn cumulative buckets into counts of each bucket.

    Args:
        frame: of ``range_frame`` with the label ``le``.

    Returns:
        Columns ``at``, ``low`` and ``high`` (bounds; ``high`` infinite for the last), ``value`` (at least 0).
    """
    if frame.empty:
        empty = frame[["at", "value"]].assign(low=0.0, high=0.0)
        return empty[["at", "low", "high", "value"]]
    wide = frame.assign(high=frame["le"].map(_bound)).pivot_table(
        index="at", columns="high", values="value", aggfunc="sum", fill_value=0.0
    )
    counts = wide.diff(axis="columns")
    counts.iloc[:, 0] = wide.iloc[:, 0]
    bounds = list(wide.columns)
    lows = dict(zip(bounds, [0.0, *bounds[:-1]], strict=True))
    found = counts.clip(lower=0.0).melt(ignore_index=False, value_name="value").reset_index()
    found["low"] = found["high"].map(lows)
    return found[["at", "low", "high", "value"]]


def _bound(le: str) -> float:
    return float(le.replace("+Inf", "inf"))

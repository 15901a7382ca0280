"""The questions that pages put to Prometheus, in the names of the metric catalogue. Pure functions."""

from __future__ import annotations

from typing import Final

from lockscope import catalog
from lockscope_dashboard.prometheus import selector

WINDOWS: Final = {"15 min": "15m", "1 hour": "1h", "6 hours": "6h", "24 hours": "24h", "7 days": "7d"}
SECONDS: Final = {"15m": 900.0, "1h": 3600.0, "6h": 21600.0, "24h": 86400.0, "7d": 604800.0}
POINTS: Final = 60

waiters: Final = f"sum by (prefix) ({catalog.WAITERS.name})"


def step(window: str) -> float:
    """Return the seconds between points of a chart, whole multiples of 15 s."""
    return max(15.0, round(SECONDS[window] / POINTS / 15.0) * 15.0)


def counted(metric: catalog.Metric, window: str, *by: str, prefix: str = "", outcome: str = "") -> str:
    """Count what a counter gained in a window, by labels."""
    series = selector(metric.name, prefix=prefix, outcome=outcome)
    return f"sum by ({', '.join(by)}) (increase({series}[{window}]))"


def quantile(
    metric: catalog.Metric, share: float, window: str, *by: str, prefix: str = "", outcome: str = ""
) -> str:
    """Estimate a quantile of a histogram over a window, by labels."""
    series = selector(f"{metric.name}_bucket", prefix=prefix, outcome=outcome)
    return f"histogram_quantile({share}, sum by ({', '.join((*by, 'le'))}) (increase({series}[{window}])))"


def mean(metric: catalog.Metric, window: str, *by: str) -> str:
    """Return the mean of a histogram over a window, by labels."""
    labels = ", ".join(by)
    return (
        f"sum by ({labels}) (increase({metric.name}_sum[{window}]))"
        f" / sum by ({labels}) (increase({metric.name}_count[{window}]))"
    )


def buckets(metric: catalog.Metric, window: str, prefix: str = "") -> str:
    """Count a histogram's observations in each step of a window, by bucket."""
    series = selector(f"{metric.name}_bucket", prefix=prefix)
    return f"sum by (le) (increase({series}[{step(window):.0f}s]))"


def losses(window: str) -> str:
    """Count locks that their holders found lost, when releasing or renewing."""
    counters = (catalog.RELEASE.name, catalog.RENEW.name)
    return " + ".join(
        f"(sum(increase({selector(name, outcome='lost')}[{window}])) or vector(0))" for name in counters
    )


def states(window_step: float) -> str:
    """Return the live locks by state, the highest count of each step."""
    return f"sum by (state) (max_over_time({catalog.KEYS.name}[{window_step:.0f}s]))"

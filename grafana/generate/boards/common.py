"""What several boards show alike."""

from __future__ import annotations

from grafana.generate.kit import Query
from grafana.generate.select import quantile, rate, recorded

GOOD, WARN, BAD = "#0072B2", "#E69F00", "#D55E00"
NO_EXPORTER = "no exporter"
NO_WORKER = "no worker"
NO_RULES = "no recording rules"

VALID_RECORDED = recorded("instance_prefix_outcome:redis_lock_acquire:increase5m")
FAILED_RECORDED = recorded(
    "instance_prefix_outcome:redis_lock_acquire:increase5m", 'outcome=~"timeout|error"'
)
OBJECTIVE = recorded("instance_prefix:redis_lock_acquire_objective:ratio")


def quantiles(metric: str, matchers: str = "") -> tuple[Query, ...]:
    """Return the median, the 95th and the 99th percentile of a histogram."""
    return tuple(
        Query(quantile(share, metric, matchers), name)
        for share, name in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"))
    )


def by_label(metric: str, label: str, matchers: str = "") -> tuple[Query, ...]:
    """Return the rate of a counter, one series for each value of a label."""
    return (Query(f"sum by ({label}) ({rate(metric, matchers)})", f"{{{{{label}}}}}"),)


def failed_share(window: str, by: str = "prefix") -> str:
    """Return the share of acquires that failed over a window, from the recorded series; 0 with no failure."""
    valid = f"sum by ({by}) (sum_over_time({VALID_RECORDED}[{window}]))"
    failed = f"sum by ({by}) (sum_over_time({FAILED_RECORDED}[{window}]))"
    return f"(({failed} or 0 * {valid}) / {valid})"


def budget_left() -> str:
    """Return the share of each prefix's error budget that is left over the time range shown."""
    return f"1 - {failed_share('$__range')} / (1 - min by (prefix) ({OBJECTIVE}))"

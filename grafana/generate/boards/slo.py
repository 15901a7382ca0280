"""Board 4: the objective of acquiring, its error budget, and how fast the budget burns."""

from __future__ import annotations

from grafana.generate.boards.common import (
    BAD,
    FAILED_RECORDED,
    GOOD,
    NO_RULES,
    NO_WORKER,
    OBJECTIVE,
    VALID_RECORDED,
    WARN,
    budget_left,
    failed_share,
    quantiles,
)
from grafana.generate.kit import Board, Panel, Query, Row
from grafana.generate.select import FAILED, VALID, WAITED, rate

from lockscope_exporter.alerts.slo import WINDOWS


def _burn(window: str) -> str:
    return f"max({failed_share(window)} / (1 - min by (prefix) ({OBJECTIVE})))"


_BUDGET = Row(
    "Error budget over the time range",
    (
        Panel(
            "Budget left, worst prefix",
            "Share of the error budget that is left over the time range, for the prefix that has least. "
            "Below 0 the objective is missed.",
            f"min({budget_left()})",
            "percentunit",
            kind="stat",
            width=4,
            empty=NO_RULES,
            thresholds=((None, BAD), (0, WARN), (0.25, GOOD)),
            decimals=1,
        ),
        Panel(
            "Acquires that count",
            "Calls to acquire over the time range, without refused try-locks.",
            f"0.4 * sum(sum_over_time({VALID_RECORDED}[$__range]))",
            "short",
            kind="stat",
            width=4,
            empty=NO_RULES,
            decimals=0,
        ),
        Panel(
            "Failed acquires",
            "Calls to acquire over the time range that timed out or failed.",
            f"0.4 * (sum(sum_over_time({FAILED_RECORDED}[$__range]))"
            f" or 0 * sum(sum_over_time({VALID_RECORDED}[$__range])))",
            "short",
            kind="stat",
            width=4,
            empty=NO_RULES,
            thresholds=((None, GOOD), (1, WARN)),
            decimals=0,
        ),
        Panel(
            "Budget left over time",
            "Share of the error budget left, looking back over the time range from each moment.",
            (Query(budget_left(), "{{prefix}}"),),
            "percentunit",
            width=12,
            maximum=1,
            empty=NO_RULES,
        ),
        Panel(
            "Prefixes",
            "Per family: what is left of the budget, its objective, and the acquires that count. Click a "
            "prefix.",
            (
                Query(budget_left()),
                Query(f"min by (prefix) ({OBJECTIVE})"),
                Query(f"0.4 * sum by (prefix) (sum_over_time({VALID_RECORDED}[$__range]))"),
                Query(failed_share("$__range")),
            ),
            "none",
            kind="table",
            width=24,
            columns=(
                ("Budget left", "percentunit"),
                ("Objective", "percentunit"),
                ("Acquires", "short"),
                ("Failed", "percentunit"),
            ),
            empty=NO_RULES,
        ),
    ),
)

_BURNS = Row(
    "Burn rates",
    tuple(
        Panel(
            f"Over {long} and {short}",
            f"How many times too fast the worst prefix spends its budget, over {long} and over {short}. Both "
            f"above {factor:g} raise the {severity} alert.",
            (Query(_burn(long), long), Query(_burn(short), short)),
            "none",
            width=6,
            thresholds=((None, GOOD), (factor, BAD)),
            empty=NO_RULES,
        )
        for severity, long, short, factor in WINDOWS
    ),
)

_NOW = Row(
    "What it is made of",
    (
        Panel(
            "Failed acquires by prefix",
            "Calls to acquire that timed out or failed, a second.",
            (Query(f"sum by (prefix) ({rate('redis_lock_acquire_total', FAILED)})", "{{prefix}}"),),
            "ops",
            stacked=True,
            empty=NO_WORKER,
        ),
        Panel(
            "Share that failed",
            "Share of the acquires of each family that timed out or failed, now.",
            (
                Query(
                    f"sum by (prefix) ({rate('redis_lock_acquire_total', FAILED)})"
                    f" / sum by (prefix) ({rate('redis_lock_acquire_total', VALID)})",
                    "{{prefix}}",
                ),
            ),
            "percentunit",
            maximum=1,
            empty=NO_WORKER,
        ),
        Panel(
            "Wait",
            "Time in calls to acquire that got the lock or gave up.",
            quantiles("redis_lock_acquire_wait_seconds", WAITED),
            "s",
            empty=NO_WORKER,
        ),
    ),
)

SLO = Board(
    "lockscope-slo",
    "Redis locks / SLO and burn rates",
    "Whether getting a lock works as often as promised. Needs the recording rules of lockscope.",
    (_BUDGET, _BURNS, _NOW),
    span="now-24h",
)

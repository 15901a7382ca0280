"""Board 1: how all Redis locks stand, and which prefix to look at."""

from __future__ import annotations

from grafana.generate.boards.common import (
    BAD,
    GOOD,
    NO_EXPORTER,
    NO_RULES,
    NO_WORKER,
    WARN,
    budget_left,
    by_label,
    quantiles,
)
from grafana.generate.kit import OUTCOME_COLOURS, STATE_COLOURS, Board, Panel, Query, Row
from grafana.generate.select import (
    DUPLICATE,
    FAILED,
    LOST,
    NEED_A_LOOK,
    REFUSED,
    VALID,
    WAITED,
    exported,
    grown,
    rate,
    series,
)

from lockscope.catalog import STATES


def _count(state: str) -> str:
    matcher = f'state="{state}"'
    return f"sum({exported('redis_lock_keys', matcher, 'dialect')})"


def _state_stat(title: str, state: str, description: str) -> Panel:
    return Panel(
        title,
        description,
        _count(state),
        "none",
        kind="stat",
        width=3,
        height=4,
        empty=NO_EXPORTER,
        thresholds=((None, GOOD), (1, BAD)),
        decimals=0,
    )


_NOW = Row(
    "Now",
    (
        Panel(
            "Held now",
            "Live lock keys in Redis, in any state, counted by the exporter.",
            f"sum({exported('redis_lock_keys', extra='dialect, state')})",
            "none",
            kind="stat",
            width=3,
            height=4,
            empty=NO_EXPORTER,
            decimals=0,
        ),
        Panel(
            "Waiting",
            "Calls in instrumented workers that wait for a lock at this moment.",
            f"sum({series('redis_lock_waiters')})",
            "none",
            kind="stat",
            width=3,
            height=4,
            empty=NO_WORKER,
            thresholds=((None, GOOD), (1, WARN)),
            decimals=0,
        ),
        _state_stat(
            "Without TTL",
            "no_ttl",
            "Locks without an expiry although their library sets one: they never free themselves.",
        ),
        _state_stat(
            "Orphaned",
            "orphaned",
            "Locks whose holder's process is known to be gone; they wait for their TTL.",
        ),
        _state_stat(
            "Overdue", "overdue", "Locks held longer than expected for their prefix (configured or learned)."
        ),
        Panel(
            "Losses",
            "Renewals and releases in the time range that found the lock expired or in other hands: work "
            "before them ran unprotected.",
            f"sum({grown('redis_lock_renew_total', LOST)}) + sum({grown('redis_lock_release_total', LOST)})",
            "none",
            kind="stat",
            width=3,
            height=4,
            empty=NO_WORKER,
            thresholds=((None, GOOD), (0.5, BAD)),
            decimals=0,
        ),
        Panel(
            "Overlaps",
            "Times in the range that two processes worked under one lock at once, by the journal.",
            f"sum(max by (target, db, prefix) ({grown('redis_lock_overlap_total')}))",
            "none",
            kind="stat",
            width=3,
            height=4,
            empty="no journal",
            thresholds=((None, GOOD), (0.5, BAD)),
            decimals=0,
        ),
        Panel(
            "SLO left, worst prefix",
            "Share of the error budget of acquiring that is left over the time range, for the prefix that "
            "has least. Needs the recording rules.",
            f"min({budget_left()})",
            "percentunit",
            kind="stat",
            width=3,
            height=4,
            empty=NO_RULES,
            thresholds=((None, BAD), (0, WARN), (0.25, GOOD)),
            decimals=1,
        ),
    ),
)

_FLOW = Row(
    "Acquiring",
    (
        Panel(
            "Acquire by outcome",
            "Calls to acquire a second. Contended is one try refused, timeout is waited and gave up, error "
            "is a Redis that did not answer.",
            by_label("redis_lock_acquire_total", "outcome"),
            "ops",
            stacked=True,
            colours=OUTCOME_COLOURS,
            empty=NO_WORKER,
        ),
        Panel(
            "Contention by job type",
            "Share of acquire calls that were refused or gave up.",
            (
                Query(
                    f"sum by (job_type) ({rate('redis_lock_acquire_total', REFUSED)})"
                    f" / sum by (job_type) ({rate('redis_lock_acquire_total')})",
                    "{{job_type}}",
                ),
            ),
            "percentunit",
            maximum=1,
            empty=NO_WORKER,
        ),
        Panel(
            "Retries",
            "Jobs retried or requeued because of a lock, a second, by reason.",
            by_label("redis_lock_retry_total", "reason"),
            "ops",
            stacked=True,
            empty="no retries",
        ),
        Panel(
            "Wait",
            "Time in calls to acquire that got the lock or gave up waiting.",
            quantiles("redis_lock_acquire_wait_seconds", WAITED),
            "s",
            empty=NO_WORKER,
        ),
        Panel(
            "Hold",
            "Time from acquiring a lock to releasing or losing it.",
            quantiles("redis_lock_hold_seconds"),
            "s",
            empty=NO_WORKER,
        ),
        Panel(
            "Duplicates blocked",
            "Deliveries of work already done that idempotency kept out, a second.",
            (
                Query(
                    f"sum by (prefix) ({rate('redis_lock_idempotency_total', DUPLICATE)})",
                    "{{prefix}}",
                ),
            ),
            "ops",
            empty="no idempotency checks",
        ),
    ),
)

_LOCKS = Row(
    "Locks in Redis",
    (
        Panel(
            "Active locks by prefix",
            "Live lock keys of each family, counted by the exporter.",
            (
                Query(
                    f"sum by (prefix) ({exported('redis_lock_keys', extra='dialect, state')})",
                    "{{prefix}}",
                ),
            ),
            "none",
            width=12,
            stacked=True,
            empty=NO_EXPORTER,
        ),
        Panel(
            "Locks by state",
            "Live lock keys by state; anything but held deserves a look.",
            (
                Query(
                    f"sum by (state) ({exported('redis_lock_keys', extra='dialect, state')})",
                    "{{state}}",
                ),
            ),
            "none",
            width=12,
            stacked=True,
            colours={state: STATE_COLOURS[state] for state in STATES},
            empty=NO_EXPORTER,
        ),
        Panel(
            "Worst prefixes",
            "Per family: locks that need a look now, then what went wrong over the time range. Click a "
            "prefix.",
            (
                Query(f"sum by (prefix) ({exported('redis_lock_keys', NEED_A_LOOK, 'dialect, state')})"),
                Query(
                    f"sum by (prefix) ({grown('redis_lock_renew_total', LOST)})"
                    f" + sum by (prefix) ({grown('redis_lock_release_total', LOST)})"
                ),
                Query(
                    f"sum by (prefix) ({grown('redis_lock_acquire_total', FAILED)})"
                    f" / sum by (prefix) ({grown('redis_lock_acquire_total', VALID)})"
                ),
                Query(
                    "histogram_quantile(0.95, sum by (le, prefix) ("
                    f"{grown('redis_lock_acquire_wait_seconds', WAITED, '_bucket')}))"
                ),
                Query(f"max by (prefix) ({series('redis_lock_oldest_age_seconds')})"),
            ),
            "none",
            kind="table",
            width=24,
            height=10,
            columns=(
                ("Need a look", "none"),
                ("Lost", "none"),
                ("Failed acquires", "percentunit"),
                ("Wait p95", "s"),
                ("Oldest", "s"),
            ),
            empty="no locks",
        ),
    ),
)

OVERVIEW = Board(
    "lockscope-overview",
    "Redis locks / Overview",
    "How all Redis locks stand: held, waited for, orphaned, lost. From lockscope's workers and exporter.",
    (_NOW, _FLOW, _LOCKS),
)

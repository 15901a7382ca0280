"""Board 2: everything about the locks of one family (or a few)."""

from __future__ import annotations

from grafana.generate.boards.common import NO_EXPORTER, NO_WORKER, by_label, quantiles
from grafana.generate.kit import OUTCOME_COLOURS, STATE_COLOURS, Board, Panel, Query, Row
from grafana.generate.select import WAITED, exported, quantile, rate, series
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import logs, loki
from grafana_foundation_sdk.models import common, dashboard

from lockscope.catalog import STATES

_LOKI = common.DataSourceRef(type_val="loki", uid="${loki}")

_STATE = Row(
    "Locks in Redis",
    (
        Panel(
            "States",
            "Live locks by state: held, overdue (longer than expected), stalled (stopped renewing), no_ttl "
            "(never ends), orphaned (holder gone).",
            (Query(f"sum by (state) ({exported('redis_lock_keys', extra='dialect, state')})", "{{state}}"),),
            "none",
            stacked=True,
            colours={state: STATE_COLOURS[state] for state in STATES},
            empty=NO_EXPORTER,
        ),
        Panel(
            "Holders against waiters",
            "Locks held by instrumented workers, and calls that wait for one. Waiters above a flat line of "
            "holders are contention.",
            (
                Query(f"sum({series('redis_lock_held')})", "held"),
                Query(f"sum({series('redis_lock_waiters')})", "waiting"),
            ),
            "none",
            colours={"held": OUTCOME_COLOURS["acquired"], "waiting": OUTCOME_COLOURS["contended"]},
            empty=NO_WORKER,
        ),
        Panel(
            "Oldest lock against expected hold",
            "Age of the lock held longest, and the hold beyond which a lock of the prefix counts as overdue "
            "(configured, else learned).",
            (
                Query(f"max by (prefix) ({series('redis_lock_oldest_age_seconds')})", "oldest {{prefix}}"),
                Query(
                    f"max by (prefix) ({series('redis_lock_expected_hold_seconds')})", "expected {{prefix}}"
                ),
            ),
            "s",
            empty=NO_EXPORTER,
        ),
        Panel(
            "Remaining TTL",
            "Live locks by the time until they expire by themselves.",
            "sum by (le) (max by (le, target, db, prefix) ("
            f"{series('redis_lock_ttl_seconds', suffix='_bucket')}))",
            "s",
            kind="heatmap",
            empty=NO_EXPORTER,
        ),
        Panel(
            "Released against expired",
            "How locks ended, a second, by the exporter. Expired means that the holder died or outlived its "
            "TTL; evicted and flushed that Redis dropped the lock.",
            (
                Query(
                    "sum by (how) (max by (target, db, prefix, how) ("
                    f"{rate('redis_lock_observed_ended_total')}))",
                    "{{how}}",
                ),
            ),
            "ops",
            stacked=True,
            colours=OUTCOME_COLOURS,
            empty=NO_EXPORTER,
        ),
        Panel(
            "Taken, renewed, taken over",
            "What the exporter saw happen to locks of any library, a second. A takeover is a new owner with "
            "no end seen between.",
            tuple(
                Query(f"sum(max by (target, db, prefix) ({rate(metric)}))", name)
                for metric, name in (
                    ("redis_lock_observed_acquired_total", "taken"),
                    ("redis_lock_observed_renewed_total", "renewed"),
                    ("redis_lock_observed_takeover_total", "taken over"),
                )
            ),
            "ops",
            colours={"taken over": OUTCOME_COLOURS["lost"]},
            empty=NO_EXPORTER,
        ),
    ),
)

_WAITING = Row(
    "Waiting and working",
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
            "Wait",
            "How long calls to acquire took that got the lock or gave up. Dots are exemplars: click for the "
            "trace.",
            f"sum by (le) ({rate('redis_lock_acquire_wait_seconds', WAITED, '_bucket')})",
            "s",
            kind="heatmap",
            empty=NO_WORKER,
        ),
        Panel(
            "Hold",
            "How long locks were held. Dots are exemplars: click for the trace.",
            f"sum by (le) ({rate('redis_lock_hold_seconds', suffix='_bucket')})",
            "s",
            kind="heatmap",
            empty=NO_WORKER,
        ),
        Panel(
            "Wait quantiles",
            "Half, 95 and 99 of a hundred calls took no longer than this to get the lock or give up.",
            quantiles("redis_lock_acquire_wait_seconds", WAITED),
            "s",
            empty=NO_WORKER,
        ),
        Panel(
            "Hold quantiles by job type",
            "Ninety-five of a hundred holds of each job type are no longer than this.",
            (Query(quantile(0.95, "redis_lock_hold_seconds", by="job_type"), "p95 {{job_type}}"),),
            "s",
            empty=NO_WORKER,
        ),
        Panel(
            "Retries",
            "Jobs retried or requeued because of the lock, a second, by reason.",
            by_label("redis_lock_retry_total", "reason"),
            "ops",
            stacked=True,
            empty="no retries",
        ),
    ),
)

_LEASE = Row(
    "Lease",
    (
        Panel(
            "Renewals by outcome",
            "Renewals a second. Lost means that the lock had expired or was someone else's when the renewal "
            "came.",
            by_label("redis_lock_renew_total", "outcome"),
            "ops",
            stacked=True,
            colours=OUTCOME_COLOURS,
            empty="no renewals",
        ),
        Panel(
            "Renew headroom",
            "Share of the TTL that was left when a renewal came: the lowest tenth and the median. Near 0 the"
            " next pause loses the lock.",
            (
                Query(quantile(0.1, "redis_lock_renew_headroom_ratio"), "lowest tenth"),
                Query(quantile(0.5, "redis_lock_renew_headroom_ratio"), "median"),
            ),
            "percentunit",
            maximum=1,
            empty="no renewals",
        ),
        Panel(
            "TTL used at release",
            "Time since acquire or the last renewal, as a share of the TTL, at release. Above 100 % the lock"
            " had lapsed before the work was done.",
            quantiles("redis_lock_ttl_used_ratio"),
            "percentunit",
            empty=NO_WORKER,
        ),
        Panel(
            "Releases by outcome",
            "Releases a second. Lost means that the lock had expired or was someone else's.",
            by_label("redis_lock_release_total", "outcome"),
            "ops",
            stacked=True,
            colours=OUTCOME_COLOURS,
            empty=NO_WORKER,
        ),
        Panel(
            "Unprotected work",
            "Seconds a second that jobs went on working after their lease had lapsed, by job type.",
            by_label("redis_lock_unprotected_seconds_total", "job_type"),
            "percentunit",
            stacked=True,
            empty=NO_WORKER,
        ),
        Panel(
            "Overlap",
            "Seconds a second that two holders worked under one lock at once, by the journal.",
            (
                Query(
                    "sum by (prefix) (max by (target, db, prefix) ("
                    f"{rate('redis_lock_overlap_seconds_total')}))",
                    "{{prefix}}",
                ),
            ),
            "percentunit",
            stacked=True,
            empty="no journal",
        ),
    ),
)

_LOG_LINES = (
    logs.Panel()
    .title("Lock events in the logs")
    .description(
        "Log lines of lockscope's events for these prefixes, where the workers' JSON logs are in Loki. Name "
        "the Loki data source in the field above; without Loki this panel stays empty."
    )
    .datasource(_LOKI)
    .no_value("no Loki data source of that name, or no lines")
    .with_target(
        loki.Dataquery()
        .ref_id("A")
        .datasource(_LOKI)
        .expr('{job=~"$job"} | json | event=~"lock[.].+" | prefix=~"$prefix" | job_type=~"$job_type"')
    )
    .show_time(True)
    .wrap_log_message(True)
    .enable_log_details(True)
    .sort_order(common.LogsSortOrder.DESCENDING)
    .span(24)
    .height(10)
)

PREFIX = Board(
    "lockscope-prefix",
    "Redis locks / One prefix",
    "One family of Redis locks over time: states, waiting, holding, renewing, and how its locks ended.",
    (_STATE, _WAITING, _LEASE, Row("Logs", extra=(_LOG_LINES,))),
    variables=(
        # A text and not a second data source variable, so that "datasource" keeps its name on every board.
        builders.TextBoxVariable("loki")
        .label("Loki data source (optional)")
        .description("Name or uid of the Loki data source that has the workers' logs")
        .default_value("loki")
        .current(dashboard.VariableOption(selected=True, text="loki", value="loki")),
    ),
)

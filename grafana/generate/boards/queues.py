"""Board 3: jobs: duplicates, idempotency, progress, and the queue's visibility timeout."""

from __future__ import annotations

from grafana.generate.boards.common import BAD, GOOD, NO_EXPORTER, NO_WORKER, WARN, by_label
from grafana.generate.kit import OUTCOME_COLOURS, Board, Panel, Query, Row
from grafana.generate.select import ACQUIRED, DUPLICATE, REFUSED, exported, grown, quantile, rate, series
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.models import dashboard

NO_CHECKS = "no idempotency checks"
NO_PROGRESS = "no progress keys watched"
_FIRST, _IN_PROGRESS = 'outcome="first"', 'outcome="in_progress"'

_IDEMPOTENCY = Row(
    "Idempotency",
    (
        Panel(
            "Duplicates blocked",
            "Deliveries of work already done that idempotency kept out, over the time range.",
            f"sum({grown('redis_lock_idempotency_total', DUPLICATE)})",
            "none",
            kind="stat",
            width=4,
            empty=NO_CHECKS,
            thresholds=((None, GOOD), (1, WARN)),
            decimals=0,
        ),
        Panel(
            "Checks by outcome",
            "Idempotency checks a second: first runs, duplicates of finished work, runs already in progress,"
            " errors.",
            by_label("redis_lock_idempotency_total", "outcome"),
            "ops",
            width=10,
            stacked=True,
            colours=OUTCOME_COLOURS,
            empty=NO_CHECKS,
        ),
        Panel(
            "Share of duplicates by prefix",
            "Of the idempotency checks of each family, the share that found finished work.",
            (
                Query(
                    f"sum by (prefix) ({rate('redis_lock_idempotency_total', DUPLICATE)})"
                    f" / sum by (prefix) ({rate('redis_lock_idempotency_total')})",
                    "{{prefix}}",
                ),
            ),
            "percentunit",
            width=10,
            maximum=1,
            empty=NO_CHECKS,
        ),
    ),
)

_STARVING = Row(
    "Starving and requeued",
    (
        Panel(
            "Refused because a run is in progress",
            "Checks a second that met a run in progress, by job type. With no first run beside them the "
            "marker was left by a run that hangs or is gone.",
            by_label("redis_lock_idempotency_total", "job_type", _IN_PROGRESS),
            "ops",
            empty=NO_CHECKS,
        ),
        Panel(
            "First runs",
            "Checks a second after which a job began its work, by job type.",
            by_label("redis_lock_idempotency_total", "job_type", _FIRST),
            "ops",
            empty=NO_CHECKS,
        ),
        Panel(
            "Requeued by job type",
            "Jobs retried or requeued because of a lock, a second.",
            by_label("redis_lock_retry_total", "job_type"),
            "ops",
            stacked=True,
            empty="no retries",
        ),
        Panel(
            "Refused acquires by job type",
            "Try-locks refused and waits given up, a second.",
            by_label("redis_lock_acquire_total", "job_type", REFUSED),
            "ops",
            stacked=True,
            empty=NO_WORKER,
        ),
        Panel(
            "Retries for each lock got",
            "Jobs sent back for one that got its lock. A steady high value is a queue busy with jobs that "
            "cannot run.",
            (
                Query(
                    f"sum by (prefix) ({rate('redis_lock_retry_total')})"
                    " / (sum by (prefix) ("
                    f"{rate('redis_lock_acquire_total', ACQUIRED)}) > 0)",
                    "{{prefix}}",
                ),
            ),
            "none",
            width=16,
            empty="no retries",
        ),
    ),
)

_TIMEOUT = Row(
    "Visibility timeout",
    (
        Panel(
            "Oldest lock as a share of the visibility timeout",
            "Age of the lock held longest, against the time after which the broker delivers a job again (the"
            " field above, in seconds). Above 100 % a second worker may already run the same job.",
            (
                Query(
                    f"max by (prefix) ({series('redis_lock_oldest_age_seconds')}) / $visibility_timeout",
                    "{{prefix}}",
                ),
            ),
            "percentunit",
            width=12,
            thresholds=((None, GOOD), (0.8, WARN), (1, BAD)),
            empty=NO_EXPORTER,
        ),
        Panel(
            "Hold p99 by job type",
            "Ninety-nine of a hundred holds are no longer than this; it should stay well below the "
            "visibility timeout.",
            (Query(quantile(0.99, "redis_lock_hold_seconds", by="job_type"), "{{job_type}}"),),
            "s",
            width=12,
            empty=NO_WORKER,
        ),
    ),
)

_PROGRESS = Row(
    "Job progress keys",
    (
        Panel(
            "Progress keys by state",
            "Keys that jobs report their progress in. Stale ones say running and have not been touched for "
            "too long.",
            (Query(f"sum by (state) ({exported('redis_lock_progress_keys', extra='state')})", "{{state}}"),),
            "none",
            width=12,
            stacked=True,
            colours={"stale": BAD, "failed": "#882255", "running": GOOD, "completed": "#56B4E9"},
            empty=NO_PROGRESS,
        ),
        Panel(
            "Longest silence of a running job",
            "Time since the running progress key that has been silent longest was touched.",
            (Query(f"max by (prefix) ({series('redis_lock_progress_stale_seconds')})", "{{prefix}}"),),
            "s",
            width=12,
            empty=NO_PROGRESS,
        ),
    ),
)

QUEUES = Board(
    "lockscope-queues",
    "Redis locks / Queues and idempotency",
    "What locks do to the job queue: duplicates, jobs that starve or are requeued, progress, redelivery.",
    (_IDEMPOTENCY, _STARVING, _TIMEOUT, _PROGRESS),
    variables=(
        builders.TextBoxVariable("visibility_timeout")
        .label("Visibility timeout (s)")
        .description("Seconds after which the broker delivers an unfinished job again; Celery on Redis: 3600")
        .default_value("3600")
        .current(dashboard.VariableOption(selected=True, text="3600", value="3600")),
    ),
)

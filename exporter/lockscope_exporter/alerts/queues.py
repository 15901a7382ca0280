"""Alerts about jobs: duplicates, idempotency, progress, and the queue's own visibility timeout."""

from __future__ import annotations

from lockscope_exporter.alerts.model import Alert, Group

QUEUES = Group(
    "lockscope.queues",
    (
        Alert(
            name="RedisLockDuplicatesSurge",
            severity="warning",
            expr="""
            (
              prefix:redis_lock_idempotency_duplicate:ratio10m > ${duplicate_ratio}
              and sum by ($by, prefix) (
                prefix_job_type_outcome:redis_lock_idempotency:increase10m{outcome="duplicate"}
              ) >= ${duplicates}
            )
            unless prefix:redis_lock_idempotency_duplicate:ratio10m
              <= ${spike_factor} * prefix:redis_lock_idempotency_duplicate:ratio1d
            """,
            pending="2m",
            keep="10m",
            summary="{{ $value | humanizePercentage }} of deliveries for {{ $labels.prefix }} are duplicates",
            description=(
                "{{ $value | humanizePercentage }} of the idempotency checks of {{ $labels.prefix }} by {{ "
                "$labels.job }} in the last 10 minutes found work that was done already, more than "
                "${spike_factor} times the share of the day before. They were blocked; find out who sends "
                "the same job again (producer retries, visibility timeout, redelivery after a crash)."
            ),
            dashboard="lockscope-queues",
        ),
        Alert(
            name="RedisLockIdempotencyStarving",
            severity="warning",
            expr="""
            (
              sum by ($by, prefix, job_type) (
                prefix_job_type_outcome:redis_lock_idempotency:increase10m{outcome="in_progress"}
              ) >= ${in_progress}
            )
            unless
              sum by ($by, prefix, job_type) (
                prefix_job_type_outcome:redis_lock_idempotency:increase10m{outcome=~"first|duplicate"}
              ) > 0
            """,
            pending="5m",
            keep="5m",
            summary=(
                "{{ $value | count }} checks of {{ $labels.prefix }} by {{ $labels.job_type }} met a run "
                "in progress, none began"
            ),
            description=(
                "{{ $value | count }} idempotency checks of {{ $labels.prefix }} by {{ $labels.job_type "
                "}} in the last 10 minutes met a run in progress; none began and none found finished work. "
                "The run that left the marker hangs or is gone, and the marker keeps all others out until "
                "its TTL is over."
            ),
            dashboard="lockscope-queues",
            variables=("prefix", "job_type"),
        ),
        Alert(
            name="RedisLockHoldNearVisibilityTimeout",
            severity="warning",
            expr="""
            max by ($by, target, db, prefix) (redis_lock_oldest_age_seconds)
            > on ($across) group_left ()
            (${visibility_ratio} * prefix:redis_lock_visibility_timeout:seconds)
            """,
            keep="5m",
            about="state",
            summary="A job holds {{ $labels.prefix }} for {{ $value | humanizeDuration }}, near redelivery",
            description=(
                "The oldest lock of {{ $labels.prefix }} (db {{ $labels.db }} of {{ $labels.target }}) is "
                "held for {{ $value | humanizeDuration }}. When the queue's visibility timeout is over, the "
                "broker delivers the same job again to another worker while this one still runs."
            ),
            dashboard="lockscope-queues",
        ),
        Alert(
            name="RedisLockProgressStale",
            severity="warning",
            expr='max by ($by, target, db, prefix) (redis_lock_progress_keys{state="stale"}) > 0',
            pending="1m",
            keep="5m",
            about="state",
            summary="{{ $value | humanize }} running jobs of {{ $labels.prefix }} report no progress",
            description=(
                "{{ $value | humanize }} progress keys of {{ $labels.prefix }} (db {{ $labels.db }} of {{ "
                "$labels.target }}) say running and have not been touched for longer than allowed. Their "
                "workers died without a word, or hang."
            ),
            dashboard="lockscope-queues",
        ),
    ),
)

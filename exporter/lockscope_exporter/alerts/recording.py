"""Recording rules: what several alerts share, computed once an evaluation.

A level name such as ``prefix_job_type_outcome`` lists the labels kept beside ``job`` and
``RuleOptions.labels``; what comes from an exporter keeps ``target`` and ``db`` too. Series of an exporter are
reduced by ``max`` over ``instance``, because two exporters may watch one Redis; series of workers are summed.
"""

from __future__ import annotations

from lockscope_exporter.alerts.model import Group, Record
from lockscope_exporter.alerts.promql import known

EVENTS = Group(
    "lockscope.events",
    (
        known("10m"),
        known("5m"),
        Record(
            "prefix_job_type_outcome:redis_lock_acquire:increase10m",
            """
            sum by ($by, prefix, job_type, outcome) (
              events(redis_lock_acquire_total[10m])
            )
            """,
        ),
        Record(
            "prefix_job_type_outcome:redis_lock_renew:increase10m",
            """
            sum by ($by, prefix, job_type, outcome) (
              events(redis_lock_renew_total[10m])
            )
            """,
        ),
        Record(
            "prefix_job_type_outcome:redis_lock_release:increase10m",
            """
            sum by ($by, prefix, job_type, outcome) (
              events(redis_lock_release_total[10m])
            )
            """,
        ),
        Record(
            "prefix_job_type_outcome:redis_lock_idempotency:increase10m",
            """
            sum by ($by, prefix, job_type, outcome) (
              events(redis_lock_idempotency_total[10m])
            )
            """,
        ),
        Record(
            "prefix_job_type_reason:redis_lock_retry:increase10m",
            """
            sum by ($by, prefix, job_type, reason) (
              events(redis_lock_retry_total[10m])
            )
            """,
        ),
        Record(
            "prefix_how:redis_lock_observed_ended:increase10m",
            """
            max by ($by, target, db, prefix, how) (
              events(redis_lock_observed_ended_total[10m])
            )
            """,
        ),
        Record(
            "prefix_job_type:redis_lock_acquire_failed:increase10m",
            """
            sum by ($by, prefix, job_type) (
              prefix_job_type_outcome:redis_lock_acquire:increase10m{outcome=~"timeout|error"}
            )
            """,
        ),
        Record(
            "prefix_job_type:redis_lock_acquire_failed:ratio10m",
            """
            prefix_job_type:redis_lock_acquire_failed:increase10m
            / sum by ($by, prefix, job_type) (
              prefix_job_type_outcome:redis_lock_acquire:increase10m{outcome!="contended"}
            )
            """,
        ),
        Record(
            "prefix:redis_lock_idempotency_duplicate:ratio10m",
            """
            sum by ($by, prefix) (
              prefix_job_type_outcome:redis_lock_idempotency:increase10m{outcome="duplicate"}
            )
            / sum by ($by, prefix) (prefix_job_type_outcome:redis_lock_idempotency:increase10m)
            """,
        ),
        Record(
            "prefix:redis_lock_observed_expired:ratio10m",
            """
            sum by ($by, target, db, prefix) (
              prefix_how:redis_lock_observed_ended:increase10m{how="expired"}
            )
            / sum by ($by, target, db, prefix) (
              prefix_how:redis_lock_observed_ended:increase10m{how=~"expired|released"}
            )
            """,
        ),
    ),
)

LEVELS = Group(
    "lockscope.levels",
    (
        Record(
            "prefix_state:redis_lock_keys:max",
            """
            max by ($by, target, db, prefix, state) (
              sum by ($by, instance, target, db, prefix, state) (redis_lock_keys)
            )
            """,
        ),
        Record(
            "prefix:redis_lock_keys:max",
            """
            max by ($by, target, db, prefix) (
              sum by ($by, instance, target, db, prefix) (redis_lock_keys)
            )
            """,
        ),
        Record("prefix:redis_lock_waiters:sum", "sum by ($by, prefix) (redis_lock_waiters)"),
    ),
)

ACQUIRES = Group(
    "lockscope.history-acquire",
    (
        Record(
            "instance_prefix:redis_lock_acquire_valid:increase5m",
            """
            sum by ($by, instance, prefix) (
              events(redis_lock_acquire_total{outcome!="contended"}[5m])
            )
            """,
        ),
        Record(
            "instance_prefix:redis_lock_acquire_failed:increase5m",
            """
            sum by ($by, instance, prefix) (
              events(redis_lock_acquire_total{outcome=~"timeout|error"}[5m])
            )
            """,
        ),
        Record(
            "prefix:redis_lock_acquire_valid:increase5m",
            "sum by ($by, prefix) (instance_prefix:redis_lock_acquire_valid:increase5m)",
        ),
        Record(
            "prefix:redis_lock_acquire_failed:increase5m",
            "sum by ($by, prefix) (instance_prefix:redis_lock_acquire_failed:increase5m)",
        ),
        # What each family is used to: the day before without the last hour, or trouble would be its own norm.
        Record(
            "prefix:redis_lock_acquire_failed:ratio1d",
            """
            sum_over_time(prefix:redis_lock_acquire_failed:increase5m[1d] offset 1h)
            / sum_over_time(prefix:redis_lock_acquire_valid:increase5m[1d] offset 1h)
            """,
        ),
    ),
    interval="2m",
)

HISTORY = Group(
    "lockscope.history",
    (
        Record(
            "prefix_outcome:redis_lock_idempotency:increase5m",
            """
            sum by ($by, prefix, outcome) (
              events(redis_lock_idempotency_total[5m])
            )
            """,
        ),
        Record(
            "prefix_how:redis_lock_observed_ended:increase5m",
            """
            max by ($by, target, db, prefix, how) (
              events(redis_lock_observed_ended_total[5m])
            )
            """,
        ),
        Record("prefix:redis_lock_keys:min30m", "min_over_time(prefix:redis_lock_keys:max[30m])"),
        Record(
            "prefix:redis_lock_idempotency_duplicate:ratio1d",
            """
            sum by ($by, prefix) (
              sum_over_time(
                prefix_outcome:redis_lock_idempotency:increase5m{outcome="duplicate"}[1d] offset 1h
              )
            )
            / sum by ($by, prefix) (
              sum_over_time(prefix_outcome:redis_lock_idempotency:increase5m[1d] offset 1h)
            )
            """,
        ),
        Record(
            "prefix:redis_lock_observed_expired:ratio1d",
            """
            sum by ($by, target, db, prefix) (
              sum_over_time(
                prefix_how:redis_lock_observed_ended:increase5m{how="expired"}[1d] offset 1h
              )
            )
            / sum by ($by, target, db, prefix) (
              sum_over_time(
                prefix_how:redis_lock_observed_ended:increase5m{how=~"expired|released"}[1d] offset 1h
              )
            )
            """,
        ),
    ),
    interval="2m",
)

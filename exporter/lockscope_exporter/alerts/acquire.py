"""Alerts about getting a lock: failures, errors, contention, starvation. From the workers' own metrics."""

from __future__ import annotations

from lockscope_exporter.alerts.model import Alert, Group

ACQUIRE = Group(
    "lockscope.acquire",
    (
        Alert(
            name="RedisLockAcquireFailureSpike",
            severity="warning",
            expr="""
            (
              prefix_job_type:redis_lock_acquire_failed:ratio10m > ${acquire_failure_ratio}
              and prefix_job_type:redis_lock_acquire_failed:increase10m >= ${acquire_failures}
            )
            unless prefix_job_type:redis_lock_acquire_failed:ratio10m
              <= on ($by, prefix) group_left () (
                ${spike_factor}
                * last_over_time(prefix:redis_lock_acquire_failed:ratio1d[1h] offset 1h)
              )
            """,
            pending="2m",
            keep="5m",
            summary="{{ $value | humanizePercentage }} of acquires of {{ $labels.prefix }} fail",
            description=(
                "{{ $value | humanizePercentage }} of the calls by {{ $labels.job_type }} to acquire {{ "
                "$labels.prefix }} timed out or failed in the last 10 minutes, more than ${spike_factor} "
                "times its share of the day before. Refused try-locks are not counted. Look at who holds "
                "these locks and for how long."
            ),
            variables=("prefix", "job_type"),
        ),
        Alert(
            name="RedisLockBackendErrors",
            severity="critical",
            expr="""
            (
              sum by ($by, prefix) (
                {
                  __name__=~"prefix_job_type_outcome:redis_lock_(acquire|(renew|release)(_failed)?):increase10m",
                  outcome="error"
                }
              ) >= ${errors}
            )
            / sum by ($by, prefix) (
              {__name__=~"prefix_job_type_outcome:redis_lock_(acquire|(renew|release)(_failed)?):increase10m"}
            )
            > ${error_ratio}
            """,
            pending="1m",
            keep="5m",
            summary="{{ $value | humanizePercentage }} of lock commands on {{ $labels.prefix }} raise errors",
            description=(
                "{{ $value | humanizePercentage }} of the acquire, renew and release calls on {{ "
                "$labels.prefix }} by {{ $labels.job }} raised an error in the last 10 minutes: Redis is "
                "unreachable, overloaded or refuses the command. A lock that could not be asked for is not "
                "held."
            ),
        ),
        Alert(
            name="RedisLockContentionHigh",
            severity="warning",
            expr="""
            (prefix:redis_lock_acquire_wait_seconds:rate10m > ${contention_waiters})
            / (
              prefix:redis_lock_acquire_wait_seconds:rate10m
              + (
                prefix:redis_lock_hold_seconds:rate10m
                or 0 * prefix:redis_lock_acquire_wait_seconds:rate10m
              )
            )
            > ${contention_ratio}
            """,
            pending="10m",
            keep="10m",
            summary=(
                "Workers spend {{ $value | humanizePercentage }} of their lock time waiting for {{ "
                "$labels.prefix }}"
            ),
            description=(
                "Of the time that workers of {{ $labels.job }} spend on {{ $labels.prefix }}, {{ $value | "
                "humanizePercentage }} is waiting and the rest is work under the lock, for 10 minutes now. "
                "Hold the lock for less, split the key, or run fewer workers on it."
            ),
        ),
        Alert(
            name="RedisLockWaitersGrowing",
            severity="warning",
            expr="""
            min_over_time(prefix:redis_lock_waiters:sum[5m])
              > (
                min_over_time(prefix:redis_lock_waiters:sum[5m] offset 5m)
                > min_over_time(prefix:redis_lock_waiters:sum[5m] offset 10m)
              )
              >= ${waiters}
            """,
            keep="5m",
            summary=(
                "At least {{ $value | humanize }} calls wait for {{ $labels.prefix }}, and more every 5 "
                "minutes"
            ),
            description=(
                "In each of the last three 5-minute spans the fewest calls that waited for {{ $labels.prefix"
                " }} in {{ $labels.job }} were more than in the span before; now they are {{ $value | "
                "humanize }}. The locks are asked for faster than they are freed."
            ),
        ),
        Alert(
            name="RedisLockStarved",
            severity="critical",
            expr="""
            (
              prefix:redis_lock_waiters:sum > 0
              unless on ($across)
                sum by ($across) (
                  prefix_job_type_outcome:redis_lock_acquire:increase10m{outcome="acquired"}
                ) > 0
            )
            unless on ($across)
              sum by ($across) (prefix_job_type_outcome:redis_lock_renew:increase10m{outcome="renewed"}) > 0
            unless on ($across)
              sum by ($across) (increase(redis_lock_observed_renewed_total[10m])) > 0
            unless on ($across)
              (max by ($across) (redis_lock_oldest_age_seconds) > 0)
                <= max by ($across) (redis_lock_expected_hold_seconds)
            """,
            pending="10m",
            keep="5m",
            summary=(
                "{{ $value | humanize }} calls wait for {{ $labels.prefix }} and none got it for 10 minutes"
            ),
            description=(
                "{{ $value | humanize }} calls of {{ $labels.job }} wait for {{ $labels.prefix }}; in the "
                "last 10 minutes no call got one, no holder renewed, and no lock is within the hold expected"
                " for it. The holder hangs or is gone, or the waiters were never woken."
            ),
        ),
        Alert(
            name="RedisLockRetryStorm",
            severity="warning",
            expr="""
            (sum by ($by, prefix) (prefix_job_type_reason:redis_lock_retry:increase10m) >= ${retries})
            > ${retry_factor} * (
              sum by ($by, prefix) (
                prefix_job_type_outcome:redis_lock_acquire:increase10m{outcome="acquired"}
              )
              or 0 * sum by ($by, prefix) (prefix_job_type_reason:redis_lock_retry:increase10m)
            )
            """,
            pending="5m",
            keep="5m",
            summary="{{ $value | count }} jobs retried in 10 minutes because of {{ $labels.prefix }}",
            description=(
                "Jobs of {{ $labels.job }} were retried or requeued {{ $value | count }} times in the "
                "last 10 minutes because {{ $labels.prefix }} was taken, over ${retry_factor} times for each"
                " lock got. The queue is busy with jobs that cannot run; lengthen the back-off or free the "
                "lock."
            ),
        ),
    ),
)

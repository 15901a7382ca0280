"""Recording rules: what several alerts share, computed once an evaluation.

A level name such as ``prefix_job_type_outcome`` lists the labels kept beside ``job`` and
``RuleOptions.labels``; what comes from an exporter keeps ``target`` and ``db`` too. Series of an exporter are
reduced by ``max`` over ``instance``, because two exporters may watch one Redis; series of workers are summed.
What is 0 is not recorded: most lock families never fail, and every sample costs at each evaluation.
"""

from __future__ import annotations

from lockscope_exporter.alerts.model import Group, Record
from lockscope_exporter.alerts.promql import met

# Both below the 5 minutes for which Prometheus takes a sample as current.
ACQUIRES_INTERVAL, HISTORY_INTERVAL = "2m", "4m"
# What windows of many hours add up, one sample after the other without a gap: read with a range only.
HALF_HOURS_INTERVAL = "30m"
# What grew over 5 minutes, recorded every 2, is in two and a half samples; over 10, every 4, likewise.
SHARE_OF_SAMPLE = 0.4


def keys_in(state: str) -> str:
    """Return the number of locks in a state, of families that have one."""
    family = "$by, target, db, prefix"
    return f'max by ({family}) (sum by ({family}, instance) (redis_lock_keys{{state="{state}"}} > 0))'


def _events(level: str, metric: str, by: str) -> Record:
    return Record(
        f"{level}:{metric}:increase10m",
        f"""
        sum by ($by, {by}) (
          events({metric}_total[10m])
        )
        """,
    )


def _failed(metric: str, success: str) -> Record:
    return Record(
        f"prefix_job_type_outcome:{metric}_failed:increase10m",
        f"""
        sum by ($by, prefix, job_type, outcome) (
          events({metric}_total{{outcome!="{success}"}}[10m])
        )
        """,
    )


def _succeeded(metric: str, success: str) -> Record:
    return Record(
        f"prefix_job_type_outcome:{metric}:increase10m",
        f"""
        sum by ($by, prefix, job_type, outcome) (
          events({metric}_total{{outcome="{success}"}}[10m])
        )
        and on ($across) prefix:redis_lock_troubled:group
        """,
    )


EVENTS = Group(
    "lockscope.events",
    (
        met("10m"),
        met("5m"),
        _events("prefix_job_type_outcome", "redis_lock_acquire", "prefix, job_type, outcome"),
        _failed("redis_lock_renew", "renewed"),
        _failed("redis_lock_release", "released"),
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
        Record("prefix:redis_lock_waiters:sum", "sum by ($by, prefix) (redis_lock_waiters)"),
        # Where something failed, or somebody waits: only there does an alert ask for what went well.
        Record(
            "prefix:redis_lock_troubled:group",
            """
            group by ($across) (prefix:redis_lock_waiters:sum > 0)
            or group by ($across) (prefix_job_type:redis_lock_acquire_failed:increase10m)
            or group by ($across) (
              {__name__=~"prefix_job_type_outcome:redis_lock_(renew|release)_failed:increase10m"}
            )
            """,
        ),
        _succeeded("redis_lock_renew", "renewed"),
        _succeeded("redis_lock_release", "released"),
        Record("prefix:redis_lock_keys_orphaned:max", keys_in("orphaned")),
    ),
)

# What no alert that wakes someone reads.
SLOW_EVENTS = Group(
    "lockscope.events-slow",
    (
        _events("prefix_job_type_outcome", "redis_lock_idempotency", "prefix, job_type, outcome"),
        _events("prefix_job_type_reason", "redis_lock_retry", "prefix, job_type, reason"),
        Record(
            "prefix_how:redis_lock_observed_ended:increase10m",
            """
            max by ($by, target, db, prefix, how) (
              events(redis_lock_observed_ended_total{how=~"released|expired"}[10m])
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
        # Of families whose locks are released at all.
        Record(
            "prefix:redis_lock_observed_expired:ratio10m",
            """
            sum by ($by, target, db, prefix) (
              prefix_how:redis_lock_observed_ended:increase10m{how="expired"}
            )
            / sum by ($by, target, db, prefix) (
              prefix_how:redis_lock_observed_ended:increase10m{how=~"expired|released"}
            )
            and sum_over_time(prefix:redis_lock_observed_released:increase30m[1d]) > 0
            """,
        ),
    ),
    interval=ACQUIRES_INTERVAL,
)

ACQUIRES = Group(
    "lockscope.history-acquire",
    (
        Record(
            "instance_prefix_outcome:redis_lock_acquire:increase5m",
            """
            sum by ($by, instance, prefix, outcome) (
              events(redis_lock_acquire_total{outcome!="contended"}[5m])
            )
            """,
        ),
        Record(
            "prefix:redis_lock_acquire_valid:increase5m",
            "sum by ($by, prefix) (instance_prefix_outcome:redis_lock_acquire:increase5m)",
        ),
        Record(
            "prefix:redis_lock_acquire_failed:increase5m",
            """
            sum by ($by, prefix) (
              instance_prefix_outcome:redis_lock_acquire:increase5m{outcome=~"timeout|error"}
            )
            """,
        ),
        # Seconds a second: how many calls wait, and how many locks are held, on average. Only where so many
        # wait that it may be trouble.
        Record(
            "prefix:redis_lock_acquire_wait_seconds:rate10m",
            """
            sum by ($by, prefix) (
              rate(redis_lock_acquire_wait_seconds_sum{outcome=~"acquired|timeout"}[10m])
            ) > ${contention_waiters}
            """,
        ),
        Record(
            "prefix:redis_lock_hold_seconds:rate10m",
            """
            sum by ($by, prefix) (rate(redis_lock_hold_seconds_sum[10m])) > 0
            and prefix:redis_lock_acquire_wait_seconds:rate10m
            """,
        ),
    ),
    interval=ACQUIRES_INTERVAL,
)


def _half_hour(level_and_metric: str) -> Record:
    """Return the rule that makes half an hour's growth out of growths that overlap."""
    return Record(
        f"{level_and_metric}:increase30m",
        f"{SHARE_OF_SAMPLE} * sum_over_time({level_and_metric}:increase5m[30m])",
    )


def _half_hour_of(level_and_metric: str, by: str, sampled: str) -> Record:
    """Return the rule that makes half an hour's growth, by fewer labels, out of 10 minutes' every 2."""
    return Record(
        f"{level_and_metric}:increase30m",
        f"{SHARE_OF_SAMPLE / 2} * sum by ($by, {by}) (sum_over_time({sampled}[30m]))",
    )


def _half_hour_ended(how: str) -> Record:
    return _half_hour_of(
        f"prefix:redis_lock_observed_{how}",
        "target, db, prefix",
        f'prefix_how:redis_lock_observed_ended:increase10m{{how="{how}"}}',
    )


def _failed_share(window: str, inside: str) -> Record:
    """Return the rule that records the share of acquires that failed, of families that failed at all.

    It adds up half hours, so it only changes with the next of them. ``inside`` is a quarter of an hour less
    than the window: as many half hours, whether or not what lies at its very beginning counts, which differs
    between Prometheus 2 and 3.
    """
    return Record(
        f"prefix:redis_lock_acquire_failed:ratio{window}",
        f"""
        sum_over_time(prefix:redis_lock_acquire_failed:increase30m[{inside}])
        / sum_over_time(prefix:redis_lock_acquire_valid:increase30m[{inside}])
        or 0 * prefix:redis_lock_acquire_objective:ratio
        """,
    )


# The last half hour's sample, also where that of one half hour was missed.
LAST_HALF_HOUR = "1h"

HALF_HOURS = Group(
    "lockscope.half-hours",
    (
        _half_hour("prefix:redis_lock_acquire_valid"),
        _half_hour("prefix:redis_lock_acquire_failed"),
        _failed_share("2h", "105m"),
        _failed_share("6h", "345m"),
        _failed_share("1d", "1425m"),
        _failed_share("3d", "4305m"),
        _half_hour_of(
            "prefix_outcome:redis_lock_idempotency",
            "prefix, outcome",
            "prefix_job_type_outcome:redis_lock_idempotency:increase10m",
        ),
        _half_hour_ended("expired"),
        _half_hour_ended("released"),
        Record("prefix:redis_lock_keys:peak30m", "max_over_time(prefix:redis_lock_keys:min30m[30m])"),
    ),
    interval=HALF_HOURS_INTERVAL,
)


def _grown(level_and_metric: str, series: str) -> Record:
    return Record(
        f"{level_and_metric}:increase10m",
        f"sum by ($by, prefix, job_type) (increase({series}[10m])) > 0",
    )


HISTORY = Group(
    "lockscope.history",
    (
        # What each family is used to: the day before without the last hour, or trouble would be its own norm.
        Record(
            "prefix:redis_lock_idempotency_duplicate:ratio1d",
            """
            sum by ($by, prefix) (
              sum_over_time(
                prefix_outcome:redis_lock_idempotency:increase30m{outcome="duplicate"}[1d] offset 1h
              )
            )
            / sum by ($by, prefix) (
              sum_over_time(prefix_outcome:redis_lock_idempotency:increase30m[1d] offset 1h)
            )
            """,
        ),
        Record(
            "prefix:redis_lock_observed_expired:ratio1d",
            """
            sum_over_time(prefix:redis_lock_observed_expired:increase30m[1d] offset 1h)
            / (
              sum_over_time(prefix:redis_lock_observed_expired:increase30m[1d] offset 1h)
              + sum_over_time(prefix:redis_lock_observed_released:increase30m[1d] offset 1h)
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
        Record("prefix:redis_lock_keys:min30m", "min_over_time(prefix:redis_lock_keys:max[30m])"),
        # The level half an hour ago of what is above it now: few families, where the level itself is of all.
        Record(
            "prefix:redis_lock_keys:rising_from",
            "prefix:redis_lock_keys:min30m offset 30m < prefix:redis_lock_keys:min30m",
        ),
        _grown("prefix_job_type:redis_lock_renew_headroom", "redis_lock_renew_headroom_ratio_count"),
        _grown(
            "prefix_job_type:redis_lock_renew_headroom_late",
            'redis_lock_renew_headroom_ratio_bucket{le="0.2"}',
        ),
        _grown("prefix_job_type:redis_lock_ttl_used", "redis_lock_ttl_used_ratio_count"),
        Record(
            "prefix_job_type:redis_lock_ttl_used_tight:increase10m",
            """
            prefix_job_type:redis_lock_ttl_used:increase10m
            - sum by ($by, prefix, job_type) (increase(redis_lock_ttl_used_ratio_bucket{le="0.8"}[10m]))
            > 0
            """,
        ),
        # Held time by share of the TTL used is the TTL. Most locks have a short one and need no series here.
        Record(
            "prefix_job_type:redis_lock_ttl_used_of_long:increase10m",
            """
            prefix_job_type:redis_lock_ttl_used:increase10m
            and
              sum by ($by, prefix, job_type) (increase(redis_lock_hold_seconds_sum[10m]))
              / sum by ($by, prefix, job_type) (increase(redis_lock_ttl_used_ratio_sum[10m]))
              >= ${loose_ttl_seconds}
            """,
        ),
        Record(
            "prefix_job_type:redis_lock_ttl_used_loose:increase10m",
            """
            sum by ($by, prefix, job_type) (increase(redis_lock_ttl_used_ratio_bucket{le="0.1"}[10m])) > 0
            and prefix_job_type:redis_lock_ttl_used_of_long:increase10m
            """,
        ),
    ),
    interval=HISTORY_INTERVAL,
)

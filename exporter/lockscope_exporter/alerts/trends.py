"""Alerts on what shows over an hour or more: TTLs that do not fit, locks that only grow."""

from __future__ import annotations

from lockscope_exporter.alerts.model import Alert, Group
from lockscope_exporter.alerts.recording import HISTORY_INTERVAL, SHARE_OF_SAMPLE

TRENDS = Group(
    "lockscope.trends",
    (
        Alert(
            name="RedisLockTTLHeadroomLow",
            severity="warning",
            expr=f"""
            sum_over_time(prefix_job_type:redis_lock_renew_headroom_late:increase10m[1h])
            / sum_over_time(prefix_job_type:redis_lock_renew_headroom:increase10m[1h])
            > ${{late_renewal_ratio}}
            and
              {SHARE_OF_SAMPLE}
              * sum_over_time(prefix_job_type:redis_lock_renew_headroom_late:increase10m[1h])
              >= ${{late_renewals}}
            """,
            pending="5m",
            keep="15m",
            summary=(
                "{{ $value | humanizePercentage }} of renewals of {{ $labels.prefix }} come at the last "
                "moment"
            ),
            description=(
                "{{ $value | humanizePercentage }} of the renewals of {{ $labels.prefix }} by {{ "
                "$labels.job_type }} in the last hour came with less than a fifth of the TTL left. One slow "
                "answer of Redis or one pause of the process now loses the lock; renew more often or "
                "lengthen the TTL."
            ),
            variables=("prefix", "job_type"),
        ),
        Alert(
            name="RedisLockTTLTooShort",
            severity="warning",
            expr=f"""
            sum_over_time(prefix_job_type:redis_lock_ttl_used_tight:increase10m[1h])
            / sum_over_time(prefix_job_type:redis_lock_ttl_used:increase10m[1h])
            > ${{tight_hold_ratio}}
            and
              {SHARE_OF_SAMPLE} * sum_over_time(prefix_job_type:redis_lock_ttl_used_tight:increase10m[1h])
              >= ${{tight_holds}}
            """,
            pending="5m",
            keep="15m",
            summary=(
                "{{ $value | humanizePercentage }} of holds of {{ $labels.prefix }} use over 80 % of their "
                "TTL"
            ),
            description=(
                "{{ $value | humanizePercentage }} of the holds of {{ $labels.prefix }} by {{ "
                "$labels.job_type }} in the last hour used over 80 % of a TTL that nothing renews. A "
                "slightly slower run will lose the lock while working; lengthen the TTL or renew it."
            ),
            variables=("prefix", "job_type"),
        ),
        Alert(
            name="RedisLockTTLTooLong",
            severity="info",
            expr=f"""
            (
              sum_over_time(prefix_job_type:redis_lock_ttl_used_loose:increase10m[6h])
              / sum_over_time(prefix_job_type:redis_lock_ttl_used_of_long:increase10m[6h])
              > ${{loose_hold_ratio}}
              and
                {SHARE_OF_SAMPLE} * sum_over_time(prefix_job_type:redis_lock_ttl_used_loose:increase10m[6h])
                >= ${{loose_holds}}
            )
            unless sum_over_time(prefix_job_type:redis_lock_renew_headroom:increase10m[6h]) > 0
            """,
            pending="1h",
            keep="1h",
            summary=(
                "{{ $value | humanizePercentage }} of holds of {{ $labels.prefix }} use under a tenth of "
                "their TTL"
            ),
            description=(
                "{{ $value | humanizePercentage }} of the holds of {{ $labels.prefix }} by {{ "
                "$labels.job_type }} in the last 6 hours used at most a tenth of a TTL of "
                "${loose_ttl_seconds} seconds or more. After a crash the lock blocks everyone for that long;"
                " shorten the TTL and renew it."
            ),
            variables=("prefix", "job_type"),
        ),
        Alert(
            name="RedisLockKeysGrowing",
            severity="warning",
            # The fewest keys of each half hour above those of the one before, the last far above the first.
            expr="""
            (
              prefix:redis_lock_keys:min30m
                >= ${growth_factor} * prefix:redis_lock_keys:rising_from offset 60m
                >= ${growth_keys} + prefix:redis_lock_keys:rising_from offset 60m
              and prefix:redis_lock_keys:rising_from offset 30m
              and prefix:redis_lock_keys:rising_from
            )
            unless
              max_over_time(prefix:redis_lock_keys:peak30m[1d] offset 2h) >= prefix:redis_lock_keys:min30m
            """,
            keep="15m",
            about="state",
            summary=(
                "Locks of {{ $labels.prefix }} only grow: at least {{ $value | humanize }} for 30 minutes"
            ),
            description=(
                "The fewest live locks of {{ $labels.prefix }} (db {{ $labels.db }} of {{ $labels.target }})"
                " in 30 minutes rose in each of the last three half hours, to {{ $value | humanize }}, above"
                " anything of the day before. Locks are taken and not given back."
            ),
        ),
    ),
    interval=HISTORY_INTERVAL,
)

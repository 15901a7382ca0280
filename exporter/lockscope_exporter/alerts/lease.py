"""Alerts about keeping a lock: renewals, losses, releases, and whether the TTL fits. By workers' metrics."""

from __future__ import annotations

from lockscope_exporter.alerts.model import Alert, Group

LEASE = Group(
    "lockscope.lease",
    (
        Alert(
            name="RedisLockRenewFailing",
            severity="warning",
            expr="""
            (
              sum by ($by, prefix, job_type) (
                prefix_job_type_outcome:redis_lock_renew:increase10m{outcome=~"lost|error"}
              ) >= ${renew_failures}
            )
            / sum by ($by, prefix, job_type) (prefix_job_type_outcome:redis_lock_renew:increase10m)
            > ${renew_failure_ratio}
            """,
            keep="5m",
            summary="{{ $value | humanizePercentage }} of renewals of {{ $labels.prefix }} fail",
            description=(
                "{{ $value | humanizePercentage }} of the renewals of {{ $labels.prefix }} by {{ "
                "$labels.job_type }} were lost or failed in the last 10 minutes. A job whose lock is not "
                "renewed works on without it once the TTL is over."
            ),
            variables=("prefix", "job_type"),
        ),
        Alert(
            name="RedisLockOwnershipLost",
            severity="warning",
            expr="""
            sum by ($by, prefix, job_type) (
              {__name__=~"prefix_job_type_outcome:redis_lock_(renew|release):increase10m", outcome="lost"}
            ) > 0
            """,
            keep="10m",
            summary=(
                "{{ $labels.job_type }} lost {{ $labels.prefix }} {{ $value | humanize }} times while working"
            ),
            description=(
                "{{ $value | humanize }} renewals or releases of {{ $labels.prefix }} by {{ $labels.job_type"
                " }} in the last 10 minutes found the lock expired or in other hands. The work before them "
                "ran unprotected; check what it wrote, then the TTL and the renewal."
            ),
            variables=("prefix", "job_type"),
        ),
        Alert(
            name="RedisLockReleaseFailing",
            severity="warning",
            expr="""
            (
              sum by ($by, prefix, job_type) (
                prefix_job_type_outcome:redis_lock_release:increase10m{outcome=~"lost|error"}
              ) >= ${release_failures}
            )
            / sum by ($by, prefix, job_type) (prefix_job_type_outcome:redis_lock_release:increase10m)
            > ${release_failure_ratio}
            """,
            keep="5m",
            summary="{{ $value | humanizePercentage }} of releases of {{ $labels.prefix }} free nothing",
            description=(
                "{{ $value | humanizePercentage }} of the releases of {{ $labels.prefix }} by {{ "
                "$labels.job_type }} in the last 10 minutes raised an error or found the lock gone. After an"
                " error the lock stays until its TTL is over."
            ),
            variables=("prefix", "job_type"),
        ),
        Alert(
            name="RedisLockTTLHeadroomLow",
            severity="warning",
            expr="""
            (
              sum by ($by, prefix, job_type) (increase(redis_lock_renew_headroom_ratio_bucket{le="0.2"}[1h]))
              >= ${late_renewals}
            )
            / sum by ($by, prefix, job_type) (increase(redis_lock_renew_headroom_ratio_count[1h]))
            > ${late_renewal_ratio}
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
            expr="""
            (
              sum by ($by, prefix, job_type) (increase(redis_lock_ttl_used_ratio_count[1h]))
              - sum by ($by, prefix, job_type) (increase(redis_lock_ttl_used_ratio_bucket{le="0.8"}[1h]))
              >= ${tight_holds}
            )
            / sum by ($by, prefix, job_type) (increase(redis_lock_ttl_used_ratio_count[1h]))
            > ${tight_hold_ratio}
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
            expr="""
            (
              (
                sum by ($by, prefix, job_type) (
                  increase(redis_lock_ttl_used_ratio_bucket{le="0.1"}[6h])
                ) >= ${loose_holds}
              )
              / sum by ($by, prefix, job_type) (increase(redis_lock_ttl_used_ratio_count[6h]))
              > ${loose_hold_ratio}
            )
            and
              sum by ($by, prefix, job_type) (increase(redis_lock_hold_seconds_sum[6h]))
              / sum by ($by, prefix, job_type) (increase(redis_lock_ttl_used_ratio_sum[6h]))
              >= ${loose_ttl_seconds}
            unless
              sum by ($by, prefix, job_type) (increase(redis_lock_renew_total{outcome="renewed"}[6h])) > 0
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
    ),
)

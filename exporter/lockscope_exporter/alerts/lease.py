"""Alerts about keeping a lock: renewals, losses, releases. From the workers' own metrics."""

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
                prefix_job_type_outcome:redis_lock_renew_failed:increase10m
              ) >= ${renew_failures}
            )
            / sum by ($by, prefix, job_type) (
              {__name__=~"prefix_job_type_outcome:redis_lock_(renew|renew_failed):increase10m"}
            )
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
              {
                __name__=~"prefix_job_type_outcome:redis_lock_(renew|release)_failed:increase10m",
                outcome="lost"
              }
            ) > 0
            """,
            keep="10m",
            summary=(
                "{{ $labels.job_type }} lost {{ $labels.prefix }} {{ $value | count }} times while working"
            ),
            description=(
                "{{ $value | count }} renewals or releases of {{ $labels.prefix }} by {{ $labels.job_type"
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
                prefix_job_type_outcome:redis_lock_release_failed:increase10m
              ) >= ${release_failures}
            )
            / sum by ($by, prefix, job_type) (
              {__name__=~"prefix_job_type_outcome:redis_lock_(release|release_failed):increase10m"}
            )
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
    ),
)

"""Alerts about the locks that Redis holds now, and how they ended. From the exporter, for any library."""

from __future__ import annotations

from lockscope_exporter.alerts.model import Alert, Group
from lockscope_exporter.alerts.recording import keys_in

STATE = Group(
    "lockscope.state",
    (
        Alert(
            name="RedisLockHeldTooLong",
            severity="warning",
            expr="""
            max by ($by, target, db, prefix) (redis_lock_oldest_age_seconds)
            > ${overdue_factor} * max by ($by, target, db, prefix) (redis_lock_expected_hold_seconds)
            """,
            pending="1m",
            keep="2m",
            about="state",
            summary="A lock of {{ $labels.prefix }} is held for {{ $value | humanizeDuration }}",
            description=(
                "The oldest lock of {{ $labels.prefix }} (db {{ $labels.db }} of {{ $labels.target }}) is "
                "held for {{ $value | humanizeDuration }}, over ${overdue_factor} times what is usual for "
                "this prefix. The job hangs, or it has more to do than ever."
            ),
        ),
        Alert(
            name="RedisLockNoTTL",
            severity="warning",
            expr=keys_in("no_ttl"),
            pending="1m",
            keep="2m",
            about="state",
            summary="{{ $value | humanize }} locks of {{ $labels.prefix }} have no TTL",
            description=(
                "{{ $value | humanize }} locks of {{ $labels.prefix }} (db {{ $labels.db }} of {{ "
                "$labels.target }}) have no expiry, although their library sets one. If the holder dies, "
                "they stay for ever and what they guard never runs again."
            ),
        ),
        Alert(
            name="RedisLockOrphaned",
            severity="warning",
            expr="prefix:redis_lock_keys_orphaned:max",
            pending="1m",
            keep="5m",
            about="state",
            summary="{{ $value | humanize }} locks of {{ $labels.prefix }} belong to processes that are gone",
            description=(
                "The holders of {{ $value | humanize }} locks of {{ $labels.prefix }} (db {{ $labels.db }} "
                "of {{ $labels.target }}) ended without releasing them. Nobody gets these locks until their "
                "TTL is over or someone frees them."
            ),
        ),
        Alert(
            name="RedisLockOrphanedBlocking",
            severity="critical",
            expr="""
            prefix:redis_lock_keys_orphaned:max
            and on ($across) (
              sum by ($across) (prefix:redis_lock_waiters:sum) > 0
              or sum by ($across) (
                prefix_job_type_outcome:redis_lock_acquire:increase10m{outcome=~"contended|timeout"}
              ) > 0
            )
            """,
            pending="1m",
            keep="5m",
            about="state",
            summary="{{ $value | humanize }} orphaned locks of {{ $labels.prefix }} block running workers",
            description=(
                "The holders of {{ $value | humanize }} locks of {{ $labels.prefix }} (db {{ $labels.db }} "
                "of {{ $labels.target }}) are gone, and other workers wait for locks of this prefix or were "
                "refused in the last 10 minutes. Free the locks after checking the evidence."
            ),
        ),
        Alert(
            name="RedisLockStalled",
            severity="warning",
            expr=keys_in("stalled"),
            pending="1m",
            keep="5m",
            about="state",
            summary="{{ $value | humanize }} locks of {{ $labels.prefix }} are no longer renewed",
            description=(
                "The holders of {{ $value | humanize }} locks of {{ $labels.prefix }} (db {{ $labels.db }} "
                "of {{ $labels.target }}) used to renew and have missed two renewals. They are paused, "
                "overloaded or cut off, and will lose the lock while they work."
            ),
        ),
        Alert(
            name="RedisLockEndedByExpiry",
            severity="warning",
            expr="""
            (
              prefix:redis_lock_observed_expired:ratio10m > ${expired_ratio}
              and sum by ($by, target, db, prefix) (
                prefix_how:redis_lock_observed_ended:increase10m{how="expired"}
              ) >= ${expired}
            )
            unless prefix:redis_lock_observed_expired:ratio10m
              <= ${spike_factor} * prefix:redis_lock_observed_expired:ratio1d
            """,
            keep="10m",
            about="state",
            summary="{{ $value | humanizePercentage }} of locks of {{ $labels.prefix }} end by expiry",
            description=(
                "{{ $value | humanizePercentage }} of the locks of {{ $labels.prefix }} (db {{ $labels.db }}"
                " of {{ $labels.target }}) that ended in the last 10 minutes ran out of TTL instead of being"
                " released, unlike the day before. Their holders died or outlived the TTL."
            ),
        ),
        Alert(
            name="RedisLockOverlap",
            severity="critical",
            expr="""
            max by ($by, target, db, prefix) (
              events(redis_lock_overlap_total[10m])
            ) > 0
            """,
            keep="10m",
            about="state",
            summary="Two holders had one lock of {{ $labels.prefix }} at once, {{ $value | count }} times",
            description=(
                "{{ $value | count }} times in the last 10 minutes two processes worked under one lock of"
                " {{ $labels.prefix }} (db {{ $labels.db }} of {{ $labels.target }}) at the same time, by "
                "their own journal. Exclusivity was broken; check what both of them wrote."
            ),
        ),
        Alert(
            name="RedisLockWeakOwner",
            severity="info",
            expr="max by ($by, target, db, prefix) (redis_lock_weak_owner_keys) > 0",
            pending="15m",
            keep="1h",
            about="state",
            summary=(
                "{{ $value | humanize }} locks of {{ $labels.prefix }} have an owner value that others share"
            ),
            description=(
                "{{ $value | humanize }} locks of {{ $labels.prefix }} (db {{ $labels.db }} of {{ "
                "$labels.target }}) hold a constant or shared value. A holder that comes back late cannot "
                "tell its own lock from that of its successor, and frees it. Use a random token for each "
                "acquire."
            ),
        ),
    ),
)

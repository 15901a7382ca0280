"""Alerts about Redis as a place for locks, and about lockscope itself: is what the others say still true?"""

from __future__ import annotations

from lockscope_exporter.alerts.model import Alert, Group

SERVER = Group(
    "lockscope.server",
    (
        Alert(
            name="RedisLockEvictionUnsafe",
            severity="warning",
            expr="min by ($by, target, node) (redis_lock_server_eviction_safe) == 0",
            pending="10m",
            keep="10m",
            summary="Redis {{ $labels.node }} of {{ $labels.target }} may evict locks",
            description=(
                "The maxmemory policy of {{ $labels.node }} ({{ $labels.target }}) lets Redis drop keys with"
                " a TTL when memory is short, and every lock has one (eviction_safe is {{ $value }}). A "
                "dropped lock is free for the next worker while its holder works on. Set maxmemory-policy to"
                " noeviction, or move the locks to a server of their own."
            ),
            dashboard="lockscope-exporter",
            variables=("target", "node"),
        ),
        Alert(
            name="RedisLockEvicted",
            severity="critical",
            expr="""
            max by ($by, target, db, prefix) (
              events(redis_lock_observed_ended_total{how="evicted"}[10m])
            ) > 0
            """,
            keep="10m",
            about="state",
            summary="Redis evicted {{ $value | count }} locks of {{ $labels.prefix }}",
            description=(
                "{{ $value | count }} locks of {{ $labels.prefix }} (db {{ $labels.db }} of {{ "
                "$labels.target }}) were evicted in the last 10 minutes because Redis ran out of memory. "
                "Their holders worked on without them."
            ),
        ),
        Alert(
            name="RedisLockEvicted",
            severity="warning",
            expr="""
            max by ($by, target, node) (
              events(redis_lock_server_evicted_keys_total[10m])
            ) > 0
            and min by ($by, target, node) (redis_lock_server_eviction_safe) == 0
            """,
            keep="10m",
            summary="Redis {{ $labels.node }} of {{ $labels.target }} evicts keys, and may take locks",
            description=(
                "{{ $labels.node }} ({{ $labels.target }}) evicted {{ $value | count }} keys of any kind "
                "in the last 10 minutes, under a policy that can take locks."
            ),
            labels={"scope": "server"},
            dashboard="lockscope-exporter",
            variables=("target", "node"),
        ),
    ),
)

SAMPLER = Group(
    "lockscope.sampler",
    (
        Alert(
            name="RedisLockExporterDown",
            severity="critical",
            expr="""
            max by ($by, target) (
              group by ($by, instance, target) (last_over_time(redis_lock_up[3d]))
              * on ($by, instance) group_left () max by ($by, instance) (up)
            ) == 0
            """,
            pending="2m",
            summary="No lockscope exporter of {{ $labels.target }} answers",
            description=(
                "Prometheus cannot scrape any exporter of job {{ $labels.job }} that watched {{ "
                "$labels.target }} in the last 3 days (up is {{ $value }}). Nothing is known about its "
                "locks; alerts on their state are muted."
            ),
            labels={"reason": "scrape"},
            dashboard="lockscope-exporter",
            variables=("target",),
        ),
        Alert(
            name="RedisLockExporterDown",
            severity="critical",
            expr="max by ($by, target, node) (redis_lock_up) == 0",
            pending="1m",
            summary="lockscope cannot read Redis {{ $labels.node }} of {{ $labels.target }}",
            description=(
                "The exporter runs, but its last sample of {{ $labels.node }} ({{ $labels.target }}) failed "
                "(redis_lock_up is {{ $value }}): Redis is down, unreachable, or refuses the exporter's "
                "user. What is known about its locks is old; alerts on their state are muted."
            ),
            labels={"reason": "redis"},
            dashboard="lockscope-exporter",
            variables=("target", "node"),
        ),
        Alert(
            name="RedisLockExporterAbsent",
            severity="critical",
            expr="absent(redis_lock_up)",
            pending="10m",
            summary="Prometheus knows no lockscope exporter ({{ $value }} of 1 absent)",
            description=(
                "No series redis_lock_up for 10 minutes (absent is {{ $value }}): the exporter is not "
                "scraped, not discovered, or was removed. Nothing is known about the locks of any prefix. "
                "Where no exporter is wanted, leave this alert out (lockscope rules --skip ExporterAbsent)."
            ),
            dashboard="lockscope-exporter",
            variables=(),
        ),
        Alert(
            name="RedisLockMirrorStale",
            severity="warning",
            expr="min by ($by, target, node) (redis_lock_mirror_age_seconds) > ${mirror_age_seconds}",
            pending="1m",
            summary="What is known of locks on {{ $labels.node }} is {{ $value | humanizeDuration }} old",
            description=(
                "The exporter has heard nothing from {{ $labels.node }} ({{ $labels.target }}) for {{ $value"
                " | humanizeDuration }}. Its figures and the alerts built on them lag behind."
            ),
            dashboard="lockscope-exporter",
            variables=("target", "node"),
        ),
        Alert(
            name="RedisLockPrefixOverflow",
            severity="warning",
            expr="""
            sum by ($by) (
              events(redis_lock_prefix_overflow_total[10m])
            ) > 0
            """,
            keep="1h",
            summary='{{ $value | count }} keys of {{ $labels.job }} were folded into the prefix "other"',
            description=(
                "Processes of {{ $labels.job }} met more lock families than the cap allows and counted {{ "
                '$value | count }} keys in the last 10 minutes under the prefix "other". Give the key '
                "layout a pattern, so that what varies is recognised."
            ),
            dashboard="lockscope-exporter",
            variables=("job",),
        ),
        Alert(
            name="RedisLockJournalDropping",
            severity="warning",
            expr="""
            sum by ($by) (
              events(redis_lock_journal_dropped_total[10m])
            ) > 0
            """,
            keep="10m",
            summary="{{ $labels.job }} dropped {{ $value | count }} journal events",
            description=(
                "The journal of {{ $labels.job }} dropped {{ $value | count }} events in the last 10 "
                "minutes because its queue was full: Redis is too slow, or there are more events than the "
                "journal may carry. Timelines and overlaps have gaps."
            ),
            dashboard="lockscope-exporter",
            variables=("job",),
        ),
    ),
)

"""Board 5: is what the others show true? The exporter, its feed, and Redis as a place for locks."""

from __future__ import annotations

from grafana.generate.boards.common import BAD, GOOD, NO_EXPORTER, WARN
from grafana.generate.kit import Board, Panel, Query, Row, query_variable
from grafana.generate.select import exported, rate, selected, series

_TARGET = 'target=~"$target"'
_CHOSEN = f'{_TARGET}, node=~"$node"'
_UP = series("redis_lock_up", _CHOSEN)

_NODES = Row(
    "Redis nodes",
    (
        Panel(
            "Nodes sampled",
            "Redis nodes whose last sample succeeded.",
            f"sum({exported('redis_lock_up', _CHOSEN)})",
            "none",
            kind="stat",
            width=4,
            height=4,
            empty=NO_EXPORTER,
            decimals=0,
        ),
        Panel(
            "Nodes lost",
            "Redis nodes that cannot be sampled: what is shown of their locks is old.",
            f"count({exported('redis_lock_up', _CHOSEN)} == 0)"
            f" or 0 * sum({exported('redis_lock_up', _CHOSEN)})",
            "none",
            kind="stat",
            width=4,
            height=4,
            empty=NO_EXPORTER,
            thresholds=((None, GOOD), (1, BAD)),
            decimals=0,
        ),
        Panel(
            "Nodes that may evict locks",
            "Redis nodes whose maxmemory policy can drop keys with a TTL, which locks are.",
            f"count({exported('redis_lock_server_eviction_safe', _CHOSEN)} == 0)"
            f" or 0 * sum({exported('redis_lock_server_eviction_safe', _CHOSEN)})",
            "none",
            kind="stat",
            width=4,
            height=4,
            empty=NO_EXPORTER,
            thresholds=((None, GOOD), (1, WARN)),
            decimals=0,
        ),
        Panel(
            "Prefixes watched",
            "Families of locks that the exporter knows.",
            f"count(count by (prefix) ({series('redis_lock_keys', _TARGET)}))",
            "none",
            kind="stat",
            width=4,
            height=4,
            empty=NO_EXPORTER,
            decimals=0,
        ),
        Panel(
            "Scrape of the exporter",
            "Time that Prometheus takes to scrape the exporter.",
            f"max({selected('scrape_duration_seconds')} and on (job, instance) {_UP})",
            "s",
            kind="stat",
            width=4,
            height=4,
            empty=NO_EXPORTER,
        ),
        Panel(
            "Samples a scrape",
            "Samples that Prometheus gets from the exporter, a measure of its series.",
            f"sum({selected('scrape_samples_scraped')} and on (job, instance) {_UP})",
            "short",
            kind="stat",
            width=4,
            height=4,
            empty=NO_EXPORTER,
            decimals=0,
        ),
        Panel(
            "Node up",
            "1 while the last sample of the node succeeded.",
            (Query(exported("redis_lock_up", _CHOSEN), "{{target}} {{node}}"),),
            "none",
            maximum=1,
            empty=NO_EXPORTER,
        ),
        Panel(
            "Feed in use",
            "How the exporter follows each node: tracking (pushes), notifications, or scan (paced, slower).",
            (
                Query(
                    f"{exported('redis_lock_sampler_mode', _CHOSEN, extra='mode')} == 1",
                    "{{target}} {{node}} {{mode}}",
                ),
            ),
            "none",
            kind="timeline",
            empty=NO_EXPORTER,
        ),
        Panel(
            "Age of the mirror",
            "Time since the exporter last heard from the node. Alerts on state lag by as much.",
            (
                Query(
                    f"min by (target, node) ({series('redis_lock_mirror_age_seconds', _CHOSEN)})",
                    "{{target}} {{node}}",
                ),
            ),
            "s",
            empty=NO_EXPORTER,
        ),
    ),
)

_SYNC = Row(
    "Truth of the mirror",
    (
        Panel(
            "Resynchronisations by reason",
            "Full resynchronisations a second: start, reconnect, failover, lost feed, the slow rolling one.",
            (
                Query(
                    "sum by (reason) (max by (target, node, reason) ("
                    f"{rate('redis_lock_mirror_resync_total', _CHOSEN)}))",
                    "{{reason}}",
                ),
            ),
            "ops",
            stacked=True,
            empty=NO_EXPORTER,
        ),
        Panel(
            "Corrections",
            "Differences a second that a resynchronisation found between the mirror and Redis; 0 is healthy.",
            (
                Query(
                    f"max by (target, node) ({rate('redis_lock_mirror_corrections_total', _CHOSEN)})",
                    "{{target}} {{node}}",
                ),
            ),
            "ops",
            empty=NO_EXPORTER,
        ),
        Panel(
            "Evicted keys",
            "Keys of any kind that Redis evicted, a second.",
            (
                Query(
                    f"max by (target, node) ({rate('redis_lock_server_evicted_keys_total', _CHOSEN)})",
                    "{{target}} {{node}}",
                ),
            ),
            "ops",
            empty=NO_EXPORTER,
        ),
    ),
)

_SELF = Row(
    "lockscope itself",
    (
        Panel(
            "Prefix overflow",
            'Keys a second that were folded into the prefix "other", because a process met more families '
            "than the cap.",
            (Query(f"sum by (job) ({rate('redis_lock_prefix_overflow_total')})", "{{job}}"),),
            "ops",
            empty="none",
        ),
        Panel(
            "Journal events dropped",
            "Events a second that the journal dropped because its queue was full; timelines have gaps there.",
            (Query(f"sum by (job) ({rate('redis_lock_journal_dropped_total')})", "{{job}}"),),
            "ops",
            empty="no journal",
        ),
        Panel(
            "Sink errors",
            "Events a second that a sink of the workers could not take, by sink. The application was not "
            "touched.",
            (Query(f"sum by (sink) ({rate('redis_lock_sink_errors_total')})", "{{sink}}"),),
            "ops",
            empty="none",
        ),
        Panel(
            "Workers reporting",
            "Instrumented processes that report their locks, by Prometheus job.",
            (
                Query(
                    f"count by (job) (count by (job, instance) ({series('redis_lock_held')}))",
                    "{{job}}",
                ),
            ),
            "none",
            empty="no worker",
        ),
        Panel(
            "Exporter CPU",
            "Processor cores that the exporter uses.",
            (
                Query(
                    f"rate({selected('process_cpu_seconds_total')}[$__rate_interval])"
                    f" and on (job, instance) {_UP}",
                    "{{instance}}",
                ),
            ),
            "none",
            empty=NO_EXPORTER,
        ),
        Panel(
            "Exporter memory",
            "Resident memory of the exporter.",
            (
                Query(
                    f"{selected('process_resident_memory_bytes')} and on (job, instance) {_UP}",
                    "{{instance}}",
                ),
            ),
            "bytes",
            empty=NO_EXPORTER,
        ),
    ),
)

EXPORTER = Board(
    "lockscope-exporter",
    "Redis locks / Exporter and Redis health",
    "Whether what lockscope shows is fresh and complete, and whether Redis is a safe place for locks.",
    (_NODES, _SYNC, _SELF),
    variables=(
        query_variable("target", "Target", 'label_values(redis_lock_up{job=~"$job"}, target)'),
        query_variable("node", "Node", 'label_values(redis_lock_up{job=~"$job", target=~"$target"}, node)'),
    ),
)

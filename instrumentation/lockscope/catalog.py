"""Every metric, declared once: sinks, collector, documentation, dashboards and rule tests read it here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["counter", "gauge", "histogram", "gaugehistogram"]
Origin = Literal["shim", "exporter", "both"]

WAIT_BUCKETS = (
    0.001,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
    1800.0,
)
HOLD_BUCKETS = (
    0.005,
    0.025,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    120.0,
    300.0,
    900.0,
    3600.0,
    7200.0,
)
RATIO_BUCKETS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
USED_BUCKETS = (0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 2.0, 5.0)
TTL_BUCKETS = (0.5, 1.0, 5.0, 15.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 86400.0)

SHIM_LABELS = ("prefix", "job_type")
FAMILY_LABELS = ("prefix", "db", "target")
NODE_LABELS = ("target", "node")

ACQUIRE_OUTCOMES = ("acquired", "contended", "timeout", "error")
RENEW_OUTCOMES = ("renewed", "lost", "error")
RELEASE_OUTCOMES = ("released", "lost", "error")
IDEMPOTENCY_OUTCOMES = ("first", "duplicate", "in_progress", "error")
ENDED_HOW = ("released", "expired", "evicted", "flushed")
STATES = ("orphaned", "no_ttl", "stalled", "overdue", "held")
MODES = ("tracking", "notifications", "scan")
JOURNAL_RESULTS = ("read", "malformed")
PROGRESS_STATES = ("running", "stale", "failed", "completed")


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric family.

    Attributes:
        name: full Prometheus name; counters end in ``_total``.
        kind: Prometheus type.
        help: one sentence, as ``# HELP`` and the documentation show it.
        labels: label names, in order.
        origin: who emits it; the exporter emits shim metrics too when it reads the journal.
        buckets: upper bounds without ``+Inf``, for histograms.
        unit: UCUM unit for OpenTelemetry (``s``, ``1``, ``{key}``).
        values: allowed values of the bounded labels.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...]
    origin: Origin = "exporter"
    buckets: tuple[float, ...] = ()
    unit: str = "1"
    values: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def otel_name(self) -> str:
        """The dotted name of the OpenTelemetry instrument, such as ``redis.lock.acquire.wait``.

        Prometheus exporters add ``_total`` and the unit ``_seconds`` by themselves, but ``_ratio`` to gauges
        only (OpenTelemetry specification, Prometheus compatibility), so that stays in the name.
        """
        stem = self.name.removesuffix("_total").removesuffix("_seconds")
        return stem.replace("_", ".")


ACQUIRE = Metric(
    "redis_lock_acquire_total",
    "counter",
    "Calls to acquire a lock, by outcome.",
    (*SHIM_LABELS, "outcome"),
    "shim",
    unit="{call}",
    values={"outcome": ACQUIRE_OUTCOMES},
)
ACQUIRE_WAIT = Metric(
    "redis_lock_acquire_wait_seconds",
    "histogram",
    "Time spent in a call to acquire, by outcome.",
    (*SHIM_LABELS, "outcome"),
    "shim",
    WAIT_BUCKETS,
    "s",
    {"outcome": ACQUIRE_OUTCOMES},
)
HOLD = Metric(
    "redis_lock_hold_seconds",
    "histogram",
    "Time from acquiring a lock to releasing or losing it.",
    SHIM_LABELS,
    "shim",
    HOLD_BUCKETS,
    "s",
)
RENEW = Metric(
    "redis_lock_renew_total",
    "counter",
    "Renewals of a held lock, by outcome.",
    (*SHIM_LABELS, "outcome"),
    "shim",
    unit="{call}",
    values={"outcome": RENEW_OUTCOMES},
)
RENEW_HEADROOM = Metric(
    "redis_lock_renew_headroom_ratio",
    "histogram",
    "Share of the TTL that was left when a renewal came.",
    SHIM_LABELS,
    "shim",
    RATIO_BUCKETS,
)
RELEASE = Metric(
    "redis_lock_release_total",
    "counter",
    "Releases of a lock, by outcome.",
    (*SHIM_LABELS, "outcome"),
    "shim",
    unit="{call}",
    values={"outcome": RELEASE_OUTCOMES},
)
TTL_USED = Metric(
    "redis_lock_ttl_used_ratio",
    "histogram",
    "Share of the TTL used at release, counted from the last renewal.",
    SHIM_LABELS,
    "shim",
    USED_BUCKETS,
)
UNPROTECTED = Metric(
    "redis_lock_unprotected_seconds_total",
    "counter",
    "Time worked after the lease had lapsed.",
    SHIM_LABELS,
    "shim",
    unit="s",
)
HELD = Metric(
    "redis_lock_held", "gauge", "Locks that this process holds now.", SHIM_LABELS, "shim", unit="{lock}"
)
WAITERS = Metric(
    "redis_lock_waiters", "gauge", "Calls that wait for a lock now.", SHIM_LABELS, "shim", unit="{call}"
)
RETRY = Metric(
    "redis_lock_retry_total",
    "counter",
    "Jobs retried or requeued because of a lock, by reason.",
    (*SHIM_LABELS, "reason"),
    "shim",
    unit="{job}",
)
IDEMPOTENCY = Metric(
    "redis_lock_idempotency_total",
    "counter",
    "Idempotency checks, by outcome.",
    (*SHIM_LABELS, "outcome"),
    "shim",
    unit="{check}",
    values={"outcome": IDEMPOTENCY_OUTCOMES},
)
PREFIX_OVERFLOW = Metric(
    "redis_lock_prefix_overflow_total",
    "counter",
    'Times that a key was folded into the prefix "other" by the cap.',
    (),
    "both",
    unit="{time}",
)
SINK_ERRORS = Metric(
    "redis_lock_sink_errors_total",
    "counter",
    "Events that a sink failed to take, by sink.",
    ("sink",),
    "shim",
    unit="{event}",
)
JOURNAL_DROPPED = Metric(
    "redis_lock_journal_dropped_total",
    "counter",
    "Events that the journal dropped because its queue was full.",
    (),
    "both",
    unit="{event}",
)

UP = Metric("redis_lock_up", "gauge", "1 if the last sample of this node succeeded.", NODE_LABELS)
SAMPLER_MODE = Metric(
    "redis_lock_sampler_mode",
    "gauge",
    "1 for the feed in use.",
    (*NODE_LABELS, "mode"),
    values={"mode": MODES},
)
KEYS = Metric(
    "redis_lock_keys",
    "gauge",
    "Live lock keys, by dialect and state.",
    (*FAMILY_LABELS, "dialect", "state"),
    unit="{key}",
    values={"state": STATES},
)
KEYS_WITHOUT_TTL = Metric(
    "redis_lock_keys_without_ttl",
    "gauge",
    "Live lock keys that never expire, normal for their dialect or not.",
    FAMILY_LABELS,
    unit="{key}",
)
OLDEST_AGE = Metric(
    "redis_lock_oldest_age_seconds", "gauge", "Age of the longest-held live lock.", FAMILY_LABELS, unit="s"
)
TTL_MIN = Metric(
    "redis_lock_ttl_min_seconds",
    "gauge",
    "Shortest remaining TTL of a live lock; NaN while no live lock expires.",
    FAMILY_LABELS,
    unit="s",
)
TTL = Metric(
    "redis_lock_ttl_seconds",
    "gaugehistogram",
    "Remaining TTL of live locks.",
    FAMILY_LABELS,
    buckets=TTL_BUCKETS,
    unit="s",
)
EXPECTED_HOLD = Metric(
    "redis_lock_expected_hold_seconds",
    "gauge",
    "Hold time beyond which a lock counts as overdue.",
    FAMILY_LABELS,
    unit="s",
)
TTL_USUAL = Metric(
    "redis_lock_ttl_usual_seconds",
    "gauge",
    "TTL that locks are usually given when taken or renewed, the median of the latest.",
    FAMILY_LABELS,
    unit="s",
)
TTL_RECOMMENDED = Metric(
    "redis_lock_ttl_recommended_seconds",
    "gauge",
    "TTL that would fit how long locks are held, or how often they are renewed; the usual one if that fits.",
    FAMILY_LABELS,
    unit="s",
)
OBSERVED_ACQUIRED = Metric(
    "redis_lock_observed_acquired_total", "counter", "Locks seen to be taken.", FAMILY_LABELS, unit="{lock}"
)
OBSERVED_RENEWED = Metric(
    "redis_lock_observed_renewed_total", "counter", "Locks seen to be renewed.", FAMILY_LABELS, unit="{lock}"
)
OBSERVED_TAKEOVER = Metric(
    "redis_lock_observed_takeover_total",
    "counter",
    "Locks whose owner changed with no end seen between.",
    FAMILY_LABELS,
    unit="{lock}",
)
OBSERVED_ENDED = Metric(
    "redis_lock_observed_ended_total",
    "counter",
    "Locks seen to end, by how.",
    (*FAMILY_LABELS, "how"),
    unit="{lock}",
    values={"how": ENDED_HOW},
)
OVERLAP = Metric(
    "redis_lock_overlap_total",
    "counter",
    "Times that two holders had one lock at once, by the journal.",
    FAMILY_LABELS,
    unit="{overlap}",
)
OVERLAP_SECONDS = Metric(
    "redis_lock_overlap_seconds_total",
    "counter",
    "Time that two holders had one lock at once, by the journal.",
    FAMILY_LABELS,
    unit="s",
)
JOURNAL_ENTRIES = Metric(
    "redis_lock_journal_entries_total",
    "counter",
    "Entries of the journal that were read, by whether they could be.",
    ("target", "result"),
    unit="{entry}",
    values={"result": JOURNAL_RESULTS},
)
WEAK_OWNER = Metric(
    "redis_lock_weak_owner_keys",
    "gauge",
    "Live locks whose owner value is constant or shared.",
    FAMILY_LABELS,
    unit="{key}",
)
EVICTION_SAFE = Metric(
    "redis_lock_server_eviction_safe",
    "gauge",
    "1 if the server's maxmemory policy cannot drop locks.",
    NODE_LABELS,
)
EVICTED = Metric(
    "redis_lock_server_evicted_keys_total",
    "counter",
    "Keys of any kind that the server evicted.",
    NODE_LABELS,
    unit="{key}",
)
MIRROR_AGE = Metric(
    "redis_lock_mirror_age_seconds",
    "gauge",
    "Time since the sampler last heard from this node.",
    NODE_LABELS,
    unit="s",
)
MIRROR_RESYNC = Metric(
    "redis_lock_mirror_resync_total",
    "counter",
    "Full resynchronisations, by reason.",
    (*NODE_LABELS, "reason"),
    unit="{resync}",
)
MIRROR_CORRECTIONS = Metric(
    "redis_lock_mirror_corrections_total",
    "counter",
    "Differences that a resynchronisation found.",
    NODE_LABELS,
    unit="{key}",
)
PROGRESS_KEYS = Metric(
    "redis_lock_progress_keys",
    "gauge",
    "Job-progress keys, by state.",
    (*FAMILY_LABELS, "state"),
    unit="{key}",
    values={"state": PROGRESS_STATES},
)
PROGRESS_STALE = Metric(
    "redis_lock_progress_stale_seconds",
    "gauge",
    "Longest silence of a running job-progress key.",
    FAMILY_LABELS,
    unit="s",
)

CATALOG: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
BY_NAME: dict[str, Metric] = {metric.name: metric for metric in CATALOG}

"""The situations that the demo must show, each with the scraped metric that proves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockscope_exporter.demo.scrape import Seen


@dataclass(frozen=True, slots=True)
class Situation:
    """One thing that people meet.

    Attributes:
        name: what happens.
        proof: the metric that shows it, as a person would query it.
        seen: tells whether the scrapes so far show it.
    """

    name: str
    proof: str
    seen: Callable[[Seen], bool]


SITUATIONS: tuple[Situation, ...] = (
    Situation(
        "workers wait for a lock that others hold",
        "redis_lock_waiters > 0",
        lambda seen: seen.peak("redis_lock_waiters", job_type="invoice.generate") > 0,
    ),
    Situation(
        "some give up waiting",
        'redis_lock_acquire_total{outcome="timeout"}',
        lambda seen: (
            seen.total("redis_lock_acquire_total", outcome="timeout", job_type="invoice.generate") > 0
        ),
    ),
    Situation(
        "a refused job is requeued with back-off",
        "redis_lock_retry_total",
        lambda seen: seen.total("redis_lock_retry_total", reason="locked", job_type="report.nightly") > 0,
    ),
    Situation(
        "a long job renews its lock",
        'redis_lock_renew_total{outcome="renewed"}',
        lambda seen: (
            seen.total("redis_lock_renew_total", outcome="renewed", job_type="video.transcode") > 1
            and seen.total("redis_lock_observed_renewed_total") > 0
        ),
    ),
    Situation(
        "a job outlives its TTL and works unprotected",
        'redis_lock_release_total{outcome="lost"}, redis_lock_unprotected_seconds_total',
        lambda seen: (
            seen.total("redis_lock_release_total", outcome="lost", job_type="stock.sync") > 0
            and seen.total("redis_lock_unprotected_seconds_total", job_type="stock.sync") > 0
            and seen.total("redis_lock_observed_ended_total", how="expired") > 0
        ),
    ),
    Situation(
        "two workers had one lock at once",
        "redis_lock_overlap_seconds_total",
        lambda seen: seen.total("redis_lock_overlap_seconds_total") > 0,
    ),
    Situation(
        "a worker is killed while it holds a lock",
        'redis_lock_keys{state="orphaned"}',
        lambda seen: seen.peak("redis_lock_keys", state="orphaned") > 0,
    ),
    Situation(
        "a lock has no TTL",
        'redis_lock_keys{state="no_ttl"}',
        lambda seen: seen.peak("redis_lock_keys", state="no_ttl") > 0,
    ),
    Situation(
        "a duplicate delivery is blocked",
        'redis_lock_idempotency_total{outcome="duplicate"}',
        lambda seen: (
            seen.total("redis_lock_idempotency_total", outcome="duplicate", job_type="payment.capture") > 0
            and seen.total("redis_lock_idempotency_total", outcome="first", job_type="payment.capture") > 0
        ),
    ),
    Situation(
        "a Laravel application's lock",
        'redis_lock_keys{dialect="laravel"}',
        lambda seen: seen.peak("redis_lock_keys", dialect="laravel") > 0,
    ),
    Situation(
        "a Redisson application's lock",
        'redis_lock_keys{dialect="redisson-rlock"}',
        lambda seen: seen.peak("redis_lock_keys", dialect="redisson-rlock") > 0,
    ),
)

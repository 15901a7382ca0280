"""Every number that a rule compares with and that a user may change, declared once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Threshold:
    """One adjustable number.

    Attributes:
        name: how expressions, texts and ``--threshold`` call it.
        default: the shipped value.
        help: what it bounds, with the unit.
    """

    name: str
    default: float
    help: str


_TABLE = (
    Threshold("acquire_failure_ratio", 0.2, "share of acquires that time out or fail, over 10 minutes"),
    Threshold("acquire_failures", 5, "fewest failed acquires in 10 minutes that count as a spike"),
    Threshold("spike_factor", 2, "multiple of its own share of the day before that a share must reach"),
    Threshold("error_ratio", 0.05, "share of lock commands that Redis does not answer, over 10 minutes"),
    Threshold("errors", 5, "fewest such errors in 10 minutes"),
    Threshold("contention_ratio", 0.5, "waiting as a share of waiting and holding, over 10 minutes"),
    Threshold("contention_waiters", 0.5, "fewest calls that wait at a time, on average over 10 minutes"),
    Threshold("waiters", 5, "fewest waiting calls that may count as growing"),
    Threshold("retries", 20, "fewest retried jobs in 10 minutes that may be a storm"),
    Threshold("retry_factor", 3, "retries for every lock that was got, over 10 minutes"),
    Threshold("renew_failure_ratio", 0.1, "share of renewals that fail, over 10 minutes"),
    Threshold("renew_failures", 3, "fewest failed renewals in 10 minutes"),
    Threshold("release_failure_ratio", 0.1, "share of releases that do not free the lock, over 10 minutes"),
    Threshold("release_failures", 3, "fewest such releases in 10 minutes"),
    Threshold(
        "late_renewal_ratio", 0.1, "share of renewals with less than a fifth of the TTL left, over an hour"
    ),
    Threshold("late_renewals", 10, "fewest such renewals in an hour"),
    Threshold("tight_hold_ratio", 0.05, "share of holds that use over 80 % of their TTL, over an hour"),
    Threshold("tight_holds", 5, "fewest such holds in an hour"),
    Threshold("loose_hold_ratio", 0.99, "share of holds that use at most a tenth of their TTL, over 6 hours"),
    Threshold("loose_holds", 50, "fewest such holds in 6 hours"),
    Threshold("loose_ttl_seconds", 300, "TTL from which a far too long one is worth a word, seconds"),
    Threshold("expired_ratio", 0.2, "share of locks that end by expiry, over 10 minutes"),
    Threshold("expired", 3, "fewest expired locks in 10 minutes"),
    Threshold("overdue_factor", 3, "age of a lock as a multiple of the hold expected for its prefix"),
    Threshold(
        "growth_keys", 20, "keys by which the low-water mark of a prefix must have risen in 90 minutes"
    ),
    Threshold("growth_factor", 2, "factor by which that mark must have risen"),
    Threshold("duplicate_ratio", 0.2, "share of idempotency checks that find a duplicate, over 10 minutes"),
    Threshold("duplicates", 10, "fewest duplicates in 10 minutes"),
    Threshold("in_progress", 10, "fewest checks in 10 minutes that find a run in progress"),
    Threshold("visibility_ratio", 0.8, "age of a lock as a share of the queue's visibility timeout"),
    Threshold("burn_failures", 10, "fewest failed acquires in the long window of a burn rate"),
    Threshold("mirror_age_seconds", 30, "silence of a Redis node after which the figures are stale, seconds"),
)

THRESHOLDS: dict[str, Threshold] = {threshold.name: threshold for threshold in _TABLE}

"""What to do about a lock, in the words of the runbooks. Pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lockscope_dashboard import text

if TYPE_CHECKING:
    from lockscope_exporter.state import LockState


class Advice(NamedTuple):
    """What a person on call should do.

    Attributes:
        headline: the verdict in one sentence.
        steps: what to do, in order.
        runbook: name of the alert whose runbook says more, or empty.
    """

    headline: str
    steps: tuple[str, ...]
    runbook: str


def advise(lock: LockState) -> Advice:
    """Say what to do about a lock in its state.

    Args:
        lock: the lock as sampled.

    Returns:
        A verdict and steps; words only, nothing is done.
    """
    return _ADVICE[lock.state](lock)


def _orphaned(lock: LockState) -> Advice:
    rest = (
        f"It frees itself in {text.duration(lock.ttl_seconds)}: if that is soon enough, do nothing."
        if lock.ttl_seconds is not None
        else "It has no expiry, so it will never free itself."
    )
    return Advice(
        "The holder is gone. Nobody works under this lock any more.",
        (
            rest,
            "Find out why the process ended: out of memory, a hard time limit, a deploy.",
            "Check what its job had already done, before the next run repeats it.",
            "If work waits for it, release it: the owner is compared again before anything is deleted.",
        ),
        "RedisLockOrphaned",
    )


def _no_ttl(lock: LockState) -> Advice:
    return Advice(
        "This lock has no expiry and will never free itself.",
        (
            "Ask whether the holder named here is still at work; if it is, let it finish.",
            "If the lock had an expiry before, look for the renewal or the SET that dropped it.",
            f"Make sure that every lock of {text.safe(lock.prefix)} is taken with an expiry.",
        ),
        "RedisLockNoTTL",
    )


def _stalled(lock: LockState) -> Advice:
    rest = f" in {text.duration(lock.ttl_seconds)}" if lock.ttl_seconds is not None else ""
    return Advice(
        "The holder has stopped renewing. If it still works, it will soon work without its lock.",
        (
            f"Look at the process: paused, swapping, blocked, cut off from Redis? The lock runs out{rest}.",
            "Do not release it: a paused holder may go on where it stopped.",
            "If this repeats, renew earlier (a third of the TTL) or make the TTL longer.",
        ),
        "RedisLockRenewFailing",
    )


def _overdue(lock: LockState) -> Advice:
    usual = f" ({text.duration(lock.expected_hold_seconds)})" if lock.expected_hold_seconds else ""
    return Advice(
        f"Held for longer than is usual{usual}. The holder may be slow, or stuck.",
        (
            "Look at the job it runs: its log, its trace, what it waits for.",
            "If long runs are right for this job, set its expected hold time, and its TTL above that.",
            "Release only when you are sure that the job is not working any more.",
        ),
        "RedisLockHeldTooLong",
    )


def _held(lock: LockState) -> Advice:
    rest = (
        f" It frees itself in {text.duration(lock.ttl_seconds)} unless it is renewed."
        if lock.ttl_seconds is not None
        else ""
    )
    return Advice(
        "Nothing looks wrong with this lock." + rest,
        ("If a job waits for it, wait for the holder to finish: releasing it would let two work at once.",),
        "",
    )


_ADVICE = {
    "orphaned": _orphaned,
    "no_ttl": _no_ttl,
    "stalled": _stalled,
    "overdue": _overdue,
    "held": _held,
}

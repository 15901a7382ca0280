"""Judge one lock: which state it is in, and the sentences that prove it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from lockscope_exporter.state import Holder, State


@dataclass(frozen=True, slots=True)
class Cadence:
    """How a holder renews, learned from the renewals seen.

    Attributes:
        renewals: renewals seen since the lock was taken (or first seen).
        last: unix time in seconds of the last renewal, or of the acquisition before the first.
        interval: seconds between renewals, smoothed; ``None`` before the second renewal.
        jitter: largest deviation from ``interval`` seen lately, seconds.
    """

    renewals: int = 0
    last: float = 0.0
    interval: float | None = None
    jitter: float = 0.0


@dataclass(frozen=True, slots=True)
class Expected:
    """How long a lock of this prefix is expected to be held.

    Attributes:
        seconds: the threshold.
        source: configured by the user, learned from past holds, or the lock's first TTL.
        holds: past holds that were learned from.
    """

    seconds: float
    source: Literal["configured", "learned", "first_ttl"]
    holds: int = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is known of one lock.

    Attributes:
        now: unix time in seconds.
        dialect: name of the format, for the text.
        ttl_expected: a missing expiry is a fault.
        deadline: unix time in seconds when it frees itself; ``None`` for never.
        holders: with ``alive`` and ``gone_since`` filled in.
        held_since: unix time in seconds when it was acquired, or first seen.
        since_at_least: it was there already when sampling began: ``held_since`` is only an upper bound.
        cadence: how it was renewed so far.
        expected: how long it should be held; ``None`` while unknown.
    """

    now: float
    dialect: str
    ttl_expected: bool
    deadline: float | None
    holders: tuple[Holder, ...] = ()
    held_since: float | None = None
    since_at_least: bool = False
    cadence: Cadence = Cadence()
    expected: Expected | None = None


def classify(facts: Facts) -> tuple[State, tuple[str, ...]]:
    """Return the state and its evidence, most important sentence first."""
    if facts.holders and all(holder.alive == "gone" for holder in facts.holders):
        return "orphaned", ("every holder is gone",)
    if facts.deadline is None and facts.ttl_expected:
        return "no_ttl", ("no expiry",)
    return "held", ("held",)

"""Judge one lock: which state it is in, with the sentences that prove it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from lockscope_exporter.cadence import Cadence
from lockscope_exporter.evidence import Evidence

if TYPE_CHECKING:
    from lockscope_exporter.state import Holder, State

__all__ = ["Cadence", "Expected", "Facts", "classify", "state_of"]

NO_RENEWALS = Cadence()


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


class Facts(NamedTuple):
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
        note: what the format's bytes do and do not tell, added to the evidence.
    """

    now: float
    dialect: str
    ttl_expected: bool
    deadline: float | None
    holders: tuple[Holder, ...] = ()
    held_since: float | None = None
    since_at_least: bool = False
    cadence: Cadence = NO_RENEWALS
    expected: Expected | None = None
    note: str = ""


def classify(facts: Facts) -> tuple[State, Evidence]:
    """Judge a lock: orphaned, no_ttl, stalled, overdue or held, the first that applies.

    A lock is orphaned only if every holder is known to be gone, stalled only after renewals at a cadence,
    overdue only against an expectation; what is not known is not held against it.

    Args:
        facts: what is known.

    Returns:
        The state, and the sentences that say why, most important first.
    """
    state = state_of(facts)
    return state, Evidence(state, facts)


def state_of(facts: Facts) -> State:
    """Return the state alone: for counting, where nobody reads the evidence."""
    if facts.holders and all(holder.alive == "gone" for holder in facts.holders):
        return "orphaned"
    if facts.deadline is None and facts.ttl_expected:
        return "no_ttl"
    missed = facts.cadence.missed_two_at()
    if missed is not None and facts.now > missed:
        return "stalled"
    expected, since = facts.expected, facts.held_since
    if expected is not None and since is not None and facts.now - since > expected.seconds:
        return "overdue"
    return "held"

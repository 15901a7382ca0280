"""Judge one lock: which state it is in, and the sentences that prove it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lockscope_exporter.cadence import Cadence
from lockscope_exporter.moments import span
from lockscope_exporter.text import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockscope_exporter.state import Holder, State

__all__ = ["Cadence", "Expected", "Facts", "beyond_columns", "classify", "holder_name"]

NO_RENEWALS = Cadence()
_NAME = 80  # characters of a host, job type or job id in a sentence
_HELD = "held"
_LIMIT = ", expected at most "
_ENDLESS = "it never expires, "
_GENERIC = "generic"  # of no library that is known, so nobody knows what is normal for it
_NOT_KNOWN = "and whether it ought to is not known"
_TELLING = 1.0  # seconds; "for at least" less than that says nothing


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


def classify(facts: Facts) -> tuple[State, tuple[str, ...]]:
    """Judge a lock: orphaned, no_ttl, stalled, overdue or held, the first that applies.

    A lock is orphaned only if every holder is known to be gone, stalled only after renewals at a cadence,
    overdue only against an expectation; what is not known is not held against it.

    Args:
        facts: what is known.

    Returns:
        The state, and the sentences that say why, most important first.
    """
    state = state_of(facts)
    return state, _EVIDENCE[state](facts)


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


def beyond_columns(state: State, evidence: Sequence[str]) -> tuple[str, ...]:
    """Return the sentences that say more than state, age, TTL and holder of a list do.

    Args:
        state: the lock's state.
        evidence: what ``classify`` returned with it.
    """
    if state == "held" and evidence:
        first = evidence[0].rpartition("; ")[2]
        return (*([first] if first.startswith(_ENDLESS) else []), *evidence[1:])
    if state == "overdue" and evidence:
        limit = evidence[0].partition(_LIMIT)[2].rpartition("; ")[0]
        return (*([f"expected at most {limit}"] if limit else []), *evidence[1:])
    return (*evidence[:1], *(one for one in evidence[1:] if not one.startswith(_HELD)))


def holder_name(holder: Holder) -> str:
    """Name a holder for people: ``web-3/4121 of invoice.generate (job 8812)``, as far as it is known.

    Args:
        holder: any holder; without a word about itself it is named by the fingerprint of its token.

    Returns:
        One line of printable text.
    """
    place = _place(holder)
    job = f" of {shown(holder.job_type, _NAME)}" if holder.job_type else ""
    number = f"job {shown(holder.job_id, _NAME)}" if holder.job_id else ""
    if place:
        return f"{place}{job} ({number})" if number else f"{place}{job}"
    if number:
        return f"{number}{job}"
    return f"the owner of token {holder.fingerprint}{job}"


def _place(holder: Holder) -> str:
    if holder.host is None:
        return f"worker {holder.worker}" if holder.worker else ""
    host = shown(holder.host, _NAME)
    if host.startswith("mac:"):
        return f"the machine with MAC address {host.removeprefix('mac:')}"
    return f"{host}/{holder.pid}" if holder.pid is not None else host


def _orphaned(facts: Facts) -> tuple[str, ...]:
    last = max(facts.holders, key=lambda holder: holder.gone_since or 0.0)
    left = f" left {span(facts.now - last.gone_since)} ago" if last.gone_since is not None else " is gone"
    if len(facts.holders) == 1:
        first = f"holder {holder_name(last)}{left}; {_frees(facts)}"
    else:
        first = f"all {len(facts.holders)} holders are gone, the last, {holder_name(last)},{left}"
        first = f"{first}; {_frees(facts)}"
    proof = "its connection that shows presence is closed" if last.worker else ""
    return _sentences(first, proof, _for_how_long(facts), facts.note)


def _no_ttl(facts: Facts) -> tuple[str, ...]:
    renewals = facts.cadence.renewals
    ought = "though a lock" if facts.dialect == _GENERIC else f"and locks of {facts.dialect}"
    return _sentences(
        f"{_ENDLESS}{ought} ought to: if its holder dies it stays for ever",
        f"it was renewed {_times(renewals)}, then lost its expiry" if renewals else "",
        _for_how_long(facts),
        _partly_gone(facts),
        _lives(facts),
        facts.note,
    )


def _stalled(facts: Facts) -> tuple[str, ...]:
    interval = facts.cadence.interval or 0.0
    return _sentences(
        f"renewed every {span(interval)} until {span(facts.now - facts.cadence.last)} ago: "
        f"two renewals are missing; {_frees(facts)}",
        _lives(facts) or "whether its holder lives is not known",
        _for_how_long(facts),
        _partly_gone(facts),
        facts.note,
    )


def _overdue(facts: Facts) -> tuple[str, ...]:
    expected = facts.expected
    limit = f"{_LIMIT}{_expectation(expected)}" if expected is not None else ""
    return _sentences(
        f"{_for_how_long(facts)}{limit}; {_frees(facts)}",
        _renewals(facts),
        _partly_gone(facts),
        _lives(facts),
        facts.note,
    )


def _held(facts: Facts) -> tuple[str, ...]:
    frees = _frees(facts)
    if facts.deadline is None:
        known = facts.dialect != _GENERIC
        frees = f"{_ENDLESS}{f'which is normal for {facts.dialect}' if known else _NOT_KNOWN}"
    return _sentences(
        f"{_for_how_long(facts)}; {frees}",
        _renewals(facts),
        _partly_gone(facts),
        _lives(facts),
        facts.note,
    )


_EVIDENCE = {
    "orphaned": _orphaned,
    "no_ttl": _no_ttl,
    "stalled": _stalled,
    "overdue": _overdue,
    "held": _held,
}


def _for_how_long(facts: Facts) -> str:
    since = ""
    age = None if facts.held_since is None else facts.now - facts.held_since
    if age is not None and not (facts.since_at_least and age < _TELLING):
        since = f" for {'at least ' if facts.since_at_least else ''}{span(age)}"
    if not facts.holders:
        return f"{_HELD}{since}, the format names no holder"
    if len(facts.holders) > 1:
        return f"{_HELD}{since} by {len(facts.holders)} holders"
    holder = facts.holders[0]
    again = f", {holder.count} times over" if holder.count > 1 else ""
    return f"{_HELD}{since} by {holder_name(holder)}{again}"


def _frees(facts: Facts) -> str:
    if facts.deadline is None:
        return "it never expires"
    left = facts.deadline - facts.now
    return f"frees itself in {span(left)}" if left > 0 else "its time is up"


def _expectation(expected: Expected) -> str:
    why = {
        "configured": "configured",
        "learned": f"99 % of {expected.holds} past holds were shorter",
        "first_ttl": "its first TTL; too few holds are known to learn from",
    }
    return f"{span(expected.seconds)} ({why[expected.source]})"


def _renewals(facts: Facts) -> str:
    if not facts.cadence.renewals:
        return ""
    every = f" every {span(facts.cadence.interval)}" if facts.cadence.interval is not None else ""
    last = span(facts.now - facts.cadence.last)
    return f"renewed {_times(facts.cadence.renewals)}{every}, last {last} ago"


def _partly_gone(facts: Facts) -> str:
    gone = [holder for holder in facts.holders if holder.alive == "gone"]
    if not gone:
        return ""
    names = ", ".join(holder_name(holder) for holder in gone[:3])
    return f"{len(gone)} of {len(facts.holders)} holders {'is' if len(gone) == 1 else 'are'} gone: {names}"


def _lives(facts: Facts) -> str:
    alive = sum(holder.alive == "alive" for holder in facts.holders)
    if not alive:
        return next((holder.doubt for holder in facts.holders if holder.doubt), "")
    return "its holder lives" if len(facts.holders) == 1 else f"{alive} of {len(facts.holders)} holders live"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _sentences(*found: str) -> tuple[str, ...]:
    return tuple(sentence for sentence in found if sentence)

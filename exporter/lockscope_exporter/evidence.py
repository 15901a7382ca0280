"""The sentences that say why a lock is in its state, made when somebody reads them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from lockscope_exporter.moments import span
from lockscope_exporter.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockscope_exporter.classify import Expected, Facts
    from lockscope_exporter.state import Holder, State

_NAME = 80  # characters of a host, job type or job id in a sentence
_HELD = "held"
_LIMIT = ", expected at most "
_ENDLESS = "it never expires, "
_GENERIC = "generic"  # of no library that is known, so nobody knows what is normal for it
_NOT_KNOWN = "and whether it ought to is not known"
_TELLING = 1.0  # seconds; "for at least" less than that says nothing


class Evidence(Sequence[str]):
    """Sentences about one lock, the most important first; a list shows fifty of ten thousand locks.

    Args:
        state: what the facts come to.
        facts: all that is known of the lock.
    """

    __slots__ = ("_facts", "_made", "_state")

    def __init__(self, state: State, facts: Facts) -> None:
        self._state = state
        self._facts = facts
        self._made: tuple[str, ...] | None = None

    @property
    def sentences(self) -> tuple[str, ...]:
        """All of them."""
        if self._made is None:
            self._made = _SENTENCES[self._state](self._facts)
        return self._made

    @property
    def beyond(self) -> tuple[str, ...]:
        """Those of ``beyond_columns``; of a lock that is held, without making the others."""
        if self._state != "held" or self._made is not None:
            return beyond_columns(self._state, self.sentences)
        return _sentences(_never(self._facts), *_more(self._facts))

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...

    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        """Return a sentence or several."""
        return self.sentences[index]

    def __iter__(self) -> Iterator[str]:
        """Go through all of them."""
        return iter(self.sentences)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.sentences)

    def __eq__(self, other: object) -> bool:
        """Tell whether another sequence says the same."""
        return self.sentences == (other.sentences if isinstance(other, Evidence) else other)

    def __hash__(self) -> int:
        """Hash as the tuple of the sentences does."""
        return hash(self.sentences)

    def __repr__(self) -> str:
        """Show them as a tuple."""
        return repr(self.sentences)


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
    proof = last.doubt or ("its connection that shows presence is closed" if last.worker else "")
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
    return _sentences(f"{_for_how_long(facts)}; {_never(facts) or _frees(facts)}", *_more(facts))


def _never(facts: Facts) -> str:
    """Say of a lock without expiry what that means; empty for others."""
    if facts.deadline is not None:
        return ""
    known = facts.dialect != _GENERIC
    return f"{_ENDLESS}{f'which is normal for {facts.dialect}' if known else _NOT_KNOWN}"


def _more(facts: Facts) -> tuple[str, ...]:
    """Return what there is to say of a lock that is held beside since when and until when; some is empty."""
    return (_renewals(facts), _partly_gone(facts), _lives(facts), facts.note)


_SENTENCES = {
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

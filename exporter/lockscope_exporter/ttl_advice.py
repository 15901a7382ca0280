"""Is the TTL of a lock right for how long it is really held? A recommendation, with its arithmetic. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from lockscope_exporter.moments import span

if TYPE_CHECKING:
    from lockscope_exporter.state import Family

Verdict = Literal["too short", "too long", "good", "unknown"]

TIGHT: Final = 0.8  # a hold beyond this share of its TTL leaves no room for a slow day
MARGIN: Final = 2.0  # the TTL should be this many times the 99th percentile of holds
RENEWALS: Final = 3.0  # a lock that is renewed should outlive this many intervals: two may be missed
LATE: Final = 0.2  # a renewal that came with less than this share of the TTL left came late
WASTEFUL: Final = 10.0  # a TTL beyond this many times the recommended one only delays recovery
PATIENCE: Final = 60.0  # seconds that a lock may stay behind a crash without anyone minding
_ENOUGH: Final = 20  # ends from which on a share of them says something
_OFTEN: Final = 0.01  # share of locks that expire under their holder: then the true p99 is the TTL or more
_HALF: Final = 0.5
_ROUND: Final = (1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 900)
_STEP: Final = 600.0  # seconds; longer TTLs are rounded up to multiples of this


class Recommendation(NamedTuple):
    """What to do about a TTL.

    Attributes:
        verdict: of the TTL in use.
        seconds: the TTL to use, ``None`` where nothing can be said.
        why: the arithmetic, as a sentence.
    """

    verdict: Verdict
    seconds: float | None
    why: str


def recommend(
    p99: float | None,
    ttl: float | None,
    *,
    renewed: bool = False,
    headroom: float | None = None,
    interval: float | None = None,
    ended: int = 0,
    expired: int = 0,
) -> Recommendation:
    """Judge a TTL.

    Args:
        p99: 99th percentile of the hold times of locks that were released, in seconds; ``None`` if unknown.
        ttl: TTL in use in seconds, ``None`` if unknown.
        renewed: locks of this prefix are renewed while held, so that the TTL need not cover the hold.
        headroom: 5th percentile of the share of the TTL that was left when a renewal came.
        interval: usual time between two renewals in seconds; stands in for ``headroom``.
        ended: locks seen to end.
        expired: those of them that expired under their holder, which died or took longer than the TTL.

    Returns:
        A verdict with the arithmetic behind it.
    """
    if renewed:
        return _for_renewed(ttl, headroom, interval)
    if p99 is None:
        return Recommendation("unknown", None, "no finished holds to learn from yet")
    wanted, sums = _times(MARGIN, "the p99 of", p99)
    if ttl is None:
        return Recommendation("unknown", wanted, sums)
    share = p99 / ttl
    used = f"p99 is {share:.0%} of the TTL of {span(ttl)}"
    overrun = ""
    if ended >= _ENOUGH and expired / ended > _OFTEN:
        overrun = f"; {expired} of {ended} locks expired under a holder that died or took longer"
    if share > TIGHT:
        found = Recommendation("too short", wanted, f"{used}; {sums}{overrun}")
    elif overrun and share > _HALF:
        wanted, sums = _times(MARGIN, "the TTL of", ttl)
        why = f"{used}{overrun}: if they took longer the true p99 is at least the TTL; {sums}"
        found = Recommendation("too short", wanted, why)
    elif _far_too_long(ttl, wanted):
        why = f"{_after_a_crash(ttl)}, though p99 is {span(p99)}; {sums}{overrun}"
        found = Recommendation("too long", wanted, why)
    else:
        found = Recommendation("good", ttl, f"{used}{overrun}")
    return found


def recommend_for(family: Family) -> Recommendation:
    """Judge the TTL of a family by what was observed of it."""
    expired = family.ended.get("expired", 0)
    return recommend(
        family.usual_hold,
        family.usual_ttl,
        renewed=family.renewal_interval is not None,
        interval=family.renewal_interval,
        ended=expired + family.ended.get("released", 0),
        expired=expired,
    )


def rounded(seconds: float) -> float:
    """Round up to a TTL that a person would write, in seconds."""
    for step in _ROUND:
        if seconds <= step:
            return float(step)
    return math.ceil(seconds / _STEP) * _STEP


def _for_renewed(ttl: float | None, headroom: float | None, interval: float | None) -> Recommendation:
    if ttl is None or (headroom is None and not interval):
        return Recommendation("unknown", ttl, "renewed while held: the TTL need not cover the hold")
    if interval and headroom is None:
        return _for_interval(ttl, interval)
    left = f"renewals come with {headroom:.0%} of the TTL of {span(ttl)} left, at the 5th percentile"
    if headroom is not None and headroom < LATE:
        wanted = rounded(MARGIN * ttl)
        return Recommendation("too short", wanted, f"{left}; renew at a third of it, or use {span(wanted)}")
    return Recommendation("good", ttl, left)


def _for_interval(ttl: float, interval: float) -> Recommendation:
    room = max(1 - interval / ttl, 0.0)
    every = f"renewed every {span(interval)}, which leaves {room:.0%} of the TTL of {span(ttl)}"
    wanted, sums = _times(RENEWALS, "the interval of", interval)
    if room < LATE:
        return Recommendation("too short", wanted, f"{every}; {sums}")
    if _far_too_long(ttl, wanted):
        return Recommendation("too long", wanted, f"{_after_a_crash(ttl)}, though it is {every}; {sums}")
    return Recommendation("good", ttl, every)


def _times(factor: float, what: str, seconds: float) -> tuple[float, str]:
    """Return a TTL of so many times something, and the sum as text."""
    product = factor * seconds
    wanted = rounded(product)
    sums = f"{factor:.0f} times {what} {span(seconds)} = {span(product)}"
    return wanted, sums if wanted == product else f"{sums}, rounded up to {span(wanted)}"


def _far_too_long(ttl: float, wanted: float) -> bool:
    return ttl > WASTEFUL * wanted and ttl > PATIENCE


def _after_a_crash(ttl: float) -> str:
    return f"after a crash the lock stays for up to {span(ttl)}"

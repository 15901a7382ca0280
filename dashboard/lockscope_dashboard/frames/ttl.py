"""Is the TTL of a lock right for how long it is really held? A recommendation, with its arithmetic."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import pandas as pd

from lockscope_dashboard import text

if TYPE_CHECKING:
    from collections.abc import Mapping

Verdict = Literal["too short", "too long", "good", "unknown"]

QUANTILES: Final = {"p05": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95, "p99": 0.99}
TIGHT: Final = 0.8  # a hold beyond this share of its TTL leaves no room for a slow day
MARGIN: Final = 2.0  # the TTL should be this many times the 99th percentile of holds
WASTEFUL: Final = 10.0  # a TTL beyond this many times the recommended one only delays recovery
PATIENCE: Final = 60.0  # seconds that a lock may stay behind a crash without anyone minding
LATE: Final = 0.2  # a renewal that came with less than this share of the TTL left came late
_ROUND: Final = (
    1.0,
    2.0,
    3.0,
    5.0,
    10.0,
    15.0,
    20.0,
    30.0,
    45.0,
    60.0,
    90.0,
    120.0,
    180.0,
    300.0,
    600.0,
    900.0,
)


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
    p99: float | None, ttl: float | None, *, renewed: bool = False, headroom: float | None = None
) -> Recommendation:
    """Judge a TTL.

    Args:
        p99: 99th percentile of the hold times in seconds, ``None`` if unknown.
        ttl: TTL in use in seconds, ``None`` if unknown.
        renewed: locks of this prefix are renewed while held, so that the TTL need not cover the hold.
        headroom: 5th percentile of the share of the TTL that was left when a renewal came.

    Returns:
        A verdict with the arithmetic behind it.
    """
    if renewed:
        return _for_renewed(ttl, headroom)
    if p99 is None:
        return Recommendation("unknown", None, "no finished holds to learn from yet")
    wanted = _rounded(MARGIN * p99)
    sums = f"{MARGIN:.0f} times the p99 of {text.duration(p99)} = {text.duration(MARGIN * p99)}"
    sums += "" if wanted == MARGIN * p99 else f", rounded up to {text.duration(wanted)}"
    if ttl is None:
        return Recommendation("unknown", wanted, sums)
    share = p99 / ttl
    if share > TIGHT:
        return Recommendation(
            "too short", wanted, f"p99 is {share:.0%} of the TTL of {text.duration(ttl)}; {sums}"
        )
    if ttl > WASTEFUL * wanted and ttl > PATIENCE:
        after = f"after a crash the lock stays for up to {text.duration(ttl)}"
        return Recommendation("too long", wanted, f"{after}, though p99 is {text.duration(p99)}; {sums}")
    return Recommendation("good", ttl, f"p99 is {share:.0%} of the TTL of {text.duration(ttl)}")


def advice_frame(
    holds: Mapping[str, pd.DataFrame],
    *,
    renewals: pd.DataFrame,
    headroom: pd.DataFrame,
    lost: pd.DataFrame,
    leases: Mapping[str, float],
    learned: Mapping[str, float],
) -> pd.DataFrame:
    """Judge the TTL of every prefix.

    Args:
        holds: by name of ``QUANTILES``, columns ``prefix``, ``value``: seconds held; may be empty.
        renewals: columns ``prefix``, ``value``: renewals in the window.
        headroom: columns ``prefix``, ``value``: see ``recommend``.
        lost: columns ``prefix``, ``value``: locks found lost.
        leases: TTL in use by prefix, seconds.
        learned: what the sampler expects by prefix, seconds; stands in for p99 where ``holds`` has none.

    Returns:
        One row a prefix, the most pressing first: ``prefix``, the quantiles, ``ttl``, ``renewed``, ``lost``,
        ``verdict``, ``recommended`` (seconds or NaN), ``why``, ``from`` (where the holds come from).
    """
    columns = {name: _column(frame) for name, frame in holds.items()}
    renewed, room, gone = _column(renewals), _column(headroom), _column(lost)
    rows = []
    for prefix in sorted({*leases, *learned, *(name for column in columns.values() for name in column)}):
        known = columns.get("p99", {}).get(prefix)
        p99 = known if known is not None else learned.get(prefix)
        found = recommend(
            p99, leases.get(prefix), renewed=renewed.get(prefix, 0.0) > 0, headroom=room.get(prefix)
        )
        rows.append(
            {
                "prefix": prefix,
                **{name: columns.get(name, {}).get(prefix, math.nan) for name in QUANTILES},
                "p99": math.nan if p99 is None else p99,
                "ttl": leases.get(prefix, math.nan),
                "renewed": renewed.get(prefix, 0.0),
                "lost": gone.get(prefix, 0.0),
                "verdict": found.verdict,
                "recommended": math.nan if found.seconds is None else found.seconds,
                "why": found.why,
                "from": "Prometheus" if known is not None else "the sampler" if p99 is not None else "",
            }
        )
    if not rows:
        return pd.DataFrame(
            columns=["prefix", *QUANTILES, "ttl", "renewed", "lost", "verdict", "recommended", "why", "from"]
        )
    frame = pd.DataFrame(rows)
    frame["verdict"] = pd.Categorical(
        frame["verdict"], ["too short", "too long", "good", "unknown"], ordered=True
    )
    return frame.sort_values(["verdict", "lost", "prefix"], ascending=[True, False, True], kind="stable")


def _for_renewed(ttl: float | None, headroom: float | None) -> Recommendation:
    if headroom is None or ttl is None:
        return Recommendation("unknown", ttl, "renewed while held: the TTL need not cover the hold")
    left = f"renewals come with {headroom:.0%} of the TTL of {text.duration(ttl)} left, at the 5th percentile"
    if headroom < LATE:
        wanted = _rounded(MARGIN * ttl)
        return Recommendation(
            "too short", wanted, f"{left}; renew at a third of it, or use {text.duration(wanted)}"
        )
    return Recommendation("good", ttl, left)


def _column(frame: pd.DataFrame) -> dict[str, float]:
    if frame.empty:
        return {}
    pairs = zip(frame["prefix"], frame["value"], strict=True)
    return {str(prefix): float(value) for prefix, value in pairs if math.isfinite(value)}


def _rounded(seconds: float) -> float:
    """Round up to a TTL that a person would write."""
    for step in _ROUND:
        if seconds <= step:
            return step
    return math.ceil(seconds / 600.0) * 600.0

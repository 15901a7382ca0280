"""Is the TTL of a lock right for how long it is really held? A frame of recommendations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import pandas as pd

from lockscope_exporter.ttl_advice import recommend

if TYPE_CHECKING:
    from collections.abc import Mapping

QUANTILES: Final = {"p05": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95, "p99": 0.99}


def advice_frame(
    holds: Mapping[str, pd.DataFrame],
    *,
    renewals: pd.DataFrame,
    headroom: pd.DataFrame,
    lost: pd.DataFrame,
    leases: Mapping[str, float],
    learned: Mapping[str, float],
    intervals: Mapping[str, float] | None = None,
) -> pd.DataFrame:
    """Judge the TTL of every prefix.

    Args:
        holds: by name of ``QUANTILES``, columns ``prefix``, ``value``: seconds held; may be empty.
        renewals: columns ``prefix``, ``value``: renewals in the window.
        headroom: columns ``prefix``, ``value``: see ``ttl_advice.recommend``.
        lost: columns ``prefix``, ``value``: locks found lost.
        leases: TTL in use by prefix, seconds.
        learned: what the sampler expects by prefix, seconds; stands in for p99 where ``holds`` has none.
        intervals: seconds between renewals by prefix, as the sampler sees them; stands in for ``renewals``
            and ``headroom``.

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
        interval = (intervals or {}).get(prefix)
        found = recommend(
            p99,
            leases.get(prefix),
            renewed=renewed.get(prefix, 0.0) > 0 or interval is not None,
            headroom=room.get(prefix),
            interval=interval,
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


def _column(frame: pd.DataFrame) -> dict[str, float]:
    if frame.empty:
        return {}
    pairs = zip(frame["prefix"], frame["value"], strict=True)
    return {str(prefix): float(value) for prefix, value in pairs if math.isfinite(value)}

"""One row a prefix: counts, ages and how its locks ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from lockscope_dashboard.frames.locks import SEVERITY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockscope_exporter.state import Family


def families_frame(families: Sequence[Family]) -> pd.DataFrame:
    """Lay the running counts of all prefixes out.

    Args:
        families: of ``Source.families``.

    Returns:
        One row a family: ``prefix``, ``db``, ``target``, ``dialects`` (joined), ``keys``, one count a state,
        ``without_ttl``, ``oldest``, ``ttl_min`` and ``expected`` (seconds, NaN if unknown), ``weak_owner``,
        ``acquired``, ``renewed``, ``takeover``, ``released``, ``expired``, ``evicted``, ``flushed`` (since
        the sampler started).
    """
    rows = []
    for family in families:
        states = dict.fromkeys(SEVERITY, 0)
        for (_, state), number in family.keys.items():
            states[state] += number
        rows.append(
            {
                "prefix": family.prefix,
                "db": family.db,
                "target": family.target,
                "dialects": ", ".join(sorted({name for (name, _), number in family.keys.items() if number})),
                "keys": sum(states.values()),
                **states,
                "without_ttl": family.without_ttl,
                "oldest": family.oldest_age,
                "ttl_min": family.ttl_min,
                "expected": family.expected_hold,
                "weak_owner": family.weak_owner,
                "acquired": family.acquired,
                "renewed": family.renewed,
                "takeover": family.takeover,
                **{how: family.ended.get(how, 0) for how in ("released", "expired", "evicted", "flushed")},
            }
        )
    frame = pd.DataFrame(rows)
    return frame.astype({"oldest": "float64", "ttl_min": "float64", "expected": "float64"}) if rows else frame

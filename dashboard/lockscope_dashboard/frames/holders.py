"""Who holds locks: by process, by host, by job type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import pandas as pd

from lockscope_dashboard.frames.locks import NO_HOLDER, SEVERITY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockscope_exporter.state import LockState

By = Literal["process", "host", "job"]
GROUPS: Final[dict[By, list[str]]] = {
    "process": ["host", "pid", "worker"],
    "host": ["host"],
    "job": ["job"],
}


def holders_frame(locks: Sequence[LockState]) -> pd.DataFrame:
    """Lay out one row a holder of a lock; a lock with three permit holders gives three rows.

    Args:
        locks: what the sampler knows now.

    Returns:
        Columns ``host``, ``pid`` (text, empty if unknown), ``worker``, ``job``, ``job_id``, ``alive``,
        ``gone_since`` (unix seconds), ``state``, ``age`` (seconds), ``row`` (position in ``locks``). Raw
        text, not yet made safe to show.
    """
    rows = [
        (
            holder.host or NO_HOLDER,
            "" if holder.pid is None else str(holder.pid),
            holder.worker or "",
            holder.job_type or "",
            holder.job_id or "",
            holder.alive,
            holder.gone_since,
            lock.state,
            lock.age_seconds,
            position,
        )
        for position, lock in enumerate(locks)
        for holder in lock.holders
    ]
    columns = ["host", "pid", "worker", "job", "job_id", "alive", "gone_since", "state", "age", "row"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.astype({"gone_since": "float64", "age": "float64"})


def grouped(frame: pd.DataFrame, by: By) -> pd.DataFrame:
    """Count locks for each holder.

    Args:
        frame: of ``holders_frame``.
        by: ``process``, ``host`` or ``job``.

    Returns:
        One row a group, most in need of a look first: the group's columns, ``locks``, ``processes``,
        one count a state, ``oldest`` (seconds), ``gone`` and ``alive`` (processes), ``gone_since`` (the
        earliest, unix seconds) and ``jobs`` (distinct names, joined).
    """
    columns = GROUPS[by]
    if frame.empty:
        extra = ["locks", "processes", *SEVERITY, "oldest", "gone", "alive", "gone_since", "jobs"]
        return pd.DataFrame(columns=[*columns, *extra])
    groups = frame.groupby(columns, dropna=False, sort=False)
    found = pd.DataFrame(
        {
            "locks": groups.size(),
            "oldest": groups["age"].max(),
            "gone_since": groups["gone_since"].min(),
            "jobs": groups["job"].agg(lambda names: ", ".join(sorted({name for name in names if name}))),
        }
    )
    for state in SEVERITY:
        found[state] = frame["state"].eq(state).groupby([frame[name] for name in columns], sort=False).sum()
    each = frame.drop_duplicates([*columns, "host", "pid", "worker"])
    lives = each.groupby(columns, dropna=False, sort=False)["alive"]
    found["processes"] = lives.size()
    found["gone"] = lives.agg(lambda alive: int((alive == "gone").sum()))
    found["alive"] = lives.agg(lambda alive: int((alive == "alive").sum()))
    worst = ["gone", *(state for state in SEVERITY if state != "held"), "locks"]
    return found.reset_index().sort_values(
        [*worst, *columns], ascending=[False] * len(worst) + [True] * len(columns)
    )

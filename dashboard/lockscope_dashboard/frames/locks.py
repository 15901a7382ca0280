"""One row a live lock: build the frame, filter it, sort it, count it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from lockscope import globs
from lockscope_dashboard import text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from lockscope_exporter.state import Holder, LockState

SEVERITY: Final = ("orphaned", "no_ttl", "stalled", "overdue", "held")
SORTS: Final = ("state", "key", "prefix", "holder", "job", "age", "ttl", "renewals")
NO_HOLDER: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Filters:
    """What a viewer wants to see; an empty field lets everything through.

    Attributes:
        q: text to find in key, prefix, holder or job, ignoring case; with ``*`` or ``?`` a glob on the key.
        state: states; ``prefix``, ``dialect``, ``holder`` (hosts), ``db`` and ``target`` likewise.
    """

    q: str = ""
    state: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    dialect: tuple[str, ...] = ()
    holder: tuple[str, ...] = ()
    db: tuple[str, ...] = ()
    target: tuple[str, ...] = ()

    def any(self) -> bool:
        """Tell whether anything is filtered at all."""
        return self != Filters()

    def without_state(self) -> Filters:
        """Return the same filters for every state."""
        return replace(self, state=())


def locks_frame(locks: Sequence[LockState]) -> pd.DataFrame:
    """Lay live locks out as a table.

    Args:
        locks: what the sampler knows now.

    Returns:
        One row a lock, in the order given, indexed 0..n-1, with the columns ``id`` (what names the key in a
        URL), ``key``, ``field``, ``prefix``, ``dialect``, ``db``, ``target``, ``node``, ``state``
        (categorical, worst first), ``evidence`` (sentences), ``holder`` (host or "unknown"), ``pid``,
        ``fingerprint``, ``worker``, ``job``, ``job_id``, ``alive``, ``holders`` (count), ``age`` and
        ``expected`` (seconds), ``at_least`` (age is a lower bound), ``deadline`` and ``sampled_at`` (unix
        seconds), ``ttl`` (seconds at ``sampled_at``, NaN without expiry), ``lease`` (seconds that a full bar
        stands for), ``ttl_expected``, ``renewals``, ``weak_owner``, ``rank`` (place of the key among
        all). Text is printable, see ``text.show``.
    """
    shown = [text.show(lock.key) for lock in locks]
    safe = cache(text.safe)  # families, hosts and job types are few, and foreign text: remembered no longer
    first: list[Holder | None] = [lock.holders[0] if lock.holders else None for lock in locks]
    frame = pd.DataFrame(
        {
            "id": _strings([text.identify(key, lock.key) for key, lock in zip(shown, locks, strict=True)]),
            "key": _strings(shown),
            "field": _strings(["" if lock.field is None else text.show(lock.field) for lock in locks]),
            "prefix": _strings([safe(lock.prefix) for lock in locks]),
            "dialect": _strings([lock.dialect for lock in locks]),
            "db": _strings([str(lock.db) for lock in locks]),
            "target": _strings([lock.target for lock in locks]),
            "node": _strings([lock.node for lock in locks]),
            "state": pd.Categorical([lock.state for lock in locks], categories=SEVERITY, ordered=True),
            "evidence": pd.Series([lock.evidence for lock in locks], dtype="object"),  # read of few rows
            "holder": _strings([safe(one.host) or NO_HOLDER if one else NO_HOLDER for one in first]),
            "pid": pd.array([one.pid if one else None for one in first], dtype="Int64"),
            "fingerprint": _strings([one.fingerprint if one else "" for one in first]),
            "worker": _strings([one.worker or "" if one else "" for one in first]),
            "job": _strings([safe(one.job_type) if one else "" for one in first]),
            "job_id": _strings([text.safe(one.job_id) if one else "" for one in first]),
            "alive": _strings([one.alive if one else "unknown" for one in first]),
            "holders": pd.Series([len(lock.holders) for lock in locks], dtype="int64"),
            "age": _numbers([lock.age_seconds for lock in locks]),
            "at_least": pd.Series([lock.age_at_least for lock in locks], dtype="bool"),
            "expected": _numbers([lock.expected_hold_seconds for lock in locks]),
            "ttl": _numbers([lock.ttl_seconds for lock in locks]),
            "lease": _numbers([lock.lease_seconds for lock in locks]),
            "sampled_at": _numbers([lock.sampled_at for lock in locks]),
            "ttl_expected": pd.Series([lock.ttl_expected for lock in locks], dtype="bool"),
            "renewals": pd.Series([lock.renewals for lock in locks], dtype="int64"),
            "weak_owner": pd.Series([lock.weak_owner for lock in locks], dtype="bool"),
        }
    )
    frame["deadline"] = frame["sampled_at"] + frame["ttl"]
    frame["rank"] = _ranks(frame["key"])
    longest = frame.groupby("prefix")["ttl"].transform("max") if len(frame) else frame["ttl"]
    frame["lease"] = frame["lease"].fillna(longest).where(frame["ttl"].notna())
    return frame


def apply(frame: pd.DataFrame, filters: Filters) -> pd.DataFrame:
    """Return the rows of ``frame`` that pass ``filters``, index kept."""
    keep = pd.Series(data=True, index=frame.index)
    for name in (field.name for field in fields(Filters) if field.name != "q"):
        wanted: tuple[str, ...] = getattr(filters, name)
        if wanted:
            keep &= frame[name].isin(wanted)
    query = filters.q.strip()
    if query:
        keep &= _found(frame, query)
    return frame[keep]


def order(frame: pd.DataFrame, by: str, *, descending: bool = False) -> pd.DataFrame:
    """Sort by one of ``SORTS``, ties by severity, then age, then key, so that rows do not jump about.

    Args:
        frame: of ``locks_frame``.
        by: column as the page names it; anything else sorts by state.
        descending: the other way round; ``age`` and ``state`` begin with the oldest and the worst.

    Returns:
        The same rows in another order; missing numbers come last both ways.
    """
    column = by if by in SORTS else "state"
    numbers = _numbered(frame, column)
    if descending is not (column in {"age", "renewals"}):
        numbers = -numbers
    ties = -_numbered(frame, "age") if column == "state" else _numbered(frame, "state")
    return frame.take(np.lexsort((frame["rank"].to_numpy(), ties, numbers)))


def page(frame: pd.DataFrame, number: int, size: int) -> tuple[pd.DataFrame, int, int]:
    """Cut one page out.

    Args:
        frame: rows in order.
        number: wanted page, from 1; out of range means the nearest.
        size: rows a page.

    Returns:
        The rows, the page really shown, and how many pages there are (at least 1).
    """
    pages = max(1, -(-len(frame) // size))
    number = min(max(number, 1), pages)
    return frame.iloc[(number - 1) * size : number * size], number, pages


def by_state(frame: pd.DataFrame) -> dict[str, int]:
    """Count the rows by state; every state is there."""
    counts = frame["state"].value_counts()
    return {state: int(counts.get(state, 0)) for state in SEVERITY}


def choices(frame: pd.DataFrame, column: str, chosen: Sequence[str] = ()) -> list[str]:
    """List the values of a column, most frequent first, with the chosen ones even if they have gone."""
    values = [str(value) for value in frame[column].value_counts().index]
    return values + [value for value in chosen if value not in values]


def find(frame: pd.DataFrame, params: Mapping[str, str]) -> pd.DataFrame:
    """Find the rows that a link names.

    Args:
        frame: of ``locks_frame``.
        params: ``key`` as ``id`` shows it or as one would type it, and optionally ``field``, ``db``,
            ``target``.

    Returns:
        No row, one, or several where the same key is locked in several databases or targets.
    """
    wanted = params.get("key", "")
    found = frame[(frame["id"] == wanted) | (frame["key"] == text.show(text.unshow(wanted)))]
    for name in ("field", "db", "target"):
        if params.get(name):
            found = found[found[name] == params[name]]
    return found


def _found(frame: pd.DataFrame, query: str) -> pd.Series[bool]:
    if "*" in query or "?" in query:
        pattern = globs.compile_glob(query.encode())
        return frame["key"].map(lambda key: pattern.fullmatch(key.encode()) is not None).astype("bool")
    found = pd.Series(data=False, index=frame.index)
    for name in ("key", "prefix", "holder", "job", "job_id", "field"):
        found |= frame[name].str.contains(query, case=False, regex=False, na=False)
    if query.isdecimal():
        found |= frame["pid"].astype("string").eq(query).fillna(value=False).astype("bool")
    return found


def _ranks(column: pd.Series[Any]) -> npt.NDArray[Any]:
    """Return the place of each value among all in order, equal ones at the same."""
    return column.rank(method="dense").to_numpy(dtype="float64")


def _numbered(frame: pd.DataFrame, column: str) -> npt.NDArray[Any]:
    """Return numbers that sort as a column does; NaN, where nothing is known, comes last either way."""
    if column == "key":
        return frame["rank"].to_numpy()
    if column == "state":
        return frame["state"].cat.codes.to_numpy(dtype="float64")
    if column in {"age", "ttl", "renewals"}:
        return frame[column].to_numpy(dtype="float64")
    return _ranks(frame[column])


def _strings(values: list[str]) -> pd.Series[str]:
    return pd.Series(values, dtype="str")


def _numbers(values: Sequence[float | None]) -> pd.Series[float]:
    return pd.Series(np.array(values, dtype="float64"))

"""The table of locks: rows for the ``table`` component, and what was clicked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

import pandas as pd
import streamlit as st

from lockscope_dashboard import text
from lockscope_dashboard.components import load
from lockscope_dashboard.frames.locks import NO_HOLDER
from lockscope_exporter.moments import span

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_SHOWN = 160
LONGEST_HOVER = 2000


class Shown(NamedTuple):
    """Which part of the matching locks a table shows.

    Attributes:
        page: page number from 1, of ``pages``.
        first: number of the first row shown, from 1; ``matching`` rows in all, of ``total`` live locks.
        sort: column; ``descending`` the other way round.
    """

    page: int
    pages: int
    first: int
    matching: int
    total: int
    sort: str
    descending: bool


def link_params(row: Any) -> dict[str, str]:
    """Return the query parameters that name one lock, leaving out what is the default."""
    params = {"key": row.id}
    if row.field:
        params["field"] = row.field
    if row.db != "0":
        params["db"] = row.db
    if row.target != "default":
        params["target"] = row.target
    return params


def rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Turn frame rows into what the component draws.

    Args:
        frame: one page of ``frames.locks.locks_frame``, small.

    Returns:
        JSON-serialisable rows; times are absolute unix seconds, so that the page can count between refreshes.
    """
    return [_row(row) for row in frame.itertuples()]


def draw(
    table: list[dict[str, Any]],
    shown: Shown,
    now: float,
    *,
    empty: str,
    key: str,
    on_sort: Callable[[str], None] | None = None,
    on_page: Callable[[int], None] | None = None,
) -> None:
    """Draw the table; a click on a row leads to the page of its lock, by its key.

    Args:
        table: of ``rows``.
        shown: which part that is.
        now: unix time in seconds by the server's clock.
        empty: sentence to show where there is no row.
        key: unique name of this table on the page.
        on_sort: called with a column name before the page is drawn again.
        on_page: called with a page number before the page is drawn again.
    """

    def sorted_() -> None:
        if on_sort and (column := st.session_state[key].sort):
            on_sort(str(column))

    def paged() -> None:
        if on_page and (number := st.session_state[key].page):
            on_page(int(number))

    last = shown.first + len(table) - 1
    span = f"{shown.first:,} to {last:,} of {text.count(shown.matching, 'lock')}" if table else "0 locks"
    if shown.matching != shown.total:
        span += f" (filtered from {shown.total:,})"
    load("table")(
        key=key,
        data={
            "rows": table,
            "now": now,
            "sort": shown.sort,
            "descending": shown.descending,
            "page": shown.page,
            "pages": shown.pages,
            "range": span,
            "empty": empty,
        },
        on_sort_change=sorted_,
        on_page_change=paged,
    )


def _row(row: Any) -> dict[str, Any]:
    pid = "" if pd.isna(row.pid) else str(row.pid)
    who = row.holder + (f" / {pid}" if pid else "")
    if row.holder == NO_HOLDER and row.fingerprint:
        who = f"unknown, token {row.fingerprint}"
    since = None if pd.isna(row.age) else row.sampled_at - row.age
    deadline = _number(row.deadline)
    where = " · ".join(
        piece
        for piece in (
            f"field {text.cut(row.field, 60)}" if row.field else "",
            text.cut(row.prefix, 80) if row.prefix != row.key else "",
            row.dialect,
            f"db {row.db}" if row.db != "0" else "",
            row.target if row.target != "default" else "",
        )
        if piece
    )
    return {
        "name": f"{row.target} {row.node} {row.db} {row.id} {row.field}",
        "href": "lock?" + urlencode(link_params(row)),
        "state": row.state,
        "evidence": "\n".join(row.evidence),
        "key": text.cut(row.key, LONGEST_SHOWN),
        "title": text.cut(row.key, LONGEST_HOVER) if len(row.key) > LONGEST_SHOWN else "",
        "where": where,
        "who": who + (f" and {row.holders - 1} more" if row.holders > 1 else ""),
        "who_title": f"{who}\nprocess {_LIFE[row.alive]}",
        "job": " ".join(piece for piece in (row.job, row.job_id) if piece),
        "since": since,
        "at_least": row.at_least,
        "age_title": _age_title(row, since),
        "expected": _number(row.expected),
        "deadline": deadline,
        "lease": None if pd.isna(row.lease) else max(row.lease, 0.001),
        "ttl_title": f"until {text.absolute(deadline)}" if deadline else "has no expiry",
        "renewals": row.renewals,
    }


_LIFE = {"alive": "alive", "gone": "gone", "unknown": "not known to be alive or gone"}


def _number(value: float) -> float | None:
    return None if pd.isna(value) else value


def _age_title(row: Any, since: float | None) -> str:
    pieces = []
    if since is not None:
        pieces.append(("at the latest since " if row.at_least else "since ") + text.absolute(since))
    if not pd.isna(row.expected):
        pieces.append(f"expected at most {span(row.expected)}")
    return "\n".join(pieces)

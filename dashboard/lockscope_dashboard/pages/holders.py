"""Holders: which processes, hosts and jobs hold locks, and which of them are gone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from lockscope_dashboard import pages, source, text
from lockscope_dashboard.frames import holders as frames
from lockscope_dashboard.views import grid, health, refresh

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockscope_dashboard.frames.holders import By

CHOICES: Final[dict[str, By]] = {"Processes": "process", "Hosts": "host", "Job types": "job"}
NOUNS: Final[dict[By, tuple[str, str]]] = {
    "process": ("process", "processes"),
    "host": ("host", "hosts"),
    "job": ("job type", "job types"),
}
MOST: Final = 300


def page() -> None:
    """Draw the page."""
    interval = refresh.header("Holders")
    chosen = st.segmented_control(
        "Group by", list(CHOICES), default="Processes", required=True, key="by", bind="query-params"
    )
    st.fragment(run_every=interval)(live)(CHOICES[chosen])


def live(by: By) -> None:
    """Draw the table, at every refresh."""
    board = source.board()
    snapshot = board.snapshot()
    health.draw(snapshot.nodes)
    frame = frames.holders_frame(snapshot.locks)
    found = frames.grouped(frame, by)
    summary(len(found), frame, by)
    rows: Iterable[Any] = found.head(MOST).itertuples()
    grid.draw(
        columns(by),
        [row_of(row, by, board.clock()) for row in rows],
        key=f"holders-{by}",
        caption="Holders",
        empty="No live lock names a holder. Locks taken through the shim name host, process and job.",
    )
    if len(found) > MOST:
        st.caption(f"The first {MOST} of {len(found):,}; search on the page of live locks for the others.")
    health.foot(snapshot.nodes)


def summary(groups: int, frame: Any, by: By) -> None:
    """Say in one sentence who holds locks."""
    gone = frame[frame["alive"] == "gone"]
    if len(gone):
        left = text.count(len(gone[["host", "pid", "worker"]].drop_duplicates()), "holder")
        behind = text.count(gone["row"].nunique(), "lock")
        st.warning(f"{left} gone, leaving {behind} behind.", icon=":material/person_off:")
        return
    singular, plural = NOUNS[by]
    held = text.count(frame["row"].nunique(), "lock")
    st.caption(f"{groups:,} {singular if groups == 1 else plural} holding {held}; none known to be gone.")


def columns(by: By) -> list[dict[str, Any]]:
    """Return the columns of one grouping."""
    named = {"process": "Process", "host": "Host", "job": "Job type"}[by]
    found = [grid.column("who", named)]
    if by == "process":
        found.append(grid.column("life", "Alive", hint="By the process's presence connection."))
    else:
        found.append(grid.column("processes", "Processes", right=True))
    found += [
        grid.column("locks", "Locks", right=True),
        grid.column("states", "States"),
        grid.column("oldest", "Oldest lock", right=True),
    ]
    if by != "job":
        found.append(grid.column("jobs", "Jobs", long=True))
    return found


def row_of(row: Any, by: By, now: float) -> dict[str, Any]:
    """Lay one group out."""
    states = {state: getattr(row, state) for state in ("orphaned", "no_ttl", "stalled", "overdue", "held")}
    if by == "job":
        shown = text.safe(row.job) or "not named"
        who = grid.link(shown, "live", {"q": shown}) if row.job else grid.cell(shown)
    else:
        host = text.safe(row.host)
        label = f"{host} / {row.pid}" if by == "process" and row.pid else host
        who = grid.link(
            label, "live", {"holder": host} | ({"q": row.pid} if by == "process" and row.pid else {})
        )
        if by == "process" and row.worker:
            who["note"] = f"worker {text.safe(row.worker)}"
    cells: dict[str, Any] = {
        "who": who,
        "locks": grid.cell(f"{row.locks:,}", sort=int(row.locks)),
        "states": grid.states(states),
        "oldest": grid.cell(
            text.duration(row.oldest),
            sort=grid.known(row.oldest),
            title="" if math.isnan(row.oldest) else f"since {text.absolute(now - row.oldest)}",
        ),
    }
    if by != "job":
        cells["jobs"] = text.cut(text.safe(row.jobs), 200)
    if by == "process":
        cells["life"] = life(row, now)
    else:
        note = f"{row.gone} gone" if row.gone else ""
        cells["processes"] = grid.cell(f"{row.processes:,}", sort=int(row.processes), note=note)
    return {"name": repr([getattr(row, name) for name in frames.GROUPS[by]]), "cells": cells}


def life(row: Any, now: float) -> dict[str, Any]:
    """Say whether a process lives."""
    if row.gone:
        if math.isnan(row.gone_since):
            return grid.cell("gone", mark="bad", sort=0)
        ago, at = text.ago(max(0.0, now - row.gone_since)), text.absolute(row.gone_since)
        return grid.cell("gone", mark="bad", note=f"left {ago}", title=f"not heard of since {at}", sort=0)
    if row.alive:
        return grid.cell("alive", mark="good", sort=2)
    return grid.cell(
        "not known", title="This holder keeps no presence connection, or it was not looked for.", sort=1
    )


pages.show(page)

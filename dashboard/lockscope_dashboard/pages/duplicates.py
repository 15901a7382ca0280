"""Duplicates and progress: deliveries that were blocked, jobs that starve, progress that went silent."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from lockscope import catalog
from lockscope_dashboard import history, pages, source, text
from lockscope_dashboard.frames import duplicates as frames
from lockscope_dashboard.views import grid, health, origin, refresh, window

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd


MOST_NAMED: Final = 5
MARKS: Final = {"stale": "bad", "failed": "warn"}


def page() -> None:
    """Draw the page."""
    interval = refresh.header("Duplicates and progress", default="15 s")
    chosen = window.choose() if history.Asking().available else None
    st.fragment(run_every=interval)(live)(chosen)


def live(chosen: window.Window | None) -> None:
    """Draw everything, at every refresh."""
    board = source.board()
    nodes = board.source.nodes()
    health.draw(nodes)
    health.journal(source.journal().troubles())
    asking = history.Asking()
    counts: history.Counts | None = history.from_journal()
    if chosen is not None:
        counts = history.PrometheusCounts(asking, chosen.length, chosen.at(time.time()))
    if counts is None:
        origin.teach("duplicates and starving jobs")
    else:
        draw_counts(counts, asking, chosen.past if chosen else "the journal")
    draw_progress(frames.progress_frame(board.source.progress()))
    origin.draw(asking, journal=counts is not None)
    health.foot(nodes)


def draw_counts(counts: history.Counts, asking: history.Asking, when: str) -> None:
    """Draw what workers counted."""
    checks = frames.idempotency_frame(counts.counted(catalog.IDEMPOTENCY, "prefix", "job_type", "outcome"))
    starving = frames.starving_frame(
        counts.counted(catalog.ACQUIRE, "prefix", "job_type", "outcome"),
        counts.counted(catalog.RETRY, "prefix", "job_type"),
    )
    if not asking.trouble:
        draw_checks(checks, when)
        draw_starving(starving, when)


def draw_checks(frame: pd.DataFrame, when: str) -> None:
    """Draw what idempotency did."""
    st.subheader("Duplicate deliveries", anchor=False)
    numbers = [
        ("blocked", "Blocked", "Duplicates, and deliveries found in progress."),
        ("first", "First", "Deliveries that went ahead."),
        ("duplicate", "Already done", ""),
        ("in_progress", "In progress", ""),
        ("error", "Errors", "Checks that failed: nothing is known of these deliveries."),
    ]
    draw_table(
        frame,
        numbers,
        key="checks",
        empty=f"No idempotency check in {when}. Guard a job with lockscope.idempotent(key, ttl=…).",
    )


def draw_starving(frame: pd.DataFrame, when: str) -> None:
    """Draw which jobs hardly get their lock."""
    st.subheader("Jobs that wait for their turn", anchor=False)
    worst = frame[frame["starving"]]
    if len(worst):
        names = ", ".join(health.code(text.safe(job)) for job in sorted(set(worst["job_type"]))[:MOST_NAMED])
        st.warning(f"Never got their lock in {when}: {names}.", icon=":material/block:")
    numbers = [
        ("acquired", "Acquired", ""),
        ("refused", "Refused", "Refused at once, or given up after waiting."),
        ("retries", "Put back", "Retried or requeued because of a lock."),
    ]
    draw_table(frame, numbers, key="starving", empty=f"Every job got its lock in {when}.")


def draw_table(frame: pd.DataFrame, numbers: list[tuple[str, str, str]], *, key: str, empty: str) -> None:
    """Draw a table of counts by job type and prefix."""
    columns = [
        grid.column("job", "Job type"),
        grid.column("prefix", "Prefix", long=True),
        *(grid.column(name, label, right=True, hint=hint) for name, label, hint in numbers),
    ]
    rows: Iterable[Any] = frame.itertuples()
    drawn = [
        {
            "name": f"{row.job_type}\n{row.prefix}",
            "cells": {
                "job": text.safe(row.job_type),
                "prefix": grid.cell(text.safe(row.prefix), mono=True),
                **{name: grid.amount(getattr(row, name)) for name, _, _ in numbers},
            },
        }
        for row in rows
    ]
    grid.draw(columns, drawn, key=key, caption=key, empty=empty)


def draw_progress(frame: pd.DataFrame) -> None:
    """Draw the job-progress keys."""
    st.subheader("Job progress", anchor=False)
    columns = [
        grid.column("prefix", "Prefix", long=True),
        *(grid.column(state, state.capitalize(), right=True) for state in catalog.PROGRESS_STATES),
        grid.column(
            "silence", "Longest silence", right=True, hint="Of a running job, since its last sign of life."
        ),
    ]
    rows: Iterable[Any] = frame.itertuples()
    drawn = [
        {
            "name": f"{row.target} {row.db} {row.prefix}",
            "cells": {
                "prefix": grid.cell(text.safe(row.prefix), mono=True),
                **{
                    state: grid.cell(
                        f"{getattr(row, state):,}",
                        sort=int(getattr(row, state)),
                        mark=MARKS.get(state if getattr(row, state) else "", ""),
                    )
                    for state in catalog.PROGRESS_STATES
                },
                "silence": grid.cell(text.duration(row.silence), sort=grid.known(row.silence)),
            },
        }
        for row in rows
    ]
    grid.draw(
        columns,
        drawn,
        key="progress",
        caption="Job progress",
        empty="No job-progress key is watched, or there is none. Name them: "
        "lockscope explore --progress 'PATTERN'.",
    )


pages.show(page)

"""TTL advice: observed holds against the TTL, by prefix, and a recommended value with its arithmetic."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
import streamlit as st

from lockscope import catalog
from lockscope_dashboard import history, pages, source, text
from lockscope_dashboard.frames import ttl as frames
from lockscope_dashboard.views import charts, grid, health, origin, refresh, window

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockscope_exporter.state import Family


MARKS: Final = {"too short": "bad", "too long": "warn", "good": "good", "unknown": ""}


def page() -> None:
    """Draw the page."""
    interval = refresh.header("TTL advice", default="15 s")
    chosen = window.choose() if history.Asking().available else None
    st.fragment(run_every=interval)(live)(chosen)


def live(chosen: window.Window | None) -> None:
    """Draw everything, at every refresh."""
    board = source.board()
    snapshot = board.snapshot()
    health.draw(snapshot.nodes)
    health.journal(source.journal().troubles())
    asking = history.Asking()
    counts: history.Counts | None = history.from_journal()
    if chosen is not None:
        counts = history.PrometheusCounts(asking, chosen.length, chosen.at(time.time()))
    frame = load(counts, board.leases(), snapshot.families)
    summary(frame)
    if frame["p50"].notna().any():
        st.markdown("**How long locks were held, against their TTL**")
        charts.draw(charts.holds(frame[frame["p50"].notna()]), key="holds")
        st.caption(
            "Box: half of all holds (p25 to p75), with the median; line: p05 to p95; dot: p99. "
            "The tall red mark is the TTL in use."
        )
    table(frame)
    if counts is None:
        origin.teach("hold times by quantile")
    origin.draw(asking, journal=counts is not None)
    health.foot(snapshot.nodes)


def load(counts: history.Counts | None, leases: dict[str, float], families: Sequence[Family]) -> pd.DataFrame:
    """Put together everything that the page shows; without counts, what the sampler learned."""
    holds = {family.prefix: family.usual_hold or family.expected_hold for family in families}
    intervals = {family.prefix: family.renewal_interval for family in families}
    none = pd.DataFrame({"prefix": pd.Series(dtype="str"), "value": pd.Series(dtype="float64")})
    return frames.advice_frame(
        {name: counts.quantile(catalog.HOLD, share, "prefix") for name, share in frames.QUANTILES.items()}
        if counts
        else {},
        renewals=counts.counted(catalog.RENEW, "prefix") if counts else none,
        headroom=counts.quantile(catalog.RENEW_HEADROOM, 0.05, "prefix") if counts else none,
        lost=counts.counted(catalog.RELEASE, "prefix", outcome="lost") if counts else none,
        leases=leases,
        learned={prefix: seconds for prefix, seconds in holds.items() if seconds},
        intervals={prefix: seconds for prefix, seconds in intervals.items() if seconds},
    )


def summary(frame: pd.DataFrame) -> None:
    """Say in one sentence how many prefixes need a look."""
    short, long = ((frame["verdict"] == verdict).sum() for verdict in ("too short", "too long"))
    if short:
        st.warning(
            f"The TTL of {text.count(short, 'prefix', 'prefixes')} is too short: "
            "jobs may work on without their lock.",
            icon=":material/timer_off:",
        )
    elif long:
        st.info(
            f"The TTL of {text.count(long, 'prefix', 'prefixes')} is far longer than needed.",
            icon=":material/hourglass_top:",
        )


def table(frame: pd.DataFrame) -> None:
    """Draw the advice."""
    columns = [
        grid.column("prefix", "Prefix", long=True),
        grid.column("verdict", "TTL is"),
        grid.column("ttl", "TTL in use", right=True, hint="As last seen when a lock was taken or renewed."),
        grid.column("p50", "Held p50", right=True),
        grid.column("p99", "p99", right=True),
        grid.column(
            "lost", "Found lost", right=True, hint="Releases that found the lock expired or taken over."
        ),
        grid.column("recommended", "Recommended", right=True),
        grid.column("why", "Because", long=True),
    ]
    rows: Iterable[Any] = frame.itertuples()
    grid.draw(
        columns,
        [{"name": row.prefix, "cells": cells(row)} for row in rows],
        key="advice",
        caption="TTL advice by prefix",
        empty="No lock was seen yet.",
    )


def cells(row: Any) -> dict[str, Any]:
    """Lay one prefix out."""
    order = list(MARKS)
    return {
        "prefix": grid.link(text.safe(row.prefix), "live", {"prefix": text.safe(row.prefix)}, mono=True),
        "verdict": grid.cell(row.verdict, mark=MARKS[row.verdict], sort=order.index(row.verdict)),
        **{
            name: grid.cell(text.duration(getattr(row, name)), sort=grid.known(getattr(row, name)))
            for name in ("ttl", "p50", "p99", "recommended")
        },
        "lost": grid.amount(row.lost),
        "why": row.why,
    }


pages.show(page)

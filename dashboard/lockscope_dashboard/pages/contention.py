"""Contention: which locks are fought over, who waits how long, how often jobs are put back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import streamlit as st

from lockscope import catalog
from lockscope_dashboard import history, pages, queries, source, text
from lockscope_dashboard.frames import blocking
from lockscope_dashboard.frames import contention as frames
from lockscope_dashboard.frames import families as live_frames
from lockscope_dashboard.frames.series import per_bucket, range_frame
from lockscope_dashboard.views import charts, grid, health, origin, refresh, window

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def page() -> None:
    """Draw the page."""
    interval = refresh.header("Contention", default="15 s")
    chosen = window.choose() if history.Asking().available else None
    st.fragment(run_every=interval)(live)(chosen)


def live(chosen: window.Window | None) -> None:
    """Draw everything, at every refresh."""
    snapshot = source.board().snapshot()
    health.draw(snapshot.nodes)
    health.journal(source.journal().troubles())
    asking = history.Asking()
    told = history.from_journal() if chosen is None else None
    if chosen is not None:
        past(asking, chosen)
    elif told is not None:
        table(load(told))
    else:
        origin.teach("waits, refusals and retries")
    origin.draw(asking, journal=told is not None)
    who_blocks_whom()
    st.subheader("Seen in Redis", anchor=False)
    seen(live_frames.families_frame(snapshot.families))
    health.foot(snapshot.nodes)


def past(asking: history.Asking, chosen: window.Window) -> None:
    """Draw what Prometheus knows."""
    at = chosen.at(time.time())
    frame = load(history.PrometheusCounts(asking, chosen.length, at))
    if asking.trouble:
        return
    if frame.empty:
        origin.nothing(chosen.past, "calls to acquire a lock")
        return
    table(frame)
    prefixes = [str(prefix) for prefix in frame["prefix"]]
    prefix = st.selectbox(
        "Look closer at", ["all prefixes", *prefixes], key="closer", bind="query-params", width=420
    )
    closer(asking, chosen, at, "" if prefix == "all prefixes" else prefix)


def load(counts: history.Counts) -> pd.DataFrame:
    """Put together everything that the table shows."""
    return frames.contention_frame(
        counts.counted(catalog.ACQUIRE, "prefix", "outcome"),
        {name: counts.quantile(catalog.ACQUIRE_WAIT, share, "prefix") for name, share in QUANTILES.items()},
        counts.counted(catalog.RETRY, "prefix"),
        counts.now(catalog.WAITERS, "prefix"),
    )


def who_blocks_whom() -> None:
    """Draw who was refused by whom lately, from the journal."""
    edges = blocking.edges_frame(source.journal().recent(time.time() - blocking.RECENT))
    if edges.empty:
        return
    st.subheader("Who blocks whom", anchor=False)
    st.caption(
        f"Refused calls of the last {blocking.RECENT / 60:.0f} minutes, from the journal; thick is often."
    )
    st.graphviz_chart(blocking.to_dot(edges, dark=st.context.theme.type == "dark"), width="content")


def table(frame: pd.DataFrame) -> None:
    """Draw the hottest locks."""
    columns = [
        grid.column("prefix", "Prefix", long=True),
        grid.column("attempts", "Attempts", right=True, hint="Calls to acquire."),
        grid.column("refused", "Refused", right=True, hint="Refused at once, or given up after waiting."),
        grid.column("p50", "Wait p50", right=True),
        grid.column("p95", "p95", right=True),
        grid.column("p99", "p99", right=True),
        grid.column("waiting", "Waiting", right=True, hint="Calls that wait at that moment."),
        grid.column("retries", "Jobs put back", right=True, hint="Retried or requeued because of a lock."),
        grid.column(
            "error", "Errors", right=True, hint="Calls to acquire that failed: neither refused nor acquired."
        ),
    ]
    rows: Iterable[Any] = frame.itertuples()
    grid.draw(
        columns, [row_of(row) for row in rows], key="contention", caption="Contention by prefix", empty=""
    )


def row_of(row: Any) -> dict[str, Any]:
    """Lay one prefix out."""
    waits = {
        name: grid.cell(text.duration(getattr(row, name)), sort=grid.known(getattr(row, name)))
        for name in QUANTILES
    }
    share = grid.known(row.share) or 0.0
    return {
        "name": row.prefix,
        "cells": {
            "prefix": grid.link(text.safe(row.prefix), "live", {"prefix": text.safe(row.prefix)}, mono=True),
            "attempts": grid.amount(row.attempts),
            "refused": grid.cell(f"{row.refused:,.0f} ({share:.0%})", sort=float(row.refused), bar=share),
            **waits,
            "waiting": grid.amount(row.waiting),
            "retries": grid.amount(row.retries),
            "error": grid.amount(row.error),
        },
    }


def closer(asking: history.Asking, chosen: window.Window, at: float, prefix: str) -> None:
    """Draw the course of one prefix, or of all."""
    step = queries.step(chosen.length)
    start = at - queries.SECONDS[chosen.length]
    calls = queries.counted(catalog.ACQUIRE, f"{step:.0f}s", "outcome", prefix=prefix)
    outcomes = range_frame(asking.range(calls, start, at, step), "outcome")
    buckets = range_frame(
        asking.range(queries.buckets(catalog.ACQUIRE_WAIT, chosen.length, prefix), start, at, step), "le"
    )
    if outcomes.empty or buckets.empty:
        st.caption("The course over time shows after a few scrapes.")
        return
    left, right = st.columns(2)
    with left:
        st.markdown("**Calls to acquire, by outcome**")
        charts.draw(charts.outcomes(outcomes, step), key="outcomes")
    with right:
        st.markdown("**How long they took**")
        charts.draw(charts.waits(per_bucket(buckets), step), key="waits")


def seen(frame: pd.DataFrame) -> None:
    """Draw what the sampler itself counted: no waits, but every client in any language."""
    st.caption(
        "Counted by the sampler since it started, for every client in any language. Redis does not tell who "
        "waits."
    )
    columns = [
        grid.column("prefix", "Prefix", long=True),
        grid.column("keys", "Held now", right=True),
        grid.column("acquired", "Acquired", right=True),
        grid.column("renewed", "Renewed", right=True),
        grid.column("released", "Released", right=True),
        grid.column(
            "expired", "Expired", right=True, hint="Gone at their deadline: the holder died or overran."
        ),
        grid.column("takeover", "Taken over", right=True, hint="The owner changed with no end seen between."),
    ]
    rows: Iterable[Any] = frame.itertuples()
    grid.draw(
        columns,
        [
            {
                "name": f"{row.target} {row.db} {row.prefix}",
                "cells": {
                    "prefix": grid.link(
                        text.safe(row.prefix), "live", {"prefix": text.safe(row.prefix)}, mono=True
                    ),
                    **{
                        name: grid.cell(f"{getattr(row, name):,}", sort=int(getattr(row, name)))
                        for name in ("keys", "acquired", "renewed", "released", "expired", "takeover")
                    },
                },
            }
            for row in rows
        ],
        key="seen",
        caption="Locks seen in Redis by prefix",
        empty="No lock was seen yet.",
    )


pages.show(page)

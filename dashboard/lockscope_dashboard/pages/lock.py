"""One lock: who holds it, whether the holder lives, what happened to it, what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from lockscope_dashboard import commands, pages, source, text
from lockscope_dashboard.advice import advise
from lockscope_dashboard.frames import locks as frames
from lockscope_dashboard.views import address, card, grid, health, refresh

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockscope_dashboard.board import Snapshot
    from lockscope_exporter.state import LockState


def page() -> None:
    """Draw the page of the lock that the address names, or a way to find one."""
    params = {
        name: st.query_params[name] for name in ("key", "field", "db", "target") if name in st.query_params
    }
    address.back()
    interval = refresh.header("One lock")
    if not params.get("key"):
        search()
        return
    st.fragment(run_every=interval)(one)(params)


def search() -> None:
    """Ask for a key."""
    wanted = st.text_input(
        "Key", placeholder="lock:order:42", help="As redis-cli shows it, or as the list of locks does."
    )
    if wanted:
        st.switch_page("pages/lock.py", query_params={"key": wanted})
    st.caption("Or click a lock on any other page.")


def one(params: dict[str, str]) -> None:
    """Draw what is known of the lock, at every refresh."""
    snapshot = source.board().snapshot()
    health.draw(snapshot.nodes)
    found = frames.find(snapshot.frame, params)
    if found.empty:
        st.info(
            f"No lock of the key {health.code(params['key'])} is held at the moment.",
            icon=":material/lock_open:",
        )
        missing(params)
    elif len(found) > 1:
        several(snapshot, params)
    else:
        draw(snapshot.locks[int(found.index[0])], source.board().clock())
    st.caption(health.freshness(snapshot.nodes))


def draw(lock: LockState, now: float) -> None:
    """Draw a live lock."""
    left, right = st.columns([5, 3], gap="medium")
    with left, st.container(border=True):
        card.draw(lock, now, key="card")
    with right:
        verdict = advise(lock)
        with st.container(border=True):
            st.markdown(f"**What to do**\n\n{health.literal(verdict.headline)}")
            st.markdown(
                "\n".join(f"{n}. {health.literal(step)}" for n, step in enumerate(verdict.steps, start=1))
            )
        lines = [line for line in (commands.lockscope("why", lock), *commands.inspect(lock)) if line]
        st.code("\n".join(text.cut(line, 600) for line in lines), language="bash", wrap_lines=True)


def missing(params: dict[str, str]) -> None:
    """Say what one can do about a lock that is not there."""
    st.markdown("It may have been released or have expired, or its key may not match the watched patterns.")
    st.code(commands.redis_cli("PTTL", text.unshow(params["key"]), 0), language="bash", wrap_lines=True)


def several(snapshot: Snapshot, params: dict[str, str]) -> None:
    """Let the viewer choose between locks of the same key."""
    found: Iterable[Any] = frames.find(snapshot.frame, params).itertuples()
    st.info("This key is locked in several places.", icon=":material/account_tree:")
    columns = [grid.column("where", "Where"), grid.column("state", "State"), grid.column("holder", "Holder")]
    rows = []
    for row in found:
        where = " · ".join(filter(None, (row.target, f"db {row.db}", row.field and f"field {row.field}")))
        linked = {"key": row.id, "field": row.field, "db": row.db, "target": row.target}
        rows.append(
            {
                "name": where + row.node,
                "cells": {
                    "where": grid.link(
                        where, "lock", {name: value for name, value in linked.items() if value}
                    ),
                    "state": grid.states({row.state: 1}),
                    "holder": row.holder,
                },
            }
        )
    grid.draw(columns, rows, key="several", caption="Locks of this key", empty="")


pages.show(page)

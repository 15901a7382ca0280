"""One lock: who holds it, whether the holder lives, what happened to it, what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from lockscope_dashboard import commands, pages, source, text
from lockscope_dashboard.advice import advise
from lockscope_dashboard.frames import locks as frames
from lockscope_dashboard.views import address, card, grid, health, past, refresh, release
from lockscope_exporter import runbook

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockscope_dashboard.board import Snapshot
    from lockscope_exporter.state import LockState


LONGEST_NAMED: Final = 400
DATABASE: Final = re.compile(r"[0-9]{1,5}")


def page() -> None:
    """Draw the page of the lock that the address names, or a way to find one."""
    names = ("key", "field", "db", "target")
    params = {name: st.query_params[name] for name in names if name in st.query_params}
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        address.back()
        if params.get("key"):  # outside of the part that refreshes: a dialog must not close by itself
            release.offer(params)
    interval = refresh.header("One lock")
    if params.get("key"):
        st.fragment(run_every=interval)(one)(params)
    else:
        search()


def search() -> None:
    """Ask for a key."""
    wanted = st.text_input(
        "Key", placeholder="lock:order:42", help="As redis-cli shows it, or as the list of locks does."
    )
    if wanted:
        st.query_params["key"] = wanted
        st.rerun()
    st.caption("Or click a lock on any other page.")


def one(params: dict[str, str]) -> None:
    """Draw what is known of the lock, at every refresh."""
    board = source.board()
    snapshot = board.snapshot()
    health.draw(snapshot.nodes)
    found = frames.find(snapshot.frame, params)
    if len(found) > 1:
        several(snapshot, params)
    elif len(found) == 1:
        lock = snapshot.locks[int(found.index[0])]
        draw(lock, board.clock())
        history(lock.key, lock.db, [holder.fingerprint for holder in lock.holders])
    else:
        db = int(params["db"]) if DATABASE.fullmatch(params.get("db", "")) else None
        asked = health.of(snapshot.nodes, [params.get("target", "")])
        missing(params, db, sure=health.all_answer(asked))
        history(text.unshow(params["key"]), db, [])
    health.foot(snapshot.nodes)


def draw(lock: LockState, now: float) -> None:
    """Draw a live lock."""
    left, right = st.columns([5, 3], gap="medium")
    with left, st.container(border=True):
        card.draw(lock, now, key="card")
    with right:
        with st.container(border=True):
            todo = runbook.advice(lock.state, expires=lock.ttl_seconds is not None)
            more = f"\n\n[Runbook]({todo.url})" if todo.url else ""
            steps = "\n".join(
                f"{n}. {health.literal(step)}" for n, step in enumerate(todo.steps, start=1) if todo.url
            )
            st.markdown(f"**What to do**\n\n{health.literal(advise(lock))}\n\n{steps}{more}")
            link = commands.trace(source.options().trace_url, lock)
            if link:
                st.link_button("Traces", link, icon=":material/account_tree:")
        lines = commands.of(lock, source.targets(), source.sampled().targets_file)
        st.code("\n".join(lines), language="bash", wrap_lines=True)


def missing(params: dict[str, str], db: int | None, *, sure: bool) -> None:
    """Say what one can do about a lock that is not there, or not known to be there.

    Args:
        params: what names it.
        db: number of its database, if that is named.
        sure: every server was read, so what is not seen is not held.
    """
    key = health.code(text.cut(text.safe(params["key"]), LONGEST_NAMED))
    if sure:
        st.info(
            f"No lock of the key {key} is held at the moment. It may have been released "
            "or have expired, or its key may not match the watched patterns.",
            icon=":material/lock_open:",
        )
    else:
        st.info(
            f"Whether a lock of the key {key} is held is not known while not everything can be read.",
            icon=":material/help:",
        )
    if params["key"].startswith(
        "sha256:"
    ):  # a digest stands for a key that is too long; it leads nowhere now
        return
    lines = commands.look(
        text.unshow(params["key"]),
        db,
        params.get("target", ""),
        source.targets(),
        source.sampled().targets_file,
    )
    st.code("\n".join(lines), language="bash", wrap_lines=True)


def history(key: bytes, db: int | None, held: list[str]) -> None:
    """Draw the lock's past."""
    feed = source.journal()
    health.journal(feed.troubles())
    overlaps = [one for one in feed.overlaps() if one.key == key and db in (None, one.db)]
    past.draw(feed.timeline(key, db), overlaps, held, feed.heard(), source.board().clock())


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

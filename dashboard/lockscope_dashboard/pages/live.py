"""Live locks: which are held now, by whom, since when, until when."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from lockscope_dashboard import pages, source
from lockscope_dashboard.frames import export
from lockscope_dashboard.frames import locks as frames
from lockscope_dashboard.views import address, figures, health, refresh, table, tiles

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from lockscope_dashboard.board import Snapshot

PAGE_SIZE = 50


def page() -> None:
    """Draw the title and the refresh control once, the rest at every refresh."""
    if not refresh.pressed():
        address.open_page()
    interval = refresh.header(address.TITLE)
    st.fragment(run_every=interval)(live)()


def live() -> None:
    """Draw everything that changes."""
    snapshot = source.board().snapshot()
    health.draw(snapshot.nodes)
    draw_tiles(snapshot, address.place().states)
    filters = draw_filters(snapshot, address.place().states)
    address.follow(filters)
    place = address.place()
    chosen = (filters, place.sort, place.descending)
    ordered = snapshot.remembered(
        ("ordered", *chosen),
        lambda: frames.order(frames.apply(snapshot.frame, filters), place.sort, descending=place.descending),
    )
    rows, number, last = frames.page(ordered, place.number, PAGE_SIZE)
    address.correct(number, filters)
    table.draw(
        snapshot.remembered(("rows", *chosen, number), lambda: table.rows(rows)),
        table.Shown(
            number,
            last,
            (number - 1) * PAGE_SIZE + 1,
            len(ordered),
            len(snapshot.frame),
            place.sort,
            place.descending,
        ),
        source.board().clock(),
        empty=_empty(snapshot, filters),
        key="locks",
        on_sort=sort_by,
        on_page=turn_to,
    )
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        health.foot(snapshot.nodes)
        draw_export(filters, place.sort, descending=place.descending)


def draw_tiles(snapshot: Snapshot, chosen: tuple[str, ...]) -> None:
    """Draw the figures on top, their course from Prometheus where there is one, else from memory."""
    counts = frames.by_state(snapshot.frame)
    past, unknown, trouble = figures.known()
    drawn = [
        tiles.state_tile(state, counts[state], past.states[state], chosen=state in chosen)
        for state in ("held", *(state for state in frames.SEVERITY if state != "held"))
    ]
    waiting = tiles.figure_tile(
        "waiting",
        "Waiting",
        "not known" if past.waiting is None else f"{past.waiting:,.0f}",
        past.waiting_course,
        note=unknown,
        title=f"Calls that wait for a lock now, counted by the shim in the workers.\n{trouble}".strip(),
    )
    lost = tiles.figure_tile(
        "lost",
        "Losses",
        f"{past.lost:,.0f}",
        past.lost_course,
        note=past.lost_note,
        title=past.lost_title,
        alarm=past.lost >= 1,
    )
    tiles.draw([drawn[0], waiting, *drawn[1:], lost], key="figures", on_pick=toggle_state)


def draw_filters(snapshot: Snapshot, states: tuple[str, ...]) -> frames.Filters:
    """Draw the filters and read them."""
    frame = snapshot.frame
    with st.container(horizontal=True, vertical_alignment="bottom", key="filters"):
        query = st.text_input(
            "Search",
            key="q",
            on_change=address.run_ahead,
            icon=":material/search:",
            placeholder="key, holder, job, or a glob such as lock:order:*",
            label_visibility="collapsed",
        )
        picked = {
            name: tuple(
                st.multiselect(
                    label,
                    frames.choices(frame, name, st.session_state.get(name, ())),
                    key=name,
                    on_change=address.run_ahead,
                    accept_new_options=True,
                    placeholder=label,
                    label_visibility="collapsed",
                    width=210,
                )
            )
            for name, label in _offered(snapshot)
        }
    return frames.Filters(q=query or "", state=states, **picked)


def draw_export(filters: frames.Filters, sort: str, *, descending: bool) -> None:
    """Offer what is filtered as a file; it is written when asked for, of what is live then."""
    board = source.board()

    def chosen(write: Callable[[pd.DataFrame], bytes]) -> bytes:
        found = frames.apply(board.snapshot().frame, filters)
        return write(frames.order(found, sort, descending=descending))

    with st.container(horizontal=True, width="content"):
        for kind, mime, write in (
            ("CSV", "text/csv", export.to_csv),
            ("Parquet", "application/vnd.apache.parquet", export.to_parquet),
        ):
            st.download_button(
                kind,
                data=partial(chosen, write),
                file_name=f"locks.{kind.lower()}",
                mime=mime,
                on_click="ignore",
                key=f"export-{kind}",
                icon=":material/download:",
                type="tertiary",
                help="What is filtered here, all pages.",
            )


def sort_by(column: str) -> None:
    """Sort by a column; again, the other way round."""
    now = address.place()
    other_way = now.sort == column and not now.descending
    address.go_to(now._replace(sort=column, descending=other_way, number=1))


def turn_to(number: int) -> None:
    """Turn to a page."""
    address.go_to(address.place()._replace(number=max(1, number)))


def toggle_state(state: str) -> None:
    """Show only the locks of a state too, or no longer."""
    chosen = set(address.place().states) ^ {state}
    states = tuple(name for name in frames.SEVERITY if name in chosen)
    address.go_to(address.place()._replace(states=states, number=1))


def _offered(snapshot: Snapshot) -> list[tuple[str, str]]:
    offered = [("prefix", "Prefix"), ("holder", "Holder"), ("dialect", "Dialect")]
    for name, label in (("db", "Database"), ("target", "Target")):
        if len(snapshot.frame[name].unique()) > 1 or st.session_state.get(name):
            offered.append((name, label))
    return offered


def _empty(snapshot: Snapshot, filters: frames.Filters) -> str:
    if filters.any() and len(snapshot.frame):
        if health.all_answer(health.of(snapshot.nodes, filters.target)):
            return "No live lock matches these filters."
        return "No lock that is seen matches these filters, but not everything can be read."
    if not any(node.up for node in snapshot.nodes):
        return "Nothing to show while no server can be read."
    if not health.all_answer(snapshot.nodes):
        return "No lock is seen, but not everything can be read."
    return (
        "No lock is held right now. If you expected some, check the patterns: start the explorer with "
        "--locks 'PATTERN' for the keys that your locks use."
    )


pages.show(page)

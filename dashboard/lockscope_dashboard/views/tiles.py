"""The figures on top: a number, its course, and a click that filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from lockscope_dashboard.components import load

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LABELS = {
    "held": "Held",
    "orphaned": "Orphaned",
    "no_ttl": "No TTL",
    "stalled": "Stalled",
    "overdue": "Overdue",
}
MEANINGS = {
    "held": "Everything looks as it should.",
    "orphaned": "The holder is known to be gone; the lock waits for its TTL.",
    "no_ttl": "No expiry, where locks of this kind should have one: it never frees itself.",
    "stalled": "The holder used to renew and has missed two renewals.",
    "overdue": "Held for longer than is usual for its prefix.",
}


def state_tile(
    state: str, value: int, points: Sequence[float], *, chosen: bool, label: str = "", note: str = ""
) -> dict[str, Any]:
    """Describe the figure of one state, a button that filters by it."""
    return {
        "name": state,
        "state": state,
        "label": label or LABELS[state],
        "value": f"{value:,}",
        "note": note,
        "title": MEANINGS[state]
        + ("\nClick to show all again." if chosen else "\nClick to show only these."),
        "filter": True,
        "chosen": chosen,
        "alarm": state != "held" and value > 0,
        "points": list(points),
    }


def figure_tile(
    name: str, label: str, value: str, points: Sequence[float], *, note: str, title: str, alarm: bool = False
) -> dict[str, Any]:
    """Describe a figure that is only a number."""
    return {
        "name": name,
        "state": "",
        "label": label,
        "value": value,
        "note": note,
        "title": title,
        "filter": False,
        "chosen": False,
        "alarm": alarm,
        "points": list(points),
    }


def draw(tiles: list[dict[str, Any]], key: str, on_pick: Callable[[str], None]) -> None:
    """Draw the figures in a row; ``on_pick`` gets a clicked one's name before the page is drawn again."""

    def picked() -> None:
        if name := st.session_state[key].pick:
            on_pick(str(name))

    load("tiles")(key=key, data={"tiles": tiles}, on_pick_change=picked)

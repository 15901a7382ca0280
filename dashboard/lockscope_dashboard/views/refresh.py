"""The head of a page: its title, and how often it looks again."""

from __future__ import annotations

from typing import Final

import streamlit as st

INTERVALS: Final[dict[str, float | None]] = {"1 s": 1.0, "2 s": 2.0, "5 s": 5.0, "15 s": 15.0, "Pause": None}


def header(title: str, default: str = "2 s") -> float | None:
    """Draw a title with the refresh control beside it.

    Args:
        title: of the page.
        default: interval where the address names none, one of ``INTERVALS``.

    Returns:
        Seconds between refreshes, ``None`` while paused.
    """
    with st.container(horizontal=True, vertical_alignment="center"):
        st.title(title, anchor=False, width="stretch")
        chosen = st.segmented_control(
            "Refresh every",
            list(INTERVALS),
            default=default,
            required=True,
            key="refresh",
            bind="query-params",
            label_visibility="collapsed",
        )
    return INTERVALS[chosen]

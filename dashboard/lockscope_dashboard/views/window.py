"""Which part of the past a page shows."""

from __future__ import annotations

from typing import NamedTuple

import streamlit as st

from lockscope_dashboard import queries, text


class Window(NamedTuple):
    """A stretch of time.

    Attributes:
        label: for people, such as ``1 hour``.
        length: as PromQL writes it.
        ago: seconds between its end and now.
    """

    label: str
    length: str
    ago: float

    @property
    def past(self) -> str:
        """The window in a sentence: ``the last hour``, ``the last 15 min``."""
        return f"the last {self.label.removeprefix('1 ')}"

    def at(self, now: float) -> float:
        """Return its end, unix time in seconds."""
        return now - self.ago


def choose() -> Window:
    """Draw the choice of a window and of the instant at its end; both live in the URL."""
    with st.container(horizontal=True, vertical_alignment="top"):
        label = st.segmented_control(
            "Window",
            list(queries.WINDOWS),
            default="1 hour",
            required=True,
            key="window",
            bind="query-params",
        )
        length = queries.WINDOWS[label]
        steps = [round(queries.SECONDS[length] * share / 20) for share in range(20, -1, -1)]
        ago = st.select_slider(
            "Until",
            steps,
            value=0,
            format_func=lambda seconds: f"{text.duration(seconds)} ago" if seconds else "now",
            key=f"ago-{length}",
            width=320,
        )
    return Window(label, length, float(ago))

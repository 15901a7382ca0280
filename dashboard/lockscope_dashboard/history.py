"""What was: asked of Prometheus, remembered for a few seconds for all viewers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import streamlit as st

from lockscope_dashboard import source
from lockscope_dashboard.prometheus import Prometheus, PrometheusError, Series

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

REMEMBERED: Final = 10.0  # seconds


class Asking:
    """The questions of one page, and what went wrong with them.

    Attributes:
        available: a Prometheus is configured.
        trouble: why some question has no answer, in one line, or empty.
    """

    def __init__(self) -> None:
        self.available = source.options().prometheus_url is not None
        self.trouble = ""

    def instant(self, query: str, at: float | None = None) -> Sequence[Series]:
        """Return values at one instant, nothing where there is no answer."""
        return self._answer(lambda: _instant(query, at))

    def range(self, query: str, start: float, end: float, step: float) -> Sequence[Series]:
        """Return the course of values, nothing where there is no answer; times snap to whole steps."""
        return self._answer(lambda: _range(query, start // step * step, end // step * step, step))

    def number(self, query: str) -> float | None:
        """Return the one value of a query, ``None`` where there is no answer."""
        for series in self.instant(query):
            if series.points:
                return series.points[-1][1]
        return None

    def _answer(self, ask: Callable[[], list[Series]]) -> Sequence[Series]:
        if not self.available or self.trouble:
            return ()
        try:
            return ask()
        except PrometheusError as error:
            self.trouble = str(error)
            return ()


@st.cache_resource(show_spinner=False)
def server() -> Prometheus:
    """Return the client of the configured Prometheus."""
    return Prometheus(source.options().prometheus_url or "")


@st.cache_data(ttl=REMEMBERED, max_entries=500, show_spinner=False)
def _instant(query: str, at: float | None) -> list[Series]:
    return server().instant(query, at)


@st.cache_data(ttl=REMEMBERED, max_entries=200, show_spinner=False)
def _range(query: str, start: float, end: float, step: float) -> list[Series]:
    return server().range(query, start, end, step)

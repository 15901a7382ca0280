"""What was: asked of Prometheus where there is one, else taken from the journal; for all viewers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import streamlit as st

from lockscope import catalog
from lockscope_dashboard import queries, source
from lockscope_dashboard.frames import tally
from lockscope_dashboard.frames.series import instant_frame
from lockscope_dashboard.prometheus import Prometheus, PrometheusError, Series

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd

    from lockscope.catalog import Metric

REMEMBERED: Final = 10.0  # seconds
WRITTEN: Final = (catalog.ACQUIRE.name, catalog.IDEMPOTENCY.name)


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


class AskingNow(Asking):
    """Questions that are put to Prometheus each time, by a thread that belongs to no viewer.

    Args:
        prometheus: the server.
    """

    def __init__(self, prometheus: Prometheus) -> None:
        self.available = True
        self.trouble = ""
        self._prometheus = prometheus

    def instant(self, query: str, at: float | None = None) -> Sequence[Series]:
        """Return values at one instant, nothing where there is no answer."""
        return self._answer(lambda: self._prometheus.instant(query, at))

    def range(self, query: str, start: float, end: float, step: float) -> Sequence[Series]:
        """Return the course of values, nothing where there is no answer; times snap to whole steps."""
        start, end = start // step * step, end // step * step
        return self._answer(lambda: self._prometheus.range(query, start, end, step))


class Counts(Protocol):
    """What workers counted, as frames with a column a label and ``value``."""

    def counted(self, metric: Metric, *labels: str, outcome: str = "") -> pd.DataFrame:
        """Return what a counter gained, by labels."""

    def quantile(self, metric: Metric, share: float, *labels: str) -> pd.DataFrame:
        """Return a quantile of a histogram, by labels."""

    def now(self, metric: Metric, *labels: str) -> pd.DataFrame:
        """Return the sum of a gauge, by labels."""


class PrometheusCounts:
    """What Prometheus scraped from the workers in a window.

    Args:
        asking: the questions of the page.
        length: of the window, as PromQL writes it.
        at: its end, unix time in seconds.
    """

    def __init__(self, asking: Asking, length: str, at: float) -> None:
        self._asking = asking
        self._length = length
        self._at = at

    def counted(self, metric: Metric, *labels: str, outcome: str = "") -> pd.DataFrame:
        """Return what a counter gained in the window, by labels."""
        return self._frame(queries.counted(metric, self._length, *labels, outcome=outcome), labels)

    def quantile(self, metric: Metric, share: float, *labels: str) -> pd.DataFrame:
        """Return a quantile of a histogram over the window, by labels."""
        return self._frame(queries.quantile(metric, share, self._length, *labels), labels)

    def now(self, metric: Metric, *labels: str) -> pd.DataFrame:
        """Return the sum of a gauge at the end of the window, by labels."""
        return self._frame(f"sum by ({', '.join(labels)}) ({metric.name})", labels)

    def _frame(self, query: str, labels: tuple[str, ...]) -> pd.DataFrame:
        return instant_frame(self._asking.instant(query, self._at), *labels)


class JournalCounts:
    """What the workers wrote into the journal, as far back as it reaches.

    Args:
        samples: of ``frames.tally.samples_frame``.
    """

    def __init__(self, samples: pd.DataFrame) -> None:
        self._samples = samples

    def counted(self, metric: Metric, *labels: str, outcome: str = "") -> pd.DataFrame:
        """Return what a counter holds, by labels."""
        return tally.summed(self._samples, metric, *labels, outcome=outcome)

    def quantile(self, metric: Metric, share: float, *labels: str) -> pd.DataFrame:
        """Return a quantile of a histogram, by labels."""
        return tally.quantiles(self._samples, metric, share, *labels)

    def now(self, metric: Metric, *labels: str) -> pd.DataFrame:
        """Return the sum of a gauge, by labels."""
        return tally.summed(self._samples, metric, *labels)


def from_journal() -> JournalCounts | None:
    """Return what the journal tells, ``None`` if no worker wrote one."""
    samples = tally.samples_frame(source.journal().collect())
    written = samples[samples["name"].str.startswith(tuple(WRITTEN))]
    return JournalCounts(samples) if len(written) else None


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

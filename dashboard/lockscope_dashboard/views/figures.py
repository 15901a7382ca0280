"""What the figures on top of the list of locks show besides the present."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import streamlit as st

from lockscope_dashboard import history, queries, source, text
from lockscope_dashboard.frames import trends
from lockscope_dashboard.frames.locks import SEVERITY
from lockscope_dashboard.recent import Recent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lockscope_dashboard.board import Tick
    from lockscope_dashboard.history import Asking
    from lockscope_dashboard.prometheus import Series

HOUR: Final = 3600.0


class Past(NamedTuple):
    """The last hour.

    Attributes:
        states: live locks by state over time.
        waiting: calls that wait now, ``None`` if unknown; ``waiting_course`` over time.
        lost: locks lost in the last hour; ``lost_course`` over time.
        lost_note: what span that covers, where it is not an hour.
        lost_title: what counts as a loss here.
    """

    states: Mapping[str, Sequence[float]]
    waiting: float | None
    waiting_course: Sequence[float]
    lost: float
    lost_course: Sequence[float]
    lost_note: str
    lost_title: str


class Figures(NamedTuple):
    """The last hour as far as it is known.

    Attributes:
        past: the last hour.
        unknown: why nothing tells how many calls wait; empty if something does.
        trouble: what went wrong with asking Prometheus, as a sentence.
    """

    past: Past
    unknown: str
    trouble: str = ""


def known() -> Figures:
    """Return the last hour: of Prometheus as soon as it has answered, else of the explorer's own memory.

    A course that Prometheus has hardly begun to scrape is taken from memory too.
    """
    own = remembered(source.board().ticks())
    if source.options().prometheus_url is None:
        return Figures(own, "needs Prometheus")
    found = recent().get()
    if found is None:
        return Figures(own, "asking Prometheus")
    told, trouble = found
    if trouble:
        return Figures(own, "Prometheus is silent", trouble)
    states = {
        name: told.states[name] if len(told.states[name]) > 1 else own.states[name] for name in SEVERITY
    }
    return Figures(told._replace(states=states), "" if told.waiting is not None else "no worker scraped yet")


@st.cache_resource(show_spinner=False)
def recent() -> Recent[tuple[Past, str]]:
    """Return what Prometheus told of the last hour last, with what went wrong; shared by all viewers."""
    server = history.server()
    clock = source.board().clock

    def find() -> tuple[Past, str]:
        asking = history.AskingNow(server)
        return past(asking, clock()), asking.trouble

    return Recent(find)


def past(asking: Asking, now: float) -> Past:
    """Ask Prometheus for the last hour."""
    step = queries.step("1h")

    def course(query: str) -> Sequence[Series]:
        return asking.range(query, now - HOUR, now, step)

    found = {series.labels.get("state", ""): _values([series]) for series in course(queries.states(step))}
    return Past(
        states={state: found.get(state, []) for state in SEVERITY},
        waiting=asking.number(f"sum({queries.waiters})"),
        waiting_course=_values(course(f"sum({queries.waiters})")),
        lost=asking.number(queries.losses("1h")) or 0.0,
        lost_course=_values(course(queries.losses(f"{step:.0f}s"))),
        lost_note="in the last hour",
        lost_title="Renewals and releases that found the lock expired or taken over, counted by the shim.",
    )


def remembered(ticks: Sequence[Tick]) -> Past:
    """Take the last hour from what the explorer itself saw."""
    covered = trends.span(ticks, HOUR)
    return Past(
        states={state: trends.course(ticks, state) for state in SEVERITY},
        waiting=None,
        waiting_course=(),
        lost=trends.lost_within(ticks, HOUR),
        lost_course=trends.losses(ticks),
        lost_note="in the last hour"
        if covered >= HOUR
        else f"in {text.duration(covered)}"
        if covered
        else "",
        lost_title="Locks that ran out under their holder or were taken over, seen by this explorer.",
    )


def _values(series: Sequence[Series]) -> list[float]:
    return [value for one in series[:1] for _, value in one.points]

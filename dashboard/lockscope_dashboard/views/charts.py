"""Charts, in the colours of the theme."""

from __future__ import annotations

import math
from typing import Final

import altair as alt
import pandas as pd
import streamlit as st

from lockscope_dashboard import text

OUTCOMES: Final = ("acquired", "contended", "timeout", "error")
LIGHT: Final = {"acquired": "#3A8F80", "contended": "#D98200", "timeout": "#C2371E", "error": "#8A4FB0"}
# A row of four would be cut off on a phone, and Vega breaks no rows by itself.
NARROW: Final = alt.Legend(orient="top", columns=2, columnPadding=14, labelFontSize=11)
DARK: Final = {"acquired": "#58A895", "contended": "#E9A23B", "timeout": "#F0684A", "error": "#B583D9"}


def palette() -> dict[str, str]:
    """Return the colours of the outcomes for the viewer's theme."""
    return DARK if st.context.theme.type == "dark" else LIGHT


def shades() -> list[str]:
    """Return the colours of few and of many: few is close to the background."""
    return ["#15333B", "#7FDCEB"] if st.context.theme.type == "dark" else ["#CFE8E6", "#04535A"]


def outcomes(frame: pd.DataFrame, step: float) -> alt.Chart:
    """Draw calls to acquire over time, stacked by outcome.

    Args:
        frame: columns ``at``, ``outcome``, ``value`` (calls in each step).
        step: seconds of a step.
    """
    colours = palette()
    shown = frame.assign(rate=frame["value"] / step)
    first = shown[shown["at"] == shown["at"].min()]  # a step reaches back to its beginning
    shown = pd.concat([first.assign(at=first["at"] - pd.Timedelta(seconds=step)), shown])
    chart: alt.Chart = (
        alt.Chart(shown)
        .mark_area(opacity=0.9, interpolate="step-before")
        .encode(
            x=alt.X("at:T", title=None),
            y=alt.Y("rate:Q", title="calls a second", stack=True),
            color=alt.Color(
                "outcome:N",
                title=None,
                sort=list(OUTCOMES),
                scale=alt.Scale(domain=list(OUTCOMES), range=[colours[name] for name in OUTCOMES]),
                legend=NARROW,
            ),
            order=alt.Order("outcome:N", sort="ascending"),
            tooltip=[
                alt.Tooltip("at:T", title="until", format="%H:%M:%S"),
                alt.Tooltip("outcome:N"),
                alt.Tooltip("rate:Q", title="a second", format=".2f"),
            ],
        )
        .properties(height=220)
    )
    return chart


def waits(frame: pd.DataFrame, step: float) -> alt.Chart:
    """Draw how long calls waited over time, as a heat map.

    Args:
        frame: columns ``at``, ``low``, ``high``, ``value``, of ``frames.series.per_bucket``.
        step: seconds of a step.
    """
    bounds = frame[["low", "high"]].drop_duplicates().sort_values("low", ascending=False)
    order = [bound(low, high) for low, high in zip(bounds["low"], bounds["high"], strict=True)]
    shown = frame[frame["value"] > 0].copy()
    shown["wait"] = [bound(low, high) for low, high in zip(shown["low"], shown["high"], strict=True)]
    shown["since"] = shown["at"] - pd.Timedelta(seconds=step)
    chart: alt.Chart = (
        alt.Chart(shown)
        .mark_rect()
        .encode(
            x=alt.X("since:T", title=None),
            x2="at:T",
            y=alt.Y("wait:O", title="waited", sort=order),
            color=alt.Color(
                "value:Q",
                title="calls",
                scale=alt.Scale(range=shades(), type="sqrt"),
                legend=alt.Legend(orient="top", gradientLength=140),
            ),
            tooltip=[
                alt.Tooltip("at:T", title="until", format="%H:%M:%S"),
                alt.Tooltip("wait:N", title="waited"),
                alt.Tooltip("value:Q", title="calls", format=".1f"),
            ],
        )
        .properties(height=260)
    )
    return chart


def holds(frame: pd.DataFrame) -> alt.LayerChart | alt.FacetChart:
    """Draw hold times by prefix as boxes (p25 to p75, whiskers p05 to p95, dot p99), and the TTL as a line.

    Args:
        frame: columns ``prefix``, ``p05`` … ``p99``, ``ttl``, in seconds.
    """
    shown = frame.assign(prefix=frame["prefix"].map(lambda prefix: text.cut(text.safe(prefix), 60)))
    shown = shown.drop(columns=["verdict"])
    colours = palette()
    axis = alt.Axis(title="seconds held", format="~g", tickCount=8)
    scale = alt.Scale(type="log", nice=False, padding=10)
    row = alt.Y("prefix:N", title=None, sort=None, axis=alt.Axis(labelLimit=300))
    tips = [
        alt.Tooltip("prefix:N"),
        *(
            alt.Tooltip(f"{name}:Q", format=".3~s")
            for name in ("p05", "p25", "p50", "p75", "p95", "p99", "ttl")
        ),
    ]
    base = alt.Chart(shown).encode(y=row, tooltip=tips)
    whisker = base.mark_rule(color=colours["acquired"]).encode(
        x=alt.X("p05:Q", scale=scale, axis=axis), x2="p95:Q"
    )
    box = base.mark_bar(size=13, cornerRadius=3, color=colours["acquired"]).encode(x="p25:Q", x2="p75:Q")
    middle = base.mark_tick(size=17, thickness=3, color=colours["contended"]).encode(x="p50:Q")
    last = base.mark_point(filled=True, size=45, color=colours["acquired"]).encode(x="p99:Q")
    lease = base.mark_tick(size=24, thickness=3, color=colours["timeout"]).encode(x="ttl:Q")
    return alt.layer(whisker, box, middle, last, lease).properties(height=90 + 34 * len(shown))


SPANS: Final = ("waited", "held", "unprotected")


def timeline(
    spans: pd.DataFrame, marks: pd.DataFrame, overlaps: pd.DataFrame
) -> alt.LayerChart | alt.FacetChart:
    """Draw who held a lock when, who waited, what was lost, and where two held it at once.

    Args:
        spans: of ``frames.timeline.spans_frame``.
        marks: of ``frames.timeline.marks_frame``.
        overlaps: of ``frames.timeline.overlaps_frame``.
    """
    colours = palette()
    order = list(spans.groupby("who")["start"].max().sort_values(ascending=False).index)
    row = alt.Y("who:N", title=None, sort=order, axis=alt.Axis(labelLimit=260))
    shown = _timed(spans, "start", "end").assign(
        lasted=[text.duration(end - start) for start, end in zip(spans["start"], spans["end"], strict=True)]
    )
    colour = alt.Color(
        "kind:N",
        title=None,
        scale=alt.Scale(domain=SPANS, range=[colours["contended"], colours["acquired"], colours["timeout"]]),
        legend=NARROW,
    )
    tips = [
        alt.Tooltip("who:N"),
        alt.Tooltip("kind:N"),
        alt.Tooltip("how:N", title="end"),
        alt.Tooltip("lasted:N", title="for"),
        alt.Tooltip("start:T", title="from", format="%H:%M:%S.%L"),
    ]
    layers = [
        alt.Chart(shown[shown["kind"].isin(kinds)])
        .mark_bar(cornerRadius=2, size=size)
        .encode(x=alt.X("start:T", title=None), x2="end:T", y=row, color=colour, tooltip=tips)
        for kinds, size in ((["waited"], 5), (["held", "unprotected"], 15))
        if shown["kind"].isin(kinds).any()
    ]
    if len(overlaps):
        both = _timed(overlaps, "start", "end")
        layers.insert(
            0,
            alt.Chart(both)
            .mark_rect(color=colours["timeout"], opacity=0.25)
            .encode(x="start:T", x2="end:T", tooltip=[alt.Tooltip("who:N", title="held it at once")]),
        )
    if len(marks):
        points = _timed(marks, "at")
        layers.append(
            alt.Chart(points)
            .mark_point(filled=True, size=42, opacity=1)
            .encode(
                x="at:T",
                y=row,
                shape=alt.Shape(
                    "bad:N",
                    scale=alt.Scale(domain=[False, True], range=["triangle-up", "cross"]),
                    legend=None,
                ),
                color=alt.value(colours["error"]),
                tooltip=[alt.Tooltip("what:N"), alt.Tooltip("at:T", format="%H:%M:%S.%L")],
            )
        )
    return alt.layer(*layers).properties(height=80 + 26 * shown["who"].nunique())


def _timed(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
    return frame.assign(**{name: pd.to_datetime(frame[name], unit="s", utc=True) for name in columns})


def bound(low: float, high: float) -> str:
    """Name a histogram's bucket."""
    return f"over {text.duration(low)}" if math.isinf(high) else f"up to {text.duration(high)}"


def draw(chart: alt.Chart | alt.LayerChart | alt.FacetChart, key: str) -> None:
    """Draw a chart over the whole width."""
    st.altair_chart(chart, width="stretch", key=key)

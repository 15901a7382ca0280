"""What happened to one lock: its holders over time, what was told of it, who waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import streamlit as st

from lockscope import events
from lockscope_dashboard import text
from lockscope_dashboard.frames import timeline
from lockscope_dashboard.views import charts, grid
from lockscope_dashboard.views.health import literal
from lockscope_exporter import story
from lockscope_exporter.moments import span

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lockscope.journal import Recorded
    from lockscope_exporter.journal import Overlap

REFUSALS: Final = frozenset({events.CONTENDED, events.ACQUIRE_TIMEOUT, events.WAITING})
MOST_SPANS: Final = 60
MOST_MOMENTS: Final = 40
MOST_WAITERS: Final = 5
ONLY_REFUSED: Final = "The journal tells only of calls that were refused, and nothing of a holder."
SWITCH_ON: Final = "LOCKSCOPE_JOURNAL=1   # in the environment of the workers, beside lockscope.instrument()"


def draw(
    recorded: Sequence[Recorded],
    overlaps: Sequence[Overlap],
    held: Collection[str],
    heard: Mapping[str, float],
    now: float,
) -> None:
    """Draw the past of a lock.

    Args:
        recorded: events of its key from the journal, oldest first.
        overlaps: times that two held it at once.
        held: fingerprints of the tokens that hold it now.
        heard: when each worker last wrote, in unix seconds.
        now: unix time in seconds by the server's clock.
    """
    st.subheader("What happened", anchor=False)
    if not recorded:
        st.info(
            "The journal tells nothing of this lock. Workers write it only where it is switched on:",
            icon=":material/history:",
        )
        st.code(SWITCH_ON, language="bash")
        return
    blocked(recorded, heard, now)
    overlapped(overlaps, now)
    spans = timeline.latest(timeline.spans_frame(recorded, held, now), MOST_SPANS)
    if len(spans):
        since = float(spans["start"].min())
        both = timeline.overlaps_frame([one for one in overlaps if one.began_at >= since])
        marks = timeline.marks_frame(recorded)
        marks = marks[(marks["at"] >= since) & marks["who"].isin(set(spans["who"]))]
        charts.draw(charts.timeline(spans, marks, both), key="timeline")
    moments(recorded, now)


def overlapped(overlaps: Sequence[Overlap], now: float) -> None:
    """Say that two held the lock at once."""
    if not overlaps:
        return
    times, whole = text.count(len(overlaps), "time"), sum(one.seconds for one in overlaps)
    last = span(now - max(one.began_at for one in overlaps))
    said = f"**Two held this lock at once**, {times}, {span(whole)} in all, last {last} ago."
    st.error(said, icon=":material/warning:")


def blocked(recorded: Sequence[Recorded], heard: Mapping[str, float], now: float) -> None:
    """Say who wants the lock and does not get it."""
    found = story.waiters(recorded, now, heard)
    if not found:
        return
    shown = sorted(found, key=lambda one: (not one.waiting, -one.last))[:MOST_WAITERS]
    lines = [f"- {literal(story.waiter_line(one, now))}" for one in shown]
    if len(found) > len(shown):
        lines.append(f"- and {len(found) - len(shown):,} more")
    lately = f"{story.RECENT / 60:.0f} minutes"
    st.warning(f"**Blocked by it in the last {lately}**\n\n" + "\n".join(lines), icon=":material/front_hand:")


def moments(recorded: Sequence[Recorded], now: float) -> None:
    """Draw what happened as a table, newest first; refused calls, which can be many, are told elsewhere."""
    telling = [each for each in recorded if each.event.event not in REFUSALS]
    columns = [
        grid.column("at", "When"),
        grid.column("what", "What", long=True),
        grid.column("who", "Who", long=True),
        grid.column("times", "Times", right=True),
    ]
    rows = [
        {
            "name": f"{number} {one.since} {one.what} {one.who}",
            "cells": {
                "at": grid.cell(text.ago(max(0.0, now - one.at)), title=text.absolute(one.at), sort=one.at),
                "what": one.what,
                "who": one.who,
                "times": grid.cell(f"{one.times:,}", sort=one.times),
            },
        }
        for number, one in enumerate(reversed(story.moments(telling)[-MOST_MOMENTS:]))
    ]
    grid.draw(columns, rows, key="moments", caption="What happened to this lock", empty=ONLY_REFUSED)

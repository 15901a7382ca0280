"""The latest attempts to free a lock by hand."""

from __future__ import annotations

import streamlit as st

from lockscope_dashboard import source, text, trail
from lockscope_dashboard.views import grid
from lockscope_dashboard.views.health import literal
from lockscope_exporter.release import FREED


def draw() -> None:
    """Draw the latest attempts to free a lock."""
    entries, trouble = trail.audit()
    if trouble:
        st.warning(literal(trouble), icon=":material/cloud_off:")
    columns = [
        grid.column("at", "When"),
        grid.column("outcome", "Outcome"),
        grid.column("key", "Lock", long=True),
        grid.column("holder", "Held by", long=True),
        grid.column("user", "Freed by"),
        grid.column("reason", "Reason", long=True),
    ]
    now = source.board().clock()
    rows = [
        {
            "name": f"{entry.id} {entry.attempt}",
            "cells": {
                "at": grid.cell(
                    text.ago(max(0.0, now - entry.at)), title=text.absolute(entry.at), sort=-entry.at
                ),
                "outcome": grid.cell(
                    entry.outcome,
                    mark="good" if entry.outcome in FREED else "warn",
                    note="forced" if entry.forced else "",
                    title=entry.detail,
                ),
                "key": grid.cell(text.cut(text.show(entry.key), 200), mono=True),
                "holder": grid.cell(entry.holder, note=f"token {entry.owner}" if entry.owner else ""),
                "user": entry.user,
                "reason": entry.reason,
            },
        }
        for entry in entries
    ]
    grid.draw(
        columns, rows, key="audit", caption="Attempts to free a lock", empty="No lock was ever freed by hand."
    )

"""Doctor's findings, once a viewer asks for them."""

from __future__ import annotations

from typing import Final

import streamlit as st

from lockscope_dashboard import source, text, trail
from lockscope_dashboard.views import grid
from lockscope_dashboard.views.health import literal
from lockscope_exporter.connect import ConnectError
from lockscope_exporter.doctor.finding import by_severity

CHECKED: Final = "lockscope_checked"
SEVERITIES: Final = {"critical": "bad", "warning": "warn", "unknown": "", "note": "", "ok": "good"}


def draw() -> None:
    """Draw doctor's findings, once asked for."""
    st.subheader("Doctor", anchor=False)
    if st.button(
        "Check now", icon=":material/stethoscope:", help="Looks over settings and keys; some seconds."
    ):
        with st.spinner("Checking servers, permissions, patterns and TTLs …"):
            try:
                st.session_state[CHECKED] = (source.board().clock(), trail.examined())
            except ConnectError as error:
                st.error(literal(str(error)), icon=":material/cloud_off:")
                return
    at, found = st.session_state.get(CHECKED, (None, []))
    if at is None:
        st.caption(
            "Checks settings, permissions, patterns, owner values and TTLs, as `lockscope doctor` does."
        )
        return
    columns = [
        grid.column("severity", "Severity"),
        grid.column("text", "Finding", long=True),
        grid.column("fix", "What to do", long=True),
    ]
    rows = [
        {
            "name": f"{number} {finding.check}",
            "cells": {
                "severity": grid.cell(finding.severity, mark=SEVERITIES[finding.severity], sort=number),
                "text": grid.cell(
                    text.safe(finding.text), note=text.safe(f"{finding.check} {finding.where}")
                ),
                "fix": text.safe(finding.fix),
            },
        }
        for number, finding in enumerate(sorted(found, key=by_severity))
    ]
    grid.draw(columns, rows, key="doctor", caption="Doctor's findings", empty="Nothing was found.")
    st.caption(f"Checked {text.absolute(at)}.")

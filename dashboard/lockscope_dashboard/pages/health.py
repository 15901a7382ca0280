"""Audit and health: how well lockscope itself sees, what the servers are set to, what was freed by hand."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from lockscope import _version
from lockscope_dashboard import pages, source, text, trail
from lockscope_dashboard.frames import families as frames
from lockscope_dashboard.views import grid, health, refresh
from lockscope_exporter.connect import ConnectError
from lockscope_exporter.doctor.finding import by_severity
from lockscope_exporter.release import FREED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd

    from lockscope_exporter.state import NodeStatus

CHECKED: Final = "lockscope_checked"
SEVERITIES: Final = {"critical": "bad", "warning": "warn", "unknown": "", "note": "", "ok": "good"}
VERSIONS: Final = ("redis", "hiredis", "streamlit", "pandas")
MODES: Final = {
    "tracking": "the server announces every change of a watched key",
    "notifications": "the server publishes keyspace notifications",
    "scan": "the keyspace is scanned at an easy pace",
}


def page() -> None:
    """Draw the page."""
    interval = refresh.header("Audit and health", default="5 s")
    st.fragment(run_every=interval)(live)()
    draw_doctor()
    st.subheader("Versions", anchor=False)
    st.caption(" · ".join(f"{name} {number}" for name, number in versions().items()))


def live() -> None:
    """Draw everything that changes, at every refresh."""
    snapshot = source.board().snapshot()
    health.draw(snapshot.nodes)
    st.subheader("Servers", anchor=False)
    draw_nodes(snapshot.nodes)
    st.subheader("Findings", anchor=False)
    draw_findings(snapshot.nodes, frames.families_frame(snapshot.families))
    st.subheader("Locks freed by hand", anchor=False)
    draw_audit()


def draw_audit() -> None:
    """Draw the latest attempts to free a lock."""
    entries, trouble = trail.audit()
    if trouble:
        st.warning(health.literal(trouble), icon=":material/cloud_off:")
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


def draw_doctor() -> None:
    """Draw doctor's findings, once asked for."""
    st.subheader("Doctor", anchor=False)
    if st.button(
        "Check now", icon=":material/stethoscope:", help="Looks over settings and keys; some seconds."
    ):
        with st.spinner("Checking servers, permissions, patterns and TTLs …"):
            try:
                st.session_state[CHECKED] = (source.board().clock(), trail.examined())
            except ConnectError as error:
                st.error(health.literal(str(error)), icon=":material/cloud_off:")
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


def draw_nodes(nodes: Sequence[NodeStatus]) -> None:
    """Draw how sampling of each server stands."""
    columns = [
        grid.column("node", "Server"),
        grid.column("up", "Sampling"),
        grid.column("mode", "Feed", hint="How changes are followed."),
        grid.column("age", "Last heard", right=True),
        grid.column(
            "resyncs", "Resynchronised", right=True, hint="Complete readings of the keyspace, by reason."
        ),
        grid.column("corrections", "Corrections", right=True, hint="Differences that those readings found."),
        grid.column("eviction", "Can evict locks", hint="By its maxmemory-policy."),
        grid.column(
            "evicted", "Evicted keys", right=True, hint="Keys of any kind, since the server started."
        ),
    ]
    grid.draw(
        columns,
        [{"name": f"{node.target} {node.node}", "cells": node_cells(node)} for node in nodes],
        key="nodes",
        caption="Servers",
        empty="No server was reached yet.",
    )


def node_cells(node: NodeStatus) -> dict[str, Any]:
    """Lay one server out."""
    safe = {
        True: grid.cell("no", mark="good"),
        False: grid.cell("yes", mark="bad", note="set maxmemory-policy noeviction"),
        None: grid.cell("not known", note="could not be read"),
    }
    reasons = ", ".join(f"{reason} {number:,}" for reason, number in sorted(node.resyncs.items()) if number)
    return {
        "node": grid.cell(node.node, note=node.target if node.target != "default" else ""),
        "up": grid.cell("up", mark="good") if node.up else grid.cell("down", mark="bad", note=node.error),
        "mode": grid.cell(node.mode, title=MODES.get(node.mode, "")),
        "age": grid.cell(
            text.ago(node.age_seconds) if node.age_seconds < health.NEVER else "never", sort=node.age_seconds
        ),
        "resyncs": grid.cell(
            f"{sum(node.resyncs.values()):,}", note=reasons, sort=sum(node.resyncs.values())
        ),
        "corrections": grid.cell(f"{node.corrections:,}", sort=node.corrections),
        "eviction": safe[node.eviction_safe],
        "evicted": grid.cell("not known" if node.evicted_keys is None else f"{node.evicted_keys:,}"),
    }


def findings(nodes: Sequence[NodeStatus], families: pd.DataFrame) -> list[tuple[str, str, str]]:
    """List what an operator should look into.

    Args:
        nodes: how sampling stands.
        families: of ``frames.families_frame``.

    Returns:
        Mark (``bad`` or ``warn``), what was found, what to do.
    """
    found = [
        ("warn", f"{node.target} ({node.node}): {warning}", "") for node in nodes for warning in node.warnings
    ]
    found += [
        (
            "bad",
            f"{node.node} may evict locks when its memory is full.",
            "Set maxmemory-policy noeviction on it.",
        )
        for node in nodes
        if node.eviction_safe is False
    ]
    rows: Iterable[Any] = families.itertuples()
    for row in rows:
        prefix = text.safe(row.prefix)
        if row.no_ttl:
            found.append(
                (
                    "bad",
                    f"{text.count(row.no_ttl, 'lock')} of {prefix} without expiry.",
                    "Take them with an expiry.",
                )
            )
        if row.weak_owner:
            found.append(
                (
                    "warn",
                    f"{text.count(row.weak_owner, 'lock')} of {prefix} without an owner value of their own.",
                    "Use a random token, so that a release can be checked.",
                )
            )
        if row.evicted:
            found.append(
                (
                    "bad",
                    f"{text.count(row.evicted, 'lock')} of {prefix} were evicted.",
                    "Give the server memory.",
                )
            )
    return found


def draw_findings(nodes: Sequence[NodeStatus], families: pd.DataFrame) -> None:
    """Draw what should be looked into."""
    found = findings(nodes, families)
    columns = [grid.column("what", "Finding", long=True), grid.column("do", "What to do", long=True)]
    rows = [
        {"name": what, "cells": {"what": grid.cell(what, mark=mark), "do": do}} for mark, what, do in found
    ]
    grid.draw(columns, rows, key="findings", caption="Findings", empty="Nothing to report.")


def versions() -> dict[str, str]:
    """Return the versions in use."""
    found = {"lockscope": _version.__version__, "Python": platform.python_version()}
    for name in VERSIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


pages.show(page)

"""Audit and health: how well lockscope itself sees, what the servers are set to, what was freed by hand."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from lockscope import _version
from lockscope_dashboard import pages, source, text
from lockscope_dashboard.frames import families as frames
from lockscope_dashboard.views import audit, doctor, grid, health, refresh

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd

    from lockscope_exporter.state import NodeStatus

VERSIONS: Final = ("redis", "hiredis", "streamlit", "pandas")
MODES: Final = {
    "tracking": "the server announces every change of a watched key",
    "notifications": "the server publishes keyspace notifications",
    "scan": "the keyspace is scanned at an easy pace",
}
REMEDIES: Final = (
    (
        "append-only file nor a replica",
        "Turn appendonly on, or check a fencing token at what the locks protect.",
    ),
    ("a failover now would lose", "Look at the replica and its network; set min-replicas-to-write."),
    ("this is a replica", "Name its master, or the Sentinels that know it."),
    ("clock is", "Let both hosts keep their time by NTP."),
    ("by scanning only", "Doctor, below, says why the server does not tell of changes."),
    ("by their numbers only", "Doctor, below, names the permission."),
    ("fewer servers than a quorum", "Nothing, they run out; if many come, look for a server that is down."),
)


def page() -> None:
    """Draw the page."""
    interval = refresh.header("Audit and health", default="5 s")
    st.fragment(run_every=interval)(live)()
    doctor.draw()
    st.subheader("Versions", anchor=False)
    st.caption(" · ".join(f"{name} {number}" for name, number in versions().items()))


def live() -> None:
    """Draw everything that changes, at every refresh."""
    snapshot = source.board().snapshot()
    health.draw(snapshot.nodes)
    health.journal(source.journal().troubles())
    st.subheader("Servers", anchor=False)
    draw_nodes(snapshot.nodes)
    st.subheader("Findings", anchor=False)
    draw_findings(snapshot.nodes, frames.families_frame(snapshot.families))
    st.subheader("Locks freed by hand", anchor=False)
    audit.draw()


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
            text.ago(node.age_seconds) if node.age_seconds < health.NEVER else "never",
            sort=node.age_seconds,
            title=text.absolute(source.board().clock() - node.age_seconds)
            if node.age_seconds < health.NEVER
            else "",
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
        (
            "bad",
            f"{node.node} may evict locks when its memory is full.",
            "Set maxmemory-policy noeviction on it.",
        )
        for node in nodes
        if node.eviction_safe is False
    ]
    alone = families.empty or len(families[["target", "db"]].drop_duplicates()) == 1
    rows: Iterable[Any] = families.itertuples()
    for row in rows:
        prefix = text.safe(row.prefix) + ("" if alone else f" ({row.target}, db {row.db})")
        if row.no_ttl:
            found.append(
                (
                    "bad",
                    f"{text.count(row.no_ttl, 'lock')} of {prefix} without expiry.",
                    "Give it an expiry." if row.no_ttl == 1 else "Give them an expiry.",
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
    found += [
        ("warn", f"{node.target} ({node.node}): {warning}", remedy(warning))
        for node in nodes
        for warning in node.warnings
        if not warning.startswith("maxmemory-policy")  # said above
    ]
    return sorted(found, key=lambda one: one[0] != "bad")


def remedy(warning: str) -> str:
    """Return what to do about something that the sampler warns of, empty if it says so itself."""
    return next((what for words, what in REMEDIES if words in warning), "")


def draw_findings(nodes: Sequence[NodeStatus], families: pd.DataFrame) -> None:
    """Draw what should be looked into."""
    found = findings(nodes, families)
    columns = [grid.column("what", "Finding", long=True), grid.column("do", "What to do", long=True)]
    rows = [
        {"name": f"{number} {what}", "cells": {"what": grid.cell(what, mark=mark), "do": do}}
        for number, (mark, what, do) in enumerate(found)
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

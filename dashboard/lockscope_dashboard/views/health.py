"""How fresh the data is, in one line, and a sentence for everything that is wrong with it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import streamlit as st

from lockscope_dashboard import text

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lockscope_exporter.state import NodeStatus


NEVER = 1e8  # an age beyond this many seconds means: not heard from at all


def freshness(nodes: Sequence[NodeStatus]) -> str:
    """Say how old the data is and where it comes from, such as ``Sampled 0.3 s ago, feed: tracking``."""
    up = [node for node in nodes if node.up]
    if not up:
        return "No server can be read."
    oldest = max(node.age_seconds for node in up)
    modes = " and ".join(sorted({node.mode for node in up}))
    where = up[0].node if len(nodes) == 1 else f"{len(up)} of {len(nodes)} nodes"
    return f"Sampled {text.ago(oldest)} · feed: {modes} · {where}"


def foot(nodes: Sequence[NodeStatus]) -> None:
    """Draw how fresh the data is, below it."""
    st.caption(literal(freshness(nodes)))


def problems(nodes: Sequence[NodeStatus]) -> list[str]:
    """List what an operator should know about the data: servers that do not answer, first of all."""
    found = []
    for node in nodes:
        if not node.up:
            since = f", last heard from {text.ago(node.age_seconds)}" if node.age_seconds < NEVER else ""
            found.append(f"{node.target} ({node.node}){since}: {node.error or 'no reason known'}")
    return found


def all_answer(nodes: Sequence[NodeStatus]) -> bool:
    """Tell whether what is not seen is not there: every server answers, and lets its keys be read."""
    return bool(nodes) and all(node.up and not node.unreadable for node in nodes)


def of(nodes: Sequence[NodeStatus], targets: Collection[str]) -> Sequence[NodeStatus]:
    """Return the nodes of some targets; all where none is named, or one that no node bears the name of."""
    wanted = set(targets) - {""}
    if not wanted or not wanted.issubset(node.target for node in nodes):
        return nodes
    return [node for node in nodes if node.target in wanted]


def journal(troubles: Sequence[str]) -> None:
    """Draw what is wrong with the journals that a page tells from, if anything is."""
    if troubles:
        st.warning(
            "**Not everything that happened can be told.**\n\n"
            + "\n".join(f"- {literal(line)}" for line in troubles),
            icon=":material/history_toggle_off:",
        )


def draw(nodes: Sequence[NodeStatus]) -> None:
    """Draw a box with the problems, if there are any."""
    down = problems(nodes)
    if down:
        what = "Some servers" if any(node.up for node in nodes) else "Redis"
        whose = "Their" if what == "Some servers" else "Its"
        st.error(
            f"**{what} cannot be read. {whose} locks are left out until that is mended.**\n\n"
            + "\n".join(f"- {literal(line)}" for line in down),
            icon=":material/cloud_off:",
        )
    elif not nodes:
        st.info("Waiting for the first sample.", icon=":material/hourglass:")
    hidden = [
        f"{node.node}: {text.count(node.unreadable, 'key')} may not be read by this user; "
        "doctor, under Audit and health, tells what to grant"
        for node in nodes
        if node.up and node.unreadable
    ]
    if hidden:
        st.warning(
            "**Some locks may be missing here.**\n\n" + "\n".join(f"- {literal(line)}" for line in hidden),
            icon=":material/visibility_off:",
        )


def literal(words: str) -> str:
    """Write foreign text into Markdown so that it stands for itself."""
    return "".join(f"\\{char}" if char in "\\`*_{}[]<>()#+-.!|~$:&" else char for char in words)


def code(words: str) -> str:
    """Write foreign text into Markdown as code, on one line, that stands for itself."""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", words)), default=0))
    return f"{fence} {words} {fence}"

"""Reading the live locks once, for commands that answer and end."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

from lockscope_exporter.connect import verify_any
from lockscope_exporter.listing import node_name
from lockscope_exporter.sampling import open_source
from lockscope_exporter.text import duration_text, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockscope_exporter.configuration import Options
    from lockscope_exporter.state import LockState, NodeStatus


_ONCE = 3600.0  # seconds between two scans: the second one never comes


class View(NamedTuple):
    """What one reading found.

    Attributes:
        locks: every live lock.
        nodes: how reading went on each node.
        wait: seconds that reading was given, 0 if it goes on.
    """

    locks: Sequence[LockState]
    nodes: Sequence[NodeStatus]
    wait: float = 0.0

    def faults(self) -> list[str]:
        """Return a line for each node that could not be read completely."""
        return [
            f"{shown(node_name(node, self.nodes), 150)}: {shown(fault, 300)}"
            for node in self.nodes
            if (fault := _fault(node, self.wait))
        ]


def _fault(node: NodeStatus, wait: float) -> str:
    """Say what of a node could not be read; empty if all could."""
    if not node.up:
        return node.error or "no answer"
    if not node.visited:
        late = "not every key was visited"
        if not wait:
            return f"{late} yet"
        return (
            f"{late} within {duration_text(wait)}; allow more with --wait, "
            "or visit more keys a second with --scan-budget"
        )
    if not node.unreadable:
        return ""
    keys = "1 key" if node.unreadable == 1 else f"{node.unreadable:,} keys"
    return f"this user may not read {keys} that may hold locks; lockscope doctor tells what to grant"


def read_once(options: Options, wait: float) -> View:
    """Read every live lock with one paced scan, which leaves nothing behind on the server.

    Args:
        options: what to read and how.
        wait: seconds that it may take.

    Raises:
        UrlError, OptionError: an option cannot be used.
        ConnectError: no target can be reached; where some can, ``View.faults`` tells of the others, and of
            those that took too long.
    """
    targets = options.targets()
    sampling = dataclasses.replace(
        options.sampling(), mode="scan", interval=_ONCE, state_file=None, once=True
    )
    verify_any((target.url for target in targets), timeout=sampling.timeout)
    source = open_source(targets, sampling)
    source.start()
    try:
        source.wait_ready(wait)
        return View(source.locks(), source.nodes(), wait)
    finally:
        source.stop()

"""The exporter's own log: one line when a server goes, comes back, changes its feed or needs attention."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, NamedTuple

from lockscope_exporter.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lockscope_exporter.source import Source
    from lockscope_exporter.state import NodeStatus

logger = logging.getLogger("lockscope.exporter")


class Line(NamedTuple):
    """One line to log: its ``logging`` level and its text."""

    level: int
    text: str


def news(before: Mapping[tuple[str, str], NodeStatus], nodes: Iterable[NodeStatus]) -> list[Line]:
    """Return what changed between two looks.

    Args:
        before: nodes of the last look, by target and node.
        nodes: nodes now.

    Returns:
        Lines, none for a node that is as it was.
    """
    lines: list[Line] = []
    now = {(node.target, node.node): node for node in nodes}
    for place, node in now.items():
        old = before.get(place)
        name = f"{shown(node.target, 60)} {shown(node.node, 120)}"
        if node.up and (old is None or not old.up):
            lines.append(Line(logging.INFO, f"{name}: up, feed {node.mode}"))
        elif node.up and old is not None and old.mode != node.mode:
            lines.append(Line(logging.WARNING, f"{name}: feed {node.mode} instead of {old.mode}"))
        elif not node.up and (old is None or old.up or old.error != node.error):
            lines.append(Line(logging.WARNING, f"{name}: down, {shown(node.error or 'no answer yet', 300)}"))
        known = old.warnings if old is not None else ()
        lines += [
            Line(logging.WARNING, f"{name}: {shown(warning, 300)}")
            for warning in node.warnings
            if warning not in known
        ]
    lines += [
        Line(logging.INFO, f"{shown(target, 60)} {shown(node, 120)}: no longer a member")
        for target, node in before
        if (target, node) not in now
    ]
    return lines


class Announcer:
    """Looks at a source once a second in a thread of its own and logs what changed; a context manager.

    Args:
        source: the running source.
        every: seconds between two looks.
    """

    def __init__(self, source: Source, every: float = 1.0) -> None:
        self._source = source
        self._every = every
        self._before: dict[tuple[str, str], NodeStatus] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lockscope-announcer", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        self._source.wait_ready(self._every)
        while True:
            nodes = self._source.nodes()
            for line in news(self._before, nodes):
                logger.log(line.level, "%s", line.text)
            self._before = {(node.target, node.node): node for node in nodes}
            if self._end.wait(self._every):
                return

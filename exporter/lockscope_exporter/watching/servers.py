"""Which servers stopped answering, and which answer again, between two looks. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockscope_exporter.listing import node_name
from lockscope_exporter.watching.happenings import Happening

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockscope_exporter.state import NodeStatus

_YET = ("", "not sampled yet")  # what sampling says of a node that it has only begun with


class Servers:
    """Compares how sampling of each node stands with how it stood before."""

    def __init__(self) -> None:
        self._away: set[tuple[str, str]] = set()

    def look(self, nodes: Sequence[NodeStatus], now: float) -> list[Happening]:
        """Return what to say of nodes; one that is away at the first look is told, too.

        Args:
            nodes: how sampling of each stands.
            now: unix time in seconds.
        """
        told = []
        for node in nodes:
            place = node.target, node.node
            name = node_name(node, nodes)
            if node.up and place in self._away:
                self._away.remove(place)
                told.append(f"{name}: answers again")
            elif not node.up and place not in self._away and node.error not in _YET:
                self._away.add(place)
                what, _, _ = node.error.partition("; ")  # what to do about it would not fit on the line
                told.append(f"{name}: {what}, its locks are not known")
        self._away &= {(node.target, node.node) for node in nodes}  # it may be none of the servers any more
        return [Happening(now, "note", "", text=text) for text in told]

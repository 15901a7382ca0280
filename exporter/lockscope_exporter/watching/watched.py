"""What a session of watching needs of whatever it watches: Redis itself, or an exporter."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockscope_exporter.state import Family, LockState, NodeStatus
    from lockscope_exporter.watching.tail import Heard


class Look(NamedTuple):
    """Everything at one moment.

    Attributes:
        locks: every live lock.
        families: the counts by prefix, read after the locks.
        nodes: how sampling of each node stands.
        old: whoever told this does not answer any more, so it says nothing of the nodes as they are now.
    """

    locks: Sequence[LockState]
    families: Sequence[Family]
    nodes: Sequence[NodeStatus]
    old: bool = False


class Watched(Protocol):
    """Something to watch. Its answers come from memory and never raise for a server that is away."""

    def start(self) -> None:
        """Begin in the background."""

    def stop(self) -> None:
        """End, and close every connection."""

    def wait_ready(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds until everything was read once; return whether it was."""

    def look(self) -> Look:
        """Return everything as it is now."""

    def after(self, number: int | None) -> Heard:
        """Return what workers told after a number; ``None`` asks for the last number alone."""

    def notes(self) -> tuple[str, ...]:
        """Return sentences for the person who watches, such as why the journal is silent."""

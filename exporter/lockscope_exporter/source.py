"""What every reader of live locks offers, whichever feed is behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockscope_exporter.state import Family, LockState, NodeStatus, ProgressFamily


class Source(Protocol):
    """A running view of the live locks of one or more targets.

    All methods are safe from any thread, never raise for an unreachable server (``nodes`` says so) and never
    wait for Redis: they answer from memory.
    """

    def start(self) -> None:
        """Begin sampling in background threads."""

    def stop(self) -> None:
        """Stop the threads and close the connections; idempotent."""

    def ready(self) -> bool:
        """Tell whether every configured target was sampled completely at least once, or found unreachable."""

    def wait_ready(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for ``ready``; return it."""

    def nodes(self) -> Sequence[NodeStatus]:
        """Return how sampling of each node stands."""

    def families(self) -> Sequence[Family]:
        """Return the running counts by prefix; cost grows with the prefixes, not with the locks."""

    def progress(self) -> Sequence[ProgressFamily]:
        """Return the job-progress keys by prefix, judged within the last second."""

    def locks(self) -> Sequence[LockState]:
        """Return every live lock, classified now; cost grows with the locks."""

    def names(self) -> Sequence[str]:
        """Return the names of the targets, and of the Redlock groups in place of their members."""

    def part(self, name: str) -> Source | None:
        """Return a view of one target or group, to read and not to start; ``None`` if none has that name.

        It shares everything with this one. The servers of a group have no view of their own.
        """

    def overflowed(self) -> int:
        """Return how many times a key was folded into the prefix ``other``, in all targets."""

    def lock(self, key: bytes, field: bytes | None = None) -> LockState | None:
        """Return one live lock, or ``None`` if no lock of that key is known."""

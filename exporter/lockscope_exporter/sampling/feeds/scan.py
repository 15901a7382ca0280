"""No feed at all: changes are found by looking, at a pace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockscope_exporter.sampling.feeds.changes import Changes

if TYPE_CHECKING:
    from collections.abc import Iterable
    from threading import Event


class NoFeed:
    """Tells of nothing.

    Args:
        stopping: ends the waiting early.
    """

    mode = "scan"

    def __init__(self, stopping: Event) -> None:
        self._stopping = stopping

    def drain(self, wait: float) -> Changes:
        """Wait, and tell of nothing."""
        self._stopping.wait(wait)
        return Changes()

    def settle(self) -> None:
        """Do nothing: nothing is on its way."""

    def told_again(self, keys: Iterable[bytes]) -> set[bytes]:  # noqa: ARG002
        """Tell of nothing."""
        return set()

    def heard(self) -> float:
        """Return minus infinity: the server is heard from by reading only."""
        return float("-inf")

    def verify(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

"""How a reading came about, and what that says of a lock that ended. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from lockscope_exporter.dialects import Decoded

How = Literal["released", "expired", "evicted", "flushed"]


@dataclass(frozen=True, slots=True)
class News:
    """How a reading came about.

    Attributes:
        at: unix time in seconds when the change was noticed, by the server's clock.
        seen: the change was seen to happen, by a feed that misses none; else it was found later.
        initial: nobody had looked before: what is there now is no event.
        overwrite: the feed says that one write alone came since the last reading.
        end: how the lock ended, if the feed said so.
        slack: seconds by which a deadline and ``at`` may disagree.
        jitter: seconds by which two readings of one deadline may differ.
    """

    at: float
    seen: bool = True
    initial: bool = False
    overwrite: bool = False
    end: How | None = None
    slack: float = 0.005
    jitter: float = 0.0

    def ended(self, decoded: Decoded) -> How:
        """Return how a lock ended that is no longer what it was."""
        if self.end in ("expired", "evicted"):
            return self.end
        if decoded.deadline is not None and self.at >= decoded.deadline - self.slack:
            return "expired"
        return self.end or "released"

    def left(self, decoded: Decoded) -> How:
        """Return how holders left a lock that others still hold."""
        change = decoded.next_change
        if change is not None and change <= self.at + self.slack:
            return "expired"
        return self.end or "released"

"""When to read what changed: at once or, where a reader allows it and changes come thick, together. Pure."""

from __future__ import annotations

import math

THICK = 100.0  # changes a second from which on they are gathered
_MEMORY = 1.0  # seconds over which the rate is an average


class Pace:
    """Tells how long to gather changes before they are read.

    Reading costs the server by the round trip more than by the key: ten rounds a second of a hundred keys are
    a fraction of a thousand rounds of one.

    Args:
        gather: seconds to gather for, 0 to read at once whatever comes.
    """

    def __init__(self, gather: float) -> None:
        self._gather = gather
        self._rate = 0.0
        self._read = 0.0

    def wait(self, now: float) -> float:
        """Return the seconds to wait before the next changes are fetched.

        Args:
            now: monotonic time in seconds.
        """
        if self._rate < THICK:
            return 0.0
        return max(self._read + self._gather - now, 0.0)

    def read(self, changes: int, now: float) -> None:
        """Take note of so many changes that are read now."""
        if not self._gather:
            return
        faded = math.exp(-max(now - self._read, 0.0) / _MEMORY)
        self._rate = self._rate * faded + changes / _MEMORY
        self._read = now

"""This host's clock against the server's, from the answers to ``TIME``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_DRIFT = 50e-6  # seconds that two clocks may part in a second


class ServerClock:
    """Measures by how much the server's clock is ahead.

    The answer with the shortest way counts, unless it is so old that the clocks may have parted further. It
    is kept against the monotonic clock, so that a step of this host's clock does no harm.
    """

    def __init__(self) -> None:
        self._ahead_of_monotonic: float | None = None
        self._error = 0.0
        self._measured = 0.0

    def measure(self, ask: Callable[[], Any]) -> None:
        """Ask the server once.

        Args:
            ask: sends ``TIME`` and returns the answer, seconds and microseconds.
        """
        before = time.monotonic()
        seconds, micros = ask()
        after = time.monotonic()
        error = (after - before) / 2
        if self._ahead_of_monotonic is None or error <= self._error + (after - self._measured) * _DRIFT:
            self._ahead_of_monotonic = int(seconds) + int(micros) / 1e6 - (before + after) / 2
            self._error = error
            self._measured = after

    def offset(self) -> float:
        """Return the server's clock minus this host's unix time, seconds; 0 while it was never measured."""
        if self._ahead_of_monotonic is None:
            return 0.0
        return self._ahead_of_monotonic + time.monotonic() - time.time()

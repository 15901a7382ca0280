"""Walking the keyspace at a bounded pace to find what no feed told of."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockscope_exporter.sampling.wire import Line

_COUNT = 1000  # keys that one SCAN call visits
_GENTLE = 0.004  # share of one server core that a rolling sweep may take
_DEAREST = 5.0  # seconds; the longest pause between two pages
_CHEAPEST = 0.0002  # seconds that a page costs the server at least; measured 0.0003 for 1000 keys and MATCH


class Sweep:
    """Repeated passes over one database with ``SCAN``, one page at a time.

    A pass returns every key that existed throughout it. Keys that came or went meanwhile may be missing;
    the feed tells of those, or the next pass.

    Args:
        line: where to ask.
        glob: what the server itself may filter by, ``None`` for nothing.
        fits: tells of a key whether it is wanted.
        budget: keys a second that may be visited.
        period: the attribute.

    Attributes:
        gentle: take no more than a small share of a server core.
        period: seconds from the start of one pass to the next, at least.
        passes: passes completed.
        due: monotonic time in seconds when to fetch the next page.
    """

    def __init__(
        self, line: Line, glob: bytes | None, fits: Callable[[bytes], bool], budget: float, period: float
    ) -> None:
        self.passes = 0
        self.due = 0.0
        self.gentle = False
        self._began = 0.0
        self._budget = budget
        self.period = period
        self._line = line
        self._fits = fits
        self._match: Sequence[bytes] = () if glob is None else (b"MATCH", glob)
        self._cursor = b"0"
        self._cost = _CHEAPEST

    def restart(self) -> None:
        """Begin a new pass now, at full pace."""
        self._cursor = b"0"
        self.gentle = False
        self.due = time.monotonic()

    def page(self) -> list[bytes]:
        """Visit the next keys, and set ``due``.

        Returns:
            The wanted ones. ``passes`` has grown if this was the last page of a pass.

        Raises:
            redis.RedisError: the server does not answer or refuses.
        """
        asked = time.monotonic()
        if self._cursor == b"0":
            self._began = asked
        cursor, keys = self._line.ask_one(b"SCAN", self._cursor, *self._match, b"COUNT", b"%d" % _COUNT)
        answered = time.monotonic()
        self._cursor = b"%d" % int(cursor)
        if self._cursor == b"0":
            self.passes += 1
        # What the network takes is not the server's work; what is left over-estimates it, as it should.
        cost = max(answered - asked - self._line.clock.round_trip, _CHEAPEST)
        self._cost += 0.2 * (cost - self._cost)
        pause = _COUNT / self._budget
        if self.gentle:
            pause = max(pause, min(self._cost / _GENTLE, _DEAREST))
        self.due = asked + pause
        if self._cursor == b"0":
            self.due = max(self.due, self._began + self.period)
        return [key for key in keys if self._fits(key)]

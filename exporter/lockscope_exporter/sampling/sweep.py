"""Walking the keyspace at a bounded pace to find what no feed told of."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockscope_exporter.sampling.wire import Line

_COUNT = 1000  # keys that one SCAN call visits


class Sweep:
    """Repeated passes over one database with ``SCAN``, one page at a time.

    A pass returns every key that existed throughout it. Keys that came or went meanwhile may be missing;
    the feed tells of those, or the next pass.

    Args:
        line: where to ask.
        glob: what the server itself may filter by, ``None`` for nothing.
        fits: tells of a key whether it is wanted.
        pace: keys a second that may be visited.
    """

    def __init__(self, line: Line, glob: bytes | None, fits: Callable[[bytes], bool], pace: float) -> None:
        self.pace = pace
        self.passes = 0
        self.due = 0.0
        self._line = line
        self._fits = fits
        self._match = () if glob is None else (b"MATCH", glob)
        self._cursor = b"0"

    def page(self) -> list[bytes]:
        """Visit the next keys, and set ``due`` to the monotonic time in seconds when to come back.

        Returns:
            The wanted ones. ``passes`` has grown if this was the last page of a pass.

        Raises:
            redis.RedisError: the server does not answer or refuses.
        """
        cursor, keys = self._line.ask_one(b"SCAN", self._cursor, *self._match, b"COUNT", b"%d" % _COUNT)
        self._cursor = b"%d" % int(cursor)
        self.due = time.monotonic() + _COUNT / self.pace
        if self._cursor == b"0":
            self.passes += 1
        return [key for key in keys if self._fits(key)]

"""The server's clock, as far as its own answers tell: deadlines are in its time, not in ours."""

from __future__ import annotations

import time
from dataclasses import dataclass

_WINDOW = 60.0  # seconds after which a better sample is forgotten, so that drift is followed


@dataclass(slots=True)
class ServerClock:
    """Unix time of a Redis server, carried forward on the local monotonic clock.

    The sample with the shortest round trip wins, because it bounds the error best: by half that round trip.

    Attributes:
        offset: server's unix time minus ``time.monotonic()``, seconds.
        round_trip: seconds that the sample behind ``offset`` took; infinite before the first sample.
    """

    offset: float = 0.0
    round_trip: float = float("inf")
    _sampled: float = 0.0

    def __post_init__(self) -> None:
        self.offset = time.time() - time.monotonic()

    def observe(self, server_time: float, asked: float, answered: float) -> None:
        """Learn from one answer to ``TIME``.

        Args:
            server_time: unix time in seconds that the server said.
            asked: ``time.monotonic()`` when the question was sent.
            answered: ``time.monotonic()`` when the answer was there.
        """
        round_trip = answered - asked
        offset = server_time - (asked + answered) / 2
        stale = answered - self._sampled > _WINDOW
        jumped = abs(offset - self.offset) > (round_trip + self.round_trip) / 2
        if round_trip <= self.round_trip or stale or jumped:
            self.offset, self.round_trip, self._sampled = offset, round_trip, answered

    def now(self) -> float:
        """Return the server's unix time in seconds."""
        return time.monotonic() + self.offset

    def ahead(self) -> float:
        """Return by how many seconds the server's clock is ahead of this host's."""
        return self.offset - (time.time() - time.monotonic())

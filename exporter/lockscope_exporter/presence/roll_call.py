"""Ask one server, over a connection that is there anyway, which workers are present."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Protocol

from redis.exceptions import ResponseError

from lockscope.presence import CHANNEL

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable, Sequence
    from typing import Any

    from lockscope_exporter.presence.attendance import Attendance

EVERY = 0.5  # seconds between two samples
_SHARE = 10_000  # workers asked for a second at most
_BATCH = 500  # channels in one command
_LISTING = 10.0  # seconds between two looks at how long connections have been silent
_CHANNEL = CHANNEL.encode()
_CLIENT = re.compile(rb"name=" + re.escape(_CHANNEL) + rb"([0-9a-f]{6,32}) .*?idle=(\d+) ")


class Line(Protocol):
    """A connection that answers commands."""

    def ask_one(self, *parts: bytes) -> Any:
        """Return the answer to one command, or raise ``ResponseError``."""

    def info(self) -> dict[str, str]:
        """Return the fields of INFO, or raise ``ResponseError``."""


class Roster(Protocol):
    """Knows which workers hold locks."""

    def workers(self) -> list[str]:
        """Return their names."""

    def reconsider(self, workers: Iterable[str], now: float) -> None:
        """Judge the locks of these workers anew."""


class RollCall:
    """Samples presence at one node, for one unbroken connection.

    Args:
        line: the connection.
        node: name of the node.
        attendance: where samples go.
        roster: whose workers are asked for.
        guard: held around every use of ``attendance`` and ``roster``.
        clock: returns the server's unix time in seconds.

    Attributes:
        due: monotonic time in seconds when to sample next.
    """

    def __init__(
        self,
        line: Line,
        node: str,
        attendance: Attendance,
        roster: Roster,
        guard: threading.RLock,
        clock: Any,
    ) -> None:
        self.due = time.monotonic()
        self._line = line
        self._node = node
        self._attendance = attendance
        self._roster = roster
        self._guard = guard
        self._clock = clock
        self._began = False
        self._list_at = 0.0

    def run(self) -> None:
        """Take one sample.

        Raises:
            redis.RedisError, OSError: the connection is lost.
        """
        if not self._began:
            self._begin()
        now = time.monotonic()
        with self._guard:
            workers = self._roster.workers()
            self._attendance.asked(workers, now)
        self.due = now + max(EVERY, len(workers) / _SHARE)
        if not workers:
            return
        try:
            counts = self._counts(workers)
        except ResponseError:
            with self._guard:
                self._attendance.refused(self._node)
            self.due = now + _LISTING
            return
        silent = self._silent(now)
        with self._guard:
            changed = self._attendance.sample(self._node, counts, time.monotonic())
            changed |= self._attendance.idle(silent)
            if changed:
                self._roster.reconsider(changed, self._clock())

    def _begin(self) -> None:
        self._began = True
        try:
            up_for: float | None = float(self._line.info().get("uptime_in_seconds", "nan"))
        except (ResponseError, ValueError):
            up_for = None
        if up_for != up_for:  # noqa: PLR0124 - NaN: the field is missing
            up_for = None
        with self._guard:
            self._attendance.connected(self._node, time.monotonic(), up_for)

    def _counts(self, workers: Sequence[str]) -> dict[str, int]:
        counts: dict[str, int] = {}
        for start in range(0, len(workers), _BATCH):
            channels = [_CHANNEL + name.encode() for name in workers[start : start + _BATCH]]
            counts.update(parse_numsub(self._line.ask_one(b"PUBSUB", b"NUMSUB", *channels)))
        return counts

    def _silent(self, now: float) -> dict[str, float]:
        """Return how long the workers' connections have been silent, where the user may see that."""
        if now < self._list_at:
            return {}
        self._list_at = now + _LISTING
        try:
            return parse_clients(self._line.ask_one(b"CLIENT", b"LIST", b"TYPE", b"PUBSUB"))
        except ResponseError:
            self._list_at = float("inf")
            return {}


def parse_numsub(answer: Any) -> dict[str, int]:
    """Return subscribers by worker from the answer to ``PUBSUB NUMSUB``: a flat list, or a map in RESP3."""
    pairs = answer.items() if isinstance(answer, dict) else zip(answer[::2], answer[1::2], strict=True)
    return {
        bytes(channel).removeprefix(_CHANNEL).decode("ascii", "replace"): int(count)
        for channel, count in pairs
    }


def parse_clients(answer: Any) -> dict[str, float]:
    """Return seconds of silence by worker from the answer to ``CLIENT LIST``."""
    return {name.decode(): float(idle) for name, idle in _CLIENT.findall(bytes(answer))}

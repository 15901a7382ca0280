"""What happened to each key lately, from the journal. Pure; memory is bounded."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockscope.journal import Recorded

MAX_EVENTS = 20_000
MAX_A_KEY = 200
_UNORDERED = 60.0  # seconds that entries of different processes may be apart from the order of the stream

Place = tuple[int, bytes]  # database and key


class History:
    """The last events of the keys that something happened to last.

    Args:
        max_events: events kept in all.
        max_a_key: events kept of one key.
    """

    def __init__(self, max_events: int = MAX_EVENTS, max_a_key: int = MAX_A_KEY) -> None:
        self._max_events = max_events
        self._max_a_key = max_a_key
        self._count = 0
        self._places: OrderedDict[Place, deque[Recorded]] = OrderedDict()

    def __len__(self) -> int:
        """Return how many events are kept."""
        return self._count

    def take(self, recorded: Iterable[Recorded]) -> None:
        """Take in events, in the order in which the journal tells them."""
        for each in recorded:
            if not each.event.key:
                continue
            place = (each.writer.db, each.event.key)
            kept = self._places.setdefault(place, deque(maxlen=self._max_a_key))
            self._count += len(kept) < self._max_a_key
            kept.append(each)
            self._places.move_to_end(place)
        while self._count > self._max_events:
            _, dropped = self._places.popitem(last=False)
            self._count -= len(dropped)

    def recent(self, since: float, most: int = 5_000) -> tuple[Recorded, ...]:
        """Return what happened to any key lately, the keys of the newest entries first.

        Args:
            since: unix time in seconds; older events are left out.
            most: events at most.
        """
        found: list[Recorded] = []
        for kept in reversed(self._places.values()):
            new = [recorded for recorded in kept if _moment(recorded) >= since]
            if not new and _moment(kept[-1]) < since - _UNORDERED:
                break
            found += new
            if len(found) >= most:
                break
        return tuple(found[:most])

    def of(self, key: bytes, db: int | None = None) -> tuple[Recorded, ...]:
        """Return what happened to a key, oldest first.

        Args:
            key: the full Redis key.
            db: database number; ``None`` for any.
        """
        found = [
            recorded
            for (number, name), kept in self._places.items()
            if name == key and db in (None, number)
            for recorded in kept
        ]
        return tuple(sorted(found, key=_moment))


def _moment(recorded: Recorded) -> float:
    """Return when it happened: an acquire's event is timed when the call began, so its wait is added."""
    event = recorded.event
    return event.at + (event.wait_seconds or 0.0)

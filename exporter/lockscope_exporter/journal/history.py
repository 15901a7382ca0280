"""What happened to each key lately, from the journal. Pure; memory is bounded."""

from __future__ import annotations

from collections import OrderedDict, deque
from itertools import chain
from typing import TYPE_CHECKING, Final

from lockscope import events

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lockscope.journal import Recorded

MAX_EVENTS = 20_000
MAX_A_KEY = 200
_UNORDERED = 60.0  # seconds that entries of different processes may be apart from the order of the stream

Place = tuple[int, bytes]  # database and key
_REFUSALS: Final = frozenset({events.CONTENDED, events.ACQUIRE_TIMEOUT, events.WAITING})


class _Kept:
    """The last events of one key; those that come by the hundred do not push the others out.

    Whoever is refused each second, and a lease that is renewed each second, would soon leave nothing of who
    took the lock and when. So refusals, renewals and all the rest are bounded each for itself.

    Args:
        most: events kept of each sort.
    """

    __slots__ = ("_sorts", "newest")

    def __init__(self, most: int) -> None:
        self._sorts: tuple[deque[Recorded], ...] = tuple(deque(maxlen=most) for _ in range(3))
        self.newest = 0.0

    def add(self, recorded: Recorded) -> int:
        """Keep an event; return by how many that makes more, 0 or 1."""
        name = recorded.event.event
        kept = self._sorts[2 if name in _REFUSALS else 1 if name == events.RENEWED else 0]
        before = len(kept)
        kept.append(recorded)
        self.newest = _moment(recorded)
        return len(kept) - before

    def __iter__(self) -> Iterator[Recorded]:
        """Go through them, in no order."""
        return chain(*self._sorts)

    def __len__(self) -> int:
        """Return how many are kept."""
        return sum(map(len, self._sorts))


class History:
    """The last events of the keys that something happened to last.

    Args:
        max_events: events kept in all.
        max_a_key: events kept of one key, of refusals, of renewals and of all others.
    """

    def __init__(self, max_events: int = MAX_EVENTS, max_a_key: int = MAX_A_KEY) -> None:
        self._max_events = max_events
        self._max_a_key = max_a_key
        self._count = 0
        self._places: OrderedDict[Place, _Kept] = OrderedDict()

    def __len__(self) -> int:
        """Return how many events are kept."""
        return self._count

    def take(self, recorded: Iterable[Recorded]) -> None:
        """Take in events, in the order in which the journal tells them."""
        for each in recorded:
            if not each.event.key:
                continue
            place = (each.writer.db, each.event.key)
            kept = self._places.get(place)
            if kept is None:
                kept = self._places[place] = _Kept(self._max_a_key)
            self._count += kept.add(each)
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
            if not new and kept.newest < since - _UNORDERED:
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

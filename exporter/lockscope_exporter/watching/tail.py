"""The last things that workers told the journal, numbered, for whoever follows them."""

from __future__ import annotations

import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from lockscope_exporter.watching import told

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockscope.journal import Entry
    from lockscope_exporter.journal.leases import Overlap
    from lockscope_exporter.watching.happenings import Happening

_KEPT = 10_000


class Heard(NamedTuple):
    """What was told since somebody last asked.

    Attributes:
        happened: in the order of the journal.
        last: number of the last thing told so far, to ask for what comes after it.
        missed: how many more there were that are not kept any longer.
    """

    happened: list[Happening]
    last: int
    missed: int


class Tail:
    """Keeps what a journal tells, as long as there is room; an ``Observer``. Safe from any thread.

    Args:
        since: unix time in seconds; what happened before is not kept.
        most: how many are kept.
    """

    def __init__(self, since: float, most: int = _KEPT) -> None:
        self._since = since
        self._kept: deque[Callable[[], Happening]] = deque(maxlen=most)
        self._last = 0
        self._guard = threading.Lock()

    def told(self, entry: Entry) -> None:
        """Take in an entry."""
        if entry.at < self._since:
            return
        with self._guard:
            for recorded in entry.events:
                if told.is_told(recorded.event):
                    self._keep(partial(told.happening, recorded))

    def overlapped(self, overlap: Overlap) -> None:
        """Take in that two held a lock at once."""
        if overlap.began_at >= self._since:
            with self._guard:
                self._keep(partial(told.overlap, overlap))

    def note(self, happening: Happening) -> None:
        """Take in something that is put into words already."""
        with self._guard:
            self._keep(lambda: happening)

    def after(self, number: int | None) -> Heard:
        """Return what came after a number; ``None`` asks for nothing but the last number."""
        with self._guard:
            last, kept = self._last, tuple(self._kept)
        if number is None:
            return Heard([], last, 0)
        new = max(last - number, 0) if number <= last else len(kept)
        wanted = kept[max(len(kept) - new, 0) :]
        return Heard([make() for make in wanted], last, new - len(wanted))

    def _keep(self, make: Callable[[], Happening]) -> None:
        self._kept.append(make)
        self._last += 1

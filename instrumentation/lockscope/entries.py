"""What the entries into one reusable context manager leave for their exits."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Generic, TypeVar

from lockscope.guards import guard

T = TypeVar("T")


class Entries(Generic[T]):
    """One thing an entry, found again by the exit that belongs to it.

    An exit belongs to the latest entry of its own thread and asyncio task, so one object serves nested blocks
    and many threads or tasks at once. A block that is entered in one task and left in another, as an
    asynchronous fixture may be, gets the latest entry of all: right as long as it is the only one.
    """

    def __init__(self) -> None:
        self._gate = guard()
        self._entries: list[tuple[object, T]] = []

    def push(self, thing: T) -> None:
        """Keep what belongs to the entry that takes place now."""
        with self._gate:
            self._entries.append((_here(), thing))

    def pop(self) -> T:
        """Return what belongs to the entry whose exit takes place now.

        Raises:
            RuntimeError: nothing was entered.
        """
        here = _here()
        with self._gate:
            if not self._entries:
                raise RuntimeError("the block is left without having been entered")
            last = len(self._entries) - 1
            index = next((n for n in range(last, -1, -1) if self._entries[n][0] == here), last)
            return self._entries.pop(index)[1]


def _here() -> tuple[int, asyncio.Task[Any] | None]:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop runs in this thread
        task = None
    return threading.get_ident(), task

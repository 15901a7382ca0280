"""One session of watching: looks now and then, and keeps a board of it."""

from __future__ import annotations

import logging
import time
from collections import deque
from typing import TYPE_CHECKING, Self

from lockscope_exporter.watching import told
from lockscope_exporter.watching.changes import Changes
from lockscope_exporter.watching.happenings import Happening, folded
from lockscope_exporter.watching.servers import Servers

if TYPE_CHECKING:
    from lockscope_exporter.watching.board import Board
    from lockscope_exporter.watching.watched import Watched

_SHARE = 4  # a look may take a fourth of the time, whatever the number of locks
_LOGGED = 1_000  # log records that wait for a look


class Session:
    """Watches until it is closed; a context manager.

    Args:
        watched: what to watch; started and stopped with the session.
        board: filled at every look.
        refresh: seconds between two looks, at least.
    """

    def __init__(self, watched: Watched, board: Board, *, refresh: float = 0.5) -> None:
        self.board = board
        self._watched = watched
        self._refresh = refresh
        self._due = 0.0
        self._last: int | None = None
        self._changes = Changes()
        self._servers = Servers()
        self._logged: deque[Happening] = deque(maxlen=_LOGGED)
        self._logs = _Logs(self._logged)
        self._loggers = [logging.getLogger(name) for name in ("lockscope_exporter", "lockscope")]

    def __enter__(self) -> Self:
        """Begin in the background."""
        # Whatever is logged would be written over the screen: it becomes a line of the board instead.
        for logger in self._loggers:
            logger.addHandler(self._logs)
            logger.propagate = False
        self._last = self._watched.after(None).last
        self._watched.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End, and close every connection."""
        self._watched.stop()
        for logger in self._loggers:
            logger.removeHandler(self._logs)
            logger.propagate = True

    def wait_ready(self, timeout: float) -> bool:
        """Wait until everything was read once; return whether it was."""
        return self._watched.wait_ready(timeout)

    def until_due(self) -> float:
        """Return the seconds until the next look."""
        return max(self._due - time.monotonic(), 0.0)

    def look(self) -> list[Happening]:
        """Look once; return what happened since the last time."""
        began = time.monotonic()
        locks, families, nodes, old = self._watched.look()
        now = time.time()
        self.board.look(locks, nodes, families, now)
        happened = [] if old else self._servers.look(nodes, now)
        happened += self._changes.look(locks, families, nodes, now)
        heard = self._watched.after(self._last)
        self._last = heard.last
        happened += heard.happened
        if heard.missed:
            happened.append(told.missed(heard.missed, now))
        while self._logged:
            happened.append(self._logged.popleft())
        happened = folded(one for one in happened if self.board.concerns(one))
        self.board.happened.extend(happened)
        self.board.notes = self._watched.notes()
        took = time.monotonic() - began
        self._due = began + max(self._refresh, _SHARE * took)
        return happened


class _Logs(logging.Handler):
    """Turns warnings into happenings."""

    def __init__(self, waiting: deque[Happening]) -> None:
        super().__init__(logging.WARNING)
        self._waiting = waiting

    def emit(self, record: logging.LogRecord) -> None:
        """Take in one record; overlaps are told of otherwise."""
        if getattr(record, "event", "") != "lock.overlap":
            self._waiting.append(Happening(record.created, "note", "", None, None, record.getMessage()))

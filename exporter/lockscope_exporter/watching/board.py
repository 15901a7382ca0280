"""What the screen shows, and how keys change it: values only."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lockscope.globs import compile_glob
from lockscope_exporter.listing import ORDERS, STATES, Filter, select

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockscope_exporter.state import Family, LockState, NodeStatus
    from lockscope_exporter.watching.happenings import Happening

MAX_HAPPENINGS = 1000
_SHOWN = ("all", "not held", *STATES)
_EVENTS = ("all", "losses and waiting", "losses")
_PAGE = 10


@dataclass(slots=True)
class Board:
    """The state of a screen.

    Attributes:
        wanted: which locks to show, whatever keys say.
        where: name of what is watched.
        locks: every live lock at the last look; ``nodes`` and ``families`` of the same moment.
        at: unix time in seconds of that look.
        happened: the latest last.
        order: name of the order of the table.
        shown: which states are shown.
        events: which happenings are shown.
        paused: the table stands still.
        top: rows that are scrolled out at the top.
        notes: sentences under the table, such as why the journal is silent.
    """

    wanted: Filter = field(default_factory=Filter)
    where: str = ""
    locks: Sequence[LockState] = ()
    nodes: Sequence[NodeStatus] = ()
    families: Sequence[Family] = ()
    at: float = 0.0
    happened: deque[Happening] = field(default_factory=lambda: deque(maxlen=MAX_HAPPENINGS))
    order: str = "urgency"
    shown: str = "all"
    events: str = "all"
    paused: bool = False
    top: int = 0
    notes: tuple[str, ...] = ()

    def look(
        self, locks: Sequence[LockState], nodes: Sequence[NodeStatus], families: Sequence[Family], at: float
    ) -> None:
        """Take in a look at everything, unless the table stands still."""
        self.nodes = nodes
        if not self.paused:
            self.locks, self.families, self.at = locks, families, at

    def concerns(self, one: Happening) -> bool:
        """Tell whether a happening is about keys that are wanted; one about several is, by its prefix.

        A note is about what can be known of all.
        """
        if one.what == "note":
            return True
        if self.wanted.prefixes and one.prefix not in self.wanted.prefixes:
            return False
        if not self.wanted.key or one.key is None:
            return True
        return compile_glob(self.wanted.key).fullmatch(one.key) is not None

    def rows(self) -> list[LockState]:
        """Return the locks to show, in order."""
        return [lock for lock in select(self.locks, self.wanted, self.order) if self._fits(lock)]

    def lines(self, most: int) -> list[Happening]:
        """Return the last happenings to show, the latest last."""
        found: list[Happening] = []
        for one in reversed(self.happened):
            if len(found) >= most:
                break
            if self.events == "all" or one.bad or (self.events != "losses" and not one.routine):
                found.append(one)
        return found[::-1]

    def press(self, key: str) -> bool:
        """Take in a key; return whether it ends watching.

        Args:
            key: a character, or ``up``, ``down``, ``page up``, ``page down``, ``home``.
        """
        if key in ("q", "Q"):
            return True
        if key in ("p", " "):
            self.paused = not self.paused
        elif key == "s":
            self.order = _next(tuple(ORDERS), self.order)
        elif key == "f":
            self.shown, self.top = _next(_SHOWN, self.shown), 0
        elif key == "e":
            self.events = _next(_EVENTS, self.events)
        else:
            step = {"up": -1, "k": -1, "down": 1, "j": 1, "page up": -_PAGE, "page down": _PAGE}.get(key, 0)
            self.top = 0 if key == "home" else max(self.top + step, 0)
        return False

    def _fits(self, lock: LockState) -> bool:
        if self.shown == "not held":
            return lock.state != "held"
        return self.shown in ("all", lock.state)


def _next(choices: Sequence[str], current: str) -> str:
    return choices[(choices.index(current) + 1) % len(choices)]

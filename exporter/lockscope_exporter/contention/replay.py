"""Which locks are there, followed command by command from what MONITOR shows. Pure.

MONITOR shows no answers. But lines come in the order in which commands ran, so whoever knows whether a key
was there at one line knows it at all later ones: whether a ``SET NX`` was refused follows from that. The
sampler asks for a key by a command that MONITOR shows too, and so knows at which line its answer was true.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from lockscope_exporter.contention.effects import NEVER

if TYPE_CHECKING:
    from lockscope_exporter.contention.effects import Effect

Outcome = Literal["acquired", "refused", "unknown"]
Change = Literal["created", "kept", "ended", "unknown", "none"]

MAX_QUESTIONS = 2000
_NEAR = 0.002  # seconds around a deadline in which the clocks of the server's parts may disagree
_MAX_OPEN = 64  # attempts on one lock that wait for an answer
_TELLING = 0.05  # seconds to live; shorter expiries of several attempts may agree by chance


class Lock(NamedTuple):
    """Names one lock: a key, or a field of a hash."""

    db: int
    key: bytes
    field: bytes | None = None


@dataclass(slots=True)
class _There:
    """What is known of one lock.

    Attributes:
        held: whether it is there, ``None`` if that is not known.
        until: unix time in seconds when it expires; ``None`` if that is not known.
        asked: an answer about it is on its way.
        open: attempts whose outcome that answer may tell: when the lock would expire had they taken it, and
            who they are.
    """

    held: bool | None = None
    until: float | None = None
    asked: bool = False
    open: list[tuple[float, str]] = field(default_factory=list)


class Replay:
    """Follows locks.

    Attributes:
        questions: locks whose state should be asked for; whoever asks takes them out.
        asking: answers can be had at all.
    """

    def __init__(self) -> None:
        self.questions: deque[Lock] = deque()
        self.asking = True
        self._locks: dict[Lock, _There] = {}
        self._fields: dict[tuple[int, bytes], list[Lock]] = {}
        self._asked = 0

    def __contains__(self, lock: Lock) -> bool:
        return lock in self._locks

    def follow(self, lock: Lock) -> None:
        """Begin to follow a lock."""
        if lock not in self._locks:
            self._locks[lock] = _There()
            if lock.field is not None:
                self._fields.setdefault(lock[:2], []).append(lock)

    def held(self, lock: Lock, at: float) -> bool | None:
        """Tell whether a lock is there at a unix time; ``None`` if that is not known."""
        there = self._locks[lock]
        if there.held is not True:
            return there.held
        if there.until is None:
            return None
        if abs(there.until - at) <= _NEAR:
            self._forget(there, lock)
            return None
        if there.until < at:
            there.held, there.until = False, None
            return False
        return True

    def wonder(self, lock: Lock) -> None:
        """Have the state of a lock asked for."""
        self._ask(self._locks[lock], lock)

    def attempt(self, lock: Lock, effect: Effect, at: float, client: str) -> Outcome:
        """Take in a command that takes the lock unless it is held.

        Args:
            lock: the lock.
            effect: the attempt.
            at: unix time in seconds.
            client: who tries; comes back from ``answer`` if only that tells the outcome.

        Returns:
            What came of it.
        """
        held = self.held(lock, at)
        there = self._locks[lock]
        if held:
            return "refused"
        if held is None:
            # Now it is there, whoever has it; fields do not expire.
            there.held, there.until = True, None if lock.field is None else NEVER
            self._ask(there, lock)
            telling = effect.until is not None and effect.until > at + _TELLING
            if there.asked and telling and len(there.open) < _MAX_OPEN:
                there.open.append((effect.until or NEVER, client))
            return "unknown"
        there.held, there.until = True, effect.until
        return "acquired"

    def write(self, lock: Lock, effect: Effect, at: float) -> Change:
        """Take in any other effect on a lock; return what became of the lock."""
        held = self.held(lock, at)
        there = self._locks[lock]
        there.open.clear()
        if effect.kind == "put":
            if effect.until is not None or held is False:
                there.until = NEVER if effect.until is None else effect.until
            there.held = True
            return "unknown" if held is None else "kept" if held else "created"
        if effect.kind == "delete":
            there.held, there.until = False, None
            return "unknown" if held is None else "ended" if held else "none"
        if effect.kind in ("unsure", "shrink"):
            if held is False and effect.kind == "shrink":
                return "none"
            self._forget(there, lock)
            return "unknown"
        return self._retime(lock, there, held, effect, at)

    def fields_of(self, db: int, key: bytes) -> tuple[Lock, ...]:
        """Return the locks that are fields of a key."""
        return tuple(self._fields.get((db, key), ()))

    def all_gone(self, db: int | None) -> None:
        """Take in that one database, or all of them, were emptied."""
        for lock, there in self._locks.items():
            if db is None or lock.db == db:
                there.held, there.until = False, None
                there.open.clear()

    def all_unsure(self) -> None:
        """Take in that nothing is known any more."""
        for lock, there in self._locks.items():
            self._forget(there, lock)

    def answer(self, lock: Lock, until: float | None, at: float) -> list[tuple[str, Outcome]]:
        """Take in the answer to a question, at the line where it was true.

        Args:
            lock: the lock.
            until: unix time in seconds when it expires, infinite for never; ``None`` if it is not there.
            at: unix time in seconds of that line.

        Returns:
            The clients of attempts whose outcome was unknown and is told by this. The key was written by
            attempts only since the first of them: the one whose expiry it has took it, and those whose
            expiry is yet to come and is another were refused.
        """
        there = self._locks[lock]
        there.held, there.until, there.asked = until is not None, until, False
        tried, there.open = there.open, []
        if until is None or until == NEVER:
            return []  # gone meanwhile; or nothing tells whose it is
        told: list[tuple[str, Outcome]] = []
        taken = False
        for end, client in tried:
            if not taken and abs(end - until) <= _NEAR:
                taken = True  # none after it can have succeeded, as it has not expired
                told.append((client, "acquired"))
            elif end > at + _NEAR:
                told.append((client, "refused"))
        return told

    def unanswered(self, lock: Lock) -> None:
        """Take in that a question has no answer."""
        there = self._locks[lock]
        there.asked = False
        there.open.clear()

    def _retime(self, lock: Lock, there: _There, held: bool | None, effect: Effect, at: float) -> Change:
        if effect.kind == "expire" and effect.until is not None and effect.until <= at:
            there.held, there.until = False, None
            return "ended" if held else "none" if held is False else "unknown"
        if held is False:
            return "none"
        if held is None:
            if effect.kind == "replace" or there.held is None:
                self._ask(there, lock)
            there.until = None
            return "unknown"
        if effect.until is not None:
            there.until = effect.until
        return "kept"

    def _forget(self, there: _There, lock: Lock) -> None:
        there.held = there.until = None
        there.open.clear()
        self._ask(there, lock)

    def _ask(self, there: _There, lock: Lock) -> None:
        """Ask for a lock unless that is under way; fields of hashes cannot be asked for their expiry."""
        if self.asking and not there.asked and lock.field is None and self._asked < MAX_QUESTIONS:
            there.asked = True
            self._asked += 1
            self.questions.append(lock)

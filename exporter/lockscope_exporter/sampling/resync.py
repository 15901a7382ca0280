"""Repairing what no feed told of: known locks are glanced at in turn, and the keyspace is walked."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from lockscope_exporter.sampling.reader import CHUNK

if TYPE_CHECKING:
    from lockscope_exporter.sampling.intake import Intake
    from lockscope_exporter.sampling.reader import Glance
    from lockscope_exporter.sampling.sweep import Sweep

THOROUGH = 600.0  # seconds between two rounds of a gentle verifier that read values
THOROUGH_SCAN = 5.0  # the same where no feed tells of changes
ROUND = 60.0  # seconds in which a gentle verifier glances at every known lock once, if its budget allows

_KEY_COST = 5e-6  # seconds of a server core that a glance at one key takes at most
_GENTLE = 0.003  # share of a server core for these glances
_REMEMBERED = 50_000  # keys remembered as no locks
_FORGOTTEN = 600.0  # seconds after which they are looked at again, in case the feed missed one
_FORGOTTEN_SCAN = 30.0  # the same where there is no feed

Repair = Callable[["Intake", list[bytes]], int]
"""Reads keys that may differ from what the ledger says; returns how many did."""


class Verifier:
    """Glances at the known locks of one database in turn.

    Args:
        intake: reads and knows its keys.
        repair: takes keys that look different from what the ledger says.
        round_: seconds from the start of one round to the next.
        thorough: seconds after which a round reads the values, too: one that was overwritten with its expiry
            kept looks the same at a glance.
        gentle: spread the work, and keep it within a share of a server core.
    """

    def __init__(
        self, intake: Intake, repair: Repair, round_: float, thorough: float, *, gentle: bool
    ) -> None:
        self.due = time.monotonic()
        self._intake = intake
        self._repair = repair
        self._round = round_
        self._gentle = gentle
        self._thorough = thorough
        self._read_at = self.due
        self._reading = False
        self._began = self.due
        self._queue: list[bytes] = []
        self._size = 0

    def run(self) -> None:
        """Glance at the next few, and set ``due``, in monotonic seconds."""
        now = time.monotonic()
        if not self._queue:
            self._began = now
            self._queue = self._intake.known()
            self._reading = now - self._read_at >= self._thorough
            self._read_at = now if self._reading else self._read_at
            self._size = max(len(self._queue), 1)
        batch, self._queue = self._queue[-CHUNK:], self._queue[:-CHUNK]
        suspects = batch if self._reading else self._intake.suspects(batch)
        wrong = self._repair(self._intake, suspects) if suspects else 0
        if self._gentle and wrong > len(batch) / 2:
            self.due = now  # a database was emptied, or much was missed: no time to be gentle
        elif self._gentle:
            share = self._round * len(batch) / self._size
            self.due = now + max(len(batch) * _KEY_COST / _GENTLE, share if batch else 1.0)
        elif not self._queue:
            self.due = self._began + self._round


class Examined:
    """Keys that turned out to be no locks, so that they are not read again and again. Bounded.

    Args:
        fed: a feed tells of changes to them; else their type and expiry have to.
    """

    def __init__(self, *, fed: bool) -> None:
        self._fed = fed
        self._seen: dict[int, tuple[str, float | None]] = {}
        self._forget = time.monotonic() + self._for_how_long

    @property
    def _for_how_long(self) -> float:
        return _FORGOTTEN if self._fed else _FORGOTTEN_SCAN

    def left(self, intake: Intake, keys: list[bytes]) -> list[bytes]:
        """Return the keys that are to be read; touches none."""
        if time.monotonic() > self._forget:
            self._seen.clear()
            self._forget = time.monotonic() + self._for_how_long
        new = [key for key in keys if hash(key) not in self._seen]
        if self._fed or len(new) == len(keys):
            return new
        looks = intake.glances(key for key in keys if hash(key) in self._seen)
        return new + [look.key for look in looks if not self._unchanged(intake, look)]

    def add(self, no_locks: Mapping[bytes, tuple[str, float | None]]) -> None:
        """Remember keys that were read and hold no lock, by type and deadline as they were then."""
        if len(self._seen) >= _REMEMBERED:
            return
        for key, (kind, deadline) in no_locks.items():
            # Without a feed, a key that never expires may become a lock without looking any different.
            if self._fed or deadline is not None:
                self._seen[hash(key)] = (kind, deadline)

    def _unchanged(self, intake: Intake, look: Glance) -> bool:
        kind, deadline = self._seen[hash(look.key)]
        return kind == look.type and intake.reader.abilities.same(deadline, look.deadline)


class Finder:
    """Looks at the keys that a sweep of one database finds and the ledger does not know.

    Args:
        intake: reads and knows its keys.
        sweep: finds keys.
        repair: takes keys that the ledger does not know.
        fed: a feed tells of changes.
    """

    def __init__(self, intake: Intake, sweep: Sweep, repair: Repair, *, fed: bool) -> None:
        self._sweep = sweep
        self._before = 0
        self._intake = intake
        self._repair = repair
        self._fed = fed
        self._examined = Examined(fed=fed)

    @property
    def due(self) -> float:
        """Monotonic time in seconds when to run again."""
        return self._sweep.due

    @property
    def complete(self) -> bool:
        """Whether every key was visited since the beginning or the last ``hurry``."""
        return self._sweep.passes > self._before

    def relax(self, repair: Repair, period: float) -> None:
        """Go on gently, if a feed tells of changes: what is found now, it missed.

        Args:
            repair: takes keys that the ledger does not know.
            period: seconds from the start of one pass to the next, at least.
        """
        if self._fed:
            self._sweep.gentle = True
            self._sweep.period = period
            self._repair = repair

    def hurry(self, repair: Repair) -> None:
        """Visit every key again, quickly."""
        self._sweep.restart()
        self._before = self._sweep.passes
        self._repair = repair

    def run(self) -> None:
        """Look at the next page."""
        unknown = [key for key in self._sweep.page() if not self._intake.knows(key)]
        if not unknown:
            return
        keys = self._examined.left(self._intake, unknown)
        if keys:
            self._intake.no_locks = {}
            self._repair(self._intake, keys)
            self._examined.add(self._intake.no_locks)
            self._intake.no_locks = None

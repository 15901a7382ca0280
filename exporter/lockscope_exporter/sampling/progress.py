"""Job-progress keys: looked at every few seconds, since their writers touch them all the time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lockscope.catalog import PROGRESS_STATES
from lockscope_exporter.progress import MAX_PAYLOAD, Names, decode_progress, judge, plan_progress
from lockscope_exporter.sampling.reader import CHUNK, Asked, Reader
from lockscope_exporter.state import ProgressFamily

if TYPE_CHECKING:
    from collections.abc import Sequence
    from threading import RLock

    from lockscope.prefixes import Prefixes
    from lockscope_exporter.dialects.model import Reading, ReadPlan
    from lockscope_exporter.progress import Report
    from lockscope_exporter.sampling.intake import Intake
    from lockscope_exporter.sampling.sweep import Sweep

_EVERY = 5.0  # seconds between two looks at a known key, at most
_SHARE = 0.2  # of the silence that makes a job stale, at most
_FRESH = 1.0  # seconds for which a judgement holds
RETRY = 60.0  # seconds after which keys that may not be read are asked for again
_MAX_KEYS = 100_000  # progress keys kept of a target; more are a mistaken pattern


class ProgressBook:
    """The progress reports of one target. Not safe between threads.

    Args:
        target: the target's name.
        prefixes: names families.
        names: what the fields are called.
        stale_after: seconds of silence after which a running job is stale.
    """

    def __init__(self, target: str, prefixes: Prefixes, names: Names, stale_after: float) -> None:
        self._target = target
        self._prefixes = prefixes
        self._names = names
        self._stale_after = stale_after
        self._reports: dict[tuple[int, bytes], tuple[str, Report]] = {}
        self._families: dict[tuple[str, int], ProgressFamily] = {}
        self._judged = float("-inf")

    def take(self, db: int, node: str, reading: Reading) -> None:
        """Take in what a key says now."""
        report = decode_progress(reading, self._names)
        if report is None:
            self._reports.pop((db, reading.key), None)
        elif len(self._reports) < _MAX_KEYS or (db, reading.key) in self._reports:
            self._reports[db, reading.key] = (node, report)

    def gone(self, db: int, node: str, key: bytes) -> None:
        """Take in that a node says a key does not exist."""
        known = self._reports.get((db, key))
        if known is not None and known[0] == node:
            del self._reports[db, key]

    def keys(self, db: int, node: str) -> list[bytes]:
        """Return the keys known of one database of a node."""
        return [key for (number, key), (where, _) in self._reports.items() if number == db and where == node]

    def knows(self, db: int, node: str, key: bytes) -> bool:
        """Tell whether a node said something of a key."""
        known = self._reports.get((db, key))
        return known is not None and known[0] == node

    def drop(self, node: str) -> None:
        """Forget what a node said, because it is out of reach."""
        self._reports = {place: known for place, known in self._reports.items() if known[0] != node}
        self._judged = float("-inf")

    def families(self, now: float) -> list[ProgressFamily]:
        """Return the counts by prefix; a prefix once seen stays at 0.

        Args:
            now: unix time in seconds.
        """
        if abs(now - self._judged) >= _FRESH:
            self._judge(now)
        return list(self._families.values())

    def _judge(self, now: float) -> None:
        counts = {place: dict.fromkeys(PROGRESS_STATES, 0) for place in self._families}
        silent = dict.fromkeys(self._families, 0.0)
        for (db, key), (_, report) in self._reports.items():
            verdict = judge(report, now, self._stale_after)
            place = (self._prefixes.of(key), db)
            states = counts.setdefault(place, dict.fromkeys(PROGRESS_STATES, 0))
            silent.setdefault(place, 0.0)
            if verdict.state is not None:
                states[verdict.state] += 1
            if report.said == "running" and verdict.silent_seconds is not None:
                silent[place] = max(silent[place], verdict.silent_seconds)
        self._families = {
            (prefix, db): ProgressFamily(prefix, db, self._target, states, silent[prefix, db])
            for (prefix, db), states in counts.items()
        }
        self._judged = now


class ProgressLook:
    """Finds and reads the progress keys of one database of one node, as a chore.

    Args:
        node: name of the node.
        intake: what reads the locks of the same database.
        sweep: finds keys; known ones are read as often as it begins anew.
        book: where reports go.
        guard: held around every use of the book.
    """

    def __init__(self, node: str, intake: Intake, sweep: Sweep, book: ProgressBook, guard: RLock) -> None:
        self._every = sweep.period
        self._node = node
        self._db = intake.db
        self._reader = Reader(intake.reader.line, _plan, MAX_PAYLOAD)
        self._sweep = sweep
        self._book = book
        self._guard = guard
        self._again = time.monotonic() + self._every
        self._refused: set[bytes] = set()
        self._retry = time.monotonic() + RETRY

    @property
    def due(self) -> float:
        """Monotonic time in seconds when to run again."""
        return min(self._sweep.due, self._again)

    @property
    def complete(self) -> bool:
        """Whether every key was visited once."""
        return self._sweep.passes > 0

    def run(self) -> None:
        """Look at the next page of the keyspace, or at the known keys if it is time."""
        now = time.monotonic()
        if self._again <= now:
            self._again = now + self._every
            with self._guard:
                known = self._book.keys(self._db, self._node)
            self._read(known)
        if self._sweep.due <= now:
            keys = self._sweep.page()
            self._read([key for key in keys if not self._book.knows(self._db, self._node, key)])
            self._sweep.gentle = self.complete

    def _read(self, keys: Sequence[bytes]) -> None:
        if self._retry <= time.monotonic():
            self._retry = time.monotonic() + RETRY
            self._refused.clear()
        keys = [key for key in keys if key not in self._refused]
        for start in range(0, len(keys), CHUNK):
            asked = [Asked(key, None) for key in keys[start : start + CHUNK]]
            sample = self._reader.read(asked, _never)
            with self._guard:
                for reading in sample.readings:
                    self._book.take(self._db, self._node, reading)
                # What may not be read any more is not known to be silent: its worker may go on.
                for key in (*(key for key, _ in sample.gone), *sample.forbidden):
                    self._book.gone(self._db, self._node, key)
            if len(self._refused) < _MAX_KEYS:
                self._refused.update(sample.forbidden)


def look_every(stale_after: float) -> float:
    """Return the seconds between two looks at the same progress key.

    Args:
        stale_after: seconds of silence after which a running job is stale.
    """
    return min(_EVERY, stale_after * _SHARE)


def _plan(_key: bytes, type_name: str, _dialect: str | None) -> ReadPlan | None:
    return plan_progress(type_name)


def _never(_key: bytes) -> bool:
    return False

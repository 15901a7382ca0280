"""How often locks were tried for and by whom: bounded tables, and what is reported of them. Pure."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from lockscope_exporter.contention.report import CallerCount, KeyCount, by_contention, by_insistence
from lockscope_exporter.dialects import owners

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lockscope_exporter.contention.replay import Lock, Outcome
    from lockscope_exporter.state import Holder

MAX_LOCKS = 10_000
MAX_CALLERS = 20_000
_MAX_TOKEN = 512  # bytes
_TIMES = 257  # times of a caller that are kept, for the median of 256 gaps


@dataclass(slots=True)
class Count:
    """What happened to one lock, or what one caller did about it; see ``KeyCount``."""

    attempts: int = 0
    acquired: int = 0
    refused: int = 0
    unknown: int = 0
    looks: int = 0
    renewals: int = 0
    releases: int = 0

    def attempt(self, outcome: Outcome) -> None:
        """Count a try."""
        self.attempts += 1
        setattr(self, outcome, getattr(self, outcome) + 1)

    def settle(self, outcome: Outcome) -> None:
        """Give a try of unknown outcome its outcome."""
        self.unknown -= 1
        setattr(self, outcome, getattr(self, outcome) + 1)


@dataclass(slots=True)
class Caller:
    """What one connection did about one lock.

    Attributes:
        count: what it did.
        times: unix times in seconds when it tried or looked, the latest.
        token: the last value that it tried to store.
        missed: runs of a script that changed nothing, by script.
    """

    count: Count = field(default_factory=Count)
    times: deque[float] = field(default_factory=lambda: deque(maxlen=_TIMES))
    token: bytes = b""
    missed: Counter[bytes] = field(default_factory=Counter)


class Counts:
    """Counts by lock, and by lock and caller.

    Attributes:
        locks: by lock.
        beyond: tries left out because there were too many locks or callers.
    """

    def __init__(self) -> None:
        self.locks: dict[Lock, Count] = {}
        self.beyond = 0
        self._callers: dict[tuple[Lock, str], Caller] = {}

    def admit(self, lock: Lock, *, attempt: bool) -> bool:
        """Begin to count a lock; return whether there is room for it."""
        if len(self.locks) >= MAX_LOCKS:
            self.beyond += attempt
            return False
        self.locks[lock] = Count()
        return True

    def tried(self, lock: Lock, client: str, at: float, outcome: Outcome, token: bytes) -> None:
        """Count a try."""
        self.locks[lock].attempt(outcome)
        caller = self._caller(lock, client, at)
        if caller is not None:
            caller.count.attempt(outcome)
            if 0 < len(token) <= _MAX_TOKEN:
                caller.token = token

    def looked(self, lock: Lock, client: str, at: float) -> None:
        """Count a look."""
        self.locks[lock].looks += 1
        caller = self._caller(lock, client, at)
        if caller is not None:
            caller.count.looks += 1

    def missed(self, lock: Lock, client: str, at: float, script: bytes) -> None:
        """Take note of a run of a script that changed nothing; ``decide`` says what that was."""
        caller = self._caller(lock, client, at)
        if caller is not None:
            caller.missed[script] += 1

    def settle(self, lock: Lock, client: str, outcome: Outcome) -> None:
        """Give an earlier try of unknown outcome its outcome."""
        self.locks[lock].settle(outcome)
        caller = self._callers.get((lock, client))
        if caller is not None:
            caller.count.settle(outcome)

    def decide(self, takers: set[bytes]) -> None:
        """Count what was missed: runs of scripts that take locks were refused, those of others looked."""
        for (lock, _), caller in self._callers.items():
            for script, runs in caller.missed.items():
                for count in (caller.count, self.locks[lock]):
                    if script in takers:
                        count.attempts += runs
                        count.refused += runs
                    else:
                        count.looks += runs
            caller.missed.clear()

    def keys(self, node: str, seconds: float, prefix: Callable[[bytes], str]) -> tuple[KeyCount, ...]:
        """Return the locks that anybody tried to take, looked at, renewed or released."""
        callers = Counter(lock for lock, _ in self._callers)
        found = [
            KeyCount(
                lock.key, lock.field, lock.db, node, prefix(lock.key),
                count.attempts, count.acquired, count.refused, count.unknown, count.looks,
                count.renewals, count.releases, callers[lock], _rate(count, seconds),
            )
            for lock, count in self.locks.items()
            if count != Count()
        ]  # fmt: skip
        return tuple(sorted(found, key=by_contention))

    def callers(self, node: str, seconds: float, names: Mapping[str, str]) -> tuple[CallerCount, ...]:
        """Return who tried or looked.

        Args:
            node: name of the node.
            seconds: how long was listened.
            names: what clients call themselves, by address.
        """
        found = [
            CallerCount(
                lock.key, lock.field, lock.db, node, client, names.get(client, ""),
                _holder(lock.key, caller.token), caller.count.attempts, caller.count.acquired,
                caller.count.refused, caller.count.unknown, caller.count.looks,
                _rate(caller.count, seconds), _interval(caller.times),
            )
            for (lock, client), caller in self._callers.items()
            if caller.count.attempts or caller.count.looks
        ]  # fmt: skip
        return tuple(sorted(found, key=by_insistence))

    def _caller(self, lock: Lock, client: str, at: float) -> Caller | None:
        caller = self._callers.get((lock, client))
        if caller is None:
            if len(self._callers) >= MAX_CALLERS:
                self.beyond += 1
                return None
            caller = self._callers[lock, client] = Caller()
        caller.times.append(at)
        return caller


def _rate(count: Count, seconds: float) -> float:
    return (count.attempts + count.looks) / seconds if seconds > 0 else 0.0


def _holder(key: bytes, token: bytes) -> Holder | None:
    """Return who a token says holds it, ``None`` if it says nothing."""
    if not token:
        return None
    said = owners.described(key, token)
    return None if said == owners.NOBODY else owners.holder(token, said)


def _interval(times: deque[float]) -> float | None:
    if len(times) < 3:  # noqa: PLR2004 - one gap may be chance
        return None
    return median(later - earlier for earlier, later in pairwise(times))

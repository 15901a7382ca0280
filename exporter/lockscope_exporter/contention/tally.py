"""Who tried to take which lock, and what came of it, counted from commands. Pure."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from lockscope_exporter.contention.effects import NEVER, Effect, effects
from lockscope_exporter.contention.monitor import LUA
from lockscope_exporter.contention.replay import Lock, Replay
from lockscope_exporter.contention.report import CallerCount, KeyCount, by_contention, by_insistence
from lockscope_exporter.contention.scripts import RUNNERS, Touch, begin
from lockscope_exporter.dialects import owners

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lockscope_exporter.contention.monitor import Command
    from lockscope_exporter.contention.replay import Outcome
    from lockscope_exporter.contention.scripts import Run
    from lockscope_exporter.sampling.watch import Watch
    from lockscope_exporter.state import Holder

MAX_LOCKS = 10_000
MAX_CALLERS = 20_000
_MAX_JUDGED = 100_000  # keys of which it is remembered whether they may be locks
_MAX_TOKEN = 512
_TIMES = 257  # times of a caller that are kept, for the median of 256 gaps
_UNKNOWN_SENDER = "script"  # of a script that began before the first line


@dataclass(slots=True)
class _Count:
    attempts: int = 0
    acquired: int = 0
    refused: int = 0
    unknown: int = 0
    looks: int = 0
    renewals: int = 0
    releases: int = 0

    def attempt(self, outcome: Outcome) -> None:
        self.attempts += 1
        setattr(self, outcome, getattr(self, outcome) + 1)


@dataclass(slots=True)
class _Caller:
    count: _Count = field(default_factory=_Count)
    times: deque[float] = field(default_factory=lambda: deque(maxlen=_TIMES))
    token: bytes = b""
    missed: Counter[bytes] = field(default_factory=Counter)  # runs of a script that changed nothing


class Tally:
    """Counts what commands say of locks; bounded memory, whatever comes.

    Args:
        watch: which keys may be locks.
        anywhere: a key that somebody sets with NX and an expiry is a lock, whatever its name.
        dbs: databases that matter; empty for all.

    Attributes:
        replay: which locks are there; its ``questions`` want answers.
        beyond: tries left out because there were too many locks or callers.
    """

    def __init__(self, watch: Watch, *, anywhere: bool, dbs: frozenset[int] = frozenset()) -> None:
        self.replay = Replay()
        self.beyond = 0
        self._watch = watch
        self._anywhere = anywhere
        self._dbs = dbs
        self._judged: dict[bytes, bool] = {}
        self._locks: dict[Lock, _Count] = {}
        self._callers: dict[tuple[Lock, str], _Caller] = {}
        self._run: Run | None = None
        self._takers: set[bytes] = set()

    def feed(self, command: Command) -> None:
        """Take in the next command."""
        if command.client != LUA:
            self._end_run()
            if command.name in RUNNERS:
                self._begin_run(command)
                return
        elif self._run is not None:
            self._note(self._run, command)
        for effect in effects(command):
            self._apply(command, effect)

    def answer(self, lock: Lock, until: float | None, at: float) -> None:
        """Take in the answer to one of the questions of ``replay``, at the line where it was true."""
        for client, outcome in self.replay.answer(lock, until, at):
            caller = self._callers.get((lock, client))
            for count in (self._locks[lock], *((caller.count,) if caller is not None else ())):
                count.unknown -= 1
                setattr(count, outcome, getattr(count, outcome) + 1)

    def finish(self) -> None:
        """Take in that no more commands come: what scripts that only looked were about is decided."""
        self._end_run()
        for (lock, _), caller in self._callers.items():
            for script, runs in caller.missed.items():
                for count in (caller.count, self._locks[lock]):
                    if script in self._takers:
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
                count.renewals, count.releases, callers[lock],
                (count.attempts + count.looks) / seconds if seconds > 0 else 0.0,
            )
            for lock, count in self._locks.items()
            if count != _Count()
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
                (caller.count.attempts + caller.count.looks) / seconds if seconds > 0 else 0.0,
                _interval(caller.times),
            )
            for (lock, client), caller in self._callers.items()
            if caller.count.attempts or caller.count.looks
        ]  # fmt: skip
        return tuple(sorted(found, key=by_insistence))

    # --- single commands ---

    def _apply(self, command: Command, effect: Effect) -> None:
        if effect.kind == "flush_db":
            self.replay.all_gone(command.db)
        elif effect.kind == "flush_all":
            self.replay.all_gone(None)
        elif effect.kind == "unsure_all":
            self.replay.all_unsure()
        else:
            lock = Lock(command.db, effect.key, effect.field)
            if self._wanted(lock, effect):
                self._on(command, lock, effect)
            if effect.field is None and effect.kind in ("delete", "unsure"):
                for part in self.replay.fields_of(command.db, effect.key):
                    self.replay.write(part, effect, command.at)

    def _on(self, command: Command, lock: Lock, effect: Effect) -> None:
        run = self._run if command.client == LUA else None
        client = run.client if run is not None else command.client
        client = _UNKNOWN_SENDER if client == LUA else client
        if effect.kind == "attempt":
            outcome = self.replay.attempt(lock, effect, command.at, client)
            self._tried(lock, client, command.at, outcome, effect.value)
            if run is not None:
                self._touch(run, lock).attempted = True
                if outcome == "acquired":
                    self._takers.add(run.script)
        elif effect.kind == "look":
            if run is None:
                caller = self._caller(lock, client, command.at)
                self._locks[lock].looks += 1
                if caller is not None:
                    caller.count.looks += 1
        else:
            self._written(command, lock, effect, run, client)

    def _written(self, command: Command, lock: Lock, effect: Effect, run: Run | None, client: str) -> None:
        if run is not None:  # judged as a whole when the script has ended; what it began with counts
            touch = self._touch(run, lock)
            touch.deleted |= effect.kind == "delete"
            touch.retimed |= effect.kind in ("expire", "persist")
            touch.wrote |= effect.kind in ("put", "replace", "unsure")
            self.replay.write(lock, effect, command.at)
            return
        change = self.replay.write(lock, effect, command.at)
        count = self._locks[lock]
        if change in ("created", "unknown") and effect.kind == "put":
            outcome: Outcome = "acquired" if change == "created" else "unknown"
            self._tried(lock, client, command.at, outcome, effect.value)
        elif effect.kind == "delete":
            count.releases += change != "none"
        elif effect.kind in ("expire", "persist", "replace"):
            count.renewals += change != "none"

    def _tried(self, lock: Lock, client: str, at: float, outcome: Outcome, token: bytes) -> None:
        self._locks[lock].attempt(outcome)
        caller = self._caller(lock, client, at)
        if caller is not None:
            caller.count.attempt(outcome)
            if 0 < len(token) <= _MAX_TOKEN:
                caller.token = token

    def _caller(self, lock: Lock, client: str, at: float) -> _Caller | None:
        caller = self._callers.get((lock, client))
        if caller is None:
            if len(self._callers) >= MAX_CALLERS:
                self.beyond += 1
                return None
            caller = self._callers[lock, client] = _Caller()
        caller.times.append(at)
        return caller

    def _wanted(self, lock: Lock, effect: Effect) -> bool:
        if lock in self._locks:
            return True
        if self._dbs and lock.db not in self._dbs:
            return False
        taken = effect.kind == "attempt" and self._anywhere and effect.until not in (None, NEVER)
        if not taken and not self._may_be(lock.key):
            return False
        if effect.field is not None and effect.kind != "attempt":
            return False  # a field of a hash is a lock only if somebody takes it as one
        if len(self._locks) >= MAX_LOCKS:
            self.beyond += effect.kind == "attempt"
            return False
        self._locks[lock] = _Count()
        self.replay.follow(lock)
        return True

    def _may_be(self, key: bytes) -> bool:
        judged = self._judged.get(key)
        if judged is None:
            judged, _ = self._watch.lock(key)
            if len(self._judged) < _MAX_JUDGED and len(key) <= _MAX_TOKEN:
                self._judged[key] = judged
        return judged

    # --- scripts ---

    def _begin_run(self, command: Command) -> None:
        run = begin(command)
        if run is None:
            return
        self._run = run
        for lock in self._among(run.keys, command.db):
            self._touch(run, lock)

    def _among(self, keys: tuple[bytes, ...], db: int) -> Iterator[Lock]:
        """Yield the locks among the keys that a script is given."""
        for key in keys:
            lock = Lock(db, key)
            if self._wanted(lock, Effect("look", key)):
                yield lock

    def _note(self, run: Run, command: Command) -> None:
        run.calls += 1
        key = command.first
        if key:
            touch = run.touched.get(Lock(command.db, key))
            if touch is not None:
                touch.last = command.name

    def _touch(self, run: Run, lock: Lock) -> Touch:
        touch = run.touched.get(lock)
        if touch is None:
            touch = run.touched[lock] = Touch(self.replay.held(lock, run.at))
            if touch.before is None:
                self.replay.wonder(lock)
        return touch

    def _end_run(self) -> None:
        run, self._run = self._run, None
        if run is None or not run.calls:
            return
        for lock, touch in run.touched.items():
            verdict = touch.verdict()
            count = self._locks[lock]
            if verdict in ("acquired", "refused", "unknown"):
                self._tried(lock, run.client, run.at, verdict, b"")
                if verdict == "acquired":
                    self._takers.add(run.script)
            elif verdict == "renewed":
                count.renewals += 1
            elif verdict == "released":
                count.releases += 1
            elif verdict == "looked":
                caller = self._caller(lock, run.client, run.at)
                if caller is not None:
                    caller.missed[run.script] += 1


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

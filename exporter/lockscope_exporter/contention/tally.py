"""Who tried to take which lock, and what came of it, told from commands. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockscope_exporter.contention.counts import Counts
from lockscope_exporter.contention.effects import NEVER, Effect, effects
from lockscope_exporter.contention.monitor import LUA
from lockscope_exporter.contention.replay import Lock, Replay
from lockscope_exporter.contention.scripts import RUNNERS, Touch, begin

if TYPE_CHECKING:
    from lockscope_exporter.contention.monitor import Command
    from lockscope_exporter.contention.replay import Outcome
    from lockscope_exporter.contention.scripts import Run
    from lockscope_exporter.sampling.watch import Watch

_MAX_JUDGED = 100_000  # keys of which it is remembered whether they may be locks
_LONG = 512  # bytes of a key of which it is not remembered
_UNKNOWN_SENDER = "script"  # of a script that began before the first line


class Tally:
    """Tells what commands do to locks; bounded memory, whatever comes.

    Args:
        watch: which keys may be locks.
        anywhere: a key that somebody sets with NX and an expiry is a lock, whatever its name.
        dbs: databases that matter; empty for all.

    Attributes:
        replay: which locks are there; its ``questions`` want answers.
        counts: what was told so far; complete after ``finish``.
    """

    def __init__(self, watch: Watch, *, anywhere: bool, dbs: frozenset[int] = frozenset()) -> None:
        self.replay = Replay()
        self.counts = Counts()
        self._watch = watch
        self._anywhere = anywhere
        self._dbs = dbs
        self._judged: dict[bytes, bool] = {}
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
            self._run.called(command)
        for effect in effects(command):
            self._apply(command, effect)

    def answer(self, lock: Lock, until: float | None, at: float) -> None:
        """Take in the answer to one of the questions of ``replay``, at the line where it was true."""
        for client, outcome in self.replay.answer(lock, until, at):
            self.counts.settle(lock, client, outcome)

    def finish(self) -> None:
        """Take in that no more commands come: what scripts that only looked were about is decided."""
        self._end_run()
        self.counts.decide(self._takers)

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
            self.counts.tried(lock, client, command.at, outcome, effect.value)
            if run is not None:
                self._touch(run, lock).attempted = True
                if outcome == "acquired":
                    self._takers.add(run.script)
        elif effect.kind != "look":
            self._written(command, lock, effect, run, client)
        elif run is None:
            self.counts.looked(lock, client, command.at)

    def _written(self, command: Command, lock: Lock, effect: Effect, run: Run | None, client: str) -> None:
        if run is not None:  # judged as a whole when the script has ended; what it began with counts
            touch = self._touch(run, lock)
            touch.deleted |= effect.kind == "delete"
            touch.retimed |= effect.kind in ("expire", "persist")
            touch.wrote |= effect.kind in ("put", "replace", "unsure")
            self.replay.write(lock, effect, command.at)
            return
        change = self.replay.write(lock, effect, command.at)
        count = self.counts.locks[lock]
        if change in ("created", "unknown") and effect.kind == "put":
            outcome: Outcome = "acquired" if change == "created" else "unknown"
            self.counts.tried(lock, client, command.at, outcome, effect.value)
        elif effect.kind == "delete":
            count.releases += change != "none"
        elif effect.kind in ("expire", "persist", "replace"):
            count.renewals += change != "none"

    def _wanted(self, lock: Lock, effect: Effect) -> bool:
        if lock in self.counts.locks:
            return True
        if self._dbs and lock.db not in self._dbs:
            return False
        attempt = effect.kind == "attempt"
        if not (attempt and self._anywhere and effect.until not in (None, NEVER)) and not self._may_be(
            lock.key
        ):
            return False
        if effect.field is not None and not attempt:
            return False  # a field of a hash is a lock only if somebody takes it as one
        if not self.counts.admit(lock, attempt=attempt):
            return False
        self.replay.follow(lock)
        return True

    def _may_be(self, key: bytes) -> bool:
        judged = self._judged.get(key)
        if judged is None:
            judged, _ = self._watch.lock(key)
            if len(self._judged) < _MAX_JUDGED and len(key) <= _LONG:
                self._judged[key] = judged
        return judged

    # --- scripts ---

    def _begin_run(self, command: Command) -> None:
        self._run = run = begin(command)
        if run is None:
            return
        for key in run.keys:
            lock = Lock(command.db, key)
            if self._wanted(lock, Effect("look", key)):
                self._touch(run, lock)

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
            count = self.counts.locks[lock]
            if verdict in ("acquired", "refused", "unknown"):
                self.counts.tried(lock, run.client, run.at, verdict, b"")
                if verdict == "acquired":
                    self._takers.add(run.script)
            elif verdict == "renewed":
                count.renewals += 1
            elif verdict == "released":
                count.releases += 1
            elif verdict == "looked":
                self.counts.missed(lock, run.client, run.at, run.script)

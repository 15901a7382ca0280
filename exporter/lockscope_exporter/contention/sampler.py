"""Listening to one server with MONITOR: bounded in time and bytes, whatever the server does."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import redis
from redis.exceptions import ResponseError

from lockscope_exporter.connect import own_connection
from lockscope_exporter.contention.cost import cost, meter
from lockscope_exporter.contention.effects import NEVER
from lockscope_exporter.contention.feed import FULL, MonitorFeed
from lockscope_exporter.contention.monitor import Lines, parse
from lockscope_exporter.contention.replay import Lock
from lockscope_exporter.contention.report import Report
from lockscope_exporter.contention.side import ASKED, Side, Sides
from lockscope_exporter.contention.tally import Tally
from lockscope_exporter.explain import explain
from lockscope_exporter.sampling.facts import parse_info

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

    from redis.connection import AbstractConnection

    from lockscope_exporter.contention.cost import Meter
    from lockscope_exporter.contention.monitor import Command
    from lockscope_exporter.nodes import Server
    from lockscope_exporter.sampling.watch import Watch

_BASELINE = 0.3  # seconds over which the server's load before is measured
_WAIT = 0.05  # seconds to wait for output at a time
_QUESTIONS = 100  # sent between two looks at the socket
_MISSING = -2  # what PTTL says of a key that is not there
_AFTERWARDS = 1.0  # seconds of work on what came in before an interruption


@dataclass(frozen=True, slots=True)
class Plan:
    """How to listen.

    Attributes:
        seconds: how long.
        max_bytes: how much output at most.
        timeout: seconds for one answer.
        admits: which keys may be locks.
        anywhere: any key set with NX and an expiry is a lock.
        prefix: names families of keys.
        dbs: databases that matter; empty for all.
    """

    seconds: float
    max_bytes: int
    timeout: float
    admits: Watch
    anywhere: bool
    prefix: Callable[[bytes], str]
    dbs: frozenset[int] = frozenset()


@dataclass(slots=True)
class Progress:
    """How far listening is, for whoever watches from another thread.

    Attributes:
        began: monotonic time in seconds when MONITOR began, 0 before.
        ended: the same for its end.
        bytes: output so far.
        commands: lines counted so far.
        rate: commands a second before MONITOR began, ``None`` if the server did not say.
    """

    began: float = 0.0
    ended: float = 0.0
    bytes: int = 0
    commands: int = 0
    rate: float | None = None


def listen(server: Server, plan: Plan, stop: Event, progress: Progress) -> Report:
    """Listen to one server; never raises for what the server does, the report says it.

    Args:
        server: where.
        plan: how.
        stop: set by whoever wants it to end.
        progress: kept up to date.
    """
    listener = _Listener(server, plan, stop, progress)
    error = ""
    try:
        listener.run()
    except (redis.RedisError, OSError) as failed:
        error = _lost(failed) if progress.began else ""
        if not error:
            reason = explain(failed)
            error = f"{reason.what}; {reason.fix}"
    finally:
        listener.close()
    return listener.report(error)


def _lost(error: Exception) -> str:
    """Say why a connection that listened was lost; empty if the server did not cut it."""
    if isinstance(error, redis.TimeoutError | TimeoutError | redis.exceptions.BusyLoadingError):
        return ""
    if not isinstance(error, redis.ConnectionError | ConnectionError):
        return ""
    return (
        "the server cut the connection while it listened: it ended, somebody ran CLIENT KILL, or the output "
        "was more than its client-output-buffer-limit allows; see the server's log"
    )


@dataclass(slots=True)
class _Listener:
    server: Server
    plan: Plan
    stop: Event
    progress: Progress
    tally: Tally = field(init=False)
    _connections: list[AbstractConnection] = field(default_factory=list)
    _stopped: str = "lost"
    _meters: list[Meter] = field(default_factory=list)
    _names: dict[str, str] = field(default_factory=dict)
    _notes: list[str] = field(default_factory=list)
    _unreadable: int = 0

    def __post_init__(self) -> None:
        self.tally = Tally(self.plan.admits, anywhere=self.plan.anywhere, dbs=self.plan.dbs)

    def run(self) -> None:
        """Listen.

        Raises:
            redis.RedisError, OSError: the server refuses, or is lost.
        """
        sides = Sides(self._open, self.plan.timeout)
        self._measure(sides.main)
        if self._meters:
            self.progress.rate = self._meters[0].rate
            self.stop.wait(_BASELINE)
            self._measure(sides.main)
        self._listen(MonitorFeed(self._open(protocol=2), self.plan.timeout), sides)
        if not self.tally.replay.asking:
            self._notes.append("some outcomes stay unknown: the user may not run PTTL on these keys")
        self._name_clients(sides.main)

    def close(self) -> None:
        """Close every connection."""
        for connection in self._connections:
            connection.disconnect()  # type: ignore[no-untyped-call]

    def report(self, error: str) -> Report:
        """Return what was heard."""
        self.tally.finish()
        progress = self.progress
        seconds = max(progress.ended - progress.began, 0.0) if progress.began else 0.0
        name = self.server.name
        costs = {}
        if len(self._meters) == 3:  # noqa: PLR2004 - before, at the beginning, at the end
            before, start, end = self._meters
            costs[name] = cost(before, start, end, progress.bytes)
        counts = self.tally.counts
        callers = counts.callers(name, seconds, self._names)
        if any(caller.address.startswith("unix:") for caller in callers):
            self._notes.append("clients that connect through a socket file cannot be told apart")
        return Report(
            nodes=(name,),
            seconds=seconds,
            stopped="lost" if error else self._stopped,
            commands=progress.commands,
            output_bytes=progress.bytes,
            unreadable=self._unreadable,
            beyond=counts.beyond,
            keys=counts.keys(name, seconds, self.plan.prefix),
            callers=callers,
            costs=costs,
            notes=tuple(self._notes),
            errors={name: error} if error else {},
        )

    # --- listening ---

    def _open(self, **overrides: Any) -> AbstractConnection:
        connection = own_connection(self.server.open(**overrides))
        self._connections.append(connection)
        return connection

    def _listen(self, monitor: MonitorFeed, sides: Sides) -> None:
        progress = self.progress
        progress.began = time.monotonic()
        lines = Lines()
        backlog: deque[bytes] = deque()
        try:
            while not self._is_over():
                chunk = monitor.receive(0.0 if backlog else _WAIT)
                if chunk:
                    progress.bytes += len(chunk)
                    backlog.append(chunk)
                    if len(chunk) >= FULL:
                        continue  # what is read no longer fills the server's memory: parsing can wait
                if backlog:
                    self._take(lines, backlog.popleft(), sides)
                sides.main.beat()
                for side in sides.all():
                    self._refused(side.pump())
                self._ask(sides)
            monitor.close()
            progress.ended = time.monotonic()  # working up the backlog may take longer than listening did
            # Answers that are on their way still tell what was true at lines that are in the backlog.
            sides.main.settle()
            self._measure(sides.main)
        finally:
            monitor.close()
            progress.ended = progress.ended or time.monotonic()
            patience = time.monotonic() + _AFTERWARDS
            while backlog and not (self.stop.is_set() and time.monotonic() > patience):
                self._take(lines, backlog.popleft(), sides)
            self._unreadable += lines.skipped

    def _is_over(self) -> bool:
        if self.stop.is_set():
            self._stopped = "interrupted"
        elif self.progress.bytes >= self.plan.max_bytes:
            self._stopped = "bytes"
        elif time.monotonic() - self.progress.began >= self.plan.seconds:
            self._stopped = "time"
        else:
            return False
        return True

    def _take(self, lines: Lines, chunk: bytes, sides: Sides) -> None:
        for line in lines.feed(chunk):
            command = parse(line)
            if command is None:
                self._unreadable += 1
                continue
            self.progress.commands += 1
            if not (command.sent == ASKED and self._answered(command, sides.known(command.db))):
                self.tally.feed(command)

    def _answered(self, command: Command, side: Side | None) -> bool:
        """Take in the answer to a question of ours at its line; return whether it is one."""
        lock = Lock(command.db, command.first)
        if side is None or side.next != lock:
            return False
        answer = side.take()
        if answer is None:
            return False
        until = None if answer == _MISSING else NEVER if answer < 0 else command.at + answer / 1000
        self.tally.answer(lock, until, command.at)
        return True

    def _refused(self, refused: list[tuple[Lock, ResponseError]]) -> None:
        for lock, error in refused:
            self.tally.replay.unanswered(lock)
            if isinstance(error, redis.exceptions.NoPermissionError):
                self.tally.replay.asking = False

    def _ask(self, sides: Sides) -> None:
        replay = self.tally.replay
        for _ in range(min(len(replay.questions), _QUESTIONS)):
            lock = replay.questions.popleft()
            side = sides.of(lock.db) if replay.asking else None
            if side is None:
                replay.unanswered(lock)
            else:
                side.ask(lock)

    # --- beside ---

    def _measure(self, side: Side) -> None:
        try:
            info = parse_info(side.call(b"INFO").decode("utf-8", "replace"))
        except ResponseError:
            return
        found = meter(info, time.monotonic())
        if found is not None:
            self._meters.append(found)
        if not self._notes and info.get("role") == "slave":
            self._notes.append(f"{self.server.name} is a replica: it does not see who tries on its master")

    def _name_clients(self, side: Side) -> None:
        try:
            self._names = client_names(side.call(b"CLIENT", b"LIST"))
        except ResponseError:
            self._notes.append("names of clients are not known: the user may not run CLIENT LIST")


def client_names(answer: Any) -> dict[str, str]:
    """Return what clients call themselves, by their addresses, from the answer to CLIENT LIST."""
    names = {}
    for line in bytes(answer).decode("utf-8", "replace").splitlines():
        fields = dict(part.split("=", 1) for part in line.split(" ") if "=" in part)
        name = fields.get("name", "")
        if name:
            names[fields.get("addr", "")] = name
    return names

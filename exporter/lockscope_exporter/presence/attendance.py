"""Who is present, by the counts of subscribers that servers give. Pure.

An instrumented process subscribes to a channel of its own at the server where it takes locks. The count of
its subscribers is one while it lives, also while it is paused, and drops as soon as its socket closes. A
holder is *gone* only on proof: none there in two samples in a row at every node, some time apart, outside
the time after a reconnect in which processes may be on their way back, and only if absence means something
for this process at all. Even that may be a proxy that lost its connections. So the process must have been
seen to have ended, which a reader on its host can, or stay away without a break for as long as any that lives
takes to come back. One that is seen to run is never gone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from lockscope_exporter.moments import span

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from lockscope_exporter.state import Holder, Life

APART = 1.0  # seconds between two samples that agree
GRACE = 10.0  # seconds that a process which lives may take to come back; after a reconnect of ours too
PATIENCE = 3.0  # seconds from the first acquire of a process until it should have been present
SILENT = 45.0  # seconds: three pings missed, so the process is paused or its host has vanished
VANISHED = 300.0  # seconds of silence that are longer than any pause
_WHOLE = 1.0  # seconds: servers give their age in whole ones
_UNDECIDED = 2.5  # seconds that a question may stay open before nobody waits for its answer


class Standing(NamedTuple):
    """How a holder stands.

    Attributes:
        alive: ``alive``, ``gone`` or ``unknown``.
        since: unix time in seconds since when it is gone; ``None`` if it was gone before anybody looked.
        doubt: why it is not called gone although its presence connection is closed or silent, or why it is
            although that is open; else empty.
    """

    alive: Life
    since: float | None = None
    doubt: str = ""


_ALIVE = Standing("alive")
_UNKNOWN = Standing("unknown")
_SILENCE = "its presence connection has been silent for over"
_SILENT_FOR_NOW = Standing(
    "unknown", doubt=f"{_SILENCE} {SILENT:.0f} s: it is paused, or its host has vanished"
)
_VANISHED = f"{_SILENCE} {VANISHED / 60:.0f} min: its host has vanished"


@dataclass(slots=True)
class _Worker:
    """What is known of one process. Times are monotonic seconds.

    Attributes:
        asked: when it was first asked for.
        present: nodes that counted it in their last sample.
        absent: by node, the first and the last of the samples in a row without it.
        seen: it was present once.
        away: since when it is absent, by two samples at least.
        waited: it was away for the whole grace.
        runs: what was seen of its process: it runs, it has ended, or nothing.
        holder: what its token says.
        idle: seconds since its connection was last used, where the server tells.
    """

    asked: float
    present: set[str] = field(default_factory=set)
    absent: dict[str, tuple[float, float]] = field(default_factory=dict)
    seen: bool = False
    away: float | None = None
    waited: bool = False
    runs: bool | None = None
    holder: Holder | None = None
    idle: float = 0.0

    @property
    def lost(self) -> bool:
        """It is away for good."""
        return self.away is not None and self.runs is not True and (self.waited or self.runs is False)

    def forget(self) -> None:
        """Begin anew to count how long it is away, since nobody looked meanwhile."""
        if not self.lost:
            self.away = None

    @property
    def looks(self) -> tuple[object, ...]:
        """What answers depend on."""
        return bool(self.present), self.away, self.lost, self.runs


class Attendance:
    """The presence of the processes that hold locks of one target. Not safe between threads.

    Args:
        runs: looks at a holder's process itself: it runs, it has ended, or ``None`` if it cannot be seen.
        apart: seconds between two samples that agree.
        grace: seconds that a process which lives may take to come back to a server or through a proxy.
    """

    def __init__(
        self, runs: Callable[[Holder], bool | None], apart: float = APART, grace: float = GRACE
    ) -> None:
        self.grace = grace
        self._runs = runs
        self._apart = apart
        self._nodes: set[str] = set()
        self._lost: set[str] = set()
        self._refused: set[str] = set()
        self._quiet_until = 0.0
        self._started: dict[str, float] = {}
        self._works = False
        self._workers: dict[str, _Worker] = {}

    # --- the nodes ---

    def connected(self, node: str, now: float, up_for: float | None) -> None:
        """Take in that a node was connected to, for the first time or again.

        Args:
            node: its name.
            now: monotonic time in seconds.
            up_for: seconds since the server started; ``None`` if it does not say.
        """
        if node in self._nodes or self._lost or up_for is None:
            self._quiet_until = max(self._quiet_until, now + self.grace)
        if up_for is not None:
            self._started[node] = now - up_for
        self._nodes.add(node)
        self._lost.discard(node)
        self._refused.discard(node)
        self._forget(node)

    def moved(self, now: float) -> None:
        """Take in that the target consists of other nodes than before: processes have to follow."""
        self._quiet_until = max(self._quiet_until, now + self.grace)

    def lost(self, node: str) -> None:
        """Take in that a node is out of reach: what it last said holds no longer."""
        if node in self._nodes:
            self._lost.add(node)
            self._forget(node)

    def left(self, node: str) -> None:
        """Take in that a node is no part of the target any more."""
        self._nodes.discard(node)
        self._lost.discard(node)
        self._refused.discard(node)
        self._started.pop(node, None)
        self._forget(node)

    def refused(self, node: str) -> None:
        """Take in that a node gives this user no counts."""
        self._refused.add(node)

    # --- samples ---

    def asked(self, workers: Collection[str], now: float) -> None:
        """Keep these workers in mind and forget all others."""
        for worker in workers:
            if worker not in self._workers:
                self._workers[worker] = _Worker(now)
        if len(self._workers) > len(workers):
            for worker in self._workers.keys() - set(workers):
                del self._workers[worker]

    def sample(self, node: str, counts: Mapping[str, int], now: float) -> set[str]:
        """Take in how many subscribers a node counts on each worker's channel.

        Args:
            node: the node.
            counts: by worker.
            now: monotonic time in seconds.

        Returns:
            The workers of whom other things are known than before.
        """
        changed = set()
        for name, count in counts.items():
            worker = self._workers.get(name)
            if worker is None:
                continue
            before = worker.looks
            if count > 0:
                self._works = True
                worker.present.add(node)
                worker.absent.pop(node, None)
                worker.seen = True
                worker.away, worker.waited, worker.runs = None, False, None
            else:
                worker.present.discard(node)
                first, last = worker.absent.get(node, (now, now))
                if now - last > self.grace / 2:  # too long without a look: it may have been there meanwhile
                    first = now
                    worker.forget()
                worker.absent[node] = (first, now)
                if worker.away is None and not worker.present:
                    worker.away = self._away_since(worker, now)
                    worker.idle = 0.0
                self._look(worker, now)
            if before != worker.looks:
                changed.add(name)
        return changed

    def idle(self, seconds: Mapping[str, float]) -> set[str]:
        """Take in how long the connections of workers have been silent; return whom that changes."""
        changed = set()
        for name, idle in seconds.items():
            worker = self._workers.get(name)
            if worker is not None and worker.present:
                if _silence(worker.idle) != _silence(idle):
                    changed.add(name)
                worker.idle = idle
        return changed

    # --- answers ---

    def of(self, holder: Holder, now: float, unix: float) -> Standing:
        """Tell whether a holder lives.

        Args:
            holder: one with a worker name.
            now: monotonic time in seconds.
            unix: the same as unix time by the server's clock.
        """
        worker = self._workers.get(holder.worker or "")
        if worker is None:
            return _UNKNOWN
        if worker.present:
            return self._silent(worker, holder, unix)
        if worker.away is None:
            return _UNKNOWN
        return self._away(worker, holder, now, unix)

    def _away(self, worker: _Worker, holder: Holder, now: float, unix: float) -> Standing:
        """Tell how a holder stands whose connection is closed."""
        away = now if worker.away is None else worker.away
        if worker.holder is None:
            worker.holder = holder
            self._look(worker, now)
        if worker.runs:
            return _closed_but_runs(holder.pid)
        if self._forgiven(away, holder, now, unix) or not self._means_something(worker, holder, unix):
            return _UNKNOWN
        if not worker.lost:
            doubt = "its presence connection is closed, which proves nothing before it was for"
            return Standing("unknown", doubt=f"{doubt} {span(self.grace)}")
        return Standing("gone", unix - (now - away) if worker.seen else None)

    def settled(
        self,
        workers: Collection[str],
        now: float,
        holders: Callable[[str], Iterable[Holder]] = lambda _: (),
    ) -> bool:
        """Tell whether no answer is to be had of these workers by waiting a moment.

        Args:
            workers: their names.
            now: monotonic time in seconds.
            holders: returns what the tokens of a worker say; without it nothing is taken for meaningless.
        """
        if self._refused or self._lost or not self._nodes or now < self._quiet_until:
            return True
        for name in workers:
            worker = self._workers.get(name)
            if worker is None:
                return False
            if worker.present or worker.away is not None or now - worker.asked >= _UNDECIDED:
                continue
            if not self._tells_nothing(worker, holders(name)):
                return False
        return True

    def _tells_nothing(self, worker: _Worker, holders: Iterable[Holder]) -> bool:
        """Tell whether a second look at an absent worker can say no more of these than that nothing is known.

        Its absence would prove nothing of any of them, and its process is not seen to run.
        """
        if worker.seen or not worker.absent.keys() >= self._nodes:
            return False
        first = None
        for holder in holders:
            if holder.presence is True or (holder.presence is None and self._works):
                return False
            first = first or holder
        return first is not None and self._runs(first) is not True

    def patience(self, workers: Collection[str], now: float, unix: float) -> float:
        """Return for how many seconds to go on sampling until it is clear whether these workers are gone."""
        found = [self._workers[name] for name in workers if name in self._workers]
        return max(
            (
                max(self.grace - (now - worker.away), self._apart / 2)
                for worker in found
                if worker.away is not None
                and worker.holder is not None
                and not worker.lost
                and not worker.runs
                and self._means_something(worker, worker.holder, unix)
            ),
            default=0.0,
        )

    def _look(self, worker: _Worker, now: float) -> None:
        """Look at the process of a worker that is away, and at how long it has been."""
        if worker.away is None:
            return
        worker.waited = worker.waited or now - worker.away >= self.grace
        if worker.holder is not None and worker.runs is not False:
            worker.runs = self._runs(worker.holder)

    def _silent(self, worker: _Worker, holder: Holder, unix: float) -> Standing:
        """Tell how a holder stands whose connection is open."""
        if worker.idle < SILENT:
            return _ALIVE
        if worker.idle < VANISHED:
            return _SILENT_FOR_NOW
        if self._runs(holder):
            return Standing("unknown", doubt=f"its presence connection is silent, but {_still(holder.pid)}")
        return Standing("gone", unix - worker.idle, _VANISHED)

    def _away_since(self, worker: _Worker, now: float) -> float | None:
        if self._lost or self._refused or now < self._quiet_until:
            return None
        runs = [worker.absent.get(node) for node in self._nodes]
        found = [run for run in runs if run is not None and run[1] - run[0] >= self._apart]
        if not found or len(found) < len(runs):
            return None
        return max(first for first, _ in found)

    def _forgiven(self, away: float, holder: Holder, now: float, unix: float) -> bool:
        """Tell whether a holder's connection ended when a server did, so that it may be on its way back."""
        started = max(self._started.values(), default=0.0)
        if away < started or now - started >= self.grace:
            return False
        return holder.started_at is None or holder.started_at < unix - (now - started) - _WHOLE

    def _means_something(self, worker: _Worker, holder: Holder, unix: float) -> bool:
        """Tell whether the absence of a worker proves that it is gone.

        It does if the worker was present before, seen from here or by the word of its token. One that took
        the lock before it could know is believed to be gone if presence works for others and it had time.
        """
        if worker.seen or holder.presence is True:
            return True
        if holder.presence is False or not self._works:
            return False
        return holder.started_at is not None and unix - holder.started_at > PATIENCE

    def _forget(self, node: str) -> None:
        for worker in self._workers.values():
            worker.present.discard(node)
            worker.absent.pop(node, None)
            worker.forget()


@lru_cache(maxsize=1024)
def _closed_but_runs(pid: int | None) -> Standing:
    return Standing("unknown", doubt=f"its presence connection is closed, but {_still(pid)}")


def _still(pid: int | None) -> str:
    return f"process {pid} still runs here"


def _silence(idle: float) -> int:
    return (idle >= SILENT) + (idle >= VANISHED)

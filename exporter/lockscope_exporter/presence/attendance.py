"""Who is present, by the counts of subscribers that servers give. Pure.

An instrumented process subscribes to a channel of its own at the server where it takes locks. The count of
its subscribers is one while it lives, also while it is paused, and drops as soon as its socket closes. A
holder is *gone* only on proof: none there in two samples in a row at every node, some time apart, outside
the time after a reconnect in which processes may be on their way back, and only if absence means something
for this process at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lockscope_exporter.state import Holder, Life

APART = 1.0  # seconds between two samples that agree
GRACE = 10.0  # seconds after a reconnect in which nobody is found gone; processes are back within four
PATIENCE = 3.0  # seconds from the first acquire of a process until it should have been present
SILENT = 45.0  # seconds: three pings missed, so the process is paused or its host has vanished
VANISHED = 300.0  # seconds of silence that are longer than any pause
_WHOLE = 1.0  # seconds: servers give their age in whole ones
_UNDECIDED = 2.5  # seconds that a question may stay open before nobody waits for its answer


@dataclass(slots=True)
class _Worker:
    """What is known of one process. Times are monotonic seconds.

    Attributes:
        asked: when it was first asked for.
        present: nodes that counted it in their last sample.
        absent: by node, the first and the last of the samples in a row without it.
        seen: it was present once.
        gone: since when it is gone.
        idle: seconds since its connection was last used, where the server tells.
    """

    asked: float
    present: set[str] = field(default_factory=set)
    absent: dict[str, tuple[float, float]] = field(default_factory=dict)
    seen: bool = False
    gone: float | None = None
    idle: float = 0.0


class Attendance:
    """The presence of the processes that hold locks of one target. Not safe between threads.

    Args:
        apart: seconds between two samples that agree.
        grace: seconds after a reconnect in which nobody is found gone.
    """

    def __init__(self, apart: float = APART, grace: float = GRACE) -> None:
        self.grace = grace
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
            before = (bool(worker.present), worker.gone)
            if count > 0:
                self._works = True
                worker.present.add(node)
                worker.absent.pop(node, None)
                worker.seen = True
                worker.gone = None
            else:
                worker.present.discard(node)
                first, _ = worker.absent.get(node, (now, now))
                worker.absent[node] = (first, now)
                if worker.gone is None and not worker.present:
                    worker.gone = self._gone_since(worker, now)
                    worker.idle = 0.0
            if before != (bool(worker.present), worker.gone):
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

    def of(self, holder: Holder, now: float, unix: float) -> tuple[Life, float | None]:
        """Tell whether a holder lives.

        Args:
            holder: one with a worker name.
            now: monotonic time in seconds.
            unix: the same as unix time by the server's clock.

        Returns:
            ``alive``; ``gone`` and since when in unix time, ``None`` if it was gone before anybody looked; or
            ``unknown``.
        """
        worker = self._workers.get(holder.worker or "")
        if worker is None:
            return "unknown", None
        if worker.present:
            if worker.idle >= VANISHED:
                return "gone", unix - worker.idle
            return ("unknown" if worker.idle >= SILENT else "alive"), None
        if (
            worker.gone is not None
            and not self._forgiven(worker.gone, holder, now, unix)
            and self._means_something(worker, holder, unix)
        ):
            return "gone", unix - (now - worker.gone) if worker.seen else None
        return "unknown", None

    def settled(self, workers: Collection[str], now: float) -> bool:
        """Tell whether no answer is to be had of these workers by waiting a moment."""
        if self._refused or self._lost or not self._nodes or now < self._quiet_until:
            return True
        for name in workers:
            worker = self._workers.get(name)
            if worker is None:
                return False
            if not worker.present and worker.gone is None and now - worker.asked < _UNDECIDED:
                return False
        return True

    def _gone_since(self, worker: _Worker, now: float) -> float | None:
        if self._lost or self._refused or now < self._quiet_until:
            return None
        runs = [worker.absent.get(node) for node in self._nodes]
        found = [run for run in runs if run is not None and run[1] - run[0] >= self._apart]
        if not found or len(found) < len(runs):
            return None
        return max(first for first, _ in found)

    def _forgiven(self, gone: float, holder: Holder, now: float, unix: float) -> bool:
        """Tell whether a holder's connection ended when a server did, so that it may be on its way back."""
        started = max(self._started.values(), default=0.0)
        if gone < started or now - started >= self.grace:
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


def _silence(idle: float) -> int:
    return (idle >= SILENT) + (idle >= VANISHED)

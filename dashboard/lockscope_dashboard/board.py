"""One sampler for every viewer: a snapshot that is built once an interval, and an hour of counts."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lockscope_dashboard.frames.locks import SEVERITY, locks_frame
from lockscope_exporter.garbage import without_collections

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    import pandas as pd

    from lockscope_exporter.source import Source
    from lockscope_exporter.state import Family, LockState, NodeStatus

T = TypeVar("T")
TREND_EVERY: Final = 5.0
TREND_KEPT: Final = 720
MOST_REMEMBERED: Final = 64
LATE: Final = 2.0  # seconds; who would have to wait for a snapshot gets the last one, if no older than that
BREATHER: Final = 4.0  # times the cost of a snapshot that it is left alone


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything live at one instant.

    Attributes:
        at: unix time in seconds when it was taken.
        locks: live locks; row ``i`` of ``frame`` is ``locks[i]``.
        frame: see ``frames.locks.locks_frame``.
        nodes: how sampling of each node stands.
        families: running counts by prefix.
    """

    at: float
    locks: Sequence[LockState]
    frame: pd.DataFrame
    nodes: Sequence[NodeStatus]
    families: Sequence[Family]
    _worked_out: dict[Hashable, Any] = field(default_factory=dict, repr=False, compare=False)

    def remembered(self, what: Hashable, make: Callable[[], T]) -> T:
        """Return what follows from this snapshot, worked out once for all viewers who look at the same.

        Args:
            what: names it, with all that it depends on beside the snapshot.
            make: works it out; nobody may change what it returns.
        """
        if what not in self._worked_out:
            if len(self._worked_out) >= MOST_REMEMBERED:
                return make()
            self._worked_out[what] = make()
        found: T = self._worked_out[what]
        return found


@dataclass(frozen=True, slots=True)
class Tick:
    """Counts at one instant.

    Attributes:
        at: unix time in seconds.
        states: live locks by state.
        lost: locks that expired under their holder or were taken over, since the sampler started.
        acquired: locks seen to be taken, since the sampler started.
    """

    at: float
    states: dict[str, int]
    lost: int
    acquired: int


@dataclass(slots=True)
class Board:
    """The shared, thread-safe view that all viewers read.

    Attributes:
        source: the running sampler.
        clock: unix time in seconds.
        started_at: when counting began.
    """

    source: Source
    clock: Callable[[], float] = time.time
    started_at: float = field(init=False)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)
    _snapshot: Snapshot | None = field(init=False, default=None)
    _ticks: deque[Tick] = field(init=False, default_factory=lambda: deque(maxlen=TREND_KEPT))
    _cost: float = field(init=False, default=0.0)
    _leases: dict[str, float] = field(init=False, default_factory=dict)
    _stopped: threading.Event = field(init=False, default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.started_at = self.clock()

    def start(self) -> None:
        """Start the sampler and the counting; both stop with ``stop``."""
        self.source.start()
        threading.Thread(target=self._count, name="lockscope-trend", daemon=True).start()

    def stop(self) -> None:
        """Stop the sampler and the counting; idempotent."""
        self._stopped.set()
        self.source.stop()

    def snapshot(self, max_age: float = 0.5) -> Snapshot:
        """Return a snapshot at most ``max_age`` seconds old; whoever needs a new one builds it for all.

        With very many locks it may be older, so that building takes at most a fifth of the time; with a
        ``max_age`` of 0 it is always new. While somebody builds one, the others get the last one.
        """
        last = self._snapshot
        if max_age and last is not None and self._lock.locked() and 0 <= self.clock() - last.at < LATE:
            return last
        with self._lock:
            now = self.clock()
            found = self._snapshot
            if found is None or not 0 <= now - found.at < max(
                max_age, BREATHER * self._cost if max_age else 0.0
            ):
                start = time.perf_counter()
                with without_collections():
                    locks = self.source.locks()
                    frame = locks_frame(locks)
                found = Snapshot(now, locks, frame, self.source.nodes(), self.source.families())
                self._snapshot = found
                self._leases.update(usual_leases(locks))
                self._cost = time.perf_counter() - start
            return found

    def ticks(self) -> list[Tick]:
        """Return the counts kept so far, oldest first, at most an hour."""
        return list(self._ticks)

    def leases(self) -> dict[str, float]:
        """Return the usual TTL of each prefix, as last seen when its locks were taken or renewed, seconds."""
        with self._lock:
            return dict(self._leases)

    def _count(self) -> None:
        self.source.wait_ready(10.0)
        while True:
            self._ticks.append(tick(self.source.families(), self.clock()))
            if self._stopped.wait(TREND_EVERY):
                return


def usual_leases(locks: Sequence[LockState]) -> dict[str, float]:
    """Return the median TTL of each prefix's live locks, as last seen taken or renewed, seconds."""
    seen: dict[str, list[float]] = {}
    for lock in locks:
        if lock.lease_seconds is not None:
            seen.setdefault(lock.prefix, []).append(lock.lease_seconds)
    return {prefix: median(leases) for prefix, leases in seen.items()}


def tick(families: Sequence[Family], at: float) -> Tick:
    """Add the counts of all families up.

    Args:
        families: running counts by prefix.
        at: unix time in seconds.

    Returns:
        The totals.
    """
    states = dict.fromkeys(SEVERITY, 0)
    lost = acquired = 0
    for family in families:
        for (_, state), keys in family.keys.items():
            states[state] += keys
        lost += family.takeover + family.ended.get("expired", 0)
        acquired += family.acquired
    return Tick(at, states, lost, acquired)

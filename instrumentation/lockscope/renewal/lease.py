"""The books of one lease that is kept alive, and what the block that needs it may see of them."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from lockscope import runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockscope.record import Lease
    from lockscope.renewal.locks import Renewable

_log = logging.getLogger("lockscope")
_SOONER = 4  # after a failure the next try comes in this part of the time that is left
_LEAST = 0.01  # shortest pause after a failure, as a share of the TTL


class Keeping:
    """Deadline, outcome and reports of one lease. Times are ``time.monotonic`` seconds.

    The deadline counts from before each renewal was sent, so it never lies behind the one in Redis: up to it
    the lock is surely ours. Past it nothing is sure, so the lease counts as lost then, even if no answer has
    come yet or the process was paused and has only just gone on. Loss is final, and told once.

    Args:
        lock: the lock.
        every: seconds between two renewals.
        deadline: when the lease lapses unless renewed.
        tell: called once on loss.
    """

    def __init__(self, lock: Renewable, every: float, deadline: float, tell: Callable[[], None]) -> None:
        self.lock = lock
        self.every = every
        self.deadline = deadline
        self.renewals = 0
        self.reason = ""
        self.closed = False
        self.lost = threading.Event()
        self._tell = tell
        self._settled = False
        self._gate = threading.RLock()

    def is_lost(self) -> bool:
        """Tell whether the lease is lost, by the clock too; once true it stays true."""
        if not self.lost.is_set() and not self.closed and time.monotonic() >= self.deadline:
            self.lost.set()
        return self.lost.is_set()

    def remaining(self) -> float:
        """Return the seconds for which the lock is surely ours."""
        return 0.0 if self.is_lost() else max(self.deadline - time.monotonic(), 0.0)

    def first_pause(self) -> float:
        """Return seconds until the first renewal, counted from when the lease began."""
        return max(self.deadline - self.lock.ttl + self.every - time.monotonic(), 0.0)

    def pause_after_failure(self) -> float:
        """Return seconds until the next try: sooner and sooner as the deadline comes near."""
        left = self.deadline - time.monotonic()
        return max(min(self.every, left / _SOONER), self.lock.ttl * _LEAST)

    def close(self) -> None:
        """End the block: what comes later changes nothing and is not reported."""
        with self._gate:
            self.closed = True

    def renewed(self, sent: float) -> None:
        """Take note of a renewal sent at ``sent`` that Redis confirmed."""
        with self._gate:
            if self._over():
                return
            if not self.lost.is_set():
                self.renewals += 1
                self.deadline = sent + self.lock.ttl
                lease = self._observed()
                if lease is not None:
                    lease.recorder.renewed(lease, self.lock.ttl)
                return
        self.lapse()  # the block was told already that it cannot rely on the lease

    def failed(self, error: BaseException) -> None:
        """Take note of a renewal that brought no answer about the lock."""
        with self._gate:
            if self._over():
                return
            lease = self._observed()
            if lease is not None:
                lease.recorder.renew_error(lease, error)

    def lapse(self) -> None:
        """Take note that the deadline passed without a confirmed renewal."""
        self.lose(f"no renewal was confirmed within {self.lock.ttl:g} s")

    def lose(self, reason: str) -> None:
        """Take note of the loss and tell, the first time only."""
        with self._gate:
            if self._over():
                return
            self._settled = True
            self.reason = reason
            self.lost.set()
            lease = self._observed()
            if lease is not None:
                lease.recorder.renew_lost(lease)
        try:
            self._tell()
        except Exception:  # noqa: BLE001 - the callback's failure must not end the keeper
            _log.exception("on_lost failed for lock %r", self.lock.key)

    def _over(self) -> bool:
        return self.closed or self._settled

    def _observed(self) -> Lease | None:
        lease = self.lock.lease
        return lease if lease is not None and runtime.recorder is lease.recorder else None


class Lost:
    """Whether a lease is lost: true in an ``if``, and usable like a ``threading.Event``."""

    def __init__(self, keeping: Keeping) -> None:
        self._keeping = keeping

    def __bool__(self) -> bool:
        return self._keeping.is_lost()

    def __repr__(self) -> str:
        return f"<Lost {bool(self)}>"

    def is_set(self) -> bool:
        """Tell whether the lease is lost; once true it stays true."""
        return self._keeping.is_lost()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait at most ``timeout`` seconds in this thread for the loss; return whether it came."""
        return self._keeping.lost.wait(timeout)


class KeptLease:
    """The lease of a ``keep_alive`` block, as the block sees it."""

    def __init__(self, keeping: Keeping) -> None:
        self._keeping = keeping
        self.lost = Lost(keeping)

    def __repr__(self) -> str:
        state = f"lost: {self.reason}" if self.lost else f"{self.remaining:.3f} s left"
        return f"<KeptLease of {self.key!r}, {state}>"

    @property
    def key(self) -> bytes:
        """The full Redis key."""
        return self._keeping.lock.key

    @property
    def ttl(self) -> float:
        """Length of the lease in seconds."""
        return self._keeping.lock.ttl

    @property
    def every(self) -> float:
        """Seconds between two renewals."""
        return self._keeping.every

    @property
    def renewals(self) -> int:
        """Renewals that Redis confirmed."""
        return self._keeping.renewals

    @property
    def remaining(self) -> float:
        """Seconds for which the lock is surely ours; 0 once it is lost."""
        return self._keeping.remaining()

    @property
    def reason(self) -> str:
        """Why the lease was lost, in one sentence; empty before."""
        return self._keeping.reason

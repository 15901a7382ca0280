"""One Redis server watched by one thread: connect, sweep, follow, and start again when the line is cut."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import redis
from redis.exceptions import ResponseError

from lockscope_exporter.explain import explain
from lockscope_exporter.sampling.session import Session
from lockscope_exporter.state import NodeStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockscope_exporter.sampling.ledger import Ledger
    from lockscope_exporter.sampling.watch import Watch
    from lockscope_exporter.targets import SamplingOptions

_log = logging.getLogger(__name__)
_FIRST_PAUSE = 0.1  # seconds before the first new attempt
_LONGEST_PAUSE = 1.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server is.

    Attributes:
        target: name of the target that it belongs to.
        name: ``host:port`` or socket path.
        dbs: database numbers to sample.
        open_client: returns a fresh client of one database.
    """

    target: str
    name: str
    dbs: tuple[int, ...]
    open_client: Callable[[int], redis.Redis]


class Node:
    """Keeps a ledger true to one server.

    Args:
        place: where it is.
        watch: which keys may be locks.
        options: how to sample.
        ledger: where readings go.
        guard: held around every use of the ledger.
    """

    def __init__(
        self, place: Place, watch: Watch, options: SamplingOptions, ledger: Ledger, guard: threading.RLock
    ) -> None:
        self.place = place
        self.watch = watch
        self.options = options
        self.ledger = ledger
        self.guard = guard
        self.stopping = threading.Event()
        self.settled = threading.Event()
        self.swept = False
        self.up = False
        self.error = "not sampled yet"
        self.heard = time.monotonic()
        self.mode = "scan"
        self.resyncs: dict[str, int] = {}
        self.corrections = 0
        self.offset = 0.0
        self._thread = threading.Thread(
            target=self._run, name=f"lockscope-{place.target}-{place.name}", daemon=True
        )

    def start(self) -> None:
        """Begin in the background."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end."""
        self.stopping.set()

    def join(self) -> None:
        """Wait for the thread to end; at most the timeout of an answer."""
        if self._thread.is_alive():
            self._thread.join()

    def now(self) -> float:
        """Return the server's unix time in seconds, as far as known."""
        return time.monotonic() + self.offset if self.offset else time.time()

    def status(self) -> NodeStatus:
        """Return how sampling stands."""
        return NodeStatus(
            target=self.place.target,
            node=self.place.name,
            up=self.up,
            mode=self.mode,
            age_seconds=time.monotonic() - self.heard,
            error=self.error,
            resyncs=dict(self.resyncs),
            corrections=self.corrections,
        )

    def alive(self) -> None:
        """Note that the server answered and everything in the ledger is current."""
        self.heard = time.monotonic()
        self.up = True
        self.error = ""

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while not self.stopping.is_set():
            session = Session(self)
            began = time.monotonic()
            try:
                session.run()
            except (redis.RedisError, OSError) as error:
                self._failed(error)
            except Exception as error:  # noqa: BLE001 - whatever it is, sampling has to go on
                _log.exception("sampling %s failed", self.place.name)
                self._failed(error)
            finally:
                session.close()
            if time.monotonic() - began > _LONGEST_PAUSE:
                pause = _FIRST_PAUSE
            self.stopping.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _failed(self, error: BaseException) -> None:
        what, fix = explain(error)
        self.up = False
        self.error = f"{what}; {fix}" if isinstance(error, ResponseError | redis.ConnectionError) else what
        with self.guard:
            self.ledger.suspend(self.place.name)
        self.settled.set()

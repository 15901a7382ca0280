"""One Redis server watched by one thread: connect, sweep, follow, and start again when the line is cut."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import redis

from lockscope_exporter.explain import explain
from lockscope_exporter.sampling.facts import eviction_safe, warnings
from lockscope_exporter.sampling.session import Session
from lockscope_exporter.state import NodeStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockscope_exporter.sampling.shared import Shared
    from lockscope_exporter.state import ServerFacts

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
        shared: what it has in common with the other nodes of its target.
    """

    def __init__(self, place: Place, shared: Shared) -> None:
        self.place = place
        self.shared = shared
        self.stopping = threading.Event()
        self.settled = threading.Event()
        self._wanted = ""
        self.swept = False
        self.mode = "scan" if shared.options.mode == "scan" else "tracking"
        self.feed_warnings: tuple[str, ...] = ()
        self.corrections = 0
        self.restarted = False
        self.reason = "reconnect"
        self.elsewhere: Callable[[int, bytes, tuple[str, int]], None] = _ignore
        self._facts: ServerFacts | None = None
        self._up = False
        self._error = "not sampled yet"
        self._heard = time.monotonic()
        self._offset = time.time() - time.monotonic()
        self._unreadable = 0
        self._resyncs: dict[str, int] = {}
        self._requests: list[tuple[int, bytes]] = []
        self._reading_requests = False
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

    @property
    def running(self) -> bool:
        """Whether the thread has not ended."""
        return self._thread.is_alive()

    @property
    def up(self) -> bool:
        """Whether the last sample succeeded."""
        return self._up

    def now(self) -> float:
        """Return the server's unix time in seconds, as far as known."""
        return time.monotonic() + self._offset

    def status(self) -> NodeStatus:
        """Return how sampling stands."""
        known = self._facts
        return NodeStatus(
            target=self.place.target,
            node=self.place.name,
            up=self._up,
            mode=self.mode,
            age_seconds=max(time.monotonic() - self._heard, 0.0),
            error=self._error,
            resyncs=dict(self._resyncs),
            corrections=self.corrections,
            eviction_safe=None if known is None else eviction_safe(known),
            evicted_keys=None if known is None else known.evicted_keys,
            warnings=self._warnings(),
            facts=known,
            unreadable=self._unreadable,
            visited=self.settled.is_set(),
        )

    # --- what the session says ---

    def alive(self, heard: float, offset: float, unreadable: int) -> None:
        """Note that the server answered and what the ledger says is current.

        Args:
            heard: monotonic time in seconds of the last answer.
            offset: the server's unix time minus monotonic time, seconds.
            unreadable: keys that this user may not read.
        """
        self._heard = heard
        self._offset = offset
        self._unreadable = unreadable
        self._error = ""
        self._up = True

    def learn(self, facts: ServerFacts | None) -> None:
        """Note what the server says of itself."""
        if facts is not None and facts is not self._facts:
            self.restarted = self._facts is not None and facts.run_id != self._facts.run_id
            self._facts = facts

    def resynced(self, reason: str) -> None:
        """Count a resynchronisation."""
        self._resyncs[reason] = self._resyncs.get(reason, 0) + 1

    def resync(self, reason: str) -> None:
        """Have every key visited again soon."""
        self._wanted = reason

    def take_resync(self) -> str:
        """Return why every key is to be visited again, empty if it is not; once."""
        reason, self._wanted = self._wanted, ""
        return reason

    # --- what other nodes of a cluster say ---

    def request(self, db: int, key: bytes) -> None:
        """Have a key read that is said to be here now."""
        self._requests.append((db, key))

    def take_requests(self) -> list[tuple[int, bytes]]:
        """Return the keys to read; once."""
        if not self._requests:
            return []
        self._reading_requests = True
        requests, self._requests = self._requests, []
        return requests

    def requests_read(self) -> None:
        """Note that the keys taken were read."""
        self._reading_requests = False

    @property
    def requested(self) -> bool:
        """Whether keys are still to be read that are said to be here."""
        return bool(self._requests) or self._reading_requests

    # --- the thread ---

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while not self.stopping.is_set():
            session = Session(self)
            try:
                session.run()
            except (redis.RedisError, OSError) as error:
                self._failed(error, session)
            except Exception as error:  # noqa: BLE001 - whatever it is, sampling has to go on
                _log.exception("sampling %s failed", self.place.name)
                self._failed(error, session)
            finally:
                session.close()
                with self.shared.guard:
                    self.shared.attendance.lost(self.place.name)
            pause = _FIRST_PAUSE if session.live else min(2 * pause, _LONGEST_PAUSE)
            self.stopping.wait(pause)

    def _failed(self, error: BaseException, session: Session) -> None:
        cut_off = isinstance(error, redis.ConnectionError) and not isinstance(error, redis.BusyLoadingError)
        if session.live and cut_off:
            return  # not dead: one new attempt before anything is said
        reason = explain(error)
        self._error = f"{reason.what}; {reason.fix}"
        self._up = False
        with self.shared.guard:
            self.shared.ledger.suspend(self.place.name)
            if self.shared.book is not None:
                self.shared.book.drop(self.place.name)
        self.settled.set()

    def _warnings(self) -> tuple[str, ...]:
        found = list(self.feed_warnings)
        if self._unreadable:
            found.append(f"{self._unreadable} keys may not be read by this user: grant them or watch fewer")
        if self._facts is not None:
            found += warnings(self._facts)
        return tuple(found)


def _ignore(_db: int, _key: bytes, _address: tuple[str, int]) -> None:
    """Do nothing: a server that is no cluster node moves no keys."""

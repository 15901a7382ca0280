"""Looking at the server itself now and then: how safely it keeps locks, and whether it evicts them."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from redis.exceptions import BusyLoadingError, ResponseError

from lockscope_exporter.sampling.evictions import Evictions
from lockscope_exporter.sampling.facts import eviction_safe, server_facts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockscope_exporter.sampling.intake import Intake
    from lockscope_exporter.sampling.wire import Line
    from lockscope_exporter.state import ServerFacts

_EVERY = 5.0  # seconds


class ServerWatch:
    """Reads INFO every few seconds.

    Args:
        line: where to ask.
        intakes: told how to tell evictions from releases.

    Attributes:
        facts: what the server last said of itself; ``None`` if INFO is not granted.
        due: monotonic time in seconds when to look again.
        exact: the feed tells evictions as such, nothing need be shared out.
    """

    def __init__(self, line: Line, intakes: Iterable[Intake]) -> None:
        self.facts: ServerFacts | None = None
        self.due = time.monotonic()
        self.exact = False
        self._line = line
        self._intakes = tuple(intakes)
        self._evictions: Evictions | None = None

    @property
    def evicts(self) -> bool:
        """Whether the server may evict locks, as far as it said."""
        return self._evictions is not None

    def run(self) -> None:
        """Look again.

        Raises:
            redis.BusyLoadingError: it answers, but has no keys yet.
        """
        self.due = time.monotonic() + _EVERY
        try:
            info = self._line.info()
        except ResponseError:
            return  # not granted: what is unknown stays so
        if info.get("loading") == "1":
            raise BusyLoadingError("the server is loading its data")
        self.facts = server_facts(info, self._line.clock.ahead())
        if eviction_safe(self.facts) is not False or self.facts.evicted_keys is None:
            self._evictions = None
        elif self._evictions is None:
            self._evictions = Evictions(self.facts.evicted_keys)
        else:
            self._evictions.forget(self.facts.evicted_keys)
        for intake in self._intakes:
            intake.evictions = partial(self._evicted, intake.db) if self._evictions else None

    def _evicted(self, db: int, gone: int, live: int) -> int:
        """Say how many of the locks that are gone early were evicted."""
        if self._evictions is None or self.exact:
            return 0
        info = self._line.info()
        policy = info.get("maxmemory_policy", "")
        keys = dict(part.split("=", 1) for part in info.get(f"db{db}", "").split(",") if "=" in part)
        evictable = int(keys.get("expires" if policy.startswith("volatile") else "keys", 0))
        return self._evictions.explain(gone, live, int(info.get("evicted_keys", 0)), evictable, policy)

"""The live locks of every target, kept by threads and answered from memory: the ``Source``."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from lockscope.prefixes import Prefixes
from lockscope_exporter.connect import connect
from lockscope_exporter.redis_url import parse_redis_url
from lockscope_exporter.sampling.expectations import Expectations
from lockscope_exporter.sampling.ledger import Ledger
from lockscope_exporter.sampling.node import Node, Place
from lockscope_exporter.sampling.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis

    from lockscope_exporter.redis_url import RedisUrl
    from lockscope_exporter.state import Family, Life, LockState, NodeStatus
    from lockscope_exporter.targets import SamplingOptions, Target


class Mirror:
    """A ``Source`` over one or more targets.

    Args:
        targets: what to sample.
        options: how.

    Raises:
        UrlError: a target's URL cannot be used.
    """

    def __init__(self, targets: Sequence[Target], options: SamplingOptions) -> None:
        prefixes = Prefixes(options.prefix_patterns, options.max_prefixes)
        expectations = Expectations(options.expected_hold)
        self._nodes: list[Node] = []
        for target in targets:
            url = parse_redis_url(target.url)
            ledger = Ledger(target.name, prefixes, expectations, _unknown)
            place = Place(
                target.name,
                url.node,
                target.dbs or (url.db,),
                partial(_open, url, options.timeout),
            )
            self._nodes.append(Node(place, Watch(target.patterns), options, ledger, threading.RLock()))

    def start(self) -> None:
        """Begin sampling in background threads."""
        for node in self._nodes:
            node.start()

    def stop(self) -> None:
        """Stop the threads and close the connections; idempotent."""
        for node in self._nodes:
            node.stop()
        for node in self._nodes:
            node.join()

    def ready(self) -> bool:
        """Tell whether every target was sampled completely at least once, or found unreachable."""
        return all(node.settled.is_set() for node in self._nodes)

    def wait_ready(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for ``ready``; return it."""
        deadline = time.monotonic() + timeout
        return all(node.settled.wait(max(deadline - time.monotonic(), 0.0)) for node in self._nodes)

    def nodes(self) -> Sequence[NodeStatus]:
        """Return how sampling of each node stands."""
        return [node.status() for node in self._nodes]

    def families(self) -> Sequence[Family]:
        """Return the running counts by prefix; cost grows with the prefixes, not with the locks."""
        families: list[Family] = []
        for node in self._nodes:
            with node.guard:
                families += node.ledger.families(node.now())
        return families

    def locks(self) -> Sequence[LockState]:
        """Return every live lock, classified now; cost grows with the locks."""
        states: list[LockState] = []
        for node in self._nodes:
            with node.guard:
                states += node.ledger.states(node.now())
        return states

    def lock(self, key: bytes, field: bytes | None = None) -> LockState | None:
        """Return one live lock, or ``None`` if no lock of that key is known."""
        for node in self._nodes:
            with node.guard:
                for state in node.ledger.find(key, node.now()):
                    if state.field == field:
                        return state
        return None


def _open(url: RedisUrl, timeout: float, db: int) -> redis.Redis:
    return connect(url, timeout=timeout, db=db)


def _unknown(_worker: str) -> tuple[Life, float | None]:
    """Say of every worker that nothing is known."""
    return "unknown", None

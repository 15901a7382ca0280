"""One target: its nodes, which come and go, and the ledger that they share."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import redis
from redis.exceptions import RedisClusterException

from lockscope_exporter.connect import connect, connect_node
from lockscope_exporter.explain import explain
from lockscope_exporter.presence import Attendance, Standing, runs_here
from lockscope_exporter.progress import Names
from lockscope_exporter.redis_url import UrlError, parse_redis_url
from lockscope_exporter.sampling.layout import Layout, cluster_layout, name_of, sentinel_layout
from lockscope_exporter.sampling.ledger import Ledger
from lockscope_exporter.sampling.node import Node, Place
from lockscope_exporter.sampling.progress import ProgressBook
from lockscope_exporter.sampling.quorum import QuorumLedger
from lockscope_exporter.sampling.shared import Shared
from lockscope_exporter.sampling.watch import Watch
from lockscope_exporter.state import NodeStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockscope.prefixes import Prefixes
    from lockscope_exporter.redis_url import RedisUrl
    from lockscope_exporter.sampling.expectations import Expectations
    from lockscope_exporter.sampling.layout import Address
    from lockscope_exporter.state import Holder
    from lockscope_exporter.targets import SamplingOptions, Target

_log = logging.getLogger(__name__)
_LOOK = 1.0  # seconds between two looks at the layout of a cluster or at the Sentinels
_HOPS = 4  # times that a key may be passed on between two such looks


class TargetMirror:
    """Keeps a ledger true to a target, whatever it consists of.

    Args:
        members: the target; several make a Redlock group, whose copies of a lock are one lock.
        options: how to sample.
        prefixes: names families; shared by the targets of a process.
        expectations: how long locks are expected to be held.

    Attributes:
        name: of the target, or of the group.
        shared: what its nodes read and write.
        attendance: which holders are present.

    Raises:
        UrlError: a URL cannot be used, or not in a group.
        ValueError: the names of progress fields cannot be used.
    """

    def __init__(
        self,
        members: Sequence[Target],
        options: SamplingOptions,
        prefixes: Prefixes,
        expectations: Expectations,
    ) -> None:
        target = members[0]
        name = target.quorum_group or target.name
        self._members = [(member, parse_redis_url(member.url)) for member in members]
        self.name = name
        self._url = self._members[0][1]
        if target.quorum_group and any(url.kind != "standalone" for _, url in self._members):
            raise UrlError(f'Redlock group "{name}": its servers are independent, write redis:// URLs')
        self.attendance = Attendance(runs_here)
        ledger = Ledger(name, prefixes, expectations, self._life, counting=not options.once)
        self._group = QuorumLedger(ledger, len(members)) if target.quorum_group else None
        book = None
        if options.progress:
            fields = Names.parse(options.progress_fields)
            book = ProgressBook(name, prefixes, fields, options.progress_stale_after)
        self.shared = Shared(options, Watch(target.patterns), self._group or ledger, self.attendance, book)
        self._nodes: dict[str, Node] = {}
        self._retired: list[Node] = []
        self._layout: Layout | None = None
        self._error = "not sampled yet"
        self._settled = False
        self._looked = threading.Event()
        self._look_now = threading.Event()
        self._stopping = threading.Event()
        self._hops: dict[bytes, int] = {}
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin in the background."""
        if self._url.kind == "standalone":
            self._begin(
                self._add(member, url.node, partial(_open, url, self.shared.options.timeout))
                for member, url in self._members
            )
            self._looked.set()
            return
        self._thread = threading.Thread(target=self._run, name=f"lockscope-{self.name}-layout", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask every thread to end."""
        self._stopping.set()
        self._look_now.set()
        for node in tuple(self._nodes.values()):
            node.stop()

    def join(self) -> None:
        """Wait for the threads to end; at most about the timeout of an answer."""
        if self._thread is not None:
            self._thread.join()
        self.stop()  # a node may have come in while the thread ended
        for node in (*self._nodes.values(), *self._retired):
            node.join()

    def settled(self) -> bool:
        """Tell whether every node was sampled completely once, or found unreachable; once so, always so."""
        if self._settled:
            return True
        nodes = tuple(self._nodes.values())
        if not self._looked.is_set() or not all(node.settled.is_set() for node in nodes):
            return False
        if any(node.requested and node.up for node in nodes):
            return False
        with self.shared.guard:
            ledger = self.shared.ledger
            # Workers that come later are nobody's first sample: what is known is served meanwhile.
            self._settled = self.attendance.settled(ledger.workers(), time.monotonic(), ledger.holders)
        return self._settled

    def known(self) -> bool:
        """Tell whether any node answers, so that what is live is known."""
        return any(node.up for node in tuple(self._nodes.values()))

    def now(self) -> float:
        """Return the servers' unix time in seconds, as far as known."""
        nodes = tuple(self._nodes.values())
        node = next((node for node in nodes if node.up), None)
        return time.time() if node is None else node.now()

    def status(self) -> Sequence[NodeStatus]:
        """Return how sampling of each node stands."""
        statuses = [node.status() for node in tuple(self._nodes.values())]
        if statuses:
            return [replace(status, warnings=status.warnings + self._leftovers()) for status in statuses]
        mode = "scan" if self.shared.options.mode == "scan" else "tracking"
        return [NodeStatus(self._members[0][0].name, self._url.node, False, mode, 0.0, self._error)]

    def _life(self, holder: Holder, now: float) -> Standing:
        return self.attendance.of(holder, time.monotonic(), now)

    def _leftovers(self) -> tuple[str, ...]:
        if self._group is None:
            return ()
        with self.shared.guard:
            number = self._group.leftovers(self.now())
        if not number:
            return ()
        keys = "1 key is" if number == 1 else f"{number} keys are"
        return (f"{keys} on fewer servers than a quorum of {self._group.majority}: nobody holds them",)

    # --- layout ---

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                layout = self._look()
            except (redis.RedisError, RedisClusterException, OSError) as error:
                reason = explain(error)
                self._error = f"{reason.what}; {reason.fix}"
            except Exception as error:  # noqa: BLE001 - whatever it is, looking has to go on
                _log.exception("looking at the layout of %s failed", self.name)
                self._error = explain(error).what
            else:
                if layout != self._layout:
                    self._rearrange(layout)
            self._looked.set()
            self._hops.clear()
            self._look_now.wait(_LOOK)
            self._look_now.clear()

    def _look(self) -> Layout:
        if self._url.kind == "sentinel":
            return sentinel_layout(self._url, self.shared.options.timeout)
        known = self._layout.addresses if self._layout is not None else ()
        return cluster_layout(self._url, known, self.shared.options.timeout)

    def _rearrange(self, layout: Layout) -> None:
        """Watch the nodes of a new layout, and hand each lock to the node that has it now."""
        later = self._layout is not None
        names = {name_of(address): address for address in layout.addresses}
        gone = [name for name in self._nodes if name not in names]
        new = [name for name in names if name not in self._nodes]
        with self.shared.guard:
            for name in gone:
                node = self._nodes.pop(name)
                node.stop()
                self._retired = [old for old in self._retired if old.running] + [node]
                self.shared.ledger.suspend(name)
                self.attendance.left(name)
            if later:
                self.attendance.moved(time.monotonic())
            moved = self.shared.ledger.assign(layout.owner)
        self._begin(
            self._add(
                self._members[0][0],
                name,
                partial(_open_node, self._url, names[name], self.shared.options.timeout),
                later=later,
            )
            for name in new
        )
        for name, db, key in moved:
            if name not in new:  # a new node reads everything anyway
                self._nodes[name].request(db, key)
        for name in ({name for name, _, _ in moved} | _gaining(self._layout, layout)) - set(new):
            self._nodes[name].resync("topology")
        self._layout = layout

    def _add(
        self, target: Target, name: str, open_client: partial[redis.Redis], *, later: bool = False
    ) -> Node:
        place = Place(target.name, name, target.dbs or (self._url.db,), open_client)
        node = Node(place, self.shared)
        node.elsewhere = partial(self._elsewhere, name)
        if later:
            node.swept = True  # what it has was somebody else's before: nothing is there for the first time
            node.reason = "failover" if self._url.kind == "sentinel" else "topology"
        self._nodes = {**self._nodes, name: node}
        return node

    @staticmethod
    def _begin(nodes: Iterable[Node]) -> None:
        """Start nodes once all of them are known: the first may have something to pass on to the last."""
        for node in tuple(nodes):
            node.start()

    def _elsewhere(self, asked: str, db: int, key: bytes, address: Address) -> None:
        """Take in that a node says that another one serves a key."""
        host = address[0] or asked.rpartition(":")[0].strip("[]")
        name = name_of((host, address[1]))
        node = self._nodes.get(name)
        hops = self._hops[key] = self._hops.get(key, 0) + 1
        if node is not None and hops <= _HOPS:
            with self.shared.guard:
                self.shared.ledger.assign_key(db, key, name)
            node.request(db, key)
        self._look_now.set()


def _gaining(before: Layout | None, after: Layout) -> set[str]:
    """Return the names of the nodes that serve slots which they did not serve before."""
    if before is None:
        return set()
    had: dict[str, set[tuple[int, int]]] = {}
    for first, last, address in before.ranges:
        had.setdefault(name_of(address), set()).add((first, last))
    return {
        name_of(address)
        for first, last, address in after.ranges
        if not any(low <= first and last <= high for low, high in had.get(name_of(address), ()))
    }


def _open(url: RedisUrl, timeout: float, db: int) -> redis.Redis:
    return connect(url, timeout=timeout, db=db)


def _open_node(url: RedisUrl, address: Address, timeout: float, db: int) -> redis.Redis:
    return connect_node(url, *address, timeout=timeout, db=db)

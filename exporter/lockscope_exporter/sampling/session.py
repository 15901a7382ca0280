"""One unbroken connection to a server: everything that is learned over it until it is lost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from redis.exceptions import ResponseError

from lockscope_exporter.sampling.answers import Abilities
from lockscope_exporter.sampling.clock import ServerClock
from lockscope_exporter.sampling.ledger import News
from lockscope_exporter.sampling.reader import Asked, Reader
from lockscope_exporter.sampling.sweep import Sweep
from lockscope_exporter.sampling.watch import covering_glob
from lockscope_exporter.sampling.wire import Line

if TYPE_CHECKING:
    from collections.abc import Iterable

    import redis

    from lockscope_exporter.sampling.node import Node

_TICK = 0.1  # seconds between looks at the clock when nothing happens


class Session:
    """Samples one node until an error or the end.

    Args:
        node: the node to sample.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self.clock = ServerClock()
        self.abilities = Abilities()
        self.first = not node.swept
        self._clients: list[redis.Redis] = []
        self._readers: dict[int, Reader] = {}
        self._sweeps: dict[int, Sweep] = {}
        self._unreadable: set[bytes] = set()

    def run(self) -> None:
        """Connect, sweep, follow; return when the node is asked to stop.

        Raises:
            redis.RedisError, OSError: the connection is lost or the server refuses what is needed.
        """
        self._connect()
        glob = covering_glob(self.node.watch.globs)
        for db, reader in self._readers.items():
            self._sweeps[db] = Sweep(
                reader.line,
                glob,
                lambda key: self.node.watch.lock(key)[0],
                self.node.options.scan_budget,
            )
        while not self.node.stopping.is_set():
            began = time.monotonic()
            for db in self._readers:
                self._pass(db)
            self._settle()
            self._idle(began + self.node.options.interval)

    def close(self) -> None:
        """Close every connection."""
        for reader in self._readers.values():
            reader.line.close()
        for client in self._clients:
            client.close()

    def _connect(self) -> None:
        for db in self.node.place.dbs:
            client = self.node.place.open_client(db)
            self._clients.append(client)
            line = Line(client.connection_pool.get_connection(), self.abilities, self.clock)
            self._readers[db] = Reader(line)
        first = next(iter(self._readers.values())).line
        try:
            first.ask_one(b"PEXPIRETIME", b"lockscope:none")
        except ResponseError:
            self.abilities.pexpiretime = False
            self.abilities.script = b"EVAL"

    def _pass(self, db: int) -> None:
        """Read every known lock of a database, and everything that one pass over its keys finds."""
        node, sweep = self.node, self._sweeps[db]
        with node.guard:
            known = node.ledger.keys(db, node.place.name)
        self._read(db, known)
        passes = sweep.passes
        while sweep.passes == passes and not node.stopping.is_set():
            self._read(db, set(sweep.page()).difference(known))
            self._tick()
            node.stopping.wait(max(sweep.due - time.monotonic(), 0.0))

    def _settle(self) -> None:
        self.first = False
        self.node.swept = True
        self.node.alive()
        self.node.settled.set()

    def _idle(self, until: float) -> None:
        while not self.node.stopping.wait(min(_TICK, max(until - time.monotonic(), 0.0))):
            self._tick()
            if time.monotonic() >= until:
                return

    def _tick(self) -> None:
        """Let the ledger's deadlines pass, and confirm by reading."""
        node = self.node
        with node.guard:
            node.ledger.tick(self.clock.now())
            due = [item for item in node.ledger.confirm if item[0] == node.place.name]
            node.ledger.confirm = [item for item in node.ledger.confirm if item[0] != node.place.name]
        for db in self._readers:
            keys = {key for _, number, key in due if number == db}
            if keys:
                self._read(db, keys)

    def _read(self, db: int, keys: Iterable[bytes]) -> None:
        """Read keys and hand what they hold to the ledger, until none changed while it was read."""
        node, watch = self.node, self.node.watch
        asked = [Asked(key, watch.lock(key)[1]) for key in keys if key not in self._unreadable]
        while asked and not node.stopping.is_set():
            sample = self._readers[db].read(asked, lambda key: node.ledger.knows(db, key))
            node.offset = self.clock.offset
            dialects = dict(asked)
            with node.guard:
                for reading in sample.readings:
                    news = self._news(reading.read_at)
                    node.ledger.take(db, node.place.name, reading, dialects[reading.key], news)
                for key, at in sample.gone:
                    node.ledger.gone(db, node.place.name, key, self._news(at))
            self._unreadable.update(sample.forbidden)
            node.heard = time.monotonic()
            asked = sample.again

    def _news(self, at: float | None) -> News:
        return News(at if at is not None else self.clock.now(), seen=False, initial=self.first)

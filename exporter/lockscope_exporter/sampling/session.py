"""One unbroken connection to a server: everything that is learned over it until it is lost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from redis.exceptions import ResponseError

from lockscope_exporter.presence import RollCall
from lockscope_exporter.sampling.dial import Dial
from lockscope_exporter.sampling.feeds.changes import Change, Changes
from lockscope_exporter.sampling.feeds.choose import choose_feed
from lockscope_exporter.sampling.feeds.scan import NoFeed
from lockscope_exporter.sampling.feeds.tracking import CHANNEL, TrackingFeed
from lockscope_exporter.sampling.intake import Cause, Intake
from lockscope_exporter.sampling.pace import Pace
from lockscope_exporter.sampling.patrol import FeedCheck, Patrol
from lockscope_exporter.sampling.reader import Reader
from lockscope_exporter.sampling.server import ServerWatch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockscope_exporter.sampling.feeds.changes import Feed
    from lockscope_exporter.sampling.node import Node
    from lockscope_exporter.sampling.patrol import Chore
    from lockscope_exporter.sampling.wire import Line

_TICK = 0.1  # seconds between looks at the clock when nothing happens
_HURRY = 0.005  # seconds between two confirmations of deadlines, should the clocks disagree
_ROLLING = 5.0  # seconds between two passes over a small keyspace
_ROLLING_LAZY = 0.2  # the same while a pass may find the first key of a library not seen before


class Session:
    """Samples one node until an error or the end.

    Args:
        node: the node to sample.

    Attributes:
        live: everything known from before was read over this connection.
    """

    def __init__(self, node: Node) -> None:
        self.live = False
        self._node = node
        self._first = not node.swept
        self._settling = True
        self._dial = Dial(node.place.open_client)
        self._intakes: dict[int, Intake] = {}
        self._chores: list[Chore] = []
        self._roll_call: RollCall | None = None
        self._patrol = Patrol(node.place.name, node.shared, self._fits, self._look, self._repair)
        self._feed: Feed = NoFeed(node.stopping)
        self._confirmed = 0.0
        self._pace = Pace(node.shared.options.gather)
        self._lazy = node.shared.watch.lazy

    def run(self) -> None:
        """Connect, sweep, follow; return when the node is asked to stop.

        Raises:
            redis.RedisError, OSError: the connection is lost or the server refuses what is needed.
        """
        self._connect()
        server = ServerWatch(self._line, self._intakes.values())
        server.run()
        self._node.learn(server.facts)
        self._start_feed(server)
        self._catch_up()
        self.live = True
        self._report(server)
        while not self._node.stopping.is_set():
            self._node.stopping.wait(self._pace.wait(time.monotonic()))
            due = min(chore.due for chore in self._chores)
            changes = self._feed.drain(min(max(due - time.monotonic(), 0.0), _TICK))
            self._pace.read(len(changes.anywhere) + len(changes.keys), time.monotonic())
            self._follow(changes)
            server.exact = isinstance(self._feed, TrackingFeed) and self._feed.tells_evictions
            self._confirm()
            self._read_requested()
            now = time.monotonic()
            for chore in self._chores:
                if chore.due <= now:
                    chore.run()
            self._settle()
            self._report(server)

    def close(self) -> None:
        """Close every connection."""
        self._feed.close()
        self._dial.close()

    # --- beginning ---

    def _connect(self) -> None:
        node = self._node
        for db in node.place.dbs:
            reader = Reader(self._dial.line(db))
            self._intakes[db] = Intake(node.place.name, db, reader, node.shared, node.stopping)

    @property
    def _line(self) -> Line:
        return next(iter(self._intakes.values())).reader.line

    def _start_feed(self, server: ServerWatch) -> None:
        node = self._node
        chosen = choose_feed(
            self._line,
            lambda: self._dial.connection(node.place.dbs[0]),
            node.shared.watch,
            node.place.dbs,
            node.shared.options,
            node.stopping,
        )
        self._feed = chosen.feed
        warnings = list(chosen.warnings)
        if isinstance(chosen.feed, TrackingFeed):
            warnings += _subscribe(chosen.feed, evicts=server.evicts)
        for intake in self._intakes.values():
            intake.told_again = chosen.feed.told_again
            self._patrol.add(intake, chosen)
        roll_call = RollCall(
            self._line,
            node.place.name,
            node.shared.attendance,
            node.shared.ledger,
            node.shared.guard,
            self._dial.clock.now,
        )
        self._roll_call = roll_call
        self._chores = [*self._patrol.chores, server, FeedCheck(chosen.feed), roll_call]
        node.mode = chosen.feed.mode
        node.feed_warnings = tuple(warnings)

    def _fits(self, key: bytes) -> bool:
        """Tell whether a key that a sweep found may be a lock; follow its prefix from now on if need be."""
        if self._lazy and key.startswith(self._lazy) and isinstance(self._feed, TrackingFeed):
            new = tuple(prefix for prefix in self._lazy if key.startswith(prefix))
            self._lazy = tuple(prefix for prefix in self._lazy if prefix not in new)
            self._feed.add(new)
            self._node.resync("prefix")
            self._settling = True
        return self._node.shared.watch.lock(key)[0]

    def _catch_up(self) -> None:
        """Read every lock known from before."""
        node = self._node
        if self._first:
            node.resynced("start")
            return
        node.resynced("restart" if node.restarted else node.reason)
        cause = Cause(end="flushed" if node.restarted else None)
        for intake in self._intakes.values():
            intake.look(intake.known(), cause)

    # --- going on ---

    def _follow(self, changes: Changes) -> None:
        """Read what the feed told of, and what changed too fast to be read before."""
        cause = Cause(
            seen=not self._settling, initial=self._first, end="flushed" if changes.flushed else None
        )
        for intake in self._intakes.values():
            told = changes.of(intake.db)
            for key in intake.again:
                told.setdefault(key, Change())
            intake.again.clear()
            if told:
                intake.follow(told, cause)
            if changes.flushed:
                intake.look(intake.known(), cause)

    def _confirm(self) -> None:
        """Let the ledger's deadlines pass, and read the keys whose time has come."""
        node = self._node
        now = time.monotonic()
        with node.shared.guard:
            node.shared.ledger.tick(self._dial.clock.now())
            if now - self._confirmed < _HURRY:
                return
            due = node.shared.ledger.take_due(node.place.name)
        if due:
            self._confirmed = now
            cause = Cause(seen=self._feed.mode != "scan" and not self._settling)
            for db, intake in self._intakes.items():
                intake.look({key for number, key in due if number == db}, cause)

    def _read_requested(self) -> None:
        """Read what other nodes of the cluster said is here now, and pass on what is elsewhere."""
        requested = self._node.take_requests()
        for db, intake in self._intakes.items():
            keys = [key for number, key in requested if number == db]
            if keys:
                intake.look(keys, Cause(asking=True))
        self._pass_on()
        self._node.requests_read()

    def _pass_on(self) -> None:
        """Tell other nodes of the cluster which keys they are said to have."""
        for db, intake in self._intakes.items():
            moved, intake.elsewhere = intake.elsewhere, []
            for key, address in moved:
                self._node.elsewhere(db, key, address)

    def _look(self, intake: Intake, keys: Iterable[bytes]) -> int:
        """Read keys at a time when differences are what is expected; return how many differed."""
        return len(intake.look(keys, Cause(initial=self._first)))

    def _repair(self, intake: Intake, keys: Iterable[bytes]) -> int:
        """Read keys that may not be what the ledger says, unless the feed has told of them by now.

        Returns:
            How many the feed had missed.
        """
        told = self._told()
        cause = Cause(initial=self._first, end="flushed" if self._feed.mode == "notifications" else None)
        wrong = intake.look(keys if told.flushed else set(keys).difference(told.of(intake.db)), cause)
        if not wrong or self._settling:
            return 0
        meanwhile = self._told()
        missed = 0 if meanwhile.flushed else len(wrong.difference(meanwhile.of(intake.db)))
        self._node.corrections += missed
        return missed

    def _told(self) -> Changes:
        """Follow everything that the feed has told by now; return what that was."""
        self._feed.settle()
        changes = self._feed.drain(0.0)
        self._follow(changes)
        return changes

    def _settle(self) -> None:
        """Go over from a full sweep to gentle ones once every key was visited, and back when asked to."""
        node = self._node
        reason = node.take_resync()
        if reason:
            node.resynced(reason)
            self._settling = True
            self._patrol.hurry()
        elif self._settling and self._patrol.complete and not any(i.again for i in self._intakes.values()):
            self._pass_on()  # whoever waits for this node has to wait for what it knows to be elsewhere
            self._settling = self._first = False
            if self._roll_call is not None:
                self._roll_call.due = time.monotonic()  # somebody may wait for workers that were just found
            self._patrol.relax(_ROLLING_LAZY if self._lazy else _ROLLING)
            node.swept = True
            node.settled.set()

    def _report(self, server: ServerWatch) -> None:
        """Tell the node how it stands."""
        intakes = self._intakes.values()
        heard = max(self._feed.heard(), *(intake.last for intake in intakes))
        self._node.learn(server.facts)
        self._node.alive(heard, self._dial.clock.offset, sum(len(intake.unreadable) for intake in intakes))


def _subscribe(feed: TrackingFeed, *, evicts: bool) -> list[str]:
    """Make the most of a feed's connection; return warnings about what this user may not do."""
    warnings = []
    try:
        feed.limit_buffer()
    except ResponseError:
        warnings.append(
            "were this process paused for long, the server would buffer without limit: "
            f"grant +subscribe &{CHANNEL.decode()}"
        )
    if evicts:
        try:
            feed.also_evictions()
        except ResponseError:
            warnings.append("evictions are told from releases by their numbers only: no permission")
    return warnings

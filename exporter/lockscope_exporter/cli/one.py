"""Reading one lock by its key, without a scan, for commands that are about that lock alone.

The same parts judge it that follow all locks for the exporter, so that both say the same of it.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import redis
from redis.exceptions import RedisClusterException, ResponseError

from lockscope.prefixes import Prefixes
from lockscope.presence import CHANNEL
from lockscope_exporter.cli.errors import CommandError
from lockscope_exporter.cli.keytext import keys_of
from lockscope_exporter.connect import ConnectError, connect, connect_node, failure
from lockscope_exporter.holds import HoldLearner
from lockscope_exporter.presence import Attendance, RollCall, Standing, runs_here
from lockscope_exporter.redis_url import parse_redis_url
from lockscope_exporter.release.clients import open_client
from lockscope_exporter.sampling.answers import Abilities
from lockscope_exporter.sampling.clock import ServerClock
from lockscope_exporter.sampling.expectations import Expectations
from lockscope_exporter.sampling.layout import Layout, cluster_layout, name_of, sentinel_layout
from lockscope_exporter.sampling.ledger import Ledger
from lockscope_exporter.sampling.news import News
from lockscope_exporter.sampling.reader import Asked, Reader
from lockscope_exporter.sampling.watch import Watch
from lockscope_exporter.sampling.wire import Line
from lockscope_exporter.text import shown, shown_key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from lockscope_exporter.configuration import Options
    from lockscope_exporter.sampling.layout import Address
    from lockscope_exporter.state import Holder, LockState
    from lockscope_exporter.targets import SamplingOptions, Target

__all__ = ["One", "open_client", "pick", "read_one"]

_TRIES = 5  # readings of a key that changes each time it is read
_PRESENCE = 4.0  # seconds until it is clear whether a holder is there; two samples a second apart, mostly
_LISTED = 5
_PEXPIRETIME_SINCE = 7  # major version of Redis


class One(NamedTuple):
    """What one key is.

    Attributes:
        key: its exact bytes.
        locks: the locks that it holds, one for each database or hash field.
        type: Redis type of a key that exists and holds no lock, else empty.
        missed: by name of each target that could not be asked, why; what it has of the key is not known.
    """

    key: bytes
    locks: tuple[LockState, ...] = ()
    type: str = ""
    missed: Mapping[str, str] = MappingProxyType({})


def read_one(options: Options, text: str) -> One:
    """Read the locks of one key in every database and target that the options name.

    Args:
        options: where to read and how to judge.
        text: the key, see ``keytext.keys_of``.

    Raises:
        UrlError, OptionError: an option cannot be used.
        ConnectError: no target can be reached, or each refuses what reading needs; the first one's.
        CommandError: likewise, the user may not read the key there, or it changes too fast to be read.
    """
    sampling = options.sampling()
    prefixes = Prefixes(sampling.prefix_patterns, sampling.max_prefixes)
    expectations = Expectations(sampling.expected_hold, _readable(sampling.state_file))
    expectations.load(time.time())
    targets = options.targets()
    errors: dict[str, ConnectError | CommandError] = {}
    for key in keys_of(text):
        locks: list[LockState] = []
        kind = ""
        for target in targets:
            if target.name in errors:
                continue
            view = _TargetView(target, sampling, prefixes, expectations)
            try:
                view.read(key)
            except CommandError as error:
                errors[target.name] = error
            except (redis.RedisError, RedisClusterException, OSError) as error:
                errors[target.name] = failure(error, parse_redis_url(target.url))
            finally:
                view.close()
            locks += view.locks
            kind = kind or view.type
        if len(errors) == len(targets):
            raise next(iter(errors.values()))
        if locks or kind:
            return One(key, tuple(locks), "" if locks else kind, _lines(errors))
    return One(keys_of(text)[0], missed=_lines(errors))


def _lines(errors: Mapping[str, Exception]) -> dict[str, str]:
    return {name: str(error) for name, error in errors.items()}


def _readable(state_file: str | None) -> str | None:
    """Return the name of a state file that can be read; the exporter that owns it deals with any other."""
    if state_file is None or not Path(state_file).exists():
        return None
    try:
        HoldLearner().loads(Path(state_file).read_text(encoding="utf-8"), time.time())
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "an exporter did not write it"
        click.echo(f"lockscope: the state file {shown(state_file, 200)} is left out: {why}", err=True)
        return None
    return state_file


def pick(locks: Sequence[LockState], field: str | None = None, dbs: Collection[int] = ()) -> LockState:
    """Return the one lock that is meant.

    Args:
        locks: the locks of one key, at least one.
        field: the hash field, as typed.
        dbs: databases that were named; they decide between several that a targets file names.

    Raises:
        CommandError: none has that field, or it is not clear which is meant.
    """
    if field is not None:
        wanted = keys_of(field)
        locks = [lock for lock in locks if lock.field in wanted]
        if not locks:
            raise CommandError(f"field {shown(field, 80)} of that key is not a lock that is held")
    locks = [lock for lock in locks if lock.db in dbs] or locks
    if len({lock.field for lock in locks}) > 1:
        names = ", ".join(shown_key(lock.field or b"", 80) for lock in locks[:_LISTED])
        raise CommandError(f"{len(locks)} locks are held under that key; name one with --field: {names}")
    if len(locks) > 1:
        places = ", ".join(f"db {lock.db} of {shown(lock.target, 40)}" for lock in locks[:_LISTED])
        option = "--target" if len({lock.target for lock in locks}) > 1 else "--db"
        raise CommandError(f"that key is held in {places}; name one with {option}")
    return locks[0]


class _TargetView:
    """One key of one target.

    Args:
        target: the target.
        sampling: how to judge.
        prefixes: names families.
        expectations: how long locks are expected to be held.
    """

    def __init__(
        self, target: Target, sampling: SamplingOptions, prefixes: Prefixes, expectations: Expectations
    ) -> None:
        self.locks: tuple[LockState, ...] = ()
        self.type = ""
        self._url = parse_redis_url(target.url)
        self._dbs = target.dbs or (self._url.db,)
        self._watch = Watch(target.patterns)
        self._timeout = sampling.timeout
        self._attendance = Attendance(runs_here)
        self._ledger = Ledger(target.name, prefixes, expectations, self._life)
        self._clients: list[redis.Redis] = []
        self._clock = ServerClock()

    def read(self, key: bytes) -> None:
        """Read the key, see whether its holders are there, and read it once more."""
        layout = self._layout()
        node = self._url.node if layout is None else (layout.owner(key) or name_of(layout.addresses[0]))
        lines = {db: self._line(self._address(layout, node), db) for db in self._dbs}
        _, dialect = self._watch.lock(key)
        for db, line in lines.items():
            self._take(line, node, db, Asked(key, dialect), first=True)
        if self._ledger.workers():
            self._call_the_roll(layout, node, next(iter(lines.values())))
            for db, line in lines.items():  # a renewal shows, and so does an end
                self._take(line, node, db, Asked(key, dialect), first=False)
        self.locks = tuple(self._ledger.find(key, self._clock.now()))

    def close(self) -> None:
        """Close every connection."""
        for client in self._clients:
            client.close()

    def _layout(self) -> Layout | None:
        if self._url.kind == "sentinel":
            return sentinel_layout(self._url, self._timeout)
        return cluster_layout(self._url, (), self._timeout) if self._url.kind == "cluster" else None

    @staticmethod
    def _address(layout: Layout | None, node: str) -> Address | None:
        if layout is None:
            return None
        return next(address for address in layout.addresses if name_of(address) == node)

    def _line(self, address: Address | None, db: int) -> Line:
        if address is None:
            client = connect(self._url, timeout=self._timeout, db=db)
        else:
            client = connect_node(self._url, *address, timeout=self._timeout, db=db)
        self._clients.append(client)
        connection = client.connection_pool.get_connection()
        line = Line(connection, Abilities(cluster=self._url.kind == "cluster"), self._clock)
        said: dict[Any, Any] = connection.handshake_metadata or {}
        version = said.get(b"version") or line.info().get("redis_version", "7").encode()
        if int(version.split(b".")[0]) < _PEXPIRETIME_SINCE:
            line.abilities.pexpiretime = False
            line.abilities.script = b"EVAL"
        return line

    def _take(self, line: Line, node: str, db: int, asked: Asked, *, first: bool) -> None:
        """Read the key of one database into the ledger."""
        for _ in range(_TRIES):
            sample = Reader(line).read([asked], lambda key: self._ledger.knows(db, key))
            news = News(line.clock.now(), seen=False, initial=first, jitter=line.abilities.jitter)
            if sample.forbidden:
                name = shown_key(asked.key, 80)
                raise CommandError(f"the Redis user may not read {name}; grant it the key, as in ~{name}")
            if sample.readings:
                self._ledger.take(db, node, sample.readings[0], asked.dialect, news)
                self.type = sample.readings[0].type
                return
            if sample.gone:
                self._ledger.gone(db, node, asked.key, news)
                return
            if sample.elsewhere:  # its slot is moving
                _, (host, port) = sample.elsewhere[0]
                line = self._line((host or node.rpartition(":")[0].strip("[]"), port), db)
                line.asking = True
        raise CommandError(f"{shown_key(asked.key, 80)} changes each time it is read; try again")

    def _call_the_roll(self, layout: Layout | None, node: str, line: Line) -> None:
        """Ask every node who is present until it is clear whether the holders are.

        A holder on another host whose connection is closed may be on its way back, so that takes patience.
        """
        lines = {node: line}
        if self._url.kind == "cluster" and layout is not None:
            others = {name_of(address): address for address in layout.addresses}
            lines.update({name: self._line(where, 0) for name, where in others.items() if name != node})
        roster = _Roster(self._ledger, lines.values())
        guard = threading.RLock()
        calls = [
            RollCall(where, name, self._attendance, roster, guard, self._clock.now)
            for name, where in lines.items()
        ]
        end = time.monotonic() + _PRESENCE
        patient = False
        while time.monotonic() < end:
            for call in calls:
                if call.due <= time.monotonic():
                    call.run()
            now = time.monotonic()
            workers = self._ledger.workers()
            if self._attendance.settled(workers, now):
                wait = self._attendance.patience(workers, now, self._clock.now())
                if not wait:
                    return
                if not patient:
                    patient = True
                    end = now + wait + _PRESENCE
                    click.echo(
                        "lockscope: the holder's presence connection is closed and its process cannot be "
                        f"seen from here; watching for {wait:.0f} s whether it comes back",
                        err=True,
                    )
            time.sleep(max(min(call.due for call in calls) - time.monotonic(), 0.0))

    def _life(self, holder: Holder, now: float) -> Standing:
        return self._attendance.of(holder, time.monotonic(), now)


class _Roster:
    """The holders of the lock and one witness: a process that is present shows that presence works here."""

    def __init__(self, ledger: Ledger, lines: Iterable[Line]) -> None:
        self._ledger = ledger
        self._witness = next(filter(None, map(_someone_present, lines)), "")

    def workers(self) -> list[str]:
        """Return whom to ask for."""
        holders = self._ledger.workers()
        return [*holders, self._witness] if self._witness and self._witness not in holders else holders

    def reconsider(self, workers: Iterable[str], now: float) -> None:
        """Judge the locks of these workers anew."""
        self._ledger.reconsider(workers, now)


def _someone_present(line: Line) -> str:
    """Return a worker that is present, empty if there is none or the user may not see that."""
    try:
        channels = line.ask_one(b"PUBSUB", b"CHANNELS", CHANNEL.encode() + b"*")
    except ResponseError:
        return ""
    return next(iter(channels)).decode("ascii", "replace").removeprefix(CHANNEL) if channels else ""

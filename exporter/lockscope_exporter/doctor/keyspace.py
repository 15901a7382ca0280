"""Looking over the keys of one database at a bounded pace, and reading those that may be locks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import redis
from redis.exceptions import NoPermissionError, ResponseError

from lockscope_exporter.connect import own_connection
from lockscope_exporter.doctor.census import Census
from lockscope_exporter.doctor.evidence import Broker, Keyspace
from lockscope_exporter.explain import explain
from lockscope_exporter.sampling.answers import Abilities
from lockscope_exporter.sampling.clock import ServerClock
from lockscope_exporter.sampling.reader import CHUNK, Asked, Reader
from lockscope_exporter.sampling.sweep import Sweep
from lockscope_exporter.sampling.wire import Line, pack

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockscope_exporter.nodes import Server
    from lockscope_exporter.targets import LockPattern

MAX_READ = 5000  # keys whose values are read
LONGEST = 10.0  # seconds that one database may take
_INDEX = b"unacked_index"  # kombu's name for its sorted set of deliveries; a prefix may come before it
_MAX_BROKERS = 10


def look_over(server: Server, db: int, patterns: Iterable[LockPattern], most: int, pace: float) -> Keyspace:
    """Sample one database; never raises for what the server does.

    Args:
        server: where.
        db: database number.
        patterns: what is watched.
        most: keys to visit at most.
        pace: keys a second to visit at most.
    """
    survey = _Survey(server.name, db, Census(patterns))
    error = ""
    try:
        connection = own_connection(server.open(db=db))
    except (redis.RedisError, OSError) as failed:
        return Keyspace(server.name, db, _line(failed))
    try:
        survey.run(Line(connection, Abilities(), ServerClock()), most, pace)
    except (redis.RedisError, OSError) as failed:
        error = _line(failed)
    finally:
        connection.disconnect()  # type: ignore[no-untyped-call]
    return survey.result(error)


class _Survey:
    """One look over.

    Args:
        node: the server.
        db: the database.
        census: sorts keys.
    """

    def __init__(self, node: str, db: int, census: Census) -> None:
        self._node = node
        self._db = db
        self._census = census
        self._visited = 0
        self._total: int | None = None
        self._read = 0
        self._brokers: dict[bytes, Broker] = {}
        self._found: set[bytes] = set()
        self._error = ""

    def run(self, line: Line, most: int, pace: float) -> None:
        """Visit keys until all, enough, or too long.

        Raises:
            redis.RedisError, OSError: the connection is lost, or the server refuses what is needed.
        """
        info = self._info(line)
        major = info.get("redis_version", "7").partition(".")[0]
        if major.isdigit() and int(major) < 7:  # noqa: PLR2004 - the first that knows PEXPIRETIME and EVAL_RO
            line.abilities.pexpiretime = False
            line.abilities.script = b"EVAL"
        line.abilities.cluster = info.get("cluster_enabled") == "1"
        self._total = _keys(info, self._db)
        sweep = Sweep(line, None, lambda _: True, pace, 0.0)
        reader = Reader(line)
        until = time.monotonic() + LONGEST
        while not sweep.passes and self._visited < most and time.monotonic() < until:
            time.sleep(max(sweep.due - time.monotonic(), 0.0))
            self._take(reader, sweep.page())
        if sweep.passes:
            self._total = self._visited  # SCAN came to its end: whatever INFO counted, these are all
        for key in {_INDEX, *self._found}:
            self._broker(line, key)

    def result(self, error: str) -> Keyspace:
        """Return what was found."""
        return Keyspace(
            self._node, self._db, error or self._error, self._visited, self._total,
            self._census.patterns(), self._census.unwatched(), tuple(self._brokers.values()),
        )  # fmt: skip

    def _take(self, reader: Reader, keys: list[bytes]) -> None:
        self._visited += len(keys)
        wanted: list[Asked] = []
        for key in keys:
            if key.endswith(_INDEX) and len(self._found) < _MAX_BROKERS:
                self._found.add(key)
            wants, dialect = self._census.wants(key)
            if not wants:
                continue
            if self._read >= MAX_READ:
                self._census.skip(key)
                continue
            self._read += 1
            wanted.append(Asked(key, dialect))
        for start in range(0, len(wanted), CHUNK):
            chunk = wanted[start : start + CHUNK]
            dialects = dict(chunk)
            sample = reader.read(chunk, lambda _: False)
            for reading in sample.readings:
                self._census.count(reading, dialects[reading.key])
            if sample.forbidden:
                self._error = f"{len(sample.forbidden)} keys may not be read by this user"

    def _broker(self, line: Line, key: bytes) -> None:
        """Ask how long the oldest delivered message has waited for its acknowledgement."""
        try:
            if line.ask_one(b"TYPE", key) != b"zset":
                return
            waiting = int(line.ask_one(b"ZCARD", key))
            at, [first] = line.ask_at([pack(b"ZRANGE", key, b"0", b"0", b"WITHSCORES")])
        except NoPermissionError:
            if key in self._found:
                self._brokers[key] = Broker(key, 0, None)
            return
        except ResponseError:
            return
        oldest = None if isinstance(first, ResponseError) or not first else at - _score(first)
        self._brokers[key] = Broker(key, waiting, oldest)

    @staticmethod
    def _info(line: Line) -> dict[str, str]:
        try:
            return line.info()
        except ResponseError:
            return {}


def _score(answer: Any) -> float:
    """Return the score in an answer to ZRANGE WITHSCORES of one member, in RESP2 or RESP3."""
    return float(answer[0][1] if isinstance(answer[0], list) else answer[1])


def _keys(info: dict[str, str], db: int) -> int | None:
    """Return how many keys a database has by INFO; ``None`` if INFO says nothing."""
    if not info:
        return None
    fields = dict(part.split("=", 1) for part in info.get(f"db{db}", "").split(",") if "=" in part)
    return int(fields.get("keys", 0))


def _line(error: BaseException) -> str:
    reason = explain(error)
    return f"{reason.what}; {reason.fix}"

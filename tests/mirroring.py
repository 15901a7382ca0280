"""Truth to hold the mirror against: what a plain scan finds, and storms of operations that change it."""

from __future__ import annotations

import contextlib
import random
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import redis

from lockscope_exporter.dialects import decode, plan
from lockscope_exporter.dialects.model import Reading
from lockscope_exporter.sampling import open_source
from lockscope_exporter.sampling.watch import Watch
from lockscope_exporter.targets import LockPattern, SamplingOptions, Target

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lockscope_exporter.source import Source

PATTERNS = (LockPattern(b"lock*"), LockPattern(b"jobs:*:guard"), LockPattern(b"rlock:*", "redisson-rlock"))
_NEAR = 0.25  # seconds around a deadline in which either side may be right


class Held(NamedTuple):
    """One lock, as far as both sides must agree on it."""

    db: int
    key: bytes
    field: bytes | None
    dialect: str
    tokens: frozenset[bytes]
    deadline: float | None


@contextlib.contextmanager
def mirror(*urls: str, targets: Sequence[Target] = (), **options: Any) -> Iterator[Source]:
    """Give a running, ready mirror of these servers."""
    chosen = targets or [Target(url, patterns=PATTERNS) for url in urls]
    source = open_source(chosen, SamplingOptions(**options))
    source.start()
    try:
        assert source.wait_ready(60), source.nodes()
        yield source
    finally:
        source.stop()


def truth(
    clients: Iterable[tuple[int, redis.Redis]], patterns: Sequence[LockPattern] = PATTERNS
) -> set[Held]:
    """Return the locks that a plain scan finds: one client for each database, or for each cluster node."""
    watch = Watch(patterns)
    found: set[Held] = set()
    for db, client in clients:
        exact = not client.info("server")["redis_version"].startswith("6.")
        for key in client.scan_iter(count=10_000):
            wanted, dialect = watch.lock(key)
            if not wanted:
                continue
            with contextlib.suppress(redis.ResponseError):
                kind = client.type(key).decode()
                if plan(key, kind, dialect) is None:
                    continue
                deadline, at = _deadline(client, key, exact=exact)
                reading = Reading(key, kind, _value(client, key, kind), deadline, at)
                found |= {_held(db, key, one) for one in decode(reading, dialect)}
    return found


def mirrored(source: Source) -> set[Held]:
    """Return the locks that the mirror shows."""
    return {
        Held(
            state.db,
            state.key,
            state.field,
            state.dialect,
            frozenset(holder.token for holder in state.holders),
            None if state.ttl_seconds is None else round(state.sampled_at + state.ttl_seconds, 3),
        )
        for state in source.locks()
    }


def differences(source: Source, clients: Iterable[tuple[int, redis.Redis]], **kwargs: Any) -> list[Held]:
    """Return what only one side says, but for deadlines that are just passing or were read a little apart."""
    clients = list(clients)
    real, shown = truth(clients, **kwargs), mirrored(source)
    now = time.time()
    mine = {one[:5]: one.deadline for one in shown}
    wrong = []
    for one in real:
        if _passing(one.deadline, now):
            continue
        deadline = mine.get(one[:5], 0.0)
        if one[:5] not in mine or not _same(one.deadline, deadline):
            wrong.append(one)
    theirs = {one[:5] for one in real}
    return wrong + [one for one in shown if one[:5] not in theirs and not _passing(one.deadline, now)]


def assert_same(
    source: Source, clients: Iterable[tuple[int, redis.Redis]], timeout: float = 45.0, **kwargs: Any
) -> None:
    """Fail unless the mirror comes to agree with the server entirely."""
    clients = list(clients)
    deadline = time.monotonic() + timeout
    while wrong := differences(source, clients, **kwargs):
        if time.monotonic() > deadline:
            shown = {one[:3]: one for one in mirrored(source)}
            lines = [f"server: {one}; mirror: {shown.get(one[:3])}" for one in wrong[:5]]
            raise AssertionError(f"{len(wrong)} differences after {timeout} s\n" + "\n".join(lines))
        time.sleep(0.05)


def storm(
    client: redis.Redis,
    seed: int,
    operations: int,
    *,
    keys: int = 300,
    flush: bool = True,
    clean: bool = False,
) -> None:
    """Do everything to locks that can be done to keys, at random, as fast as the server takes it.

    ``clean`` leaves out what the server answers with an error every now and then.
    """
    chance = random.Random(seed)
    acts = _acts(chance, keys, flush=flush, clean=clean)
    pipe = client.pipeline(transaction=False)
    for number in range(operations):
        chance.choice(acts)(pipe)
        if number % 50 == 49:
            pipe.execute(raise_on_error=False)
    pipe.execute(raise_on_error=False)


def _acts(chance: random.Random, keys: int, *, flush: bool, clean: bool) -> list[Any]:
    def name() -> str:
        number = chance.randrange(keys)
        return chance.choice(
            (f"lock:order:{number}", f"jobs:{number}:guard", f"rlock:{number}", f"other:{number}")
        )

    def token() -> str:
        return f"{chance.getrandbits(128):032x}"

    def ttl() -> int:
        return chance.choice((20, 200, 1000, 5000, 60_000))

    acts = [
        lambda pipe: pipe.set(name(), token(), nx=True, px=ttl()),
        lambda pipe: pipe.set(name(), token(), nx=True, px=ttl()),
        lambda pipe: pipe.set(name(), token(), px=ttl()),
        lambda pipe: pipe.set(name(), token(), nx=True),
        lambda pipe: pipe.pexpire(name(), ttl()),
        lambda pipe: pipe.pexpire(name(), ttl()),
        lambda pipe: pipe.persist(name()),
        lambda pipe: pipe.delete(name()),
        lambda pipe: pipe.unlink(name()),
        lambda pipe: pipe.delete(name()),
        lambda pipe: (
            pipe.delete(key := name()),
            pipe.hset(key, f"{token()}:1", "1"),
            pipe.pexpire(key, ttl()),
        ),
        lambda pipe: (pipe.delete(key := name()), pipe.rpush(key, "x")),
        lambda pipe: (pipe.delete(key := name()), pipe.zadd(key, {token(): time.time() + 5})),
        lambda pipe: pipe.set(name(), chance.randbytes(chance.choice((0, 1, 40, 3000, 70_000))), px=ttl()),
    ]
    if not clean:
        acts += [
            lambda pipe: pipe.execute_command("GETDEL", name()),
            lambda pipe: pipe.rename(name(), name()),
            lambda pipe: pipe.copy(name(), name(), replace=True),
            lambda pipe: pipe.move(name(), chance.randrange(2)),
            lambda pipe: pipe.hincrby(name(), f"{token()}:7", 1),
            lambda pipe: pipe.append(name(), "x"),
        ]
    if flush:
        acts.append(lambda pipe: pipe.flushdb() if chance.random() < 0.02 else pipe.ping())
    return acts


def _deadline(client: redis.Redis, key: bytes, *, exact: bool) -> tuple[float | None, float]:
    """Return when a key expires, and the time then, by the server's clock; ``exact`` since Redis 7.0."""
    pipe = client.pipeline(transaction=False)
    pipe.time()
    pipe.execute_command("PEXPIRETIME" if exact else "PTTL", key)
    (seconds, micros), expires = pipe.execute()
    at = seconds + micros / 1e6
    if expires < 0:
        return None, at
    return (expires / 1000 if exact else at + expires / 1000), at


def _value(client: redis.Redis, key: bytes, kind: str) -> Any:
    if kind == "hash":
        return client.hgetall(key)
    if kind == "zset":
        return tuple(client.zrange(key, 0, -1, withscores=True))
    if kind == "set":
        return frozenset(client.smembers(key))
    return client.get(key)


def _held(db: int, key: bytes, one: Any) -> Held:
    deadline = None if one.deadline is None else round(one.deadline, 3)
    return Held(db, key, one.field, one.dialect, frozenset(holder.token for holder in one.holders), deadline)


def _passing(deadline: float | None, now: float) -> bool:
    return deadline is not None and abs(deadline - now) < _NEAR


def _same(left: float | None, right: float | None) -> bool:
    return left == right if left is None or right is None else abs(left - right) < 0.05

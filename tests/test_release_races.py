"""Freeing a lock against all that may happen to it at the same instant: only the lock seen is freed."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import redis

from lockscope_exporter import release
from lockscope_exporter.dialects import Release
from lockscope_exporter.release.server import run
from releasing import string_lock
from servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lockscope_exporter.state import LockState

ROUNDS = 10_000
BATCH = 50  # locks that both sides walk through before they wait for each other
LONG = 600.0  # seconds
SEEN, OTHER = b"seen-4f0c2f9d7f6b4f1d", b"other-91b5c07e5a2e44f0"
FIRST, SECOND = (b"b983c153-7421-469a-addb-44fb92259a1b:%d" % thread for thread in (47, 48))

# What the world does meanwhile, as scripts that say whether they did it. A hand-over keeps the expiry, so
# that nothing but the owner tells the locks apart. ARGV: the token seen, another, a score.
RENEW = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], 900000)
"""
HAND_OVER = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
return 1
"""
TAKE = "return redis.call('SET', KEYS[1], ARGV[2], 'NX', 'PX', 600000) and 1 or 0"
NOTHING = "return 0"
HASH_RENEW = """
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
return redis.call('PEXPIRE', KEYS[1], 900000)
"""
HASH_HAND_OVER = """
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
local ends = redis.call('PEXPIRETIME', KEYS[1])
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], ARGV[2], 1)
return redis.call('PEXPIREAT', KEYS[1], ends)
"""
HASH_AGAIN = """
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
return redis.call('HINCRBY', KEYS[1], ARGV[1], 1) > 1 and 1 or 0
"""
ZSET_RENEW = "return redis.call('ZADD', KEYS[1], 'XX', 'CH', ARGV[3], ARGV[1])"
ZSET_HAND_OVER = """
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
redis.call('DEL', KEYS[1])
return redis.call('ZADD', KEYS[1], ARGV[3], ARGV[2])
"""
ZSET_JOIN = "return redis.call('ZADD', KEYS[1], ARGV[3], ARGV[2])"


@pytest.fixture(scope="module")
def arena() -> Iterator[RedisServer]:
    """Give a server for the races alone."""
    server = RedisServer()
    yield server
    server.close()


class Rival:
    """Another process that walks through the same locks at the same time and changes them.

    Args:
        server: where the locks are.
        scripts: what it does, in turn.
        tokens: the token that was seen, and another.
    """

    def __init__(self, server: RedisServer, scripts: Sequence[str], tokens: tuple[bytes, bytes]) -> None:
        context = multiprocessing.get_context("fork")
        self.go = context.Semaphore(0)
        self.answers = context.SimpleQueue()
        arguments = (server.socket, scripts, tokens, self.go, self.answers)
        self.process = context.Process(target=_rival, args=arguments, daemon=True)
        self.process.start()

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.join()


def _rival(path: str, scripts: Sequence[str], tokens: tuple[bytes, bytes], go, answers) -> None:
    client = redis.Redis(unix_socket_path=path)
    calls = [client.register_script(text) for text in scripts]
    chance = random.Random(1)
    later = f"{time.time() + 2 * LONG:.3f}"
    first = 0
    while True:
        go.acquire()
        time.sleep(chance.random() * 0.002)
        numbers = range(first, first + BATCH)
        answers.put(
            [
                bool(calls[number % len(calls)](keys=[b"race:%d" % number], args=[*tokens, later]))
                for number in numbers
            ]
        )
        first += BATCH


def race(
    server: RedisServer,
    scripts: Sequence[str],
    tokens: tuple[bytes, bytes],
    rounds: int,
    put: Callable[[redis.Redis, int], LockState],
    free: Callable[[redis.Redis, release.ReleasePlan], release.ReleaseResult],
) -> Iterator[tuple[int, bool, str]]:
    """Free locks while the rival changes them; yield number, whether it changed it, and the outcome."""
    client = server.client()
    client.flushall()
    rival = Rival(server, scripts, tokens)
    try:
        for first in range(0, rounds, BATCH):
            pipeline = client.pipeline(transaction=False)
            plans = [release.plan(put(pipeline, number)) for number in range(first, first + BATCH)]
            pipeline.execute()
            rival.go.release()
            outcomes = [free(client, plan).outcome for plan in plans]
            yield from zip(range(first, first + BATCH), rival.answers.get(), outcomes, strict=True)
    finally:
        rival.stop()
        client.close()


def test_ten_thousand_races_never_free_another_lock(arena):
    """Against renewals, hand-overs, expiries and new owners in another process, only the lock seen goes."""
    scripts = [RENEW, HAND_OVER, TAKE, TAKE]
    chance = random.Random(2)
    client = arena.client()

    def put(pipeline: redis.Redis, number: int) -> LockState:
        key = b"race:%d" % number
        # The third kind may expire at any moment of the race, the fourth is taken once it was freed.
        ends = round(time.time() + (chance.random() * 0.02 if number % 4 == 2 else LONG), 3)
        pipeline.set(key, SEEN, pxat=round(ends * 1000))
        return string_lock(key, SEEN, ends)

    ends: Counter[tuple[str, bool, str]] = Counter()
    for number, changed, outcome in race(
        arena,
        scripts,
        (SEEN, OTHER),
        ROUNDS,
        put,
        lambda client, plan: run(client, plan, free=True, strict=True),
    ):
        left = client.get(b"race:%d" % number)
        kind = ("renew", "hand over", "expire", "take")[number % 4]
        ends[kind, changed, outcome] += 1
        assert outcome in ("released", "changed", "gone"), (number, outcome)
        if changed and kind == "renew":  # it was renewed, so it must be there still
            assert (left, outcome) == (SEEN, "changed"), number
        elif changed:  # whoever came after the lock that was seen keeps it
            assert left == OTHER, (number, outcome)
        elif outcome == "released":
            assert left is None, number
    client.close()
    # Every order of events came up, so the race was one.
    for kind, changed, outcome in (
        ("renew", True, "changed"),
        ("renew", False, "released"),
        ("hand over", True, "changed"),
        ("hand over", False, "released"),
        ("expire", True, "gone"),
        ("expire", True, "changed"),
        ("expire", False, "released"),
        ("take", True, "released"),
    ):
        assert ends[kind, changed, outcome] > 5, ends


def hash_lock(pipeline: redis.Redis, number: int) -> LockState:
    """Put a Redisson lock and return it as seen."""
    key, ends = b"race:%d" % number, round(time.time() + LONG, 3)
    pipeline.hset(key, FIRST, 1)
    pipeline.pexpireat(key, round(ends * 1000))
    return string_lock(key, FIRST, ends)._replace(dialect="redisson-rlock", type="hash", value=None)


def zset_lock(pipeline: redis.Redis, number: int) -> LockState:
    """Put a Symfony lock and return it as seen."""
    key, ends = b"race:%d" % number, round(time.time() + LONG, 3)
    pipeline.zadd(key, {SEEN: ends, b"__write__": ends})
    lock = string_lock(key, SEEN, ends)
    holders = (replace(lock.holders[0], until=ends),)
    return lock._replace(dialect="symfony-lock", type="zset", value=None, holders=holders)


@pytest.mark.parametrize(
    ("put", "scripts", "tokens", "way"),
    [
        (
            hash_lock,
            (HASH_RENEW, HASH_HAND_OVER, HASH_AGAIN, NOTHING),
            (FIRST, SECOND),
            Release.REDISSON_HASH,
        ),
        (zset_lock, (ZSET_RENEW, ZSET_HAND_OVER, ZSET_JOIN, NOTHING), (SEEN, OTHER), Release.ZSET_MEMBER),
    ],
    ids=["hash", "sorted-set"],
)
def test_races_on_hashes_and_sorted_sets(arena, put, scripts, tokens, way):
    """The holder that was seen loses its hold, or keeps it because it did something; nobody else does."""
    client = arena.client()

    def free(client: redis.Redis, plan: release.ReleasePlan) -> release.ReleaseResult:
        assert plan.way is way
        return release.execute(client, plan, allow=True, user="test", settle=0)

    ends: Counter[tuple[bool, str]] = Counter()
    has = client.hexists if way is Release.REDISSON_HASH else client.zscore
    for number, changed, outcome in race(arena, scripts, tokens, 1_000, put, free):
        key = b"race:%d" % number
        seen, other = has(key, tokens[0]), has(key, tokens[1])
        ends[changed, outcome] += 1
        assert outcome in ("released", "resurrected", "changed", "gone"), (number, outcome)
        if changed and scripts[number % 4] in (HASH_RENEW, HASH_AGAIN, ZSET_RENEW):
            assert seen, (number, outcome)
            assert outcome == "changed", number
        elif changed:
            assert other, (number, outcome)
        if outcome == "released":
            assert not seen, number
    client.close()
    assert ends[True, "changed"] > 20, ends
    assert ends[False, "released"] > 20, ends

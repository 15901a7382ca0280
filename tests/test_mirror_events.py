"""What the mirror counts, on a real server: taken, renewed, taken over, and how locks end."""

from __future__ import annotations

import base64
import json
import time

import pytest

from lockscope_exporter.sampling.reader import Reader
from lockscope_exporter.targets import LockPattern, Target
from mirroring import PATTERNS, mirror
from servers import RedisServer, wait_until

A, B = "a" * 8 + "-aaaa-4aaa-8aaa-" + "a" * 12, "b" * 8 + "-bbbb-4bbb-8bbb-" + "b" * 12


def family(source, prefix="lock:*"):
    """Return the family of a prefix, ``None`` before it is known."""
    return next((one for one in source.families() if one.prefix == prefix), None)


def ended(source) -> dict[str, int]:
    """Return how many locks ended, by how, without zeros."""
    found = family(source)
    return {} if found is None else {how: count for how, count in found.ended.items() if count}


def test_a_lock_of_redis_py(server, client):
    """Acquire, extend and release of a real lock are each seen once, with its holder's host and start."""
    with mirror(server.url) as source:
        lock = client.lock("lock:1", timeout=30)
        before = time.time()
        assert lock.acquire()
        state = wait_until(lambda: source.lock(b"lock:1"))
        assert (state.dialect, state.state, state.prefix) == ("redis-py", "held", "lock:*")
        assert state.holder.started_at == pytest.approx(before, abs=1.0)
        assert state.ttl_seconds == pytest.approx(30, abs=1.0)
        assert state.lease_seconds == pytest.approx(30, abs=1.0)
        assert state.age_seconds < 1
        assert not state.age_at_least
        lock.extend(30)
        wait_until(lambda: source.lock(b"lock:1").renewals == 1)
        lock.release()
        wait_until(lambda: source.lock(b"lock:1") is None)
        found = family(source)
        assert (found.acquired, found.renewed, found.takeover) == (1, 1, 0)
        assert ended(source) == {"released": 1}


def test_expired_at_its_deadline(server, client):
    """A lock whose TTL runs out is gone on time, whatever the server's own expiry cycle does."""
    with mirror(server.url) as source:
        client.config_set("hz", 1)
        client.set("lock:1", A, px=400)
        wait_until(lambda: source.lock(b"lock:1"))
        deadline = time.monotonic() + 0.4
        wait_until(lambda: source.lock(b"lock:1") is None, 5, 0.005)
        assert time.monotonic() - deadline < 1.0
        wait_until(lambda: ended(source) == {"expired": 1})
        client.config_set("hz", 10)


def test_taken_over_by_overwriting(server, client):
    """A second owner by one plain SET is a takeover, not a release."""
    with mirror(server.url) as source:
        client.set("lock:1", A, px=30_000)
        wait_until(lambda: source.lock(b"lock:1"))
        client.set("lock:1", B, px=30_000)
        wait_until(lambda: source.lock(b"lock:1").value == B.encode())
        assert family(source).takeover == 1
        assert ended(source) == {}


def test_handed_over(server, client):
    """Release and the next owner's acquire, too fast to be seen apart, are no takeover."""
    with mirror(server.url) as source:
        client.set("lock:1", A, px=30_000)
        wait_until(lambda: source.lock(b"lock:1"))
        client.delete("lock:1")
        client.set("lock:1", B, px=30_000)
        wait_until(lambda: family(source).acquired == 2)
        assert family(source).takeover == 0
        assert ended(source) == {"released": 1}


def test_handed_over_between_the_news_and_the_reading(server, client, monkeypatch):
    """The feed tells of a release; when the key is read, the next owner has come: no takeover either."""
    read = Reader.read
    pending = [True]

    def late(reader, keys, known):
        if pending and not client.exists("lock:1"):
            pending.clear()
            client.set("lock:1", B, px=30_000)
        return read(reader, keys, known)

    with mirror(server.url) as source:
        client.set("lock:1", A, px=30_000)
        wait_until(lambda: source.lock(b"lock:1"))
        monkeypatch.setattr(Reader, "read", late)
        client.delete("lock:1")
        wait_until(lambda: family(source).acquired == 2)
        assert not pending
        assert family(source).takeover == 0
        assert ended(source) == {"released": 1}


def test_a_late_watchdog(server, client):
    """Renewals stop, the lease runs out, a waiting worker goes in: expired, and taken over."""
    with mirror(server.url) as source:
        client.set("lock:1", A, px=300)
        wait_until(lambda: source.lock(b"lock:1"))
        assert wait_until(lambda: client.set("lock:1", B, px=30_000, nx=True), every=0.05)
        wait_until(lambda: family(source).takeover == 1)
        assert ended(source) == {"expired": 1}


def test_a_lock_loses_its_ttl(server, client):
    """An auto-renewed lock that ends up without TTL is no_ttl within a moment, its renewals remembered."""
    with mirror(server.url) as source:
        client.set("lock:1", A, px=30_000)
        wait_until(lambda: source.lock(b"lock:1"))
        for number in range(1, 4):
            client.pexpire("lock:1", 30_000 + number * 1000)
            wait_until(lambda number=number: source.lock(b"lock:1").renewals == number)
        client.persist("lock:1")
        state = wait_until(lambda: (s := source.lock(b"lock:1")).state == "no_ttl" and s, 1)
        assert state.renewals == 3
        assert "renewed 3 times, then lost its expiry" in " ".join(state.evidence)
        assert family(source).without_ttl == 1


@pytest.mark.parametrize("command", ["FLUSHDB", "FLUSHALL"])
def test_flushed(server, client, command):
    """Locks that a flush took away are told from released ones."""
    with mirror(server.url) as source:
        for number in range(5):
            client.set(f"lock:{number}", A, px=30_000)
        client.set("lock:99", A, px=30_000)
        wait_until(lambda: family(source) and family(source).acquired == 6)
        client.delete("lock:99")
        wait_until(lambda: ended(source) == {"released": 1})
        client.execute_command(command)
        wait_until(lambda: ended(source) == {"released": 1, "flushed": 5})


@pytest.mark.parametrize("told", [True, False])
def test_evicted(told):
    """Evicted locks are told so: by the server's notifications where they are on, else by its counts."""
    options = {"notify_keyspace_events": "Ee"} if told else {}
    server = RedisServer(port=None, maxmemory="3mb", maxmemory_policy="allkeys-random", **options)
    try:
        client = server.client()
        with mirror(server.url) as source:
            for number in range(200):
                client.set(f"lock:{number}", A, px=600_000)
            wait_until(lambda: len(source.locks()) == 200)
            for number in range(20):
                client.delete(f"lock:{number}")
            wait_until(lambda: ended(source) == {"released": 20})
            for number in range(3000):
                client.set(f"cache:{number}", "x" * 2000)
            left = sum(client.exists(f"lock:{number}") for number in range(200))
            assert left < 150
            wait_until(lambda: sum(ended(source).values()) == 200 - left)
            evicted = ended(source).get("evicted", 0)
            assert evicted == 180 - left if told else evicted > 0.5 * (180 - left)
    finally:
        server.close()


def test_renamed_and_moved(server, client):
    """A renamed or moved lock ends where it was and is there where it went."""
    with mirror(targets=[Target(server.url, patterns=PATTERNS, dbs=(0, 1))]) as source:
        client.set("lock:1", A, px=30_000)
        wait_until(lambda: source.lock(b"lock:1"))
        client.rename("lock:1", "lock:2")
        wait_until(lambda: source.lock(b"lock:2") and not source.lock(b"lock:1"))
        client.move("lock:2", 1)
        wait_until(lambda: (s := source.lock(b"lock:2")) is not None and s.db == 1)
        assert len(source.locks()) == 1


def test_locks_in_fields_of_a_hash(server, client):
    """Fields that are locks count one each, and end one each, beside fields that are none."""
    patterns = (LockPattern(b"huey.results.*", "huey"),)
    with mirror(targets=[Target(server.url, patterns=patterns)]) as source:
        client.hset("huey.results.app", mapping={"result": b"x", "app.lock.a": b"1", "app.lock.b": b"1"})
        wait_until(lambda: len(source.locks()) == 2)
        assert source.lock(b"huey.results.app", b"app.lock.a") is not None
        client.hdel("huey.results.app", "app.lock.a")
        wait_until(lambda: len(source.locks()) == 1)
        found = family(source, "huey.results.app")
        assert (found.acquired, found.ended["released"]) == (2, 1)


def test_members_that_expire_one_by_one(server, client):
    """Holders of a sorted set leave when their scores say so, without any write."""
    patterns = (LockPattern(b"sem*", "symfony"),)
    first, second = (base64.b64encode(letter * 32).decode() for letter in (b"a", b"b"))
    with mirror(targets=[Target(server.url, patterns=patterns)]) as source:
        now = time.time()
        client.zadd("sem", {first: now + 0.8, second: now + 60})
        wait_until(lambda: (s := source.lock(b"sem")) is not None and len(s.holders) == 2)
        wait_until(lambda: len(source.lock(b"sem").holders) == 1, 5)
        assert source.lock(b"sem").holder.token == second.encode()
        assert family(source, "sem").ended["expired"] == 1
        assert source.nodes()[0].corrections == 0


def test_the_server_says_what_endangers_locks(server, client):
    """Eviction policy and counts are read, and change without a restart."""
    with mirror(server.url) as source:
        [node] = source.nodes()
        assert (node.eviction_safe, node.evicted_keys) == (True, 0)
        assert node.facts.role == "master"
        assert abs(node.facts.clock_ahead_seconds) < 1
        client.config_set("maxmemory", "1gb")
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            wait_until(lambda: source.nodes()[0].eviction_safe is False)
            assert "can evict locks" in " ".join(source.nodes()[0].warnings)
        finally:
            client.config_set("maxmemory", "0")
            client.config_set("maxmemory-policy", "noeviction")


def test_learned_holds_survive_a_restart(server, client, tmp_path):
    """What was learned of a prefix is there again after the exporter was restarted."""
    path = tmp_path / "state.json"
    with mirror(server.url, state_file=str(path)) as source:
        for number in range(40):
            client.set(f"lock:{number}", A, px=30_000)
            wait_until(lambda number=number: (f := family(source)) and f.acquired == number + 1, every=0.001)
            client.delete(f"lock:{number}")
            wait_until(lambda number=number: family(source).ended["released"] == number + 1, every=0.001)
    assert "lock:*" in json.loads(path.read_text())["holds"]
    with mirror(server.url, state_file=str(path)) as source:
        client.set("lock:1", A, px=30_000)
        found = wait_until(lambda: family(source))
        assert 0 < found.expected_hold < 5


def test_what_was_there_before(server, client):
    """Locks older than the exporter have the age that their token tells, or a lower bound."""
    client.lock("lock:told", timeout=60).acquire()
    client.set("lock:silent", "q7Zp0rTn4LmXw9Yc", px=60_000)
    born = time.time()
    wait_until(lambda: time.time() - born > 0.3)
    with mirror(server.url) as source:
        told, silent = source.lock(b"lock:told"), source.lock(b"lock:silent")
        assert told.age_seconds > 0.3
        assert not told.age_at_least
        assert silent.age_seconds < 0.3
        assert silent.age_at_least
        assert family(source, "lock:told").acquired == 0


def test_locks_without_ttl_cost_no_more_than_others(server, client):
    """Locks whose value has to be read to be verified are verified as seldom as any."""
    with mirror(server.url) as source:
        for number in range(20):
            client.set(f"lock:{number}", A)
        wait_until(lambda: len(source.locks()) == 20)
        client.config_resetstat()
        began = time.monotonic()
        wait_until(lambda: time.monotonic() - began > 1.0)
        calls = client.info("commandstats").get("cmdstat_mget", {"calls": 0})["calls"]
        assert calls <= 2

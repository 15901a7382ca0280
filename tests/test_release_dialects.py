"""Freeing a lock the way its library does: every recorded lock, and real libraries with real waiters."""

from __future__ import annotations

import base64
import json
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import django
import huey
import pottery
import pytest
import redis
import redis_lock
import redlock
import walrus
from django.conf import settings

from lockscope_exporter import release
from lockscope_exporter.cli.one import read_one
from lockscope_exporter.configuration import Options
from lockscope_exporter.dialects import Release, form_of
from releasing import dump, see
from servers import wait_until
from test_dialects import put, raw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lockscope_exporter.state import LockState

DATA = Path(__file__).parent / "data"
RECORDS = [
    (f"{source}{number}-{record['dialect']}", record)
    for source in ("observed", "replayed")
    for number, record in enumerate(json.loads((DATA / f"dialects-{source}.json").read_text()))
    if any(item["is_lock"] for item in record["keys"])
]
WAYS = {
    "python-redis-lock": Release.COMPARE_AND_DELETE_AND_SIGNAL,
    "walrus": Release.COMPARE_AND_DELETE_AND_SIGNAL,
    "redisson-rlock": Release.REDISSON_HASH,
    "redisson-fencedlock": Release.REDISSON_HASH,
    "huey": Release.HASH_FIELD,
    **dict.fromkeys(
        ("redisson-fairlock", "redisson-rwlock", "redisson-permit-semaphore", "sidekiq-unique-jobs"),
        Release.NONE,
    ),
}


def insist(client: redis.Redis, lock: LockState, **more: object) -> release.ReleaseResult:
    """Free a lock whatever is known of its holder."""
    return release.execute(
        client, release.plan(lock), allow=True, user="test", force=True, confirm=lock.key, **more
    )


@pytest.mark.parametrize("record", [record for _, record in RECORDS], ids=[name for name, _ in RECORDS])
def test_a_recorded_lock_is_freed_and_nothing_else(server, client, record):
    """Each lock of each library goes the way its dialect says; a dry run and a refusal leave every byte."""
    for item in record["keys"]:
        if item["type"] == "zset" and item["is_lock"]:
            item = {**item, "value": [[member, "4102444800000"] for member, _ in item["value"]]}  # noqa: PLW2901
        put(client, item)
    for item in (item for item in record["keys"] if item["is_lock"]):
        key = item["key"]
        locks = read_one(Options(redis_url=server.url, locks=(f"{key}={record['dialect']}",)), key).locks
        [lock] = [
            lock for lock in locks if lock.field is None or raw(str(item["owner"])) == lock.field
        ] or locks
        plan = release.plan(lock)
        expected = WAYS.get(record["dialect"], Release.COMPARE_AND_DELETE)
        if record["dialect"] == "gocraft-work" and key.endswith(":lock"):
            expected = Release.NONE
        if item["type"] == "string" and expected is Release.HASH_FIELD:
            expected = Release.COMPARE_AND_DELETE
        assert plan.way is expected
        before = dump(client)
        assert release.rehearse(client, plan).outcome == "refused"
        rehearsed = release.rehearse(client, plan, force=True)
        assert dump(client) == before
        assert not client.exists(release.STREAM)
        result = insist(client, lock, settle=0)
        after = dump(client)
        if plan.way is Release.NONE:
            assert (rehearsed.outcome, result.outcome) == ("refused", "refused")
            assert after == before
        else:
            assert (rehearsed.outcome, result.outcome) == ("ready", "released"), result
            check_what_is_left(client, lock, plan, before, after)
        client.delete(release.STREAM)


def check_what_is_left(
    client: redis.Redis,
    lock: LockState,
    plan: release.ReleasePlan,
    before: dict[bytes, tuple[bytes | None, int]],
    after: dict[bytes, tuple[bytes | None, int]],
) -> None:
    """Check that the lock is gone and all else is as it was, but for the list that wakes waiters."""
    expected = dict(before)
    if lock.field is not None:
        assert not client.hexists(lock.key, lock.field)
        expected.pop(lock.key)
        after.pop(lock.key, None)
    else:
        expected.pop(lock.key)
    if plan.wake is not None and plan.wake.how == "push":
        assert client.lrange(plan.wake.where, 0, -1) == [plan.wake.message]
        ttl = plan.wake.ttl_ms
        assert client.pttl(plan.wake.where) <= ttl if ttl else client.pttl(plan.wake.where) == -1
        expected.pop(plan.wake.where, None)
        after.pop(plan.wake.where)
    assert after == expected


def test_the_other_fields_of_a_hash_stay(server, client):
    """A lock that is a field of a hash goes alone; results beside it keep their bytes."""
    client.hset("huey.results.app", mapping={"result": "1", "app.lock.a": "x", "app.lock.b": "x"})
    locks = read_one(Options(redis_url=server.url), "huey.results.app").locks
    assert insist(client, locks[0], settle=0).outcome == "released"
    assert client.hgetall("huey.results.app") == {b"result": b"1", b"app.lock.b": b"x"}


@contextmanager
def waiting(acquire: Callable[[], object]) -> Iterator[threading.Event]:
    """Let another thread wait for a lock; the event says that it got it."""
    got = threading.Event()

    def run() -> None:
        if acquire():
            got.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield got
    thread.join(10)
    assert not thread.is_alive()


def blocked_clients(client: redis.Redis) -> int:
    """Return how many clients block on a list."""
    return int(client.info("clients")["blocked_clients"])


def test_a_waiter_of_python_redis_lock_is_woken(server, client):
    """A waiter that blocks without end goes on at once after a release; a bare DEL would leave it there."""
    redis_lock.Lock(client, "report").acquire()
    lock = see(server.url, "lock:report")
    waiter = redis_lock.Lock(server.client(), "report")
    with waiting(waiter.acquire) as got:
        wait_until(lambda: blocked_clients(client) == 1, what="the waiter blocks")
        client.delete("lock:report")  # by hand: the lock is free, and nobody knows
        assert blocked_clients(client) == 1
        client.set("lock:report", lock.value)
        assert insist(client, lock).outcome == "resurrected"  # by the waiter
        assert got.wait(5)
    assert client.get("lock:report") == waiter.id.encode()


def test_a_waiter_of_walrus_is_woken(server, client):
    """A waiter that blocks for its whole TTL goes on at once after a release."""
    walrus.Database(unix_socket_path=server.socket).lock("job", ttl=60_000).acquire()
    lock = see(server.url, "lock:job", "walrus")
    waiter = walrus.Database(unix_socket_path=server.socket).lock("job", ttl=60_000)
    with waiting(waiter.acquire) as got:
        wait_until(lambda: blocked_clients(client) == 1, what="the waiter blocks")
        assert insist(client, lock).outcome == "resurrected"
        assert got.wait(5)
    assert client.llen("lock.event:job") == 0


def test_what_is_left_in_a_list_of_waiters_wakes_nobody_twice(server, client):
    """The list that waiters block on has one element after a release, whatever it was before."""
    client.set("lock:report", "AA17vfYeydp9nczB1BYrJkBL")
    client.set("lock-signal:report", "no list")
    assert insist(client, see(server.url, "lock:report", "python-redis-lock"), settle=0).outcome == "released"
    assert client.lrange("lock-signal:report", 0, -1) == [b"1"]
    client.set("lock:job", "x" * 32)
    client.rpush("lock.event:job", "1", "1")
    assert insist(client, see(server.url, "lock:job", "walrus"), settle=0).outcome == "released"
    assert client.lrange("lock.event:job", 0, -1) == [b"1"]


@pytest.mark.parametrize("name", ["myLock", "my{tag}Lock"])
def test_listeners_of_redisson_are_told(server, client, name):
    """Whoever subscribed to the unlock channel hears the message that Redisson's waiters expect."""
    client.hset(name, "b983c153-7421-469a-addb-44fb92259a1b:47", 2)
    client.pexpire(name, 30_000)
    channel = f"redisson_lock__channel:{name}" if "{" in name else f"redisson_lock__channel:{{{name}}}"
    with client.pubsub() as listener:
        listener.subscribe(channel)
        listener.get_message(timeout=5)
        result = insist(client, see(server.url, name, "redisson-rlock"), settle=0)
        assert (result.outcome, result.woken) == ("released", 1)
        heard = wait_until(lambda: listener.get_message(timeout=1))
    assert (heard["channel"], heard["data"]) == (channel.encode(), b"0")
    assert not client.exists(name)


def test_a_fair_lock_of_redisson_with_waiters_is_left_alone(server, client):
    """Its bytes are those of a plain one; the queue of waiters gives it away, and nothing is done."""
    client.hset("myLock", "b983c153-7421-469a-addb-44fb92259a1b:47", 1)
    client.rpush("redisson_lock_queue:{myLock}", "b983c153-7421-469a-addb-44fb92259a1b:48")
    before = dump(client)
    result = insist(client, see(server.url, "myLock", "redisson-rlock"))
    assert result.outcome == "changed"
    assert "fair lock" in result.detail
    assert dump(client) == before


SYMFONY = [base64.b64encode(bytes([seed] * 32)).decode() for seed in (3, 5, 7)]


def test_symfony_writer_goes_with_its_marker(server, client):
    """The only holder of an exclusive lock goes, and the marker that keeps readers out goes with it."""
    client.zadd("invoice", {SYMFONY[0]: 4102444800, "__write__": 4102444800})
    assert insist(client, see(server.url, "invoice"), settle=0).outcome == "released"
    assert not client.exists("invoice")


def test_one_of_several_holders_is_named_by_its_token(server, client):
    """Of a shared lock only the hold that is meant ends, and not without saying which."""
    client.zadd("invoice", dict.fromkeys(SYMFONY, 4102444800))
    lock = see(server.url, "invoice")
    assert len(lock.holders) == 3
    vague = release.plan(lock)
    assert vague.blocked is not None
    assert all(holder.fingerprint in vague.blocked.reason for holder in lock.holders)
    meant = lock.holders[1]
    plan = release.plan(lock, token=meant.fingerprint)
    result = release.execute(client, plan, allow=True, user="t", force=True, confirm=lock.key, settle=0)
    assert result.outcome == "released"
    assert set(client.zrange("invoice", 0, -1)) == {one.token for one in lock.holders} - {meant.token}


def test_a_marker_stays_while_a_holder_lives(server, client):
    """Members whose time is up hold nothing, so the marker goes with the last that does."""
    client.zadd("invoice", {SYMFONY[0]: 4102444800, SYMFONY[1]: 4102444800, "__write__": 4102444800})
    client.zadd("invoice", {SYMFONY[2]: 1_000_000_000.5})
    for holder, left in zip(see(server.url, "invoice").holders, (True, False), strict=True):
        plan = release.plan(see(server.url, "invoice"), token=holder.fingerprint)
        release.execute(client, plan, allow=True, user="t", force=True, confirm=b"invoice", settle=0)
        assert (client.zscore("invoice", "__write__") is not None) is left


def django_lock(server) -> Callable[[], object]:
    """Return a function that tries to take a lock of django-redis once."""
    if not settings.configured:
        settings.configure(
            CACHES={
                "default": {
                    "BACKEND": "django_redis.cache.RedisCache",
                    "LOCATION": f"unix://{server.socket}?db=0",
                }
            }
        )
        django.setup()
    from django_redis.cache import RedisCache  # noqa: PLC0415 - needs the settings

    cache = RedisCache(f"unix://{server.socket}?db=0", {})
    return lambda: cache.lock("invoice", timeout=60, blocking_timeout=0.01).acquire()


def huey_lock(server) -> Callable[[], object]:
    """Return a function that tries to take a lock of Huey once."""
    app = huey.RedisHuey("app", connection_pool=redis.ConnectionPool.from_url(f"unix://{server.socket}"))

    def acquire() -> bool:
        try:
            app.lock_task("nightly").__enter__()
        except huey.exceptions.TaskLockedException:
            return False
        return True

    return acquire


LIBRARIES = {
    "redis-py": (
        "orders:lock",
        lambda server: lambda: server.client().lock("orders:lock", timeout=60).acquire(blocking=False),
    ),
    "django-redis": (":1:invoice", django_lock),
    "pottery": (
        "redlock:printer",
        lambda server: (
            lambda: pottery.Redlock(key="printer", masters={server.client()}).acquire(blocking=False)
        ),
    ),
    "redlock-py": (
        "my_resource",
        lambda server: lambda: redlock.Redlock([server.client()], retry_count=1).lock("my_resource", 60_000),
    ),
    "python-redis-lock": (
        "lock:report",
        lambda server: lambda: redis_lock.Lock(server.client(), "report", expire=60).acquire(blocking=False),
    ),
    "huey": ("huey.results.app", huey_lock),
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_takes_its_lock_again_after_a_release(server, client, name):
    """What a real library took it refuses to take twice, and takes again once lockscope has freed it."""
    key, make = LIBRARIES[name]
    acquire = make(server)
    assert acquire()
    assert not acquire()
    lock = see(server.url, key, name)  # one token in sixteen of redlock-py looks like another library's
    assert insist(client, lock, settle=0).outcome == "released"
    assert acquire()


def test_every_way_of_every_dialect_can_be_planned():
    """No form of a dialect asks for something that a plan does not know."""
    from lockscope_exporter.dialects import DIALECTS  # noqa: PLC0415
    from lockscope_exporter.release.permissions import _READS  # noqa: PLC0415

    ways = {form.release for dialect in DIALECTS.values() for form in dialect.forms}
    assert ways == {*_READS, Release.NONE}
    assert form_of("redis-py", b"x", "string") is not None

"""Further lock libraries, the real packages: every call is seen as what it was, and behaves as before."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pottery
import pytest
import redis
import redis.asyncio
import redis_lock
import redlock

from lockscope import keep_alive
from older import older_packages
from servers import RedisServer, free_port, wait_until
from shim import Observed, run_python

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def seen() -> Iterator[Observed]:
    """Observe locks."""
    with Observed() as observed:
        yield observed


def dead_client() -> redis.Redis:
    """Return a client of a port that nobody listens on."""
    return redis.Redis(port=free_port(), retry=None)


# python-redis-lock


def test_python_redis_lock_cycle(client: redis.Redis, seen: Observed) -> None:
    """Acquire, extend and release count, with the key as Redis knows it, the TTL and the owner's token."""
    lock = redis_lock.Lock(client, "order:4711", expire=30)
    with lock:
        lock.extend(60)
        assert seen.total("held", prefix="lock:order:*") == 1
    assert seen.names() == ["waiting", "acquired", "renewed", "released"]
    acquired, renewed = seen.events("acquired", "renewed")
    assert (acquired.key, acquired.ttl, acquired.token) == (b"lock:order:4711", 30, lock.id.encode())
    assert 29 < renewed.ttl_remaining <= 30
    assert 59 < seen.events("released")[0].ttl_remaining <= 60
    assert (seen.total("held"), seen.total("waiters")) == (0, 0)


def test_python_redis_lock_refusals(client: redis.Redis, seen: Observed) -> None:
    """One try that is refused is contended, a wait that ends is a timeout, and both tell of a holder."""
    holder = redis_lock.Lock(client, "a", expire=30)
    holder.acquire()
    other = redis_lock.Lock(client, "a", expire=30)
    assert other.acquire(blocking=False) is False
    assert other.acquire(timeout=1) is False
    assert seen.outcomes("acquire") == {"acquired": 1, "contended": 1, "timeout": 1}
    assert all(event.blocked_by is not None for event in seen.events("contended", "acquire_timeout"))
    assert seen.total("waiters") == 0


def test_python_redis_lock_errors(client: redis.Redis, seen: Observed) -> None:
    """A server that is down and a misuse are errors, never contention; the exceptions are the library's."""
    with pytest.raises(redis.ConnectionError):
        redis_lock.Lock(dead_client(), "a").acquire()
    lock = redis_lock.Lock(client, "a", expire=5)
    lock.acquire()
    with pytest.raises(redis_lock.AlreadyAcquired):
        lock.acquire()
    with pytest.raises(redis_lock.TimeoutNotUsable):
        redis_lock.Lock(client, "b").acquire(blocking=False, timeout=3)
    client.delete("lock:a")
    with pytest.raises(redis_lock.NotAcquired):
        lock.extend()
    with pytest.raises(redis_lock.NotAcquired):
        lock.release()
    assert seen.outcomes("acquire") == {"acquired": 1, "error": 3}
    assert seen.outcomes("renew") == {"lost": 1}
    assert seen.outcomes("release") == {"lost": 1}
    assert (seen.total("held"), seen.total("waiters")) == (0, 0)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_python_redis_lock_renewal_thread_that_fails_is_seen(client: redis.Redis, seen: Observed) -> None:
    """Its own renewing thread dies at the first failure and says nothing; the loss is counted."""
    lock = redis_lock.Lock(client, "a", expire=1, auto_renewal=True)
    lock.acquire()
    wait_until(lambda: seen.outcomes("renew").get("renewed"))
    client.delete("lock:a")
    wait_until(lambda: seen.outcomes("renew").get("lost"))
    assert seen.total("held") == 0
    with pytest.raises(redis_lock.NotAcquired):
        lock.release()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_python_redis_lock_renewal_thread_that_cannot_reach_redis_is_seen(
    own_server: RedisServer, seen: Observed
) -> None:
    """The same where Redis is away for a moment: a renewal error, and nobody renews any more."""
    client = own_server.client(retry=None)
    lock = redis_lock.Lock(client, "a", expire=2, auto_renewal=True)
    lock.acquire()
    own_server.stop()
    wait_until(lambda: seen.outcomes("renew").get("error") == 1)
    assert "ConnectionError" in seen.events("renew_error")[0].error
    wait_until(lambda: not lock._lock_renewal_thread.is_alive())


def test_python_redis_lock_dropped_without_release(client: redis.Redis, seen: Observed) -> None:
    """A lock object that goes away unreleased does not count as held for ever."""
    lock = redis_lock.Lock(client, "a", expire=30)
    lock.acquire()
    assert seen.total("held") == 1
    del lock
    assert seen.total("held") == 0


def test_python_redis_lock_is_kept_alive(client: redis.Redis, seen: Observed) -> None:
    """``keep_alive`` renews it, tells a release from a loss, and counts each renewal once."""
    lock = redis_lock.Lock(client, "a", expire=1)
    lock.acquire()
    with keep_alive(lock, every=0.1) as lease:
        wait_until(lambda: lease.renewals >= 3)
        lock.release()
        wait_until(lambda: not [t for t in threading.enumerate() if t.name == "lockscope-keep-alive"])
    assert not lease.lost
    assert seen.outcomes("renew") == {"renewed": lease.renewals}
    lock.acquire()
    with keep_alive(lock, every=0.1) as lease:
        client.delete("lock:a")
        assert lease.lost.wait(5)
    endless = redis_lock.Lock(client, "b")
    endless.acquire()
    with pytest.raises(ValueError, match="nothing to keep alive"), keep_alive(endless):
        pass


# pottery


def test_pottery_cycle(client: redis.Redis, seen: Observed) -> None:
    """The ``with`` block, which goes by private names, counts once, as do the public methods."""
    lock = pottery.Redlock(key="order:4711", masters={client}, auto_release_time=30)
    with lock:
        lock.extend()
        assert seen.total("held", prefix="redlock:order:*") == 1
        other = pottery.Redlock(key="order:4711", masters={client})
        assert other.acquire(blocking=False) is False
        assert other.acquire(timeout=0.1) is False
    lock.acquire()
    lock.release()
    assert seen.outcomes("acquire") == {"acquired": 2, "contended": 1, "timeout": 1}
    assert seen.outcomes("renew") == {"renewed": 1}
    assert seen.outcomes("release") == {"released": 2}
    assert seen.events("acquired")[0].ttl == 30
    assert (seen.total("held"), seen.total("waiters")) == (0, 0)


def test_pottery_quorum_of_failing_servers_is_an_error(client: redis.Redis, seen: Observed) -> None:
    """Where pottery only returns ``False``, servers that fail are told from a lock that is held."""
    masters = {client, dead_client(), dead_client()}
    assert pottery.Redlock(key="a", masters=masters).acquire(blocking=False) is False
    raising = pottery.Redlock(key="a", masters=masters, raise_on_redis_errors=True)
    with pytest.raises(pottery.QuorumIsImpossible):
        raising.acquire(blocking=False)
    assert seen.outcomes("acquire") == {"error": 2}
    one_down = {client, server_of(client), dead_client()}
    assert pottery.Redlock(key="b", masters=one_down).acquire(blocking=False)
    assert seen.outcomes("acquire") == {"error": 2, "acquired": 1}


def server_of(client: redis.Redis) -> redis.Redis:
    """Return a client of another database of the same server, which stands for a further master."""
    return redis.Redis(unix_socket_path=client.connection_pool.connection_kwargs["path"], db=1)


def test_pottery_losses(client: redis.Redis, seen: Observed) -> None:
    """A lock that expired is lost at extend and at release; one extension too many is an error."""
    lock = pottery.Redlock(key="a", masters={client}, num_extensions=1)
    lock.acquire()
    lock.extend()
    with pytest.raises(pottery.TooManyExtensions):
        lock.extend()
    client.delete("redlock:a")
    with pytest.raises(pottery.ReleaseUnlockedLock):
        lock.release()
    again = pottery.Redlock(key="a", masters={client})
    again.acquire()
    client.delete("redlock:a")
    with pytest.raises(pottery.ExtendUnlockedLock):
        again.extend()
    assert seen.outcomes("renew") == {"renewed": 1, "error": 1, "lost": 1}
    assert seen.outcomes("release") == {"lost": 1}
    assert seen.total("held") == 0


def test_pottery_is_kept_alive(client: redis.Redis, seen: Observed) -> None:
    """``keep_alive`` renews a Redlock for as long as its own limit of extensions allows."""
    lock = pottery.Redlock(key="a", masters={client}, auto_release_time=1, num_extensions=1000)
    with lock, keep_alive(lock, every=0.05) as lease:
        wait_until(lambda: lease.renewals >= 5)
    assert seen.outcomes("renew") == {"renewed": lease.renewals}
    assert seen.outcomes("release") == {"released": 1}


async def test_pottery_asyncio(server: RedisServer, seen: Observed) -> None:
    """AIORedlock the same, also kept alive."""
    async with redis.asyncio.Redis(unix_socket_path=server.socket) as client:
        lock = pottery.AIORedlock(key="a", masters={client}, auto_release_time=1, num_extensions=1000)
        async with lock, keep_alive(lock, every=0.02) as lease:
            other = pottery.AIORedlock(key="a", masters={client})
            assert await other.acquire(blocking=False) is False
            assert await other.acquire(timeout=0.1) is False
            while lease.renewals < 3:
                await client.ping()
        await lock.acquire()
        await client.delete("redlock:a")
        with pytest.raises(pottery.ReleaseUnlockedLock):
            await lock.release()
    assert seen.outcomes("acquire") == {"acquired": 2, "contended": 1, "timeout": 1}
    assert seen.outcomes("renew") == {"renewed": lease.renewals}
    assert seen.outcomes("release") == {"released": 1, "lost": 1}
    assert (seen.total("held"), seen.total("waiters")) == (0, 0)


# redlock-py


def test_redlock_py_cycle(client: redis.Redis, seen: Observed) -> None:
    """A manager's lock and unlock count under the resource, a refusal is contention, TTLs are in ms."""
    manager = redlock.Redlock([client], retry_count=1, retry_delay=0.01)
    lock = manager.lock("order:4711", 30_000)
    assert manager.lock("order:4711", 30_000) is False
    assert seen.total("held", prefix="order:*") == 1
    manager.unlock(lock)
    assert seen.outcomes("acquire") == {"acquired": 1, "contended": 1}
    assert seen.outcomes("release") == {"released": 1}
    assert (seen.events("acquired")[0].ttl, seen.events("acquired")[0].token) == (30, lock.key)
    assert seen.total("held") == 0


def test_redlock_py_errors_and_losses(client: redis.Redis, seen: Observed) -> None:
    """Servers that fail are an error though it returns ``False``; an unlock past the deadline is a loss."""
    assert redlock.Redlock([dead_client()], retry_count=1, retry_delay=0.01).lock("a", 1000) is False
    manager = redlock.Redlock([client], retry_count=1, retry_delay=0.01)
    lock = manager.lock("b", 400)
    wait_until(lambda: not client.exists("b"))
    manager.unlock(lock)
    assert seen.outcomes("acquire") == {"error": 1, "acquired": 1}
    assert seen.outcomes("release") == {"lost": 1}
    assert seen.total("unprotected") > 0


# libraries that hold redis-py below 6, in processes of their own


def run_older(code: str, server: RedisServer) -> Any:
    """Run a script where the older packages are; return the JSON that it printed last."""
    done = run_python(code, server.url, env=older_packages())
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


REDLOCK_NG = """
import asyncio, json, sys, time
import redis, redlock
from shim import Observed
assert hasattr(redlock, "AsyncRedlock"), redlock.__file__
url = sys.argv[1]
out = {"redis": redis.__version__}
with Observed() as seen:
    manager = redlock.Redlock([url], retry_count=0)
    with manager.lock("order:4711", 30_000) as lock:
        assert manager.acquire("order:4711", 30_000) is None
        assert manager.extend(lock, 60_000)
        out["held"] = seen.total("held", prefix="order:*")
    lock = manager.acquire("b", 30_000)
    manager.release((lock.resource, lock.value))
    lock = manager.acquire("b", 30_000)
    manager.unlock(lock.resource, lock.value)
    lock = manager.acquire("c", 30_000)
    redis.Redis.from_url(url).delete("c")
    assert not manager.extend(lock, 1000)
    dead = redlock.Redlock(["redis://127.0.0.1:1/0"], retry_count=0)
    assert dead.acquire("d", 1000) is None

    async def work():
        manager = redlock.AsyncRedlock([url], retry_count=0)
        async with manager.lock("e", 30_000) as lock:
            assert await manager.acquire("e", 30_000) is None
        dead = redlock.AsyncRedlock(["redis://127.0.0.1:1/0"], retry_count=0)
        assert await dead.acquire("f", 1000) is None
        for each in (*manager.client.instances, *dead.client.instances):
            await each.aclose()

    asyncio.run(work())
    out.update({name: seen.outcomes(name) for name in ("acquire", "renew", "release")})
    out["still held"] = seen.total("held")
    out["ttl"] = seen.events("acquired")[0].ttl
print(json.dumps(out))
"""


def test_redlock_ng(server: RedisServer) -> None:
    """Its managers, blocking and asyncio: losses and failing servers are told apart though it hides both."""
    out = run_older(REDLOCK_NG, server)
    assert out.pop("redis").startswith("5.")
    assert out == {
        "held": 1,
        "acquire": {"acquired": 5, "contended": 2, "error": 2},
        "renew": {"renewed": 1, "lost": 1},
        "release": {"released": 4},
        "still held": 0,
        "ttl": 30,
    }


AIOREDLOCK = """
import asyncio, json, logging, sys
import aioredlock, redis
from shim import Observed
logging.disable(logging.CRITICAL)
out = {}

async def work(seen):
    url = sys.argv[1]
    manager = aioredlock.Aioredlock([url], retry_count=1, internal_lock_timeout=0.5)
    async with await manager.lock("order:4711", lock_timeout=30) as lock:
        out["held"] = seen.total("held", prefix="order:*")
        await lock.extend()
        try:
            await manager.lock("order:4711", lock_timeout=30)
        except aioredlock.LockAcquiringError:
            out["refused"] = True
    watched = await manager.lock("w")
    async with asyncio.timeout(10):
        while seen.outcomes("renew").get("renewed", 0) < 3:
            await asyncio.sleep(0.05)
    redis.Redis.from_url(url).set("w", "theirs")
    async with asyncio.timeout(10):
        while not seen.outcomes("renew").get("lost"):
            await asyncio.sleep(0.05)
    watched.valid = False
    dead = aioredlock.Aioredlock(["redis://127.0.0.1:1/0"], retry_count=1)
    try:
        await dead.lock("d", lock_timeout=1)
    except aioredlock.LockRuntimeError:
        out["failed"] = True
    manager._watchdogs["w"].cancel()
    await manager.destroy()
    await asyncio.sleep(0)

with Observed() as seen:
    asyncio.run(work(seen))
    out["acquire"] = seen.outcomes("acquire")
    out["release"] = seen.outcomes("release")
    out["still held"] = seen.total("held")
print(json.dumps(out))
"""


def test_aioredlock(server: RedisServer) -> None:
    """Its manager and locks, with the watchdog's renewals and the failure that it keeps to itself."""
    assert run_older(AIOREDLOCK, server) == {
        "held": 1,
        "refused": True,
        "failed": True,
        "acquire": {"acquired": 2, "contended": 1, "error": 1},
        "release": {"released": 1},
        "still held": 0,
    }


REDIS_PY_5 = """
import asyncio, json, sys
import redis, redis.asyncio
from redis.exceptions import LockNotOwnedError
import lockscope
from shim import Observed
client = redis.Redis.from_url(sys.argv[1])
with Observed() as seen:
    lock = client.lock("a", timeout=30)
    with lock:
        lock.extend(10)
        lock.reacquire()
        with lockscope.keep_alive(lock, every=0.01) as lease:
            assert client.lock("a", timeout=3).acquire(blocking=False) is False
    lock.acquire()
    client.delete("a")
    try:
        lock.release()
    except LockNotOwnedError:
        pass

    async def work():
        async with redis.asyncio.Redis.from_url(sys.argv[1]) as client:
            async with client.lock("b", timeout=30) as lock:
                await lock.extend(10)
                assert await client.lock("b", timeout=3).acquire(blocking_timeout=0.15) is False

    asyncio.run(work())
    out = {name: seen.outcomes(name) for name in ("acquire", "release")}
    out["renew"] = seen.outcomes("renew")["renewed"] - lease.renewals
    refused = seen.events("contended", "acquire_timeout")
    out["holder"] = [event.blocked_by.pid is not None for event in refused]
    out["held"] = seen.total("held")
print(json.dumps([redis.__version__, out]))
"""


def test_redis_py_5(server: RedisServer) -> None:
    """The oldest redis-py that is supported is observed the same, blocking and asyncio."""
    version, out = run_older(REDIS_PY_5, server)
    assert version.startswith("5.")
    assert out == {
        "acquire": {"acquired": 3, "contended": 1, "timeout": 1},
        "release": {"released": 2, "lost": 1},
        "renew": 3,
        "holder": [True, True],
        "held": 0,
    }

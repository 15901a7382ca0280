"""redis-py's documented asyncio lock behaviour, on a real server, plain and observed: the same either way.

Every test runs four times: standalone and cluster, without and with observation.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import time
import traceback
import warnings
from typing import TYPE_CHECKING

import pytest
import redis
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.lock import Lock
from redis.exceptions import LockError, LockNotOwnedError

import lockscope
from servers import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from servers import RedisServer


@pytest.fixture(params=["plain", "observed"], autouse=True)
def observed(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Run the test without and with observation."""
    if request.param == "observed":
        lockscope.instrument()
    yield request.param == "observed"
    lockscope.uninstrument()


@pytest.fixture(params=["standalone", "cluster"])
def node(request: pytest.FixtureRequest, server: RedisServer) -> RedisServer:
    """Give an empty standalone server or the one node of an empty cluster."""
    return server if request.param == "standalone" else request.getfixturevalue("empty_cluster")


@pytest.fixture
def empty_cluster(cluster_server: RedisServer) -> RedisServer:
    """Give a cluster of one node with no keys in it."""
    with cluster_server.client() as client:
        client.flushall()
    return cluster_server


@pytest.fixture
async def r(node: RedisServer) -> AsyncIterator[Redis | RedisCluster]:
    """Give a client of the server or the cluster."""
    if "cluster_enabled" in node.options:
        client = RedisCluster(startup_nodes=[ClusterNode("127.0.0.1", node.port)])
    else:
        client = Redis(unix_socket_path=node.socket)
    yield client
    await client.aclose()


@pytest.fixture
def refused(node: RedisServer) -> Iterator[Callable[[], Awaitable[object]]]:
    """Give what waits until somebody was refused a lock and sleeps.

    Tests cancel sleepers only: on CPython 3.11 redis-py's own ``wait_for`` swallows a cancellation that comes
    at the very moment when a command was sent (plain as well).
    """
    with node.client() as client:

        def tries() -> int:
            return client.info("commandstats").get("cmdstat_set", {"calls": 0})["calls"]

        async def sleeps() -> None:
            await asyncio.to_thread(wait_until, lambda: tries() > before)
            await asyncio.to_thread(client.ping)  # a turn of the loop or two: the answer was read

        client.set("foo", "somebody")
        before = tries()
        yield sleeps


async def test_acquire_returns_true_and_sets_the_token(r: Redis) -> None:
    """A free lock is taken at once: True, the token in Redis is the lock's own, no TTL without a timeout."""
    lock = r.lock("foo")
    assert await lock.acquire(blocking=False) is True
    assert await r.get("foo") == lock.local.token
    assert await r.ttl("foo") == -1
    assert await lock.release() is None
    assert await r.get("foo") is None


async def test_caller_token_is_kept(r: Redis) -> None:
    """A token that the caller passes, as text or bytes, stands in Redis unchanged."""
    for token in ("caller-1", b"caller-2"):
        lock = r.lock("foo")
        assert await lock.acquire(token=token) is True
        assert await r.get("foo") == (token.encode() if isinstance(token, str) else token)
        await lock.release()


async def test_positional_arguments_work(r: Redis) -> None:
    """Acquire takes blocking, blocking_timeout and token by position, extend takes time and replacement."""
    lock = r.lock("foo", timeout=10)
    assert await lock.acquire(True, 0.1, "by-position") is True
    assert await r.get("foo") == b"by-position"
    assert await r.lock("foo").acquire(False) is False
    started = time.monotonic()
    assert await r.lock("foo", sleep=0.02).acquire(True, 0.1) is False
    assert time.monotonic() - started < 2
    assert await lock.extend(20, True) is True
    assert 18_000 < await r.pttl("foo") <= 20_000
    await lock.release()
    assert await lock.acquire(None, None, None) is True
    await lock.release()


async def test_locked_and_owned(r: Redis) -> None:
    """``locked`` tells whether anybody holds the lock, ``owned`` whether this object does."""
    lock = r.lock("foo")
    assert await lock.locked() is False
    assert await lock.owned() is False
    await lock.acquire(blocking=False)
    assert await lock.locked() is True
    assert await lock.owned() is True
    other = r.lock("foo")
    assert await other.locked() is True
    assert await other.owned() is False
    await lock.release()
    assert await lock.locked() is False
    assert await lock.owned() is False


async def test_owned_with_decoding_client(server: RedisServer) -> None:
    """``owned`` works for a client that decodes answers."""
    client = Redis(unix_socket_path=server.socket, decode_responses=True)
    lock = client.lock("foo", timeout=5)
    assert await lock.acquire()
    assert await lock.owned() is True
    assert await lock.extend(5) is True
    await lock.release()
    await client.aclose()


async def test_competing_locks(r: Redis) -> None:
    """One of two competitors gets the lock; the other gets it after the release."""
    one, two = r.lock("foo"), r.lock("foo")
    assert await one.acquire(blocking=False) is True
    assert await two.acquire(blocking=False) is False
    await one.release()
    assert await two.acquire(blocking=False) is True
    assert await one.acquire(blocking=False) is False
    await two.release()


async def test_timeout_sets_the_ttl(r: Redis) -> None:
    """A timeout becomes the key's TTL; a float is kept to the millisecond."""
    lock = r.lock("foo", timeout=10)
    assert await lock.acquire(blocking=False)
    assert 8 < await r.ttl("foo") <= 10
    await lock.release()
    short = r.lock("foo", timeout=9.5)
    assert await short.acquire(blocking=False)
    assert 8_000 < await r.pttl("foo") <= 9_500
    await short.release()


async def test_blocking_timeout_gives_up(r: Redis) -> None:
    """A blocked acquire returns False after its blocking timeout, not later by more than a sleep."""
    holder = r.lock("foo")
    assert await holder.acquire(blocking=False)
    waiter = r.lock("foo", blocking_timeout=0.2, sleep=0.05)
    start = time.monotonic()
    assert await waiter.acquire() is False
    assert 0.1 <= time.monotonic() - start < 2
    start = time.monotonic()
    assert await waiter.acquire(blocking_timeout=0.1) is False
    assert time.monotonic() - start < 2
    await holder.release()


async def test_waiter_gets_the_lock(r: Redis, refused: Callable[[], Awaitable[object]]) -> None:
    """A waiting task gets the lock once its holder is gone, and the loop runs on meanwhile."""
    waiting = asyncio.create_task(r.lock("foo", sleep=0.02, timeout=5).acquire(blocking_timeout=5))
    await refused()
    assert not waiting.done()
    await r.delete("foo")
    assert await waiting is True


async def test_async_with(r: Redis) -> None:
    """``async with`` acquires and releases and gives the lock object."""
    async with r.lock("foo") as lock:
        assert isinstance(lock, Lock)
        assert await r.get("foo") == lock.local.token
    assert await r.get("foo") is None


async def test_async_with_raises_when_refused(r: Redis) -> None:
    """``async with`` raises LockError when the lock is not had in time, and the text is redis-py's."""
    await r.set("foo", "somebody")
    with pytest.raises(LockError, match="Unable to acquire lock"):
        async with r.lock("foo", blocking_timeout=0.1, sleep=0.05):
            pytest.fail("entered without the lock")
    assert await r.get("foo") == b"somebody"


async def test_async_with_passes_the_blocks_exception_on(r: Redis) -> None:
    """An exception of the block reaches the caller, and the lock is released."""
    with pytest.raises(ZeroDivisionError):
        async with r.lock("foo", timeout=5):
            _ = 1 / 0
    assert await r.get("foo") is None


async def test_async_with_loses_lock(r: Redis) -> None:
    """Leaving ``async with`` after the lock was taken away raises LockError, or not if so told."""
    with pytest.raises(LockError):
        async with r.lock("foo", blocking_timeout=0.1, raise_on_release_error=True):
            await r.set("foo", "somebody")
    assert await r.get("foo") == b"somebody"
    await r.delete("foo")
    async with r.lock("foo", blocking_timeout=0.1, raise_on_release_error=False):
        await r.set("foo", "somebody")
    assert await r.get("foo") == b"somebody"


async def test_release_of_unlocked_lock(r: Redis) -> None:
    """Releasing a lock that was never acquired raises LockError."""
    with pytest.raises(LockError, match="not owned or is already unlocked"):
        await r.lock("foo").release()


async def test_release_of_lost_lock(r: Redis) -> None:
    """Releasing a lock that is somebody else's raises LockNotOwnedError and forgets the token."""
    lock = r.lock("foo")
    await lock.acquire(blocking=False)
    await r.set("foo", "somebody")
    with pytest.raises(LockNotOwnedError):
        await lock.release()
    assert lock.local.token is None
    assert await r.get("foo") == b"somebody"


async def test_extend_adds_or_replaces(r: Redis) -> None:
    """``extend`` adds to the TTL, or replaces it when told."""
    lock = r.lock("foo", timeout=10)
    assert await lock.acquire(blocking=False)
    assert await lock.extend(10) is True
    assert 16_000 < await r.pttl("foo") <= 20_000
    assert await lock.extend(10, replace_ttl=True) is True
    assert 8_000 < await r.pttl("foo") <= 10_000
    assert await lock.extend(additional_time=5.5, replace_ttl=False) is True
    assert 13_000 < await r.pttl("foo") <= 15_500
    await lock.release()


async def test_extend_and_reacquire_complain_before_they_are_awaited(r: Redis) -> None:
    """A lock that is not held, or has no timeout, is told at the call; nothing is left to await."""
    unheld = r.lock("foo", timeout=10)
    timeless = r.lock("foo")
    assert await timeless.acquire(blocking=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in (lambda: unheld.extend(10), unheld.reacquire):
            with pytest.raises(LockError, match="unlocked"):
                call()
        for call in (lambda: timeless.extend(10), timeless.reacquire):
            with pytest.raises(LockError, match="no timeout"):
                call()
        gc.collect()
    await timeless.release()


async def test_extend_and_reacquire_act_when_awaited(r: Redis) -> None:
    """What they return is awaitable once, and nothing is sent before; a loss comes from the await."""
    lock = r.lock("foo", timeout=10)
    assert await lock.acquire(blocking=False)
    pending = lock.extend(50)
    assert inspect.isawaitable(pending)
    assert await r.pttl("foo") <= 10_000
    assert await pending is True
    assert await r.pttl("foo") > 50_000
    await r.set("foo", "somebody")
    for call in (lambda: lock.extend(10), lock.reacquire):
        pending = call()
        with pytest.raises(LockNotOwnedError):
            await pending


async def test_extend_as_a_task(r: Redis) -> None:
    """What ``extend`` returns may be made a task, gathered, or given a time limit."""
    lock = r.lock("foo", timeout=10, thread_local=False)
    assert await lock.acquire(blocking=False)
    assert await asyncio.create_task(lock.extend(10)) is True
    assert await asyncio.gather(lock.reacquire(), lock.extend(1)) == [True, True]
    assert await asyncio.wait_for(lock.extend(5, replace_ttl=True), 5) is True
    assert 3_000 < await r.pttl("foo") <= 5_000
    await lock.release()


async def test_reacquire_resets_the_ttl(r: Redis) -> None:
    """``reacquire`` sets the TTL back to the timeout."""
    lock = r.lock("foo", timeout=10)
    assert await lock.acquire(blocking=False)
    assert await r.pexpire("foo", 5000)
    assert await lock.reacquire() is True
    assert 8_000 < await r.pttl("foo") <= 10_000
    await lock.release()


async def test_token_is_thread_local(r: Redis) -> None:
    """By default another thread does not see the token; with thread_local off it does."""

    def release(lock: Lock) -> object:
        try:
            asyncio.run(lock.release())
        except (LockError, AttributeError) as error:  # redis-py sets no token at all for other threads
            return type(error)
        return None

    lock = r.lock("foo")
    await lock.acquire()
    assert await asyncio.to_thread(release, lock) is AttributeError
    assert await lock.owned() is True
    await lock.release()
    shared = r.lock("foo", thread_local=False)
    await shared.acquire()
    token = shared.local.token
    assert await asyncio.to_thread(lambda: shared.local.token) == token
    await shared.release()


async def test_cancelled_acquire_raises_and_takes_nothing(
    r: Redis, refused: Callable[[], Awaitable[object]]
) -> None:
    """Cancelling a waiting acquire raises CancelledError in it, and the lock is left as it was."""
    waiting = asyncio.create_task(r.lock("foo", sleep=30).acquire())
    await refused()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await r.get("foo") == b"somebody"
    await r.delete("foo")
    assert await r.lock("foo", timeout=5).acquire(blocking=False) is True


async def test_time_limit_around_acquire(r: Redis) -> None:
    """``asyncio.timeout`` and ``wait_for`` around an acquire raise TimeoutError, and no task stays behind."""
    await r.set("foo", "somebody")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await r.lock("foo", sleep=30).acquire()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(r.lock("foo", sleep=30).acquire(), 0.2)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_cancellation_inside_the_block_releases(r: Redis) -> None:
    """Cancelling a task inside ``async with`` releases its lock."""
    inside = asyncio.Event()

    async def work() -> None:
        async with r.lock("foo", timeout=30):
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await inside.wait()
    assert await r.exists("foo")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not await r.exists("foo")


def test_a_waiting_acquire_that_is_closed(server: RedisServer) -> None:
    """Closing the coroutine of a waiting acquire in another context, as the collector does, is silent."""
    loop = asyncio.new_event_loop()
    client = Redis(unix_socket_path=server.socket)
    with server.client() as watcher:
        watcher.set("foo", "somebody")
        watcher.config_resetstat()
        coroutine = client.lock("foo", sleep=30).acquire()
        waiting: list[asyncio.Task[bool]] = []

        async def begin() -> None:
            waiting.append(asyncio.create_task(coroutine))
            await asyncio.to_thread(wait_until, lambda: "cmdstat_set" in watcher.info("commandstats"))
            await client.ping()  # by then the answer to SET was read

        loop.run_until_complete(begin())
    waiting[0]._log_destroy_pending = False
    coroutine.close()
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED
    loop.run_until_complete(client.aclose())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


async def test_subclass_keeps_its_behaviour(server: RedisServer) -> None:
    """A subclass that ``lock_class`` names is used, with its own overrides."""

    class Shouting(Lock):
        async def acquire(self, *args: object, **kwargs: object) -> bool:
            self.shouted = True
            return await super().acquire(*args, **kwargs)  # type: ignore[arg-type]

    client = Redis(unix_socket_path=server.socket)
    lock = client.lock("foo", lock_class=Shouting, timeout=5)
    async with lock:
        assert lock.shouted
        assert await client.get("foo") == lock.local.token
    await client.aclose()


async def test_connection_error_is_the_callers(own_server: RedisServer) -> None:
    """A server that is gone raises redis-py's ConnectionError from acquire, extend, and release, which keeps
    the token.
    """
    client = Redis(unix_socket_path=own_server.socket, retry=None)
    held = client.lock("foo", timeout=30)
    assert await held.acquire()
    own_server.stop()
    with pytest.raises(redis.ConnectionError):
        await client.lock("bar", timeout=30).acquire()
    with pytest.raises(redis.ConnectionError):
        await held.extend(1)
    with pytest.raises(redis.ConnectionError):
        await held.release()
    assert held.local.token is not None
    await client.aclose()


async def test_traceback_points_at_the_caller(r: Redis) -> None:
    """An exception's traceback has the caller's own line first and redis-py's line last."""
    lock = r.lock("foo", timeout=5)
    for number, call in enumerate((lock.release, lock.reacquire)):
        try:
            await call()
        except LockError as error:
            frames = traceback.extract_tb(error.__traceback__)
            assert frames[0].filename == __file__
            assert frames[0].line == "await call()"
            assert frames[-1].filename.endswith("redis/asyncio/lock.py")
        else:
            pytest.fail(f"call {number} of a lock that was never held succeeded")


def test_two_event_loops(server: RedisServer) -> None:
    """Locks of two loops in two threads compete for one key and never both have it."""
    held: list[str] = []
    overlaps: list[str] = []

    def work(name: str) -> None:
        async def run() -> None:
            client = Redis(unix_socket_path=server.socket)
            for _ in range(5):
                async with client.lock("foo", timeout=5, sleep=0.005):
                    overlaps.extend(held)
                    held.append(name)
                    await asyncio.sleep(0.002)
                    held.remove(name)
            await client.aclose()

        asyncio.run(run())

    async def both() -> None:
        await asyncio.gather(asyncio.to_thread(work, "one"), asyncio.to_thread(work, "two"))

    asyncio.run(both())
    assert overlaps == []
    client = server.client()
    wait_until(lambda: not client.exists("foo"))
    client.close()


def test_signatures_and_documentation_stay() -> None:
    """Help, signatures and kinds of the observed methods are redis-py's own."""
    assert list(inspect.signature(Lock.acquire).parameters) == [
        "self",
        "blocking",
        "blocking_timeout",
        "token",
    ]
    assert inspect.iscoroutinefunction(Lock.acquire)
    assert inspect.iscoroutinefunction(Lock.release)
    assert not inspect.iscoroutinefunction(Lock.extend)
    assert not inspect.iscoroutinefunction(Lock.reacquire)
    assert "Use Redis to hold" in (Lock.acquire.__doc__ or "")
    assert Lock.release.__qualname__ == "Lock.release"

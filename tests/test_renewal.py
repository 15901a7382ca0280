"""``keep_alive``: renewals that go on through trouble, and losses that are told in time."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import redis
import redis.asyncio
from redis.exceptions import LockError, LockNotOwnedError

import lockscope
from lockscope import keep_alive
from servers import Process, RedisServer, wait_until
from shim import Observed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TTL = 0.9  # long enough for a busy machine to renew in time, short enough to wait for


@pytest.fixture
def seen() -> Iterator[Observed]:
    """Observe locks."""
    with Observed() as observed:
        yield observed


def held(client: redis.Redis, key: str = "job:1", ttl: float = TTL, **options: Any) -> Any:
    """Return a lock that is held."""
    lock = client.lock(key, timeout=ttl, **options)
    assert lock.acquire()
    return lock


def keepers() -> list[threading.Thread]:
    """Return the renewing threads of this process."""
    return [thread for thread in threading.enumerate() if thread.name == "lockscope-keep-alive"]


@pytest.mark.parametrize("thread_local", [True, False])
def test_a_kept_lock_outlives_its_ttl(client: redis.Redis, seen: Observed, thread_local: bool) -> None:
    """The lock is ours past its TTL, each renewal counts with its headroom, and all ends with the block."""
    lock = held(client, thread_local=thread_local)
    with keep_alive(lock) as lease:
        assert lease.every == pytest.approx(TTL / 3)
        wait_until(lambda: lease.renewals >= 4)
        assert lock.owned()
        assert not lease.lost
        assert 0 < lease.remaining <= TTL
    assert not keepers()
    lock.release()
    assert seen.outcomes("renew") == {"renewed": lease.renewals}
    assert seen.total("redis_lock_renew_headroom_ratio_count") == lease.renewals
    assert 0 < seen.total("redis_lock_renew_headroom_ratio_sum") / lease.renewals < 1
    assert seen.outcomes("release") == {"released": 1}
    assert seen.total("held") == 0


def test_it_works_without_observation(client: redis.Redis) -> None:
    """Without ``instrument`` the first renewal comes at once: nobody knows when the lock was taken."""
    lock = held(client)
    time.sleep(TTL / 3)
    with keep_alive(lock) as lease:
        assert client.pttl("job:1") > TTL * 1000 * 0.9
        wait_until(lambda: lease.renewals >= 2)
        client.delete("job:1")
        assert lease.lost.wait(5)
    assert lease.lost


def test_the_first_renewal_counts_from_the_acquire(client: redis.Redis, seen: Observed) -> None:
    """A block that begins late in the lease renews at once instead of after a third of the TTL."""
    lock = held(client, ttl=3)
    lock.local.lockscope_lease.deadline -= 2
    client.pexpire("job:1", 1000)
    with keep_alive(lock) as lease:
        wait_until(lambda: lease.renewals == 1, timeout=0.8)
    assert seen.events("renewed")[0].ttl_remaining < 1


@pytest.mark.parametrize("every", [0, -1, float("nan"), float("inf"), 1e300, "x"])
def test_a_pause_that_is_none_is_refused_at_once(client: redis.Redis, every: Any) -> None:
    """What is no number of seconds above 0 is a ``ValueError`` before the block."""
    lock = held(client)
    with pytest.raises(ValueError, match="every takes seconds above 0"):
        keep_alive(lock, every=every)


def test_one_object_keeps_the_locks_of_many_threads(client: redis.Redis) -> None:
    """One object entered by two threads renews for each of them, and each exit ends its own renewals."""
    lock = client.lock("job:1", timeout=5)
    assert lock.acquire()
    block = keep_alive(lock, every=0.02)
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        lock.local.token = token
        with block:
            entered.set()
            leave.wait(10)

    token = lock.local.token
    thread = threading.Thread(target=other)
    with block as lease:
        thread.start()
        assert entered.wait(10)
        with block as inner:
            wait_until(lambda: inner.renewals)
        assert len(keepers()) == 2
        leave.set()
        thread.join()
        before = lease.renewals
        wait_until(lambda: lease.renewals > before)
    assert not keepers()


def test_each_entry_is_told_of_its_own_loss(client: redis.Redis) -> None:
    """Nested entries of one object call ``on_lost`` with the lease of each."""
    told: list[Any] = []
    with keep_alive(held(client), every=0.05, on_lost=told.append) as block_lease:
        pass
    block = keep_alive(held(client, "job:2"), every=0.05, on_lost=told.append)
    with block as outer, block as inner:
        client.delete("job:2")
        wait_until(lambda: len(told) == 2)
    assert block_lease not in told
    assert set(told) == {outer, inner}


@pytest.mark.parametrize("every", [TTL, 5])
def test_a_pause_that_cannot_be_is_refused(client: redis.Redis, every: float) -> None:
    """A pause of nothing, less, or the TTL and more is a ``ValueError`` before anything is started."""
    with pytest.raises(ValueError, match="every takes seconds"), keep_alive(held(client), every=every):
        pass
    assert not keepers()


def test_misuse_is_refused_at_the_start(client: redis.Redis, server: RedisServer) -> None:
    """No TTL, no lock held, no lock at all, the wrong ``with``, or a callback that cannot be called."""
    endless = client.lock("endless")
    endless.acquire()
    with pytest.raises(ValueError, match="nothing to keep alive"), keep_alive(endless):
        pass
    with pytest.raises(LockError, match="not held"), keep_alive(client.lock("free", timeout=5)):
        pass
    with pytest.raises(TypeError, match="does not know how to renew"), keep_alive(threading.Lock()):
        pass
    lock = held(client)
    with pytest.raises(TypeError, match="on_lost takes"):
        keep_alive(lock, on_lost=lambda _lease, _more: None)
    with pytest.raises(TypeError, match="async with"), keep_alive(lock, cancel=True):
        pass
    elsewhere = redis.asyncio.Redis(unix_socket_path=server.socket).lock("x", timeout=5)
    elsewhere.local.token = b"t"
    with pytest.raises(TypeError, match="async with"), keep_alive(elsewhere):
        pass
    assert not keepers()


def test_a_deleted_lock_is_lost_once(client: redis.Redis, seen: Observed) -> None:
    """The callback is called once with the lease, the loss counts once, the block's end raises nothing."""
    told: list[Any] = []
    lock = held(client)
    with keep_alive(lock, on_lost=told.append) as lease:
        client.delete("job:1")
        assert lease.lost.wait(5)
        wait_until(lambda: not keepers())
        assert lease.lost
        assert lease.remaining == 0
        assert "not ours any more" in lease.reason
    assert told == [lease]
    with pytest.raises(LockNotOwnedError):
        lock.release()
    assert seen.outcomes("renew")["lost"] == 1
    assert seen.outcomes("release") == {"lost": 1}
    assert seen.total("held") == 0


def test_a_lock_of_somebody_else_is_not_touched(client: redis.Redis, seen: Observed) -> None:
    """After a takeover the new owner's token and TTL stay as they are."""
    lock = held(client)
    told = threading.Event()
    with keep_alive(lock, on_lost=told.set) as lease:
        client.set("job:1", "theirs", px=60_000)
        assert told.wait(5)
    assert lease.lost
    assert client.get("job:1") == b"theirs"
    assert client.pttl("job:1") > 50_000
    assert seen.outcomes("renew").get("renewed", 0) == lease.renewals


def test_a_release_inside_the_block_ends_renewal(client: redis.Redis, seen: Observed) -> None:
    """A lock released before the block ends is no loss, and is never renewed again under its next owner."""
    lock = held(client)
    with keep_alive(lock, every=0.05) as lease:
        wait_until(lambda: lease.renewals >= 2)
        lock.release()
        client.set("job:1", "theirs", px=60_000)
        wait_until(lambda: not keepers())
    assert not lease.lost
    assert client.get("job:1") == b"theirs"
    assert set(seen.outcomes("renew")) == {"renewed"}


def test_a_slow_server_is_survived(own_server: RedisServer, seen: Observed) -> None:
    """A server that stands still for most of the TTL answers late, but in time: nothing is lost."""
    client = own_server.client(socket_timeout=30)
    lock = held(client, ttl=3)
    with keep_alive(lock, every=0.1) as lease:
        wait_until(lambda: lease.renewals >= 1)
        own_server.signal(signal.SIGSTOP)
        time.sleep(1.5)  # the pause is what is tested
        before = lease.renewals
        own_server.signal(signal.SIGCONT)
        wait_until(lambda: lease.renewals > before + 2)
        assert not lease.lost
    lock.release()
    assert set(seen.outcomes("renew")) == {"renewed"}


def test_a_server_that_never_answers_is_told_in_time(own_server: RedisServer, seen: Observed) -> None:
    """A renewal that hangs without a socket timeout still ends in one loss when the TTL is over."""
    client = own_server.client(socket_timeout=None)
    told = threading.Event()
    lock = held(client, ttl=1.5)
    with keep_alive(lock, every=0.1, on_lost=told.set) as lease:
        wait_until(lambda: lease.renewals >= 1)
        own_server.signal(signal.SIGSTOP)
        stopped = time.monotonic()
        assert told.wait(10)
        assert 1.3 < time.monotonic() - stopped < 2.5
        assert "no renewal was confirmed" in lease.reason
        own_server.signal(signal.SIGCONT)
    assert lease.lost
    assert seen.outcomes("renew") == {"renewed": lease.renewals, "lost": 1}
    assert seen.total("held") == 0


def test_a_restart_with_persistence_is_survived(own_server: RedisServer, seen: Observed) -> None:
    """Renewals fail while Redis restarts, are tried again sooner, and go on once it is back with the lock."""
    own_server.stop()
    own_server.options.update(appendonly="yes", appendfsync="always")
    own_server.start()
    client = own_server.client(retry=None)
    lock = held(client, ttl=6)
    with keep_alive(lock, every=0.3) as lease:
        wait_until(lambda: lease.renewals >= 1)
        own_server.stop(signal.SIGKILL)
        wait_until(lambda: "error" in seen.outcomes("renew"))
        before = lease.renewals
        own_server.start()
        wait_until(lambda: lease.renewals > before)
        assert not lease.lost
        assert lock.owned()
    lock.release()
    assert seen.total("held") == 0


def test_a_restart_without_persistence_is_a_loss(own_server: RedisServer, seen: Observed) -> None:
    """Redis comes back empty: the lock is gone, and that is told by the first renewal after."""
    client = own_server.client()
    lock = held(client, ttl=30)
    with keep_alive(lock, every=0.1) as lease:
        own_server.stop(signal.SIGKILL)
        own_server.start()
        assert lease.lost.wait(20)
        assert "not ours any more" in lease.reason
    assert seen.outcomes("renew")["lost"] == 1


PAUSED = """
import sys, time, redis, lockscope
lock = redis.Redis(unix_socket_path=sys.argv[1]).lock("job:1", timeout=1)
lock.acquire()
with lockscope.keep_alive(lock, every=0.1) as lease:
    last = time.monotonic()
    print("kept", flush=True)
    while time.monotonic() - last < 0.9:
        last = time.monotonic()
        time.sleep(0.001)
    print("lost" if lease.lost else "not lost", flush=True)
"""


def test_a_process_paused_past_its_ttl_knows_at_once(server: RedisServer, tmp_path: Path) -> None:
    """The first look at ``lease.lost`` after SIGCONT says lost, before any thread had time to ask Redis."""
    process = Process([os.sys.executable, "-c", PAUSED, server.socket], tmp_path / "log")
    try:
        wait_until(lambda: "kept" in process.output())
        process.popen.send_signal(signal.SIGSTOP)
        client = server.client()
        wait_until(lambda: not client.exists("job:1"))
        time.sleep(0.3)  # a pause that nobody takes for noise
        process.popen.send_signal(signal.SIGCONT)
        wait_until(lambda: process.popen.poll() is not None, what=process.output())
        assert process.output().split("\n")[1] == "lost"
    finally:
        process.stop()


def test_a_short_pause_of_the_process_is_survived(server: RedisServer, tmp_path: Path) -> None:
    """A process paused for less than its TTL renews when it goes on, and nothing is lost."""
    code = PAUSED.replace("timeout=1)", "timeout=20)").replace("every=0.1", "every=0.5")
    process = Process([os.sys.executable, "-c", code, server.socket], tmp_path / "log")
    try:
        wait_until(lambda: "kept" in process.output())
        process.popen.send_signal(signal.SIGSTOP)
        time.sleep(1.2)  # the pause is what is tested
        process.popen.send_signal(signal.SIGCONT)
        wait_until(lambda: "lost" in process.output())
        assert process.output().split("\n")[1] == "not lost"
        assert server.client().pttl("job:1") > 0
    finally:
        process.stop()


def test_a_callback_that_raises_is_logged(client: redis.Redis, caplog: pytest.LogCaptureFixture) -> None:
    """A failing ``on_lost`` ends nothing: the loss stands and the failure is in the log."""

    def broken() -> None:
        raise RuntimeError("no")

    lock = held(client)
    with caplog.at_level(logging.ERROR, "lockscope"), keep_alive(lock, on_lost=broken) as lease:
        client.delete("job:1")
        wait_until(lambda: "on_lost failed" in caplog.text)
        assert lease.lost


def test_an_unexpected_failure_never_ends_renewal_silently(client: redis.Redis, seen: Observed) -> None:
    """A renewal that raises what nobody expects counts errors, is tried until the TTL ends, and is lost."""
    lock = held(client)
    lock.lua_reacquire = None  # a TypeError at every renewal
    with keep_alive(lock, every=0.1) as lease:
        assert lease.lost.wait(TTL + 5)
    assert seen.outcomes("renew")["error"] >= 2
    assert seen.outcomes("renew")["lost"] == 1


def test_a_forked_child_leaves_the_block_alone(client: redis.Redis) -> None:
    """A child forked inside the block leaves it at once and without a renewal; the parent's lease goes on."""
    lock = held(client)
    with keep_alive(lock, every=0.1) as lease:
        block = keep_alive(lock)
        block.__enter__()
        child = os.fork()
        if child == 0:
            try:
                block.__exit__(None, None, None)
                os._exit(0 if not keepers() else 3)
            finally:
                os._exit(4)
        assert wait_until(lambda: os.waitpid(child, os.WNOHANG)[1] == 0 or None, timeout=5)
        block.__exit__(None, None, None)
        before = lease.renewals
        wait_until(lambda: lease.renewals > before)
        assert not lease.lost


def test_an_interpreter_that_ends_inside_the_block_ends(server: RedisServer, tmp_path: Path) -> None:
    """A program that exits in the middle of a block is held up by nothing."""
    code = (
        "import sys, redis, lockscope\n"
        "lock = redis.Redis(unix_socket_path=sys.argv[1]).lock('job:1', timeout=30)\n"
        "lock.acquire()\n"
        "block = lockscope.keep_alive(lock, every=0.01)\n"
        "block.__enter__()\n"
    )
    process = Process([os.sys.executable, "-c", code, server.socket], tmp_path / "log")
    assert wait_until(lambda: process.popen.poll() is not None, timeout=15)
    assert (process.popen.returncode, process.output()) == (0, "")


def aio(server: RedisServer) -> redis.asyncio.Redis:
    """Return an asyncio client."""
    return redis.asyncio.Redis(unix_socket_path=server.socket)


async def until(check: Any, seconds: float = 10) -> None:
    """Wait without blocking the loop."""
    async with asyncio.timeout(seconds):
        while not check():  # noqa: ASYNC110 - what is waited for knows no event
            await asyncio.sleep(0.01)


async def test_one_object_keeps_for_nested_asyncio_blocks(server: RedisServer) -> None:
    """One object entered twice by asyncio ends each of its renewing tasks with its block."""
    async with redis.asyncio.Redis(unix_socket_path=server.socket) as client:
        lock = client.lock("job:1", timeout=5)
        assert await lock.acquire()
        block = keep_alive(lock, every=0.02)
        async with block, block:
            pass
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "lockscope-keep-alive"]


async def test_an_asyncio_lock_outlives_its_ttl(server: RedisServer, seen: Observed) -> None:
    """The same for asyncio: renewed while the block runs, ended with it, every renewal counted."""
    async with aio(server) as client:
        lock = client.lock("job:1", timeout=TTL)
        async with lock, keep_alive(lock) as lease:
            await until(lambda: lease.renewals >= 4)
            assert await lock.owned()
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "lockscope-keep-alive"]
    assert seen.outcomes("renew") == {"renewed": lease.renewals}
    assert seen.total("held") == 0


async def test_loss_cancels_the_task_if_asked(server: RedisServer) -> None:
    """With ``cancel`` the task that runs the block is cancelled, with a message that names the lock."""

    async def work() -> None:
        async with aio(server) as client:
            lock = client.lock("job:1", timeout=TTL)
            await lock.acquire()
            async with keep_alive(lock, cancel=True):
                await client.delete("job:1")
                await asyncio.sleep(30)

    task = asyncio.create_task(work())
    with pytest.raises(asyncio.CancelledError, match=r"job:1.*was lost"):
        await task


async def test_loss_calls_a_coroutine_function(server: RedisServer, seen: Observed) -> None:
    """``on_lost`` may be a coroutine function in asyncio; it runs in the loop, with the lease."""
    told: list[Any] = []

    async def on_lost(lease: lockscope.KeptLease) -> None:
        await asyncio.sleep(0)
        told.append(lease)

    async with aio(server) as client:
        lock = client.lock("job:1", timeout=TTL)
        await lock.acquire()
        async with keep_alive(lock, on_lost=on_lost) as lease:
            await client.delete("job:1")
            await until(lambda: told)
        assert told == [lease]
        assert lease.lost
    assert seen.outcomes("renew")["lost"] == 1


async def test_a_release_inside_an_asyncio_block_is_no_loss(server: RedisServer, seen: Observed) -> None:
    """A release whose answer is still on its way while renewals find the lock gone is no loss."""
    async with aio(server) as client:
        lock = client.lock("job:1", timeout=5)
        await lock.acquire()

        async def slow_release(token: bytes) -> None:
            await type(lock).do_release(lock, token)
            await asyncio.sleep(0.02)  # redis-py forgets the token only after this

        lock.do_release = slow_release
        async with keep_alive(lock, every=0.001) as lease:
            await until(lambda: lease.renewals >= 2)
            await lock.release()
            await asyncio.sleep(0.1)  # a keeper that took it for a loss would have said so by now
        assert not lease.lost, lease.reason
    assert "lost" not in seen.outcomes("renew")


async def test_an_asyncio_server_that_never_answers_is_told_in_time(own_server: RedisServer) -> None:
    """A renewal that hangs is given up at the deadline."""
    client = redis.asyncio.Redis(unix_socket_path=own_server.socket, socket_timeout=None)
    lock = client.lock("job:1", timeout=TTL)
    await lock.acquire()
    async with keep_alive(lock, every=0.1) as lease:
        await until(lambda: lease.renewals >= 1)
        own_server.signal(signal.SIGSTOP)
        await until(lambda: lease.reason, TTL + 5)
        own_server.signal(signal.SIGCONT)
    assert "no renewal was confirmed" in lease.reason
    await client.aclose()


async def test_a_cancelled_block_ends_its_keeper(server: RedisServer) -> None:
    """Cancelling the task at any moment in the block leaves no keeper and no lost lease behind."""
    async with aio(server) as client:
        for pause in (0, 0.001, 0.02):
            lock = client.lock("job:1", timeout=5)
            leases: list[lockscope.KeptLease] = []

            async def work(lock: Any = lock, leases: list[lockscope.KeptLease] = leases) -> None:
                async with lock, keep_alive(lock, every=0.001) as lease:
                    leases.append(lease)
                    await asyncio.sleep(30)

            task = asyncio.create_task(work())
            await until(lambda leases=leases: leases)
            await asyncio.sleep(pause)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not leases[0].lost
            assert not await client.exists("job:1")
            await until(
                lambda: not [t for t in asyncio.all_tasks() if t.get_name() == "lockscope-keep-alive"]
            )


async def test_a_keeper_that_is_cancelled_tells(server: RedisServer) -> None:
    """Whoever cancels the keeper's task from outside makes the lease lost, not silently unkept."""
    async with aio(server) as client:
        lock = client.lock("job:1", timeout=5)
        await lock.acquire()
        told: list[Any] = []
        async with keep_alive(lock, on_lost=told.append) as lease:
            await asyncio.sleep(0)
            for task in asyncio.all_tasks():
                if task.get_name() == "lockscope-keep-alive":
                    task.cancel()
            await until(lambda: told)
            assert lease.lost
            assert "ended" in lease.reason


async def test_a_blocked_loop_past_the_ttl_is_a_loss(server: RedisServer) -> None:
    """Code that blocks the event loop for longer than the TTL finds its lease lost right after."""
    async with aio(server) as client:
        lock = client.lock("job:1", timeout=0.2)
        await lock.acquire()
        async with keep_alive(lock) as lease:
            time.sleep(0.3)  # noqa: ASYNC251 - the blocked loop is what is tested
            assert lease.lost


def test_two_event_loops_keep_one_lock_each(server: RedisServer, seen: Observed) -> None:
    """Loops in two threads renew independently."""
    renewals: list[int] = []

    async def work(key: str) -> None:
        async with aio(server) as client:
            lock = client.lock(key, timeout=TTL)
            async with lock, keep_alive(lock, every=0.05) as lease:
                await until(lambda: lease.renewals >= 5)
                renewals.append(lease.renewals)

    threads = [threading.Thread(target=asyncio.run, args=(work(f"job:{name}"),)) for name in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(renewals) == 2
    assert seen.total("held") == 0

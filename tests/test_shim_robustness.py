"""Whatever happens around a lock, the application behaves as if nobody watched, and the counts stay true."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import redis
import redis.asyncio
from redis.exceptions import LockNotOwnedError

import lockscope
from servers import RedisServer, wait_until
from shim import Observed, run_python

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def seen() -> Iterator[Observed]:
    """Observe locks."""
    with Observed() as observed:
        yield observed


def settled(seen: Observed) -> bool:
    """Tell whether nothing counts as held or waiting; asserts that every call had exactly one outcome."""
    return (seen.total("held"), seen.total("waiters")) == (0, 0)


# forks


def test_fork_in_the_middle_of_a_held_lock(client: redis.Redis, seen: Observed) -> None:
    """The child holds nothing and counts its own locks; the parent's lock stays the parent's to count."""
    lock = client.lock("order:1", timeout=30)
    lock.acquire()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            out = {"held": seen.total("held")}
            with client.lock("order:2", timeout=30):
                out["held inside"] = seen.total("held")
            out["acquired"] = seen.outcomes("acquire")["acquired"]
            lock.release()
            out["after the parent's"] = seen.total("held")
            os.write(write, json.dumps(out).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read) as answer:
        assert json.load(answer) == {"held": 0, "held inside": 1, "acquired": 2, "after the parent's": 0}
    assert seen.total("held") == 1
    with pytest.raises(LockNotOwnedError):
        lock.release()
    assert seen.outcomes("acquire") == {"acquired": 1}
    assert settled(seen)


def test_fork_while_threads_count(client: redis.Redis, seen: Observed) -> None:
    """A child forked while other threads count never inherits a lock of the shim's that nobody can open."""
    stop = threading.Event()

    def cycle(number: int) -> None:
        lock = client.lock(f"busy:{number}", timeout=30)
        while not stop.is_set():
            with lock:
                pass

    threads = [threading.Thread(target=cycle, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(15):
            child = os.fork()
            if child == 0:
                try:
                    signal.alarm(10)
                    with client.lock(f"child:{os.getpid()}", timeout=30):
                        pass
                    os._exit(0 if seen.total("held") == 0 else 3)
                finally:
                    os._exit(4)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert settled(seen)


# threads, loops, generators, exceptions


def test_threads_add_up(server: RedisServer, seen: Observed) -> None:
    """Nothing is lost or counted twice when many threads fight for few locks."""
    calls = [0] * 6

    def work(number: int) -> None:
        client = server.client()
        for turn in range(60):
            lock = client.lock(f"order:{turn % 3}", timeout=30)
            calls[number] += 1
            if lock.acquire(blocking=turn % 2 == 0, blocking_timeout=0.02 if turn % 2 == 0 else None):
                lock.extend(5)
                lock.release()
        client.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    acquire = seen.outcomes("acquire")
    assert sum(acquire.values()) == sum(calls)
    assert seen.outcomes("release") == {"released": acquire["acquired"]}
    assert seen.outcomes("renew") == {"renewed": acquire["acquired"]}
    assert seen.total("redis_lock_acquire_wait_seconds_count") == sum(calls)
    assert settled(seen)


def test_two_event_loops(server: RedisServer, seen: Observed) -> None:
    """Loops in two threads that fight for one lock count like threads do."""

    async def work() -> None:
        async with redis.asyncio.Redis(unix_socket_path=server.socket) as client:
            for _ in range(40):
                lock = client.lock("order:1", timeout=30)
                if await lock.acquire(blocking_timeout=0.3):
                    await lock.release()

    threads = [threading.Thread(target=asyncio.run, args=(work(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    acquire = seen.outcomes("acquire")
    assert sum(acquire.values()) == 80
    assert seen.outcomes("release") == {"released": acquire["acquired"]}
    assert settled(seen)


def test_generators(client: redis.Redis, seen: Observed) -> None:
    """A lock held by a suspended generator is held until that is closed, collected or finished."""

    def rows(key: str) -> Iterator[int]:
        with client.lock(key, timeout=30):
            yield 1
            yield 2

    closed, dropped = rows("order:1"), rows("order:2")
    assert (next(closed), next(dropped)) == (1, 1)
    assert seen.total("held") == 2
    closed.close()
    del dropped
    gc.collect()
    assert list(rows("order:3")) == [1, 2]
    assert seen.outcomes("release") == {"released": 3}
    assert settled(seen)


async def test_async_generators(server: RedisServer, seen: Observed) -> None:
    """The same for asyncio generators, closed from another task than the one that began them."""
    async with redis.asyncio.Redis(unix_socket_path=server.socket) as client:

        async def rows() -> Any:
            async with client.lock("order:1", timeout=30):
                yield 1
                yield 2

        generator = rows()
        assert await anext(generator) == 1
        await asyncio.create_task(generator.aclose())
        assert not await client.exists("order:1")
    assert seen.outcomes("release") == {"released": 1}
    assert settled(seen)


@pytest.mark.parametrize("error", [RuntimeError("mine"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_exceptions_in_the_block(client: redis.Redis, seen: Observed, error: BaseException) -> None:
    """Whatever the work raises comes through unchanged, and the lock is released and counted."""
    with pytest.raises(type(error)) as caught, client.lock("order:1", timeout=30):
        raise error
    assert caught.value is error
    assert error.__context__ is None
    assert seen.outcomes("release") == {"released": 1}
    assert settled(seen)


def test_keyboard_interrupt_while_waiting(client: redis.Redis, seen: Observed) -> None:
    """Ctrl-C in the middle of a wait ends it at once: the caller gave up, nobody waits any more."""
    client.set("order:1", "theirs")
    interrupter = threading.Thread(
        target=lambda: (wait_until(lambda: seen.total("waiters")), os.kill(os.getpid(), signal.SIGINT))
    )
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        client.lock("order:1", timeout=30).acquire()
    interrupter.join()
    assert seen.outcomes("acquire") == {"timeout": 1}
    assert settled(seen)


async def test_cancellation_at_every_await(server: RedisServer, client: redis.Redis, seen: Observed) -> None:
    """Cancelled after any number of steps, each call still has one outcome, and nothing stays held."""
    acquires = releases = cancelled = 0
    async with redis.asyncio.Redis(unix_socket_path=server.socket) as aio:
        await aio.ping()
        for contended in (False, True):
            for steps in range(14):
                client.delete("order:1")
                if contended:
                    client.set("order:1", "theirs")
                lock = aio.lock("order:1", timeout=30, sleep=0.001)

                async def work(lock: Any = lock) -> None:
                    nonlocal acquires, releases
                    acquires += 1
                    if await lock.acquire(blocking_timeout=0.02):
                        try:
                            await lock.extend(5)
                        finally:
                            releases += 1
                            await lock.release()

                task = asyncio.create_task(work())
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                cancelled += task.cancelled()
                del lock, work, task
    gc.collect()
    assert cancelled >= 10
    assert acquires >= 26
    assert sum(seen.outcomes("acquire").values()) == acquires
    assert sum(seen.outcomes("release").values()) == releases
    assert settled(seen)


async def test_timeouts_of_asyncio_are_giving_up(
    server: RedisServer, client: redis.Redis, seen: Observed
) -> None:
    """``asyncio.timeout`` around a waiting acquire raises ``TimeoutError`` as ever, a timeout."""
    client.set("order:1", "theirs")
    async with redis.asyncio.Redis(unix_socket_path=server.socket) as aio:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.15):
                await aio.lock("order:1", timeout=30, sleep=0.02).acquire()
    assert seen.outcomes("acquire") == {"timeout": 1}
    assert settled(seen)


def test_coroutines_that_are_never_awaited(server: RedisServer, seen: Observed) -> None:
    """A call whose coroutine is thrown away never happened, and is not counted."""
    aio = redis.asyncio.Redis(unix_socket_path=server.socket)
    pending = aio.lock("order:1", timeout=30).acquire()
    pending.close()
    assert seen.outcomes("acquire") == {}
    assert settled(seen)


# on and off while locks are held


def test_uninstrument_while_locks_are_held(client: redis.Redis) -> None:
    """Held locks go on as if never observed: they extend, release and lose as before, gauges are 0."""
    with Observed() as seen:
        first, second = client.lock("order:1", timeout=30), client.lock("order:2", timeout=30)
        first.acquire()
        second.acquire()
        assert seen.total("held") == 2
    assert seen.total("held") == 0
    assert first.extend(5) is True
    first.release()
    client.delete("order:2")
    with pytest.raises(LockNotOwnedError):
        second.release()
    assert seen.outcomes("release") == {}


def test_locks_taken_before_are_released_after(client: redis.Redis) -> None:
    """A lock from before observation, or from an earlier one, is released and counted, never below 0."""
    unseen, earlier = client.lock("order:1", timeout=30), client.lock("order:2", timeout=30)
    unseen.acquire()
    with Observed():
        earlier.acquire()
    with Observed() as seen:
        unseen.release()
        earlier.extend(5)
        earlier.release()
        assert seen.outcomes("release") == {"released": 2}
        assert settled(seen)


def test_uninstrument_in_the_middle_of_calls(client: redis.Redis) -> None:
    """Switching on and off while threads work disturbs none of them and leaves nothing held."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def cycle(number: int) -> None:
        try:
            while not stop.is_set():
                with client.lock(f"order:{number}", timeout=30) as lock:
                    lock.reacquire()
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=cycle, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    registry_totals = []
    for _ in range(20):
        with Observed() as seen:
            wait_until(lambda seen=seen: seen.outcomes("release"))
        registry_totals.append(settled(seen))
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert all(registry_totals)


SHUTDOWN = """
import atexit, sys
import redis
import lockscope
client = redis.Redis(unix_socket_path=sys.argv[1])
lockscope.instrument(sinks=[lambda event: None])
kept = client.lock("order:1", timeout=30)
kept.acquire()
other = client.lock("order:2", timeout=30)
other.acquire()
atexit.register(other.release)
class Late:
    def __del__(self):
        lock = client.lock("order:3", timeout=30)
        lock.acquire()
        lock.release()
late = Late()
sys.late = late
print("end")
"""


def test_interpreter_shutdown(server: RedisServer, client: redis.Redis) -> None:
    """Locks held, released or taken while the interpreter ends cause no message and no delay."""
    started = time.monotonic()
    done = run_python(SHUTDOWN, server.socket)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
    assert time.monotonic() - started < 20
    assert client.exists("order:1")
    assert not client.exists("order:2", "order:3")


BUSY = """
import sys, threading, time
import redis
import lockscope
client = redis.Redis(unix_socket_path=sys.argv[1])
lockscope.instrument(journal="unix://" + sys.argv[1], sinks=[lambda event: None])
def work(number):
    while True:
        with client.lock(f"busy:{number}", timeout=30):
            pass
for number in range(6):
    threading.Thread(target=work, args=(number,), daemon=True).start()
while not client.exists("lockscope:journal"):
    time.sleep(0.01)
print("end", flush=True)
"""


def test_interpreter_shutdown_under_daemon_threads_that_never_stop(server: RedisServer) -> None:
    """A process ends although its daemon threads take locks faster than the journal is written."""
    started = time.monotonic()
    done = run_python(BUSY, server.socket)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
    assert time.monotonic() - started < 40


# sinks


def cycle(client: redis.Redis, times: int = 1) -> None:
    """Acquire, extend and release."""
    for _ in range(times):
        with client.lock("order:1", timeout=30) as lock:
            lock.extend(5)


def test_a_sink_that_raises(client: redis.Redis) -> None:
    """The application never notices; each lost event counts, the other sinks get theirs."""

    def broken(_event: object) -> None:
        raise RuntimeError("no")

    with Observed(sinks=[broken]) as seen:
        cycle(client, 5)
        wait_until(lambda: seen.total("redis_lock_sink_errors_total") == 15)
        assert len(seen.events("acquired", "renewed", "released")) == 15
        assert settled(seen)


def test_a_sink_that_blocks(client: redis.Redis) -> None:
    """A sink that never returns holds up no lock call and not the end of observation for long."""
    release = threading.Event()
    entered = threading.Event()

    def stuck(_event: object) -> None:
        entered.set()
        release.wait(60)

    try:
        started = time.monotonic()
        with Observed(sinks=[stuck]) as seen:
            cycle(client, 200)
            assert entered.wait(5)
            assert seen.outcomes("release") == {"released": 200}
        assert time.monotonic() - started < 10
    finally:
        release.set()


def test_a_full_disk_for_the_log(client: redis.Redis, capfd: pytest.CaptureFixture[str]) -> None:
    """A log that cannot be written costs the application nothing but logging's own complaint."""
    logger = logging.getLogger("lockscope")
    with open("/dev/full", "w", buffering=1) as full:  # noqa: PTH123 - a device, no path of ours
        handler = logging.StreamHandler(full)
        logger.addHandler(handler)
        level, propagate = logger.level, logger.propagate
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        try:
            with Observed() as seen:
                cycle(client, 3)
                assert seen.outcomes("release") == {"released": 3}
                assert settled(seen)
        finally:
            logger.setLevel(level)
            logger.propagate = propagate
            logger.removeHandler(handler)
        with contextlib.suppress(OSError):
            full.close()
    assert "No space left on device" in capfd.readouterr().err


def test_a_log_handler_that_raises(client: redis.Redis) -> None:
    """A filter of the application's that raises is counted as the log's failure; locks and counts go on."""
    logger = logging.getLogger("lockscope")

    def refuse(record: logging.LogRecord) -> bool:
        raise RuntimeError(record.name)

    level = logger.level
    logger.addFilter(refuse)
    logger.setLevel(logging.INFO)
    try:
        with Observed() as seen:
            cycle(client, 3)
            assert seen.total("redis_lock_sink_errors_total", sink="logs") == 6
            assert seen.outcomes("release") == {"released": 3}
    finally:
        logger.removeFilter(refuse)
        logger.setLevel(level)


def test_a_sink_that_takes_a_lock_itself(client: redis.Redis, server: RedisServer) -> None:
    """A log handler that guards its own store with a Redis lock does not go round in circles."""
    logger = logging.getLogger("lockscope")
    other = server.client()
    written: list[str] = []

    class Store(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            with other.lock("store", timeout=30, blocking_timeout=1):
                written.append(record.getMessage())

    handler = Store()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with Observed() as seen:
            cycle(client, 2)
            assert seen.total("release", prefix="order:*", outcome="released") == 2
            assert settled(seen)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        other.close()
    assert written.count("lock.acquired order:1") == 2
    assert not [line for line in written if "store" in line]


def test_a_sink_of_the_applications_that_takes_a_lock(client: redis.Redis, server: RedisServer) -> None:
    """A sink that guards its store with a Redis lock is not told of that lock, and does not feed itself."""
    other = server.client()
    told: list[bytes] = []

    def store(event: lockscope.LockEvent) -> None:
        with other.lock("store", timeout=30):
            told.append(event.key)

    with Observed(sinks=[store]) as seen:
        cycle(client, 2)
        wait_until(lambda: len(told) == 6)
        wait_until(lambda: seen.total("release", prefix="store") == 6)
    assert told == [b"order:1"] * 6
    other.close()


def test_hostile_names(client: redis.Redis, seen: Observed, caplog: pytest.LogCaptureFixture) -> None:
    """Keys, job types and ids of any content pass through every sink and come back in bounded, valid form."""
    with caplog.at_level(logging.DEBUG, "lockscope"):
        for key in (b"\xff\xfe\x00", "a\nb\x1b[31m", "{}%s%d", "k" * 70_000, "\ud800", ""):
            with (
                lockscope.job("type\n\ud800" * 100, job_id="\x00\n;=" * 100),
                contextlib.suppress(UnicodeError),
            ):
                lock = client.lock(key, timeout=30)
                with lock:
                    lock.extend(1)
    acquired = seen.outcomes("acquire").get("acquired", 0)
    assert acquired >= 5
    assert seen.outcomes("release") == {"released": acquired}
    assert settled(seen)
    for record in caplog.records:
        assert "\n" not in record.getMessage()
        assert len(record.getMessage()) < 2000


def test_memory_of_dropped_locks(client: redis.Redis, seen: Observed) -> None:
    """Lock objects that are dropped unreleased leave the gauge, each exactly once, from any thread."""

    def work() -> None:
        for number in range(20):
            client.lock(f"dropped:{threading.get_ident()}:{number}", timeout=30).acquire()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert seen.outcomes("acquire") == {"acquired": 60}
    assert settled(seen)
    assert len(seen.events("abandoned")) == 60


async def test_dropped_asyncio_lock_whose_connection_lives(server: RedisServer, seen: Observed) -> None:
    """An asyncio lock dropped unreleased leaves the gauge, though the connection it opened lives on."""
    client = redis.asyncio.Redis(unix_socket_path=server.socket)
    lock = client.lock("dropped:asyncio", timeout=30)
    assert await lock.acquire()
    del lock
    gc.collect()
    assert settled(seen)
    assert len(seen.events("abandoned")) == 1
    await client.aclose()


def test_process_that_is_killed_holding(server: RedisServer, client: redis.Redis, tmp_path: Path) -> None:
    """SIGKILL right after acquire leaves a token that says who held the lock, without any second key."""
    code = (
        "import sys, os, signal, redis, lockscope\n"
        "lockscope.instrument()\n"
        "with lockscope.job('invoice.pay', job_id='77'):\n"
        "    redis.Redis(unix_socket_path=sys.argv[1]).lock('order:1', timeout=30).acquire()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = run_python(code, server.socket, env={"TMPDIR": str(tmp_path)})
    assert done.returncode == -signal.SIGKILL
    owner = lockscope.tokens.parse(client.get("order:1"))
    assert owner is not None
    assert (owner.job_type, owner.job_id) == ("invoice.pay", "77")
    assert client.keys() == [b"order:1"]

"""What each situation of a redis-py lock tells: event, outcome, times, attempts, and who was in the way."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import gc
import signal
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
import redis
import redis.asyncio
from redis.exceptions import LockError, LockNotOwnedError
from redis.lock import Lock

import lockscope
from lockscope import Job, events, tokens
from servers import RedisServer, wait_until
from shim import Observed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


@pytest.fixture
def seen() -> Iterator[Observed]:
    """Observe locks."""
    with Observed(presence=False) as observed:
        yield observed


@pytest.fixture
async def aclient(server: RedisServer) -> AsyncIterator[redis.asyncio.Redis]:
    """Give an asyncio client of the clean server."""
    client = redis.asyncio.Redis(unix_socket_path=server.socket)
    yield client
    await client.aclose()


def calls(client: redis.Redis) -> Counter[str]:
    """Return how often the server ran each command since it began."""
    return Counter(
        {name.removeprefix("cmdstat_"): stat["calls"] for name, stat in client.info("commandstats").items()}
    )


def soon(seconds: float, action: Callable[[], object]) -> threading.Timer:
    """Do something a little later in another thread."""
    timer = threading.Timer(seconds, action)
    timer.start()
    return timer


def test_acquire_and_release(client: redis.Redis, seen: Observed) -> None:
    """A lock taken at once and given back: two events with lease, times and the job of the acquire."""
    before = time.time()
    with lockscope.job("invoice.generate", job_id="8812", resource_id="order-7"):
        lock = client.lock("lock:order:4711", timeout=10.5)
        assert lock.acquire()
        token = client.get("lock:order:4711")
    had = time.monotonic()
    wait_until(lambda: time.monotonic() > had + 0.02)
    lock.release()
    got, gave = seen.events()
    assert (got.event, got.outcome, got.key, got.prefix) == (
        events.ACQUIRED,
        "acquired",
        b"lock:order:4711",
        "lock:order:*",
    )
    assert got.job == gave.job == Job("invoice.generate", "8812", "order-7")
    assert got.token == gave.token == token
    assert got.ttl == got.ttl_remaining == gave.ttl == 10.5
    assert before <= got.at <= gave.at <= time.time()
    assert 0 <= got.wait_seconds < 5
    assert (got.attempts, got.waited, got.blocked_by, got.hold_seconds) == (1, False, None, None)
    assert (gave.event, gave.outcome) == (events.RELEASED, "released")
    assert 0.01 < gave.hold_seconds < 5
    assert gave.ttl_remaining == pytest.approx(10.5 - gave.hold_seconds, abs=0.001)
    assert gave.ttl_used == pytest.approx(gave.hold_seconds / 10.5, abs=0.001)
    assert gave.unprotected_seconds == 0
    assert seen.total("held") == 0


def test_a_lock_without_timeout_has_no_ttl(client: redis.Redis, seen: Observed) -> None:
    """Where Redis has no TTL, events name none, and nothing is made up of it."""
    with client.lock("lock:a"):
        assert seen.total("held") == 1
    got, gave = seen.events()
    assert got.ttl is got.ttl_remaining is gave.ttl is gave.ttl_remaining is gave.ttl_used is None
    assert gave.hold_seconds > 0


class _Name(str, enum.Enum):  # noqa: UP042 - whose str() is its name, unlike a StrEnum's
    LOCK = "lock:enum"


@pytest.mark.parametrize(
    "name",
    ["lock:text", b"lock:\xff", _Name.LOCK, memoryview(b"lock:view"), bytearray(b"lock:a"), 4711, 10**12],
)
def test_the_key_is_the_one_in_redis(client: redis.Redis, seen: Observed, name: Any) -> None:
    """Whatever a caller names a lock by, events carry the key's bytes as they are in Redis."""
    with client.lock(name, timeout=5):
        (key,) = client.keys()
    assert [event.key for event in seen.events()] == [key, key]
    assert seen.outcomes("release") == {"released": 1}
    assert seen.total("redis_lock_sink_errors_total") == 0


def test_contended_at_the_first_try(client: redis.Redis, seen: Observed) -> None:
    """A try-lock that is refused is contended, says who holds the lock, and never waited."""
    with lockscope.job("holder.job", job_id="1"):
        held = client.lock("lock:a", timeout=10)
        assert held.acquire()
    seen.seen.clear()
    with lockscope.job("waiter.job"):
        assert client.lock("lock:a").acquire(blocking=False) is False
    (event,) = seen.events()
    assert (event.event, event.outcome, event.attempts, event.waited) == (
        events.CONTENDED,
        "contended",
        1,
        False,
    )
    assert event.job.job_type == "waiter.job"
    assert event.token is None
    assert event.blocked_by.host == tokens.process.host
    assert event.blocked_by.pid == tokens.process.pid
    assert (event.blocked_by.job_type, event.blocked_by.job_id) == ("holder.job", "1")
    assert event.blocked_by.started_at == pytest.approx(time.time(), abs=5)


def test_a_wait_too_short_to_sleep_is_contended(client: redis.Redis, seen: Observed) -> None:
    """A blocking timeout shorter than one sleep makes one try, and counts as one."""
    client.set("lock:a", "x")
    assert client.lock("lock:a", sleep=0.5, blocking_timeout=0.1).acquire() is False
    assert seen.names() == ["contended"]
    assert seen.total("waiters") == 0


def test_waiting_and_giving_up(client: redis.Redis, seen: Observed) -> None:
    """A wait that ends without the lock is a timeout with its tries and its length; it counted as waiting."""
    client.set("lock:a", "x")
    waiters: list[float] = []
    soon(0.08, lambda: waiters.append(seen.total("waiters")))
    assert client.lock("lock:a", sleep=0.05, blocking_timeout=0.22).acquire() is False
    waiting, event = seen.events()
    assert (waiting.event, waiting.outcome, waiting.key) == (events.WAITING, "", b"lock:a")
    assert (event.event, event.outcome, event.waited) == (events.ACQUIRE_TIMEOUT, "timeout", True)
    assert 2 <= event.attempts <= 5
    assert 0.05 <= event.wait_seconds < 2
    assert event.blocked_by == tokens.Owner()  # somebody, who does not say who
    wait_until(lambda: waiters == [1])
    assert seen.total("waiters") == 0
    assert seen.outcomes("acquire") == {"timeout": 1}


def test_waiting_and_getting_it(client: redis.Redis, seen: Observed) -> None:
    """A wait that ends with the lock is one acquire that waited, from the beginning of the call."""
    client.set("lock:a", "x", px=120)
    lock = client.lock("lock:a", sleep=0.03, timeout=5)
    started = time.time()
    assert lock.acquire()
    ended = time.time()
    waiting, event = seen.events()
    assert waiting.event == events.WAITING
    assert (event.event, event.outcome) == (events.ACQUIRED, "acquired")
    assert (event.waited, event.blocked_by) == (True, None)
    assert event.attempts >= 3
    assert 0.08 < event.wait_seconds < 5
    assert started <= event.at
    assert event.at + event.wait_seconds <= ended + 0.005
    assert tokens.parse(event.token).started_at == pytest.approx(event.at, abs=0.001)
    assert (seen.total("waiters"), seen.total("held")) == (0, 1)
    lock.release()


def test_an_acquire_that_raised_is_an_error(client: redis.Redis, seen: Observed) -> None:
    """An acquire that the server refuses to answer counts as error, never as contended or acquired."""
    client.acl_setuser("nobody", enabled=True, passwords=["+p"], commands=["+ping"], keys=["*"])
    path = client.connection_pool.connection_kwargs["path"]
    refused = redis.Redis(unix_socket_path=path, username="nobody", password="p")
    with pytest.raises(redis.exceptions.NoPermissionError):
        refused.lock("lock:a", timeout=1).acquire(blocking=False)
    client.acl_deluser("nobody")
    refused.close()
    (event,) = seen.events()
    assert (event.event, event.outcome, event.attempts) == (events.ACQUIRE_ERROR, "error", 1)
    assert event.error.startswith("NoPermissionError: ")
    assert seen.outcomes("acquire") == {"error": 1}
    assert seen.total("held") == 0


def test_two_schedulers_and_a_dead_server(own_server: RedisServer, seen: Observed) -> None:
    """With Redis gone every acquire is an error, whichever way it was asked; none looks like a refusal."""
    client = own_server.client(retry=None)
    own_server.stop()
    for options in ({"blocking": False}, {"blocking_timeout": 0.2}, {}):
        with pytest.raises(redis.ConnectionError):
            client.lock("lock:scheduler", timeout=5, sleep=0.05).acquire(**options)
    assert seen.names() == ["acquire_error"] * 3
    assert seen.outcomes("acquire") == {"error": 3}
    client.close()


def test_a_server_that_dies_during_the_wait(own_server: RedisServer, seen: Observed) -> None:
    """A wait that the server's death ends is an error, not a timeout, and counts as waiting no more."""
    client = own_server.client(retry=None)
    client.set("lock:a", "x")
    soon(0.1, lambda: own_server.stop(signal.SIGKILL))
    with pytest.raises(redis.ConnectionError):
        client.lock("lock:a", sleep=0.02).acquire(blocking_timeout=20)
    assert seen.names() == ["waiting", "acquire_error"]
    assert seen.events()[1].waited
    assert seen.total("waiters") == 0
    client.close()


def test_an_interrupted_wait_is_a_timeout(client: redis.Redis, seen: Observed) -> None:
    """A wait that Ctrl-C ends counts as given up; the interrupt reaches the caller."""
    client.set("lock:a", "x")
    main = threading.main_thread().ident
    soon(0.1, lambda: signal.pthread_kill(main, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        client.lock("lock:a", sleep=0.02).acquire()
    assert seen.names() == ["waiting", "acquire_timeout"]
    assert seen.events()[1].error.startswith("KeyboardInterrupt")
    assert seen.total("waiters") == 0


async def test_a_cancelled_wait_is_a_timeout(aclient: redis.asyncio.Redis, seen: Observed) -> None:
    """Cancelling a task that waits for a lock counts as given up, and nobody waits any more."""
    await aclient.set("lock:a", "x")
    task = asyncio.create_task(aclient.lock("lock:a", sleep=0.02).acquire())
    await asyncio.to_thread(wait_until, lambda: seen.events("waiting"))
    assert seen.total("waiters") == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen.names() == ["waiting", "acquire_timeout"]
    assert seen.total("waiters") == 0


def test_renewals(client: redis.Redis, seen: Observed) -> None:
    """Each extend and reacquire tells the lease it renewed and what was left of it; later times follow."""
    lock = client.lock("lock:a", timeout=10)
    lock.acquire()
    lock.extend(5)
    lock.extend(3.5, replace_ttl=True)
    lock.reacquire()
    lock.release()
    _, added, replaced, reset, gave = seen.events()
    assert [event.event for event in (added, replaced, reset)] == [events.RENEWED] * 3
    assert {event.outcome for event in (added, replaced, reset)} == {"renewed"}
    assert (added.ttl, added.ttl_remaining) == (10, pytest.approx(10, abs=1))
    assert added.headroom == pytest.approx(1, abs=0.1)
    assert replaced.ttl == pytest.approx(15, abs=1)
    assert replaced.ttl_remaining == pytest.approx(15, abs=1)
    assert reset.ttl == 3.5
    assert reset.ttl_remaining == pytest.approx(3.5, abs=1)
    assert gave.ttl == 10
    assert seen.outcomes("renew") == {"renewed": 3}
    assert seen.total("unprotected") == 0


@pytest.mark.parametrize("way", ["extend", "reacquire"])
def test_a_renewal_that_comes_too_late(client: redis.Redis, seen: Observed, way: str) -> None:
    """A renewal of a lock that is no longer owned is a loss, and says by how much it came late."""
    lock = client.lock("lock:a", timeout=0.1)
    lock.acquire()
    wait_until(lambda: not client.exists("lock:a"))
    late = time.monotonic()
    wait_until(lambda: time.monotonic() > late + 0.05)
    with pytest.raises(LockNotOwnedError, match="no longer owned"):
        lock.extend(1) if way == "extend" else lock.reacquire()
    (event,) = seen.events("renew_lost")
    assert (event.outcome, event.ttl) == ("lost", 0.1)
    assert -5 < event.ttl_remaining < -0.04
    assert event.headroom == 0
    assert event.unprotected_seconds == pytest.approx(-event.ttl_remaining, abs=0.001)
    assert event.hold_seconds == pytest.approx(0.1 - event.ttl_remaining, abs=0.001)
    assert event.ends_lease
    assert seen.total("held") == 0
    with pytest.raises(LockNotOwnedError):
        lock.release()
    lost = seen.events("release_lost")[0]
    assert not lost.ends_lease
    assert seen.total("unprotected") == pytest.approx(-lost.ttl_remaining, abs=0.01)
    assert (seen.total("held"), seen.outcomes("renew"), seen.outcomes("release")) == (
        0,
        {"lost": 1},
        {"lost": 1},
    )


def test_a_second_worker_went_in(client: redis.Redis, seen: Observed) -> None:
    """The first's lease lapsed and a second took the lock: the first's release tells the time without one."""
    first, second = client.lock("lock:a", timeout=0.1), client.lock("lock:a", timeout=30, sleep=0.02)
    assert first.acquire()
    assert second.acquire(blocking_timeout=5)
    assert seen.total("held") == 2  # this is what the two of them believe
    with pytest.raises(LockNotOwnedError):
        first.release()
    (event,) = seen.events("release_lost")
    assert event.outcome == "lost"
    assert 0 < event.unprotected_seconds < 5
    assert event.unprotected_seconds == pytest.approx(event.hold_seconds - 0.1, abs=0.002)
    assert event.ttl_used > 1
    assert seen.total("held") == 1
    assert seen.total("unprotected") == pytest.approx(event.unprotected_seconds)
    second.release()
    assert seen.events("released")[0].unprotected_seconds == 0
    assert seen.total("held") == 0


def test_a_lock_taken_away_early_was_not_unprotected(client: redis.Redis, seen: Observed) -> None:
    """A lock that somebody deleted before its deadline is lost, and no lapsed time is claimed."""
    lock = client.lock("lock:a", timeout=30)
    lock.acquire()
    client.delete("lock:a")
    with pytest.raises(LockNotOwnedError):
        lock.release()
    (event,) = seen.events("release_lost")
    assert event.ttl_remaining > 25
    assert event.unprotected_seconds == seen.total("unprotected") == 0
    assert seen.total("held") == 0


def test_renewal_and_release_without_an_answer(own_server: RedisServer, seen: Observed) -> None:
    """With Redis gone a renewal is an error and the lease goes on; a release is an error and ends it."""
    client = own_server.client(retry=None)
    lock = client.lock("lock:a", timeout=30)
    lock.acquire()
    own_server.stop()
    with pytest.raises(redis.ConnectionError):
        lock.extend(1)
    (event,) = seen.events("renew_error")
    assert (event.outcome, event.ends_lease, event.ttl) == ("error", False, 30)
    assert "Error" in event.error
    assert seen.total("held") == 1
    with pytest.raises(redis.ConnectionError):
        lock.release()
    (event,) = seen.events("release_error")
    assert (event.outcome, event.ends_lease) == ("error", True)  # redis-py forgot the token
    assert seen.total("held") == 0
    assert (seen.outcomes("renew"), seen.outcomes("release")) == ({"error": 1}, {"error": 1})
    client.close()


async def test_an_asyncio_release_that_failed_may_be_tried_again(
    own_server: RedisServer, seen: Observed
) -> None:
    """The asyncio lock keeps its token when the connection fails: its lease goes on until released."""
    client = redis.asyncio.Redis(unix_socket_path=own_server.socket, retry=None)
    lock = client.lock("lock:a", timeout=30)
    assert await lock.acquire()
    value = await client.get("lock:a")
    own_server.stop()
    with pytest.raises(redis.ConnectionError):
        await lock.release()
    assert not seen.events("release_error")[0].ends_lease
    assert seen.total("held") == 1
    own_server.start()
    await client.set("lock:a", value, px=30_000)
    await lock.release()
    assert seen.names() == ["acquired", "release_error", "released"]
    assert seen.total("held") == 0
    await client.aclose()


def test_release_of_what_was_never_had(client: redis.Redis, seen: Observed) -> None:
    """Releasing or extending a lock that is not held is the caller's error, and no gauge moves."""
    lock = client.lock("lock:a", timeout=5)
    with pytest.raises(LockError):
        lock.release()
    with pytest.raises(LockError):
        lock.extend(1)
    assert seen.names() == ["release_error", "renew_error"]
    assert not any(event.ends_lease for event in seen.events())
    assert seen.events()[0].hold_seconds is None
    assert (seen.total("held"), seen.total("unprotected")) == (0, 0)


def test_a_lock_object_dropped_while_held(client: redis.Redis, seen: Observed) -> None:
    """A lock that is never released counts as held until its object is gone; then it is abandoned."""
    client.lock("lock:a", timeout=5).acquire()
    gc.collect()
    assert seen.total("held") == 0  # a scrape is what asks
    (event,) = seen.events("abandoned")
    assert (event.key, event.prefix, event.ends_lease, event.outcome) == (b"lock:a", "lock:a", True, "")


def test_a_lapsed_lock_taken_again_by_the_same_object(client: redis.Redis, seen: Observed) -> None:
    """An object that takes its lock again after the lease lapsed holds one lock, not two."""
    lock = client.lock("lock:a", timeout=0.05)
    lock.acquire()
    wait_until(lambda: not client.exists("lock:a"))
    lock.timeout = 5
    assert lock.acquire(blocking=False)
    assert seen.total("held") == 1
    lock.release()
    assert seen.total("held") == 0
    assert seen.outcomes("acquire") == {"acquired": 2}


def test_a_lock_object_handed_over_during_its_release(client: redis.Redis, seen: Observed) -> None:
    """A shared object that another thread takes while its release returns keeps the new lease."""

    class Shared(Lock):
        def do_release(self, expected_token: str) -> None:
            super().do_release(expected_token)
            if not seen.events("released"):
                second = threading.Thread(target=self.acquire)
                second.start()
                second.join()

    lock = Shared(client, "lock:a", timeout=5, thread_local=False)
    lock.acquire()
    lock.release()
    assert seen.names() == ["acquired", "acquired", "released"]
    assert seen.total("held") == 1
    lock.release()
    assert seen.events("released")[1].hold_seconds is not None
    assert seen.total("held") == 0


def test_leases_that_the_caller_cut_short(client: redis.Redis, seen: Observed) -> None:
    """Extending by less than nothing or to nothing deletes the key; times stay true and nothing breaks."""
    for additional, replace in ((-20, False), (0, True)):
        lock = client.lock("lock:a", timeout=10)
        lock.acquire()
        assert lock.extend(additional, replace_ttl=replace) is True
        assert not client.exists("lock:a")
        with pytest.raises(LockNotOwnedError):
            lock.release()
    first, second = seen.events("release_lost")
    assert first.ttl == second.ttl == 0
    assert first.ttl_used is second.ttl_used is None
    assert seen.total("held") == 0
    assert seen.total("redis_lock_sink_errors_total") == 0


def test_retry_and_idempotency(client: redis.Redis, seen: Observed) -> None:
    """Requeues and idempotency checks are events of their own; a duplicate has its own name."""
    lockscope.retried("contended", b"lock:order:1")
    for _ in range(2):
        with contextlib.suppress(Exception), lockscope.idempotent("done:1", ttl=5, client=client) as check:
            assert check is not None
    names = seen.names()
    assert names[:2] == ["retry", "idempotency"]
    assert "duplicate" in names
    retry, first = seen.events()[:2]
    assert (retry.reason, retry.prefix, retry.outcome) == ("contended", "lock:order:*", "")
    assert first.outcome == "first"
    assert seen.outcomes("retry") == {"contended": 1}
    assert seen.outcomes("idempotency") == {"first": 1, "duplicate": 1}


def test_every_event_name_is_known() -> None:
    """The names are those of the design: each begins with ``lock.`` and has a level in the log."""
    from lockscope.sinks.logs import LEVELS  # noqa: PLC0415

    names = {value for name, value in vars(events).items() if name.isupper() and isinstance(value, str)}
    assert names == set(LEVELS)
    assert names >= {
        "lock.acquired", "lock.contended", "lock.acquire_timeout", "lock.acquire_error", "lock.renewed",
        "lock.renew_lost", "lock.renew_error", "lock.released", "lock.release_lost", "lock.release_error",
        "lock.retry", "lock.duplicate", "lock.force_released",
    }  # fmt: skip


def test_attempts_equal_the_sum_of_outcomes(client: redis.Redis, seen: Observed) -> None:
    """Every call to acquire has exactly one outcome, whatever becomes of it."""
    held = client.lock("lock:a", timeout=5)
    asked = 0
    for number in range(3):
        asked += 3
        assert held.acquire()
        client.lock("lock:a").acquire(blocking=False)
        client.lock("lock:a", sleep=0.01).acquire(blocking_timeout=0.03)
        held.release()
        asked += 1
        with pytest.raises(redis.DataError):
            client.lock("lock:a").acquire(token=[number])
    assert sum(seen.outcomes("acquire").values()) == asked
    assert seen.outcomes("acquire") == {"acquired": 3, "contended": 3, "timeout": 3, "error": 3}


# Who is in the way: one read of the holder after a wait, one a second on try-locks, none else.


def test_success_costs_no_extra_command(client: redis.Redis, seen: Observed) -> None:
    """Taking, renewing and releasing a lock sends exactly what redis-py sends."""
    lock = client.lock("lock:a", timeout=5)
    with lock:
        lock.extend(1)
    before = calls(client)
    for _ in range(20):
        with lock:
            lock.extend(1)
            lock.reacquire()
    spent = calls(client) - before
    assert spent.pop("info") == 1
    assert spent.keys() == {"set", "evalsha", "get", "del", "pttl", "pexpire"}
    assert (spent["set"], spent["evalsha"]) == (20, 60)
    assert spent["get"] == 60  # by redis-py's own scripts
    assert seen.total("acquire", outcome="acquired") == 21


def test_a_wait_reads_the_holder_once_and_never_while_it_polls(client: redis.Redis, seen: Observed) -> None:
    """A wait of many tries reads who holds the lock once, at its end; one that succeeds reads nothing."""
    client.set("lock:a", "x")
    before = calls(client)
    for _ in range(2):
        assert not client.lock("lock:a", sleep=0.01).acquire(blocking_timeout=0.15)
    spent = calls(client) - before
    assert spent["get"] == 2
    assert spent["set"] == sum(event.attempts for event in seen.events("acquire_timeout")) >= 6
    client.pexpire("lock:a", 60)
    before = calls(client)
    assert client.lock("lock:a", sleep=0.01, timeout=5).acquire(blocking_timeout=5)
    spent = calls(client) - before
    assert spent["get"] == 0
    assert spent["set"] >= 2


def test_try_locks_read_the_holder_once_a_second_a_key(client: redis.Redis, seen: Observed) -> None:
    """A storm of refused try-locks on one key reads its holder once a second; another key has its own."""
    client.mset({"lock:a": "x", "lock:b": "x"})
    before = calls(client)
    started = time.monotonic()
    for _ in range(200):
        client.lock("lock:a").acquire(blocking=False)
    client.lock("lock:b").acquire(blocking=False)
    seconds = time.monotonic() - started
    spent = calls(client) - before
    assert 2 <= spent["get"] <= 2 + seconds
    assert spent["set"] == 201
    told = [event.key for event in seen.events("contended") if event.blocked_by is not None]
    assert told[0] == b"lock:a"
    assert told.count(b"lock:b") == 1
    assert len(seen.events("contended")) == 201


def test_reading_the_holder_can_be_switched_off(client: redis.Redis) -> None:
    """With ``blocked_by=False`` no refused acquire reads anything."""
    with Observed(presence=False, blocked_by=False) as seen:
        client.set("lock:a", "x")
        before = calls(client)
        client.lock("lock:a").acquire(blocking=False)
        client.lock("lock:a", sleep=0.01).acquire(blocking_timeout=0.05)
        assert (calls(client) - before)["get"] == 0
        assert [event.blocked_by for event in seen.events("contended", "acquire_timeout")] == [None, None]


def _uuid1(client: redis.Redis) -> None:
    client.set("lock:a", b"0f3b1b2ed5a511efb86c0242ac110002")


def _hash(client: redis.Redis) -> None:
    client.hset("lock:a", "field", 1)


def _bytes(client: redis.Redis) -> None:
    client.set("lock:a", b"\xff\xfe;ls1;")


@pytest.mark.parametrize(
    ("put", "host"),
    [(_uuid1, "mac:0242ac110002"), (_hash, None), (_bytes, None)],
    ids=["uuid1", "hash", "bytes"],
)
@pytest.mark.parametrize("decode", [False, True])
def test_any_holder_is_told_as_far_as_it_is_known(
    server: RedisServer, seen: Observed, put: Callable[[redis.Redis], Any], host: str | None, decode: bool
) -> None:
    """A redis-py token, a foreign type, bytes that are no text: the refusal stands, with what is known."""
    client = server.client(decode_responses=decode)
    put(client)
    assert client.lock("lock:a").acquire(blocking=False) is False
    (event,) = seen.events()
    assert event.event == events.CONTENDED
    assert (event.blocked_by.host if event.blocked_by else None) == host
    assert seen.total("redis_lock_sink_errors_total") == 0
    client.close()


async def test_asyncio_tells_the_same(aclient: redis.asyncio.Redis, seen: Observed) -> None:
    """The asyncio lock tells the same events with the same fields as the blocking one."""
    lock = aclient.lock("lock:a", timeout=5)
    async with lock:
        await lock.extend(1)
        assert not await aclient.lock("lock:a").acquire(blocking=False)
        assert not await aclient.lock("lock:a", sleep=0.02).acquire(blocking_timeout=0.06)
    assert seen.names() == ["acquired", "renewed", "contended", "waiting", "acquire_timeout", "released"]
    contended, timeout = seen.events("contended", "acquire_timeout")
    assert contended.blocked_by.pid == timeout.blocked_by.pid == tokens.process.pid
    assert contended.attempts == 1
    assert timeout.attempts >= 2
    assert seen.total("held") == 0


async def test_asyncio_reads_the_holder_as_rarely(
    aclient: redis.asyncio.Redis, client: redis.Redis, seen: Observed
) -> None:
    """One read after a wait, one a second on try-locks, none on success: for asyncio locks too."""
    lock = aclient.lock("lock:a", timeout=5)
    async with lock:
        pass
    client.set("lock:b", "x")
    before = calls(client)
    async with lock:
        pass
    assert (calls(client) - before)["get"] == 1  # by redis-py's release script
    before = calls(client)
    started = time.monotonic()
    for _ in range(50):
        await aclient.lock("lock:b").acquire(blocking=False)
    assert 1 <= (calls(client) - before)["get"] <= 1 + time.monotonic() - started
    before = calls(client)
    await aclient.lock("lock:b", sleep=0.01).acquire(blocking_timeout=0.08)
    assert (calls(client) - before)["get"] == 1
    assert len(seen.events("contended")) == 50

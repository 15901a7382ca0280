"""``idempotent``: work done once per key, whatever happens in between."""

from __future__ import annotations

import asyncio
import logging
import pickle
import signal
import sys
import threading
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
import redis
import redis.asyncio
from hypothesis import given
from hypothesis import strategies as st
from redis.exceptions import RedisError, ResponseError

import lockscope
from lockscope import InProgressError, idempotent
from lockscope.idempotency import markers
from lockscope.jobs import Job
from servers import Process, RedisServer, wait_until
from shim import Observed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def seen() -> Iterator[Observed]:
    """Observe locks."""
    with Observed() as observed:
        yield observed


def test_first_then_duplicate(client: redis.Redis, seen: Observed) -> None:
    """The first block is to do the work, the next one finds it done, and each check counts once."""
    with idempotent("charge:42", ttl=60, client=client) as run:
        assert run
        assert (run.outcome, run.first, run.duplicate, run.in_progress) == ("first", True, False, False)
        assert 0 < client.pttl("charge:42") <= 60_000
    with idempotent("charge:42", ttl=60, client=client) as run:
        assert not run
        assert run.duplicate
        assert (run.stored, run.result) == (False, None)
    assert 0 < client.pttl("charge:42") <= 60_000
    assert seen.outcomes("idempotency") == {"first": 1, "duplicate": 1}
    assert seen.names() == ["idempotency", "duplicate"]
    assert seen.total("idempotency", prefix="charge:*") == 2


def test_in_progress_names_who_is_at_it(client: redis.Redis, seen: Observed) -> None:
    """While a run lasts, others find it in progress, with its host, process and job."""
    with (
        lockscope.job("invoice.pay", job_id="8812"),
        idempotent("pay:1", ttl=60, client=client),
        idempotent("pay:1", ttl=60, client=client) as other,
    ):
        assert other.in_progress
        assert other.owner is not None
        assert (other.owner.job_type, other.owner.job_id) == ("invoice.pay", "8812")
    with idempotent("pay:1", ttl=60, client=client) as late:
        assert late.duplicate
        assert late.owner is not None
        assert late.owner.job_id == "8812"
    assert seen.outcomes("idempotency") == {"first": 1, "in_progress": 1, "duplicate": 1}


def test_results_are_stored(client: redis.Redis) -> None:
    """A result set in the first run is what a duplicate finds, also ``None`` or text of any kind."""
    for number, result in enumerate([{"paid": 1.5}, None, "", "ü\n;\x00", [], 0]):
        key = f"r:{number}"
        with idempotent(key, ttl=60, client=client) as run:
            run.result = result
        with idempotent(key, ttl=60, client=client) as run:
            assert run.stored
            assert run.result == result


def test_results_pass_through_a_decoding_client(server: RedisServer) -> None:
    """A client that decodes responses changes nothing."""
    client = server.client(decode_responses=True)
    with idempotent("r", ttl=60, client=client) as run:
        run.result = {"name": "Zoë"}
    with idempotent("r", ttl=60, client=client) as run:
        assert run.result == {"name": "Zoë"}
        assert run.owner is not None


def test_own_serialisation(client: redis.Redis) -> None:
    """The caller's own functions turn results into bytes and back."""
    for expected in (b"\xff\x00", b"", b"x" * 100_000):
        key = f"r:{len(expected)}"
        with idempotent(key, ttl=60, client=client, dumps=bytes, loads=bytes) as run:
            run.result = expected
        with idempotent(key, ttl=60, client=client, dumps=bytes, loads=bytes) as run:
            assert (run.stored, run.result) == (True, expected)


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt(), SystemExit(1)])
def test_work_that_raises_may_be_tried_again(client: redis.Redis, error: BaseException) -> None:
    """The exception is the caller's, the marker is gone, and the next run is a first one."""
    with pytest.raises(type(error)), idempotent("charge:42", ttl=60, client=client):
        raise error
    assert not client.exists("charge:42")
    with idempotent("charge:42", ttl=60, client=client) as run:
        assert run.first


def test_a_refused_block_that_raises_leaves_the_marker(client: redis.Redis) -> None:
    """A duplicate or a run in progress that raises does not free what is not its own."""
    with idempotent("a", ttl=60, client=client):
        with pytest.raises(RuntimeError), idempotent("a", ttl=60, client=client):
            raise RuntimeError
        assert client.exists("a")
    with pytest.raises(RuntimeError), idempotent("a", ttl=60, client=client):
        raise RuntimeError
    with idempotent("a", ttl=60, client=client) as run:
        assert run.duplicate


KILLED = """
import sys, time, redis, lockscope
client = redis.Redis(unix_socket_path=sys.argv[1])
with lockscope.idempotent("charge:42", ttl=3600, running_ttl=1.5, client=client):
    print("begun", flush=True)
    time.sleep(60)
"""


def test_a_crash_frees_the_marker_by_its_ttl(
    server: RedisServer, client: redis.Redis, tmp_path: Path
) -> None:
    """A run whose process is killed blocks others for ``running_ttl`` and no longer."""
    process = Process([sys.executable, "-c", KILLED, server.socket], tmp_path / "log")
    wait_until(lambda: "begun" in process.output(), what=process.output())
    process.stop(signal.SIGKILL)
    with idempotent("charge:42", ttl=60, client=client) as run:
        assert run.in_progress
    wait_until(lambda: not client.exists("charge:42"), timeout=5)
    with idempotent("charge:42", ttl=60, client=client) as run:
        assert run.first


def test_many_at_once_let_one_through(server: RedisServer, seen: Observed) -> None:
    """Of threads that begin at the same moment exactly one does the work."""
    clients = [server.client() for _ in range(8)]
    start = threading.Barrier(len(clients))
    done: list[str] = []

    def work(client: redis.Redis) -> None:
        client.ping()
        start.wait()
        with idempotent("once", ttl=60, client=client) as run:
            if run.first:
                done.append("work")

    threads = [threading.Thread(target=work, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == ["work"]
    counts = seen.outcomes("idempotency")
    assert counts["first"] == 1
    assert sum(counts.values()) == len(clients)


def test_a_marker_that_expired_is_told(client: redis.Redis, seen: Observed) -> None:
    """Work that outlasts its marker is marked as done all the same, and the lapse counts as an error."""
    with idempotent("slow", ttl=60, client=client):
        client.delete("slow")
    assert seen.outcomes("idempotency") == {"first": 1, "error": 1}
    assert "nobody had begun again" in seen.events("idempotency")[1].error
    with idempotent("slow", ttl=60, client=client) as run:
        assert run.duplicate


def test_a_marker_taken_over_stays_the_others(client: redis.Redis, seen: Observed) -> None:
    """If another run began after the lapse, its marker stays, and the duplicate that slipped by counts."""
    with idempotent("slow", ttl=60, client=client):
        client.delete("slow")
        with idempotent("slow", ttl=60, client=client) as other:
            assert other.first
            marker = client.get("slow")
            with pytest.raises(RuntimeError), idempotent("slow", ttl=60, client=client):
                raise RuntimeError
        assert client.get("slow") != marker
    assert "another run had begun" in seen.events("idempotency")[-1].error
    assert seen.outcomes("idempotency") == {"first": 2, "in_progress": 1, "error": 1}


def test_a_server_that_is_down_is_the_callers_error(own_server: RedisServer, seen: Observed) -> None:
    """Without an answer the work is not begun, the client's exception comes through, and an error counts."""
    client = own_server.client(retry=None)
    own_server.stop(signal.SIGKILL)
    with pytest.raises(redis.ConnectionError), idempotent("a", ttl=60, client=client):
        pytest.fail("the work must not begin")
    assert seen.outcomes("idempotency") == {"error": 1}


def test_a_server_that_goes_away_meanwhile_does_not_fail_done_work(
    own_server: RedisServer, seen: Observed, caplog: pytest.LogCaptureFixture
) -> None:
    """Work that is done stays done: that it could not be marked is counted and logged, not raised."""
    client = own_server.client(retry=None)
    with caplog.at_level(logging.ERROR, "lockscope"), idempotent("a", ttl=60, client=client) as run:
        run.result = 1
        own_server.stop(signal.SIGKILL)
    assert seen.outcomes("idempotency") == {"first": 1, "error": 1}
    assert "could not be updated" in caplog.text


def test_a_key_of_another_type_is_an_error(client: redis.Redis, seen: Observed) -> None:
    """A key that holds a list is nobody's marker; Redis says so and the caller hears it."""
    client.lpush("a", "x")
    with pytest.raises(ResponseError), idempotent("a", ttl=60, client=client):
        pass
    assert client.lrange("a", 0, -1) == [b"x"]
    assert seen.outcomes("idempotency") == {"error": 1}


def test_a_repeated_command_is_no_competitor(client: redis.Redis) -> None:
    """A client that sends the same beginning or end twice, as after a lost answer, gets the same answer."""
    mark = markers.running(Job(), 1.0)
    done = markers.done(mark, b"r")
    assert client.eval(markers.BEGIN, 1, "a", mark, 60_000) is None
    assert client.eval(markers.BEGIN, 1, "a", mark, 60_000) is None
    assert client.eval(markers.COMPLETE, 1, "a", mark, done, 60_000) == 1
    assert client.eval(markers.COMPLETE, 1, "a", mark, done, 60_000) == 1
    assert client.eval(markers.FORGET, 1, "a", mark) == 0
    assert client.get("a") == done


def test_a_result_that_cannot_be_stored_is_raised_after_the_work_is_marked(client: redis.Redis) -> None:
    """A value that is no JSON is the developer's mistake to see, and no reason to do the work twice."""
    with pytest.raises(TypeError), idempotent("a", ttl=60, client=client) as run:
        run.result = object()
    with idempotent("a", ttl=60, client=client) as run:
        assert run.duplicate


BAD = [0, -1, float("nan"), float("inf"), 1e300, 10**400, "x", True, Decimal("sNaN")]


@pytest.mark.parametrize("bad", BAD)
def test_a_ttl_that_cannot_be_is_refused(bad: Any) -> None:
    """What is no sensible number of seconds is a ``ValueError`` that names the argument."""
    with pytest.raises(ValueError, match=r"^ttl takes seconds above 0"):
        idempotent("a", ttl=bad)
    with pytest.raises(ValueError, match=r"^running_ttl takes seconds above 0"):
        idempotent("a", ttl=1, running_ttl=bad)


def test_no_ttl_is_refused() -> None:
    """``None`` is no TTL: a marker without one would never go."""
    with pytest.raises(ValueError, match="ttl takes seconds above 0 and up to 9000000000, not None"):
        idempotent("a", ttl=None)  # type: ignore[arg-type]


@pytest.mark.parametrize("ttl", [9_000_000_000, Decimal("60.5"), Fraction(1, 2), 0.0001])
def test_any_number_is_a_ttl(client: redis.Redis, ttl: Any) -> None:
    """Numbers of every kind are taken, from a millisecond to what Redis can count."""
    with idempotent("a", ttl=ttl, running_ttl=60, client=client) as run:
        assert run.first
    assert client.pttl("a") <= ttl * 1000 + 1


def asleep(server: RedisServer, seconds: float) -> threading.Thread:
    """Put the server to sleep; return the thread that waits for it to wake."""
    client = server.client(socket_timeout=30)
    client.ping()
    sleeper = threading.Thread(target=client.execute_command, args=("DEBUG", "SLEEP", seconds))
    probe = server.client(socket_timeout=0.05, retry=None)
    probe.ping()
    sleeper.start()

    def stuck() -> bool:
        try:
            probe.ping()
        except redis.TimeoutError:
            return True
        return False

    wait_until(stuck, every=0.001)
    return sleeper


@pytest.fixture
def sleepy() -> Iterator[RedisServer]:
    """Give a server that can be put to sleep."""
    server = RedisServer(enable_debug_command="yes")
    yield server
    server.close()


def processed(client: redis.Redis, scripts: int) -> bool:
    """Tell whether the server has run that many scripts."""
    return bool(client.info("commandstats").get("cmdstat_eval", {}).get("calls", 0) >= scripts)


def test_a_beginning_that_times_out_leaves_no_marker(sleepy: RedisServer, seen: Observed) -> None:
    """Redis gets to the beginning after the caller gave up; the mark that it sets is taken away again."""
    impatient = sleepy.client(socket_timeout=0.6, retry=None)
    impatient.ping()
    sleeper = asleep(sleepy, 1)
    with pytest.raises(redis.TimeoutError), idempotent("a", ttl=3600, client=impatient):
        pytest.fail("the work must not begin")
    sleeper.join()
    client = sleepy.client()
    wait_until(lambda: processed(client, 2))
    assert not client.exists("a")
    assert seen.outcomes("idempotency") == {"error": 1}


def test_a_marker_that_may_stay_is_told(sleepy: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    """Without an answer to the removal either, the failure is raised and the log says how long it lasts."""
    impatient = sleepy.client(socket_timeout=0.1, retry=None)
    impatient.ping()
    sleeper = asleep(sleepy, 1)
    with (
        caplog.at_level(logging.WARNING, "lockscope"),
        pytest.raises(redis.TimeoutError),
        idempotent("a", ttl=3600, running_ttl=90, client=impatient),
    ):
        pytest.fail("the work must not begin")
    sleeper.join()
    assert "'a' may stay for up to 90 s" in caplog.text


async def test_an_asyncio_beginning_that_is_cancelled_leaves_no_marker(sleepy: RedisServer) -> None:
    """A task cancelled while it begins takes its mark away, even if it is cancelled again meanwhile."""
    async with redis.asyncio.Redis(unix_socket_path=sleepy.socket) as client:
        for again, decorated in ((False, False), (True, False), (False, True)):
            await client.config_resetstat()

            @idempotent("a", ttl=3600, client=client)
            async def work() -> None:
                pytest.fail("the work must not begin")

            async def block() -> None:
                async with idempotent("a", ttl=3600, client=client):
                    pytest.fail("the work must not begin")

            sleeper = asleep(sleepy, 0.5)
            task = asyncio.create_task(work() if decorated else block())
            await asyncio.sleep(0.1)  # the command goes out; a server that sleeps cannot tell when
            task.cancel()
            if again:
                await asyncio.sleep(0.05)
                task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            sleeper.join()
            checks = sleepy.client()
            assert processed(checks, 2)
            assert not checks.exists("a")


async def test_asyncio_work_that_is_done_is_marked_though_cancelled(sleepy: RedisServer) -> None:
    """A cancellation that comes while done work is being marked comes through after the mark."""
    async with redis.asyncio.Redis(unix_socket_path=sleepy.socket) as client:
        sleepers: list[threading.Thread] = []

        async def work() -> None:
            async with idempotent("a", ttl=3600, client=client):
                sleepers.append(asleep(sleepy, 0.4))

        task = asyncio.create_task(work())
        while not sleepers:  # noqa: ASYNC110 - the thread of the server's sleep starts inside the task
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        sleepers[0].join()
        async with idempotent("a", ttl=3600, client=client) as run:
            assert run.duplicate


def test_one_object_nested_marks_its_work_as_done(client: redis.Redis, seen: Observed) -> None:
    """One object entered twice is two runs: the inner one is refused, the outer one's work becomes done."""
    once = idempotent("a", ttl=60, client=client)
    with once as outer:
        with once as inner:
            assert inner.in_progress
        assert outer.first
    with once as late:
        assert late.duplicate
    assert seen.outcomes("idempotency") == {"first": 1, "in_progress": 1, "duplicate": 1}


def test_one_object_in_many_threads_marks_its_work_as_done(client: redis.Redis) -> None:
    """Another thread that enters and leaves the same object meanwhile takes nothing from the run."""
    once = idempotent("a", ttl=60, client=client)
    entered, leave = threading.Event(), threading.Event()
    outcomes: list[str] = []

    def other() -> None:
        with once as run:
            outcomes.append(run.outcome)
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with once as run:
        run.result = 7
        thread.start()
        assert entered.wait(10)
    with once as late:
        assert (late.duplicate, late.result) == (True, 7)
    leave.set()
    thread.join()
    assert outcomes == ["in_progress"]


async def test_one_object_in_many_tasks_marks_its_work_as_done(server: RedisServer) -> None:
    """The same for tasks; a block left in another task than it was entered in finds its run too."""
    async with redis.asyncio.Redis(unix_socket_path=server.socket) as client:
        once = idempotent("a", ttl=60, client=client)
        entered, leave = asyncio.Event(), asyncio.Event()

        async def other() -> None:
            async with once as run:
                assert run.in_progress
                entered.set()
                await leave.wait()

        async with once:
            task = asyncio.create_task(other())
            await entered.wait()
        async with once as late:
            assert late.duplicate
        leave.set()
        await task
        moved = idempotent("b", ttl=60, client=client)
        run = await asyncio.create_task(moved.__aenter__())
        assert run.first
        await asyncio.create_task(moved.__aexit__(None, None, None))
        async with moved as run:
            assert run.duplicate


def test_a_block_left_without_being_entered_is_an_error(client: redis.Redis) -> None:
    """An exit without an entry is a ``RuntimeError`` that says so."""
    with pytest.raises(RuntimeError, match="without having been entered"):
        idempotent("a", ttl=60, client=client).__exit__(None, None, None)


AWKWARD = {"text": "Zoë", "bytes": b"\xff\x80\x00"}


def test_pickled_results_pass_through_a_decoding_client(
    server: RedisServer, cluster_server: RedisServer
) -> None:
    """Results that are no text are stored and read though the client decodes responses, in a cluster too."""
    cluster = redis.RedisCluster(host="127.0.0.1", port=cluster_server.port, decode_responses=True)
    cluster.delete("p:1")
    for client in (
        server.client(decode_responses=True),
        server.client(decode_responses=True, protocol=2, encoding="ascii", db=1),
        cluster,
    ):

        @idempotent("p:{n}", ttl=60, client=client, store=True, dumps=pickle.dumps, loads=pickle.loads)
        def work(n: int) -> Any:
            assert n
            return AWKWARD

        assert (work(1), work(1)) == (AWKWARD, AWKWARD)
        client.close()


async def test_pickled_results_pass_through_a_decoding_asyncio_client(
    server: RedisServer, cluster_server: RedisServer
) -> None:
    """The same for asyncio."""
    cluster = redis.asyncio.RedisCluster(host="127.0.0.1", port=cluster_server.port, decode_responses=True)
    await cluster.delete("p")
    for client in (redis.asyncio.Redis(unix_socket_path=server.socket, decode_responses=True), cluster):
        options: dict[str, Any] = {"store": True, "dumps": pickle.dumps, "loads": pickle.loads}

        @idempotent("p", ttl=60, client=client, **options)
        async def work() -> Any:
            return AWKWARD

        assert (await work(), await work()) == (AWKWARD, AWKWARD)
        await client.aclose()


def test_decorator(client: redis.Redis, seen: Observed) -> None:
    """A decorated function runs once per key, built from its arguments however they are passed."""
    calls: list[int] = []

    @idempotent("charge:{order_id}", ttl=60, client=client, store=True)
    def charge(order_id: int, *, note: str = "") -> dict[str, Any]:
        """Charge."""
        calls.append(order_id)
        return {"order": order_id, "note": note}

    assert charge(1) == {"order": 1, "note": ""}
    assert charge(order_id=1, note="again") == {"order": 1, "note": ""}
    assert charge(2) == {"order": 2, "note": ""}
    assert calls == [1, 2]
    assert charge.__doc__ == "Charge."
    assert seen.outcomes("idempotency") == {"first": 2, "duplicate": 1}


def test_decorator_without_store_returns_none(client: redis.Redis) -> None:
    """A duplicate of a function whose result is not stored returns ``None``."""

    @idempotent("a", ttl=60, client=client)
    def work() -> int:
        return 7

    assert (work(), work()) == (7, None)


def test_decorator_in_progress_raises_a_lock_error(client: redis.Redis) -> None:
    """A second run while the first lasts raises ``InProgressError``, which names the key."""

    @idempotent("deep:{n}", ttl=60, client=client)
    def work(n: int) -> None:
        work(n)

    with pytest.raises(InProgressError, match="deep:3") as caught:
        work(3)
    assert caught.value.lock_name == "deep:3"
    assert isinstance(caught.value, RedisError)
    assert not client.exists("deep:3")


def test_decorator_refuses_generators_and_unknown_names(client: redis.Redis) -> None:
    """What cannot work is refused where it is written."""

    def numbers() -> Iterator[int]:
        yield 1

    with pytest.raises(TypeError, match="no generator function"):
        idempotent("a", ttl=60, client=client)(numbers)
    with pytest.raises(ValueError, match="names 'order', which is no parameter"):
        idempotent("a:{order}", ttl=60, client=client)(lambda order_id: order_id)


async def test_asyncio_block_and_decorator(server: RedisServer, seen: Observed) -> None:
    """The same for asyncio: a block, a decorated coroutine function, and a failure that frees."""
    async with redis.asyncio.Redis(unix_socket_path=server.socket) as client:
        async with idempotent("a", ttl=60, client=client) as run:
            assert run.first
            run.result = [1]
        async with idempotent("a", ttl=60, client=client) as run:
            assert run.result == [1]

        @idempotent("b:{n}", ttl=60, client=client, store=True)
        async def work(n: int) -> int:
            await asyncio.sleep(0)
            if n < 0:
                raise RuntimeError
            return n

        assert [await work(1), await work(1)] == [1, 1]
        with pytest.raises(RuntimeError):
            await work(-1)
        assert not await client.exists("b:-1")
    assert seen.outcomes("idempotency") == {"first": 3, "duplicate": 2}


async def test_asyncio_cancellation_frees_the_marker(server: RedisServer) -> None:
    """A cancelled run is one that did not happen."""
    async with redis.asyncio.Redis(unix_socket_path=server.socket) as client:
        begun = asyncio.Event()

        async def work() -> None:
            async with idempotent("a", ttl=60, client=client):
                begun.set()
                await asyncio.sleep(30)

        task = asyncio.create_task(work())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not await client.exists("a")


def test_the_wrong_kind_of_client_is_named(client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """An asyncio client in blocking code, or none at all, is a ``TypeError`` that says what to pass."""
    wrong = idempotent("a", ttl=60, client=redis.asyncio.Redis())
    with pytest.raises(TypeError, match="blocking Redis client"), wrong:
        pass
    monkeypatch.delenv("LOCKSCOPE_REDIS_URL", raising=False)
    with pytest.raises(TypeError, match="LOCKSCOPE_REDIS_URL"), idempotent("a", ttl=60):
        pass

    async def work() -> None:
        async with idempotent("a", ttl=60, client=client):
            pass

    with pytest.raises(TypeError, match=r"redis\.asyncio"):
        asyncio.run(work())


def test_default_client_comes_from_the_environment(
    server: RedisServer, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without ``client=`` the URL of the environment is used, by blocking code and by each event loop."""
    monkeypatch.setenv("LOCKSCOPE_REDIS_URL", server.url)
    with idempotent("a", ttl=60) as run:
        assert run.first

    async def work() -> str:
        async with idempotent("a", ttl=60) as run:
            outcome: str = run.outcome
        await lockscope.clients.asyncio_client(None).aclose()
        return outcome

    assert [asyncio.run(work()), asyncio.run(work())] == ["duplicate", "duplicate"]
    assert client.exists("a")
    lockscope.clients.blocking_client(None).close()


@given(value=st.binary(max_size=700))
def test_any_bytes_in_the_key_are_read_without_failure(value: bytes) -> None:
    """Whatever somebody put under the key is in progress or done, never a crash."""
    marker = markers.read(value)
    assert marker.done == value.startswith(b"ls1done;")


@given(payload=st.none() | st.binary(max_size=200), described=st.booleans())
def test_markers_are_read_back(payload: bytes | None, described: bool) -> None:
    """What ``done`` writes, ``read`` reads: the payload byte for byte and the owner."""
    job = Job("t\n;=", "ü")
    mark = markers.running(job, 5.0) if described else b"ls1;n=0f"
    marker = markers.read(markers.done(mark, payload))
    assert marker.done
    assert marker.payload == payload
    assert (marker.owner is not None and marker.owner.job_type == "t\n;=") == described

"""``@locked``, key templates and ``retried``: the short way for new code."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
import redis
import redis.asyncio
from redis.exceptions import LockError, LockNotOwnedError

import lockscope
from lockscope import LockRefusedError, locked, retried
from lockscope.templates import KeyTemplate
from servers import RedisServer, wait_until
from shim import Observed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.fixture
def seen() -> Iterator[Observed]:
    """Observe locks."""
    with Observed() as observed:
        yield observed


def test_function_runs_while_holding_the_lock(client: redis.Redis, seen: Observed) -> None:
    """The key is built from the arguments, the lock is held inside with its TTL and free after."""

    @locked("order:{order_id}", ttl=30, client=client)
    def ship(order_id: int, *, express: bool = False) -> tuple[bool, bool]:
        """Ship."""
        return 29_000 < client.pttl(f"order:{order_id}") <= 30_000, express

    assert ship(7) == (True, False)
    assert ship(express=True, order_id=7) == (True, True)
    assert not client.exists("order:7")
    assert (ship.__name__, ship.__doc__) == ("ship", "Ship.")
    assert seen.outcomes("acquire") == {"acquired": 2}
    assert seen.outcomes("release") == {"released": 2}


def test_held_lock_refuses_at_once(client: redis.Redis, seen: Observed) -> None:
    """By default one try: the function does not run and ``LockRefusedError`` names the key."""

    @locked("order:{order_id}", ttl=30, client=client)
    def ship(order_id: int) -> None:
        pytest.fail(f"must not run: {order_id}")

    client.set("order:7", "theirs")
    with pytest.raises(LockRefusedError, match="order:7") as caught:
        ship(7)
    assert isinstance(caught.value, LockError)
    assert caught.value.lock_name == "order:7"
    assert seen.outcomes("acquire") == {"contended": 1}
    assert client.get("order:7") == b"theirs"


def test_wait_waits(client: redis.Redis, seen: Observed) -> None:
    """With ``wait`` the call waits that long, and ``None`` waits until the lock is free."""

    @locked("a", ttl=30, client=client, wait=0.25)
    def soon() -> str:
        return "ran"

    @locked("a", ttl=30, client=client, wait=None)
    def some_day() -> str:
        return "ran"

    client.set("a", "theirs")
    with pytest.raises(LockRefusedError):
        soon()
    assert seen.outcomes("acquire") == {"timeout": 1}
    answers: list[str] = []
    waiter = threading.Thread(target=lambda: answers.append(some_day()))
    waiter.start()
    wait_until(lambda: seen.total("waiters") == 1)
    client.delete("a")
    waiter.join(10)
    assert answers == ["ran"]
    assert seen.total("waiters") == 0


def test_exception_of_the_function_comes_through(client: redis.Redis) -> None:
    """The function's exception is raised and the lock is free, also where the lock was lost before."""

    @locked("a", ttl=30, client=client)
    def broken(*, lose: bool) -> None:
        if lose:
            client.set("a", "theirs")
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        broken(lose=False)
    assert not client.exists("a")
    with pytest.raises(RuntimeError, match="mine"):
        broken(lose=True)
    assert client.get("a") == b"theirs"


def test_lost_lock_is_told(client: redis.Redis, seen: Observed) -> None:
    """A function that finished without its lock does not pass for one that was protected."""

    @locked("a", ttl=30, client=client)
    def work() -> None:
        client.delete("a")

    with pytest.raises(LockNotOwnedError):
        work()
    assert seen.outcomes("release") == {"lost": 1}


def test_renew_keeps_the_lock(client: redis.Redis, seen: Observed) -> None:
    """With ``renew`` the function may take longer than the TTL."""

    @locked("a", ttl=0.6, client=client, renew=True)
    def work() -> None:
        wait_until(lambda: seen.outcomes("renew").get("renewed", 0) >= 4)
        assert client.exists("a")

    work()
    assert seen.outcomes("release") == {"released": 1}


async def test_async_function(server: RedisServer, seen: Observed) -> None:
    """Coroutine functions work the same, with an asyncio client, and stay coroutine functions."""
    async with redis.asyncio.Redis(unix_socket_path=server.socket) as client:

        @locked("order:{order_id}", ttl=5, client=client, renew=True)
        async def ship(order_id: int) -> bool:
            if order_id < 0:
                raise RuntimeError("mine")
            return bool(await client.exists(f"order:{order_id}"))

        assert asyncio.iscoroutinefunction(ship)
        assert await ship(1) is True
        with pytest.raises(RuntimeError, match="mine"):
            await ship(-1)
        assert not await client.exists("order:-1")
        await client.set("order:2", "theirs")
        with pytest.raises(LockRefusedError):
            await ship(2)
    assert seen.outcomes("acquire") == {"acquired": 2, "contended": 1}
    assert seen.total("held") == 0


def test_methods_and_lazy_clients(client: redis.Redis) -> None:
    """A method's template may use ``self``, and the client may be a function."""

    class Shop:
        name = "north"

        @locked("shop:{self.name}:{order[id]}", ttl=30, client=lambda: client)
        def ship(self, order: dict[str, int]) -> tuple[list[bytes], int]:
            return client.keys(), order["id"]

    assert Shop().ship({"id": 4}) == ([b"shop:north:4"], 4)


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("a:{y}", "no parameter"),
        ("a:{}", "no parameter"),
        ("a:{0}", "no parameter"),
        ("a:{x", "cannot"),
    ],
)
def test_template_mistakes_are_told_where_they_are_written(template: str, problem: str) -> None:
    """A name that is no parameter, or a broken template, is a ``ValueError`` at decoration."""
    with pytest.raises(ValueError, match=problem):
        locked(template, ttl=30)(lambda x: x)


def test_templates_are_formatted_once() -> None:
    """Braces in arguments stay text, format specs work, doubled braces give hash tags, defaults count."""

    def function(x: Any, y: int = 3, *, width: int = 4) -> None: ...

    assert KeyTemplate("{{u}}:{x}", function).key(("{y}",), {}) == "{u}:{y}"
    assert KeyTemplate("{x}:{y:0{width}d}", function).key((), {"x": 1}) == "1:0003"
    assert KeyTemplate("{{fixed}}", function).key(("anything",), {}) == "{fixed}"
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        KeyTemplate("{x}", function).key((), {})


@pytest.mark.parametrize("bad", [-1, float("nan"), float("inf"), 1e300, 10**400, "x", b"1", True])
def test_impossible_times_are_refused(bad: Any) -> None:
    """A TTL or a wait that is no sensible number is a ``ValueError`` that names it, where it is written."""
    with pytest.raises(ValueError, match="ttl takes seconds above 0"):
        locked("a", ttl=bad)
    with pytest.raises(ValueError, match=r"wait .*takes seconds"):
        locked("a", ttl=1, wait=bad)


@pytest.mark.parametrize("bad", [0, None])
def test_a_lock_without_ttl_is_refused(bad: Any) -> None:
    """A lock that never frees itself is a ``ValueError``."""
    with pytest.raises(ValueError, match="ttl takes seconds above 0"):
        locked("a", ttl=bad)


def test_a_ttl_below_a_millisecond_is_one(client: redis.Redis) -> None:
    """The shortest lease that Redis knows is what a smaller TTL gets, not an error at every call."""

    @locked("a", ttl=Decimal("0.0004"), client=client)
    def work() -> None:
        pass

    with contextlib.suppress(LockNotOwnedError):  # a millisecond may have passed
        work()


def test_generator_functions_are_refused() -> None:
    """A generator would hold the lock for as long as nobody finishes it."""

    def numbers() -> Iterator[int]:
        yield 1

    async def more() -> AsyncIterator[int]:
        yield 1

    for function in (numbers, more):
        with pytest.raises(TypeError, match="no generator function"):
            locked("a", ttl=30)(function)


def test_retried_counts_by_reason_and_job(seen: Observed) -> None:
    """``retried`` counts under the current job, with the key's family if a key is given, and is logged."""
    with lockscope.job("invoice.pay", job_id="3"):
        retried("contended", "lock:order:12")
        retried("maintenance")
    assert seen.total("retry", reason="contended", prefix="lock:order:*", job_type="invoice.pay") == 1
    assert seen.total("retry", reason="maintenance", prefix="none") == 1
    assert [event.job.job_id for event in seen.events("retry")] == ["3", "3"]


def test_retried_without_observation_does_nothing() -> None:
    """Application code may call it whether or not locks are observed."""
    retried("contended", "a")

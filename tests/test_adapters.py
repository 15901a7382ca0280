"""``observe`` for any lock object, and libraries that build on redis-py's lock."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Self

import pytest
import redlock
from dogpile.cache import make_region

import lockscope
from lockscope import observe, runtime
from lockscope.seams import redlock as seams_redlock
from servers import RedisServer, wait_until
from shim import Observed, run_python

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis


@pytest.fixture
def seen() -> Iterator[Observed]:
    """Observe locks."""
    with Observed() as observed:
        yield observed


class HomeMade:
    """The kind of lock that many applications have written for themselves."""

    def __init__(self, client: redis.Redis, name: str) -> None:
        self.client = client
        self.name = name
        self.token = ""

    def acquire(self, token: str = "t1") -> bool:
        """Take the lock once."""
        self.token = token
        return bool(self.client.set(self.name, token, nx=True, ex=30))

    def release(self) -> bool:
        """Give it back; say whether it was ours."""
        ours = self.client.get(self.name) == self.token.encode()
        if ours:
            self.client.delete(self.name)
        return ours

    def extend(self) -> bool:
        """Start its TTL anew."""
        return bool(self.client.expire(self.name, 30))

    def __enter__(self) -> Self:
        if not self.acquire():
            raise RuntimeError("held")
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def test_any_lock_object(client: redis.Redis, seen: Observed) -> None:
    """A home-made lock counts like any other, through its methods and its own ``with``."""
    lock = observe(
        HomeMade(client, "nightly:7"), extend="extend", ttl=30, token=lambda call, _: call.lock.token
    )
    with lock:
        assert lock.extend() is True
        assert seen.total("held", prefix="nightly:*") == 1
        assert observe(HomeMade(client, "nightly:7")).acquire("t2") is False
    assert lock.acquire() is True
    client.delete("nightly:7")
    assert lock.extend() is False
    assert lock.release() is False
    assert seen.outcomes("acquire") == {"acquired": 2, "contended": 1}
    assert seen.outcomes("renew") == {"renewed": 1, "lost": 1}
    assert seen.outcomes("release") == {"released": 1, "lost": 1}
    acquired = seen.events("acquired")[0]
    assert (acquired.key, acquired.ttl, acquired.token) == (b"nightly:7", 30, b"t1")
    assert seen.total("held") == 0


def test_an_object_observed_twice_counts_once(client: redis.Redis, seen: Observed) -> None:
    """Observing the same object again changes nothing."""
    lock = observe(observe(HomeMade(client, "a")))
    lock.acquire()
    lock.release()
    assert seen.outcomes("acquire") == {"acquired": 1}


def test_exceptions_are_the_objects_own(client: redis.Redis, seen: Observed) -> None:
    """What acquire and release raise comes through, as an error or, where the caller says so, as a loss."""

    class Gone(Exception):  # noqa: N818 - a library's own name
        pass

    class Raising(HomeMade):
        def acquire(self, token: str = "t1") -> bool:
            if token == "bad":
                raise OSError("down")
            return super().acquire(token)

        def release(self) -> bool:
            raise Gone

    lock = observe(Raising(client, "a"), lost=(Gone,))
    with pytest.raises(OSError, match="down"):
        lock.acquire("bad")
    lock.acquire()
    with pytest.raises(Gone):
        lock.release()
    assert seen.outcomes("acquire") == {"error": 1, "acquired": 1}
    assert seen.outcomes("release") == {"lost": 1}


async def test_async_methods_of_other_names(seen: Observed) -> None:
    """Async methods, under any name, with the key given; being cancelled while acquiring is no contention."""

    class Slow:
        __slots__ = ("__dict__",)

        async def take(self, seconds: float) -> bool:
            await asyncio.sleep(seconds)
            return True

        async def give_back(self) -> None:
            await asyncio.sleep(0)

    lock = observe(Slow(), acquire="take", release="give_back", key="jobs:nightly", ttl=5)
    assert asyncio.iscoroutinefunction(lock.take)
    assert await lock.take(0) is True
    await lock.give_back()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(lock.take(30), 0.01)
    assert seen.outcomes("acquire") == {"acquired": 1, "error": 1}
    assert seen.outcomes("release") == {"released": 1}
    assert seen.total("held", prefix="jobs:nightly") == 0


async def test_functions_that_return_awaitables(seen: Observed) -> None:
    """A plain function that returns an awaitable is awaited by its caller, and reported when that is done."""

    class Future:
        name = "a"

        def acquire(self) -> asyncio.Future[bool]:
            future = asyncio.get_running_loop().create_future()
            future.set_result(False)
            return future

        def release(self) -> None: ...

    assert await observe(Future()).acquire() is False
    assert seen.outcomes("acquire") == {"contended": 1}


def test_a_manager_of_many_locks(client: redis.Redis, seen: Observed) -> None:
    """An object that hands out locks by name keeps them apart: the key comes from each call."""

    class Manager:
        def lock(self, name: str, *, seconds: int) -> str | None:
            return name if client.set(name, "x", nx=True, ex=seconds) else None

        def unlock(self, name: str) -> None:
            client.delete(name)

    manager = observe(
        Manager(),
        acquire="lock",
        release="unlock",
        key=lambda call: call.args[0],
        ttl=lambda call: call.kwargs["seconds"],
    )
    assert manager.lock("m:1", seconds=30) == "m:1"
    assert manager.lock("m:2", seconds=60) == "m:2"
    assert manager.lock("m:1", seconds=30) is None
    assert seen.total("held", prefix="m:*") == 2
    manager.unlock("m:1")
    assert seen.total("held") == 1
    manager.unlock("m:2")
    assert [event.ttl for event in seen.events("released")] == [30, 60]
    assert seen.outcomes("acquire") == {"acquired": 2, "contended": 1}


def test_a_reader_that_fails_costs_nothing(
    client: redis.Redis, seen: Observed, caplog: pytest.LogCaptureFixture
) -> None:
    """If the caller's own functions raise, the lock works as before, unobserved, and the log says so once."""
    lock = observe(HomeMade(client, "a"), key=lambda call: call.args[99])
    for _ in range(3):
        assert lock.acquire() is True
        assert lock.release() is True
    assert seen.outcomes("acquire") == {}
    assert caplog.text.count("goes unobserved") == 1


def test_what_cannot_be_observed_is_refused(client: redis.Redis) -> None:
    """A missing method, no key, or an object that lets nothing be replaced is a ``TypeError``."""

    class Bare:
        __slots__ = ()
        name = "x"

        def acquire(self) -> bool:
            return True

        def release(self) -> None: ...

    with pytest.raises(TypeError, match="has no method take"):
        observe(HomeMade(client, "a"), acquire="take")
    with pytest.raises(TypeError, match="lets no method be replaced"):
        observe(Bare())
    with pytest.raises(TypeError, match="pass key="):
        observe(type("Nameless", (Bare,), {"name": None})())


def test_observe_needs_no_instrument(client: redis.Redis) -> None:
    """One object is observed with the settings of the environment; its class stays as it is."""
    assert runtime.recorder is None
    try:
        lock = observe(client.lock("a", timeout=5))
        other = observe(HomeMade(client, "b"))
        seen: list[str] = []
        recorder = runtime.recorder
        assert recorder is not None
        recorder.emit.use((lambda event: seen.append(event.event),))
        with lock, other, client.lock("c", timeout=5), HomeMade(client, "d"):
            pass
        assert seen == ["lock.acquired", "lock.acquired", "lock.released", "lock.released"]
    finally:
        lockscope.uninstrument()


def test_observed_objects_survive_uninstrument(client: redis.Redis) -> None:
    """Once observation is off, the methods pass through."""
    with Observed() as seen:
        lock = observe(HomeMade(client, "a"))
        lock.acquire()
    assert lock.release() is True
    assert not client.exists("a")
    assert seen.names() == ["acquired"]


# libraries that build on redis-py's Lock


def test_dogpile_cache(server: RedisServer, seen: Observed) -> None:
    """dogpile.cache's distributed lock is seen without a seam of its own; values are made as before."""
    region = make_region().configure(
        "dogpile.cache.redis",
        arguments={
            "url": server.url,
            "distributed_lock": True,
            "thread_local_lock": False,
            "lock_timeout": 30,
        },
    )
    assert region.get_or_create("user:5", lambda: "made") == "made"
    assert region.get_or_create("user:5", lambda: "again") == "made"
    assert seen.outcomes("acquire") == {"acquired": 1}
    assert seen.outcomes("release") == {"released": 1}
    assert (seen.events("acquired")[0].key, seen.events("acquired")[0].ttl) == (b"_lockuser:5", 30)


DJANGO = """
import json, sys
import django
from django.conf import settings
settings.configure(CACHES={"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": sys.argv[1]}})
django.setup()
from django.core.cache import cache
from shim import Observed
with Observed() as seen:
    with cache.lock("report", timeout=30):
        assert not cache.lock("report", timeout=30).acquire(blocking=False)
    key = seen.events("acquired")[0].key.decode()
    print(json.dumps([seen.outcomes("acquire"), seen.outcomes("release"), key]))
"""


def test_django_redis(server: RedisServer) -> None:
    """django-redis's ``cache.lock`` is seen, under the key that Django makes of the name."""
    done = run_python(DJANGO, server.url)
    assert done.stderr == ""
    assert json.loads(done.stdout) == [{"acquired": 1, "contended": 1}, {"released": 1}, ":1:report"]


def test_a_wait_that_ends(client: redis.Redis, seen: Observed) -> None:
    """Waiters of an observed single object are counted while they wait, and none is left after."""
    lock = observe(client.lock("a", timeout=5))
    client.set("a", "theirs")
    assert lock.acquire(blocking_timeout=0.3) is False
    assert seen.outcomes("acquire") == {"timeout": 1}
    wait_until(lambda: seen.total("waiters") == 0)


def test_any_is_typed() -> None:
    """``observe`` returns what it was given, so type checkers keep the object's own type."""
    marker: Any = type("L", (), {"name": "x", "acquire": bool, "release": bool})()
    try:
        assert observe(marker) is marker
    finally:
        lockscope.uninstrument()


def test_managed_locks_that_lapse_unreleased_are_forgotten(client: redis.Redis, seen: Observed) -> None:
    """A lock of a manager that nobody releases counts as held only until long after its TTL."""
    manager = redlock.Redlock([client], retry_count=1, retry_delay=0.01)
    assert manager.lock("a:1", 30_000)
    library = seams_redlock._library
    lease = library._leases["a:1", client.get("a:1")]
    lease.deadline -= 100
    library._look_at = 0.0
    del lease
    assert seen.total("held") == 1
    manager.unlock(manager.lock("a:2", 30_000))
    assert seen.total("held") == 0
    assert [event.key for event in seen.events("abandoned")] == [b"a:1"]

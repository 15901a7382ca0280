"""Observation on and off: idempotent, beside other tools, with locks held, with unusable settings."""

from __future__ import annotations

import asyncio
import functools
import itertools
import signal
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any

import pytest
import redis
import redis.asyncio
import wrapt
from opentelemetry.instrumentation.redis import RedisInstrumentor
from opentelemetry.instrumentation.utils import unwrap
from prometheus_client import REGISTRY, CollectorRegistry, Counter
from redis.asyncio.lock import Lock as AsyncLock
from redis.exceptions import LockError
from redis.lock import Lock

import lockscope
from lockscope import runtime
from lockscope.seams import redis_py_calls
from servers import RedisServer, wait_until
from shim import Observed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

METHODS = ("acquire", "do_acquire", "release", "extend", "reacquire")


@pytest.fixture(autouse=True)
def pristine() -> Iterator[None]:
    """Begin without observation, and leave both classes as they were found."""
    before = {(owner, name): vars(owner)[name] for owner in (Lock, AsyncLock) for name in METHODS}
    yield
    lockscope.uninstrument()
    after = {(owner, name): vars(owner)[name] for owner, name in before}
    for (owner, name), original in before.items():
        setattr(owner, name, original)
    assert after == before


def cycle(client: redis.Redis) -> None:
    """Take, renew and release one lock."""
    lock = client.lock("lock:cycle", timeout=5)
    assert lock.acquire()
    lock.extend(1)
    lock.reacquire()
    lock.release()


async def cycle_async(client: redis.asyncio.Redis) -> None:
    """Do the same with an asyncio lock."""
    lock = client.lock("lock:cycle", timeout=5)
    assert await lock.acquire()
    await lock.extend(1)
    await lock.reacquire()
    await lock.release()


def where(thread: threading.Thread) -> str:
    """Return the stack of a thread as text."""
    return "".join(traceback.format_stack(sys._current_frames()[thread.ident]))


ONE_CYCLE = ["acquired", "renewed", "renewed", "released"]


class Events:
    """Instrument and collect events; both may happen several times in one test."""

    def __init__(self) -> None:
        self.seen: list[lockscope.LockEvent] = []
        self.registry = CollectorRegistry()

    def instrument(self) -> None:
        """Instrument, and collect from now on."""
        lockscope.instrument(registry=self.registry, presence=False, logs=False)
        emit = runtime.recorder.emit
        if self.take not in emit.sinks:
            emit.use((*emit.sinks, self.take))

    def take(self, event: lockscope.LockEvent) -> None:
        """Keep an event."""
        self.seen.append(event)

    def new(self) -> list[str]:
        """Return the names of the events since the last time, and check their attempts."""
        events, self.seen = self.seen, []
        assert all(event.attempts == (event.event == "lock.acquired") for event in events)
        return [event.event.removeprefix("lock.") for event in events]


# --- idempotent both ways


def test_classes_are_put_back_exactly() -> None:
    """Uninstrument leaves the very functions that were there, however often either was called."""
    before = {name: (vars(Lock)[name], vars(AsyncLock)[name]) for name in METHODS}
    for _ in range(3):
        lockscope.instrument()
        lockscope.instrument()
        assert vars(Lock)["acquire"] is not before["acquire"][0]
        lockscope.uninstrument()
        lockscope.uninstrument()
        assert before == {name: (vars(Lock)[name], vars(AsyncLock)[name]) for name in METHODS}


def test_a_second_call_counts_nothing_twice_and_changes_no_setting(client: redis.Redis) -> None:
    """The first settings stay in force, even where the second call's would not do."""
    with Observed(presence=False, prefixes=["lock:*"]) as seen:
        lockscope.instrument(prefixes=["other:*"], max_prefixes=-1)
        cycle(client)
        assert seen.names() == ONE_CYCLE
        assert seen.total("acquire", prefix="lock:*", outcome="acquired") == 1


def test_uninstrument_without_instrument_is_harmless() -> None:
    """Nothing to stop is nothing to complain about."""
    lockscope.uninstrument()
    assert runtime.recorder is None


# --- beside other tools


class Tool:
    """Another tool that replaces the same methods of both classes and counts the calls that pass."""

    def __init__(self) -> None:
        self.calls = 0
        self.saved: dict[tuple[type, str], Any] = {}

    def note(self, function: Any) -> None:
        """Count a call of acquire."""
        self.calls += function.__name__ == "acquire"

    def patch(self) -> None:
        """Put the tool's wrappers in place."""
        for owner in (Lock, AsyncLock):
            for name in METHODS:
                self.saved[owner, name] = vars(owner)[name]
                self.put(owner, name, vars(owner)[name])

    def put(self, owner: type, name: str, original: Callable[..., Any]) -> None:
        """Put one wrapper in place."""
        setattr(owner, name, self.wrapper(original))

    def unpatch(self) -> None:
        """Put back what was there when the tool came."""
        for (owner, name), original in self.saved.items():
            setattr(owner, name, original)

    def wrapper(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return a wrapper that does not say what it wraps."""
        raise NotImplementedError


class Bare(Tool):
    """Wraps without ``functools.wraps``, as much home-made code does."""

    def wrapper(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return a closure."""
        name = getattr(original, "__name__", "")

        def wrapper(lock: Any, *args: Any, **kwargs: Any) -> Any:
            self.calls += name == "acquire"
            return original(lock, *args, **kwargs)

        wrapper.__name__ = name
        return wrapper


class Wraps(Tool):
    """Wraps with ``functools.wraps``; async functions by async ones."""

    def wrapper(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return a wrapper with the name, the dictionary and a link to the original."""
        if asyncio.iscoroutinefunction(original):

            @functools.wraps(original)
            async def wrapper(lock: Any, *args: Any, **kwargs: Any) -> Any:
                self.note(original)
                return await original(lock, *args, **kwargs)
        else:

            @functools.wraps(original)
            def wrapper(lock: Any, *args: Any, **kwargs: Any) -> Any:
                self.note(original)
                return original(lock, *args, **kwargs)

        return wrapper


class Wrapt(Tool):
    """Wraps with wrapt and unwraps by looking for a proxy, as the OpenTelemetry instrumentations do."""

    def put(self, owner: type, name: str, _original: Callable[..., Any]) -> None:
        """Put a proxy in place."""

        def wrapper(wrapped: Any, _lock: Any, args: Any, kwargs: Any) -> Any:
            self.note(wrapped)
            return wrapped(*args, **kwargs)

        wrapt.wrap_function_wrapper(owner, name, wrapper)

    def unpatch(self) -> None:
        """Take out the proxies that stand outermost."""
        for owner, name in self.saved:
            unwrap(owner, name)


class Proxies(Tool):
    """Puts the proxies of wrapt back to what it found, as ddtrace-like tools do."""

    put = Wrapt.put


TOOLS = (Bare, Wraps, Wrapt, Proxies)
ORDERS = [
    order
    for order in {"".join(order) for order in itertools.permutations("IUPX")}
    if order.index("I") < order.index("U") and order.index("P") < order.index("X")
]


@pytest.mark.parametrize("order", sorted(ORDERS))
@pytest.mark.parametrize("kind", TOOLS)
async def test_another_tool_in_any_order(server: RedisServer, kind: type[Tool], order: str) -> None:
    """Instrument, uninstrument and another tool's patch and unpatch in any order: each sees each call once.

    A tool that puts back what it had found may take our wrapper out with it: a further ``instrument``, which
    is due after each step, puts it in again and counts nothing twice.
    """
    events, tool = Events(), kind()
    on = patched = False
    steps = {"I": events.instrument, "U": lockscope.uninstrument, "P": tool.patch, "X": tool.unpatch}
    asynchronous = redis.asyncio.Redis(unix_socket_path=server.socket)
    with server.client() as client:
        for step in order:
            steps[step]()
            on = (on or step == "I") and step != "U"
            # Unwrapping by looking for a proxy leaves it where a wrapper of ours stands outermost.
            patched = (patched or step == "P") and (step != "X" or (kind is Wrapt and order == "PIXU"))
            for again in (False, True):
                if again and on:
                    events.instrument()
                expected = [ONE_CYCLE] if on else [[]]
                if on and step == "X" and not again:
                    expected.append([])
                before = tool.calls
                cycle(client)
                assert events.new() in expected
                await cycle_async(asynchronous)
                assert events.new() in expected
                assert tool.calls - before == 2 * patched
    await asynchronous.aclose()
    lockscope.uninstrument()
    tool.unpatch()
    lockscope.uninstrument()


@pytest.mark.parametrize("kind", TOOLS)
def test_what_another_tool_put_there_is_put_back_as_it_was(kind: type[Tool]) -> None:
    """Uninstrument puts back the very object of a tool that came first, not what it looks like when read."""
    tool = kind()
    tool.patch()
    theirs = {(owner, name): vars(owner)[name] for owner, name in tool.saved}
    lockscope.instrument()
    lockscope.uninstrument()
    assert all(vars(owner)[name] is put for (owner, name), put in theirs.items())
    tool.unpatch()


@pytest.mark.parametrize("kind", TOOLS)
def test_many_starts_around_another_tool_pile_up_nothing(client: redis.Redis, kind: type[Tool]) -> None:
    """Starting and stopping ten times with a tool in between counts once and leaves the tool alone."""
    events, tool = Events(), kind()
    events.instrument()
    tool.patch()
    for _ in range(10):
        lockscope.uninstrument()
        cycle(client)
        assert events.new() == []
        events.instrument()
        cycle(client)
        assert events.new() == ONE_CYCLE
    assert tool.calls == 20
    depth, function = 0, vars(Lock)["acquire"]
    while function is not None and depth < 50:
        depth, function = depth + 1, getattr(function, "__wrapped__", None)
    assert depth <= 5
    lockscope.uninstrument()
    tool.unpatch()
    lockscope.uninstrument()


@pytest.mark.parametrize("kind", TOOLS)
def test_what_another_tool_keeps_in_place_stays_silent(client: redis.Redis, kind: type[Tool]) -> None:
    """Our wrapper under another tool's stays off after uninstrument, also when one lock is observed later."""
    events, tool = Events(), kind()
    events.instrument()
    tool.patch()
    lockscope.uninstrument()
    observed = lockscope.observe(client.lock("lock:observed", timeout=5))
    runtime.recorder.emit.use((events.take,))
    cycle(client)
    assert events.new() == []
    with observed:
        pass
    assert events.new() == ["acquired", "released"]
    lockscope.uninstrument()
    tool.unpatch()
    lockscope.uninstrument()


def test_other_libraries_stay_silent_likewise(client: redis.Redis) -> None:
    """The same for a library of its own: python-redis-lock under another tool's wrapper."""
    import redis_lock  # noqa: PLC0415 - observed from its import on

    events = Events()
    events.instrument()
    ours = redis_lock.Lock.acquire
    redis_lock.Lock.acquire = Bare().wrapper(ours)
    lockscope.uninstrument()
    observed = lockscope.observe(client.lock("lock:observed", timeout=5))
    runtime.recorder.emit.use((events.take,))
    with redis_lock.Lock(client, "other", expire=5):
        pass
    assert events.new() == []
    with observed:
        pass
    assert events.new() == ["acquired", "released"]
    redis_lock.Lock.acquire = ours
    lockscope.instrument()
    lockscope.uninstrument()
    assert not hasattr(redis_lock.Lock.acquire, "__wrapped__")


@pytest.mark.parametrize("first", ["lockscope", "opentelemetry"])
def test_opentelemetry_instrumentation_of_redis(client: redis.Redis, first: str) -> None:
    """The instrumentation that everybody has may come before or after, and go in either order."""
    events, other = Events(), RedisInstrumentor()
    starts = [events.instrument, other.instrument]
    stops = [lockscope.uninstrument, other.uninstrument]
    for start in starts if first == "lockscope" else reversed(starts):
        start()
    cycle(client)
    assert events.new() == ONE_CYCLE
    for stop in stops if first == "lockscope" else reversed(stops):
        stop()
    cycle(client)
    assert events.new() == []


# --- one lock


def test_observe_alone_observes_that_lock_only(client: redis.Redis) -> None:
    """An observed object tells its events, its class is untouched, and uninstrument ends that too."""
    before = vars(Lock)["acquire"]
    events = Events()
    lock = client.lock("lock:one", timeout=5)
    assert lockscope.observe(lock) is lock
    assert lockscope.observe(lock) is lock
    runtime.recorder.emit.use((events.take,))
    assert vars(Lock)["acquire"] is before
    with lock as entered:
        assert entered is lock
        assert lock.extend(1) is True
        assert client.lock("lock:one").acquire(blocking=False) is False
        assert lockscope.tokens.parse(client.get("lock:one")) is not None
    assert events.new() == ["acquired", "renewed", "released"]
    assert (lock.acquire.__name__, lock.acquire.__self__) == ("acquire", lock)
    lockscope.uninstrument()
    with lock:
        pass
    assert events.new() == []


async def test_observe_one_asyncio_lock(server: RedisServer) -> None:
    """The same for an asyncio lock, whose extend still complains when called."""
    events = Events()
    client = redis.asyncio.Redis(unix_socket_path=server.socket)
    lock = lockscope.observe(client.lock("lock:one", timeout=5))
    runtime.recorder.emit.use((events.take,))
    with pytest.raises(LockError, match="unlocked"):
        lock.extend(1)
    async with lock:
        await lock.extend(1)
    assert asyncio.iscoroutinefunction(lock.acquire)
    assert events.new() == ["renew_error", "acquired", "renewed", "released"]
    await client.aclose()


@pytest.mark.parametrize("order", ["observe first", "instrument first"])
async def test_observe_and_instrument_count_once(server: RedisServer, order: str) -> None:
    """A lock that is observed twice over is counted once, with its attempts, blocking or asyncio."""
    events = Events()
    asynchronous = redis.asyncio.Redis(unix_socket_path=server.socket)
    with server.client() as client:
        lock = client.lock("lock:one", timeout=5)
        awaited = asynchronous.lock("lock:one", timeout=5)
        if order == "instrument first":
            events.instrument()
        lockscope.observe(lock)
        lockscope.observe(awaited)
        events.instrument()
        for _ in range(2):
            assert lock.acquire()
            lock.extend(1)
            refused = lockscope.observe(client.lock("lock:one"))
            assert refused.acquire(blocking=False) is False
            (event,) = [event for event in events.seen if event.event == "lock.contended"]
            assert event.attempts == 1
            events.seen.remove(event)
            lock.release()
            assert events.new() == ["acquired", "renewed", "released"]
            async with awaited:
                await awaited.extend(1)
                await awaited.reacquire()
            assert events.new() == ONE_CYCLE
            lockscope.uninstrument()
            with lock:
                pass
            assert events.new() == []
            events.instrument()
    await asynchronous.aclose()


def test_instrument_after_observe_takes_its_settings(client: redis.Redis) -> None:
    """What ``observe`` started with defaults gives way to the settings that the application asks for."""
    lock = lockscope.observe(client.lock("lock:order:1", timeout=5))
    with Observed(presence=False, prefixes=["lock:o*"]) as seen:
        with lock:
            pass
        assert seen.total("acquire", prefix="lock:o*", outcome="acquired") == 1


def test_instrument_after_observe_goes_on_with_what_is_held(client: redis.Redis) -> None:
    """Where ``instrument`` asks for nothing new, locks that ``observe`` saw taken stay counted as held."""
    lock = lockscope.observe(client.lock("goes-on:lock", timeout=5))
    recorder = runtime.recorder

    def held() -> float | None:
        return REGISTRY.get_sample_value("redis_lock_held", {"prefix": "goes-on:lock", "job_type": "none"})

    lock.acquire()
    assert held() == 1
    lockscope.instrument()
    assert runtime.recorder is recorder
    assert held() == 1
    lock.release()
    assert held() == 0


def test_observe_a_subclass_with_a_signature_of_its_own(client: redis.Redis) -> None:
    """A subclass that takes other arguments gets those and no others, and is counted all the same."""

    class Mine(Lock):
        def acquire(self, mode: str = "now", wait: float = 0) -> bool:  # type: ignore[override]
            assert mode in ("now", "later")
            return super().acquire(blocking=mode == "later", blocking_timeout=wait)

    events = Events()
    lock = lockscope.observe(Mine(client, "lock:mine", timeout=5, sleep=0.02))
    runtime.recorder.emit.use((events.take,))
    assert lock.acquire("now") is True
    assert Mine(client, "lock:mine").acquire() is False
    other = lockscope.observe(Mine(client, "lock:mine", timeout=5, sleep=0.02))
    assert other.acquire("later", 0.05) is False
    lock.release()
    assert [event.event for event in events.seen] == [
        "lock.acquired",
        "lock.waiting",
        "lock.acquire_timeout",
        "lock.released",
    ]
    assert events.seen[0].attempts == 1
    assert events.seen[2].attempts >= 2
    events.seen.clear()
    cycle(client)
    assert events.new() == []


# --- locks that were there before


def test_locks_that_existed_before_are_observed(client: redis.Redis) -> None:
    """A lock object made before instrument is observed; one held then is released without a made-up hold."""
    idle, held = client.lock("lock:idle", timeout=5), client.lock("lock:held", timeout=5)
    held.acquire()
    with Observed(presence=False) as seen:
        held.extend(1)
        held.release()
        with idle:
            assert seen.total("held") == 1
        renewed, released, *rest = seen.events()
        assert (renewed.event, renewed.ttl, renewed.headroom) == ("lock.renewed", None, None)
        assert (released.event, released.hold_seconds, released.ends_lease) == ("lock.released", None, False)
        assert len(rest) == 2
        assert seen.total("held") == 0
        assert seen.total("redis_lock_hold_seconds_count") == 1


def test_gauges_stay_right_when_observation_ends_under_held_locks(client: redis.Redis) -> None:
    """Locks held across uninstrument, and across a new start, end without moving a gauge below zero."""
    events = Events()
    first, second, third = (client.lock(f"lock:{name}", timeout=5) for name in "abc")

    def held() -> float | None:
        return sum(
            sample.value
            for family in events.registry.collect()
            for sample in family.samples
            if sample.name == "redis_lock_held"
        )

    events.instrument()
    first.acquire()
    second.acquire()
    assert held() == 2
    lockscope.uninstrument()
    assert held() == 0
    first.release()
    assert held() == 0
    events.instrument()
    third.acquire()
    assert held() == 1
    second.release()  # taken under the first start
    assert held() == 1
    third.release()
    assert held() == 0
    assert [event.ends_lease for event in events.seen if event.event == "lock.released"] == [False, True]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("gets_it", [False, True])
def test_gauges_stay_right_when_observation_ends_under_a_waiter(
    client: redis.Redis, restart: bool, gets_it: bool
) -> None:
    """A call that waits across uninstrument counts its outcome, and leaves both gauges at zero."""
    with Observed(presence=False) as seen:
        client.set("lock:a", "x")
        lock = client.lock("lock:a", timeout=5, sleep=0.01, thread_local=False)
        waiter = threading.Thread(target=lock.acquire, kwargs={"blocking_timeout": 20 if gets_it else 0.5})
        waiter.start()
        wait_until(lambda: seen.total("waiters") == 1)
        lockscope.uninstrument()
        if restart:
            lockscope.instrument(registry=seen.registry, presence=False)
        if gets_it:
            client.delete("lock:a")
        waiter.join()
        assert seen.outcomes("acquire") == {"acquired" if gets_it else "timeout": 1}
        assert (seen.total("waiters"), seen.total("held")) == (0, 0)
        if gets_it:
            lock.release()
        assert (seen.total("waiters"), seen.total("held")) == (0, 0)


def test_gauges_stay_right_when_observation_ends_during_the_first_try(own_server: RedisServer) -> None:
    """A call whose first try is answered only after uninstrument counts its outcome and moves no gauge."""
    with own_server.client() as client, Observed(presence=False) as seen:
        client.set("lock:a", "x")
        lock = client.lock("lock:a", timeout=5, sleep=0.01, thread_local=False)
        waiter = threading.Thread(target=lock.acquire, kwargs={"blocking_timeout": 20})
        own_server.signal(signal.SIGSTOP)
        waiter.start()
        wait_until(lambda: "do_acquire" in where(waiter))
        lockscope.uninstrument()
        own_server.signal(signal.SIGCONT)
        wait_until(lambda: "do_acquire" not in where(waiter))
        assert seen.total("waiters") == 0
        client.delete("lock:a")
        waiter.join()
        assert seen.outcomes("acquire") == {"acquired": 1}
        assert (seen.total("waiters"), seen.total("held")) == (0, 0)


def test_switching_under_load(server: RedisServer) -> None:
    """Threads that take locks never notice observation being switched on and off under them."""
    events = Events()
    stop = threading.Event()
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with server.client() as client:
                while not stop.is_set():
                    with client.lock(f"lock:{number}", timeout=5):
                        pass
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(25):
        events.instrument()
        wait_until(lambda: len(events.seen) > 5)
        lockscope.uninstrument()
        events.seen.clear()
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    samples = [sample for family in events.registry.collect() for sample in family.samples]
    assert {
        sample.value for sample in samples if sample.name in ("redis_lock_held", "redis_lock_waiters")
    } == {0}


# --- settings


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"prefixes": "lock:*"}, "prefixes"),
        ({"prefixes": b"lock:*"}, "prefixes"),
        ({"prefixes": [b"lock:*"]}, "prefixes"),
        ({"prefixes": ["lock:*", ""]}, "prefixes"),
        ({"prefixes": ["\udcff"]}, "prefixes"),
        ({"max_prefixes": 0}, "max_prefixes"),
        ({"max_prefixes": -5}, "max_prefixes"),
        ({"max_prefixes": "many"}, "max_prefixes"),
        ({"max_prefixes": 1.5}, "max_prefixes"),
        ({"max_prefixes": True}, "max_prefixes"),
        ({"logs": "no"}, "logs"),
        ({"prometheus": 0}, "prometheus"),
        ({"describe_owner": "yes"}, "describe_owner"),
        ({"blocked_by": []}, "blocked_by"),
        ({"presence": "1"}, "presence"),
        ({"otel": "maybe"}, "otel"),
        ({"otel": 1}, "otel"),
        ({"registry": "default"}, "registry"),
        ({"sinks": [print, 5]}, "sinks"),
    ],
)
def test_an_argument_that_cannot_be_used(given: dict[str, Any], says: str) -> None:
    """One clear ValueError that names the argument and the value; nothing was changed."""
    before = vars(Lock)["acquire"]
    with pytest.raises(ValueError, match=rf"^{says} takes .*not ") as raised:
        lockscope.instrument(**given)
    assert "\n" not in str(raised.value)
    assert vars(Lock)["acquire"] is before
    assert runtime.recorder is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("LOCKSCOPE_MAX_PREFIXES", "many"),
        ("LOCKSCOPE_MAX_PREFIXES", "0"),
        ("LOCKSCOPE_MAX_PREFIXES", "1.5"),
        ("LOCKSCOPE_DESCRIBE_OWNER", "perhaps"),
        ("LOCKSCOPE_BLOCKED_BY", "2"),
        ("LOCKSCOPE_PROMETHEUS", "oui"),
        ("LOCKSCOPE_LOGS", "nope"),
        ("LOCKSCOPE_PRESENCE", "x"),
        ("LOCKSCOPE_OTEL", "maybe"),
        ("LOCKSCOPE_PREFIXES", "lock:*,\udcff"),
    ],
)
@pytest.mark.parametrize("start", ["instrument", "observe"])
def test_a_variable_that_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch, client: redis.Redis, name: str, text: str, start: str
) -> None:
    """One clear ValueError that names the variable and its value; nothing was changed."""
    before = vars(Lock)["acquire"]
    monkeypatch.setenv(name, text)
    lock = client.lock("lock:a")
    with pytest.raises(ValueError, match=rf"^{name} takes .*, not .*"):
        lockscope.instrument() if start == "instrument" else lockscope.observe(lock)
    assert vars(Lock)["acquire"] is before
    assert "acquire" not in vars(lock)
    assert runtime.recorder is None


def test_variables_that_can_be_used(monkeypatch: pytest.MonkeyPatch, client: redis.Redis) -> None:
    """Variables set what arguments leave out; an empty one counts as not given."""
    for name, text in {
        "LOCKSCOPE_PREFIXES": " lock:cy* , lock:* ,",
        "LOCKSCOPE_MAX_PREFIXES": " 7 ",
        "LOCKSCOPE_DESCRIBE_OWNER": "Off",
        "LOCKSCOPE_LOGS": "NO",
        "LOCKSCOPE_BLOCKED_BY": "",
        "LOCKSCOPE_OTEL": "AUTO",
    }.items():
        monkeypatch.setenv(name, text)
    with Observed(presence=False, max_prefixes=9) as seen:
        assert runtime.recorder.prefixes.limit == 9
        assert runtime.recorder.read_blocked_by
        assert not [sink for sink in runtime.recorder.emit.sinks if getattr(sink, "name", "") == "logs"]
        with client.lock("lock:cycle", timeout=5):
            assert lockscope.tokens.parse(client.get("lock:cycle")) is None
        assert seen.events("acquired")[0].prefix == "lock:cy*"


def test_a_registry_that_is_taken_changes_nothing() -> None:
    """Metrics of somebody else under our names: one ValueError, and no class was touched."""
    registry = CollectorRegistry()
    Counter("redis_lock_acquire", "not ours", registry=registry)
    before = vars(Lock)["acquire"]
    with pytest.raises(ValueError, match="redis_lock_acquire"):
        lockscope.instrument(registry=registry)
    assert vars(Lock)["acquire"] is before
    assert runtime.recorder is None
    assert runtime.everywhere.recorder is None


# --- the shim's own failures


class SilentError(RuntimeError):
    """An exception that cannot be shown."""

    def __str__(self) -> str:
        raise ValueError("no text")


def test_an_exception_that_cannot_be_shown_reaches_the_caller(client: redis.Redis) -> None:
    """The caller gets its own exception, whatever the shim makes of it, and the attempt counts as error."""

    class Broken(Lock):
        def do_acquire(self, _token: str) -> bool:
            raise SilentError

    with Observed(presence=False) as seen:
        with pytest.raises(SilentError):
            Broken(client, "lock:a").acquire()
        (event,) = seen.events()
        assert (event.outcome, event.error) == ("error", "SilentError: (no text)")


@pytest.mark.parametrize(
    "method", ["acquired", "refused", "acquire_failed", "released", "renewed", "renew_lost"]
)
def test_a_recorder_that_fails_reaches_nobody(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Whatever fails inside the shim, the lock behaves as ever, and the failure is counted."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("shim")

    with Observed(presence=False) as seen:
        monkeypatch.setattr(runtime.recorder, method, fail)
        lock = client.lock("lock:a", timeout=5)
        assert lock.acquire() is True
        assert client.lock("lock:a").acquire(blocking=False) is False
        assert lock.extend(1) is True
        with pytest.raises(redis.DataError):
            client.lock("lock:b").acquire(token=[1])
        client.set("lock:a", "other")
        with pytest.raises(LockError):
            lock.reacquire()
        client.delete("lock:a")
        assert lock.acquire() is True
        assert lock.release() is None
        assert client.get("lock:a") is None
        assert seen.total("redis_lock_sink_errors_total", sink="seam") >= 1


def test_positions_of_arguments_come_from_the_signature() -> None:
    """A function's own signature says where its token goes; what only forwards is taken for redis-py's."""

    def mine(self: Any, wait: float, *, token: str | None = None) -> None: ...

    def forwards(self: Any, *args: Any, **kwargs: Any) -> None: ...

    def bare(self: Any) -> None: ...

    usual = redis_py_calls.SYNC_ACQUIRE
    assert redis_py_calls.parameters_of(Lock.acquire, usual) == usual
    assert redis_py_calls.parameters_of(AsyncLock.acquire, usual) == redis_py_calls.ASYNC_ACQUIRE
    assert redis_py_calls.parameters_of(mine, usual) == (("wait",), 1)
    assert redis_py_calls.parameters_of(forwards, usual) == usual
    assert redis_py_calls.parameters_of(bare, usual) == ((), -1)

"""What a signal handler or a time limit raises in the middle of the shim reaches the application."""

from __future__ import annotations

import dis
import gc
import logging
import signal
import sys
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest
import redis
import redis.asyncio
import redis_lock
from rq.timeouts import JobTimeoutException, TimerDeathPenalty

import lockscope
from shim import Observed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

    from servers import RedisServer

SHIM = str(Path(lockscope.__file__).parent)
COUNTING = ("emit.py", "prometheus.py", "tally.py")


class TimeLimit(Exception):  # noqa: N818 - as RQ and Celery name theirs
    """An ordinary exception, as RQ's and Celery's time limits are."""


@pytest.fixture(params=[TimeLimit, TimeoutError, KeyboardInterrupt])
def limit(request: pytest.FixtureRequest) -> Iterator[type[BaseException]]:
    """Have a signal raise an exception of this kind."""
    kind: type[BaseException] = request.param

    def handler(_number: int, _frame: FrameType | None) -> None:
        raise kind("too long")

    before = signal.signal(signal.SIGUSR1, handler)
    yield kind
    signal.signal(signal.SIGUSR1, before)


class Interrupted(logging.Handler):
    """Writing a record takes so long that the time limit strikes."""

    def handle(self, record: logging.LogRecord) -> bool:
        """Let the signal strike."""
        signal.raise_signal(signal.SIGUSR1)
        return super().handle(record)


class SlowToTell(redis.Redis):
    """The time limit strikes while the shim reads who holds a refused lock."""

    def get(self, name: Any) -> Any:
        """Let the signal strike, unless a library asks for purposes of its own."""
        if sys._getframe(1).f_code.co_filename.startswith(SHIM):
            signal.raise_signal(signal.SIGUSR1)
        return super().get(name)


class SlowToTellAsync(redis.asyncio.Redis):
    """The same for asyncio."""

    async def get(self, name: Any) -> Any:
        """Let the signal strike."""
        signal.raise_signal(signal.SIGUSR1)
        return await super().get(name)


@pytest.fixture
def slow_log() -> Iterator[None]:
    """Have the signal strike whenever a log record is written."""
    logger, handler = logging.getLogger("lockscope"), Interrupted()
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.mark.parametrize(
    ("key", "take"),
    [
        ("order:1", lambda slow: slow.lock("order:1", timeout=30)),
        ("lock:order:1", lambda slow: redis_lock.Lock(slow, "order:1", expire=30)),
    ],
    ids=["redis-py", "python-redis-lock"],
)
def test_a_limit_while_the_holder_is_read(
    server: RedisServer,
    client: redis.Redis,
    limit: type[BaseException],
    key: str,
    take: Callable[[redis.Redis], Any],
) -> None:
    """A refused call that runs out of time in the shim raises that, and counts as refused."""
    client.set(key, "theirs")
    slow = SlowToTell(unix_socket_path=server.socket)
    with Observed() as seen:
        with pytest.raises(limit, match="too long"):
            take(slow).acquire(blocking=False)
        assert seen.outcomes("acquire") == {"contended": 1}
    slow.close()


async def test_a_limit_while_the_holder_is_read_by_asyncio(server: RedisServer, client: redis.Redis) -> None:
    """The same for an asyncio lock."""

    def handler(*_: object) -> None:
        raise TimeLimit("too long")

    before = signal.signal(signal.SIGUSR1, handler)
    client.set("order:1", "theirs")
    try:
        async with SlowToTellAsync(unix_socket_path=server.socket) as slow:
            with Observed() as seen:
                with pytest.raises(TimeLimit):
                    await slow.lock("order:1", timeout=30).acquire(blocking=False)
                assert seen.outcomes("acquire") == {"contended": 1}
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("slow_log")
def test_a_limit_while_the_log_is_written(client: redis.Redis, limit: type[BaseException]) -> None:
    """A call that runs out of time in a log handler raises that; the lock was had, and is released once."""
    with Observed() as seen:
        lock = client.lock("order:1", timeout=30)
        with pytest.raises(limit, match="too long"):
            lock.acquire()
        assert lock.owned()
        with pytest.raises(limit, match="too long"):
            lock.release()
        assert not client.exists("order:1")
        assert seen.outcomes("acquire") == {"acquired": 1}
        assert seen.outcomes("release") == {"released": 1}
        del lock
        gc.collect()
        assert (seen.total("held"), seen.total("waiters")) == (0, 0)
        assert [event.event for event in seen.seen if event.event != "lock.abandoned"] == [
            "lock.acquired",
            "lock.released",
        ]  # the sinks behind the log had their events all the same
        assert seen.total("redis_lock_sink_errors_total") == 0


def test_a_limit_that_rq_sets_in_a_thread(client: redis.Redis) -> None:
    """RQ's limit without signals comes through as well, though nothing in the traceback tells of it."""

    class Busy(logging.Handler):
        def handle(self, record: logging.LogRecord) -> bool:
            for _ in count():
                record.getMessage()
            return True

    logger, handler = logging.getLogger("lockscope"), Busy()
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        with Observed(), pytest.raises(JobTimeoutException), TimerDeathPenalty(0.2):
            client.lock("order:1", timeout=30).acquire()
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@pytest.mark.usefixtures("slow_log")
def test_a_handler_of_any_kind_is_told_apart(client: redis.Redis) -> None:
    """Methods, partial functions, callables and handlers that reset themselves are handlers too."""

    class Penalty:
        def method(self, _number: int, _frame: object) -> None:
            raise TimeLimit("method")

        def __call__(self, *_: object) -> None:
            raise TimeLimit("callable")

    def once(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        self_made(TimeLimit("once"))

    def self_made(error: Exception) -> None:
        raise error

    def named(_what: str, _number: int, _frame: object) -> None:
        raise TimeLimit("partial")

    handlers: list[Callable[..., None]] = [Penalty().method, Penalty(), once, partial(named, "x")]
    for handler in handlers:
        before = signal.signal(signal.SIGUSR1, handler)
        try:
            with Observed(), pytest.raises(TimeLimit):
                client.lock(f"order:{id(handler)}", timeout=30).acquire()
        finally:
            signal.signal(signal.SIGUSR1, before)


def test_a_failure_that_is_none_of_these_stays_inside(client: redis.Redis) -> None:
    """A log handler that raises the same by itself is a sink that fails, swallowed and counted."""

    class Broken(logging.Handler):
        def handle(self, _record: logging.LogRecord) -> bool:
            raise TimeLimit("broken")

    logger, handler = logging.getLogger("lockscope"), Broken()
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        with Observed() as seen:
            with client.lock("order:1", timeout=30):
                pass
            assert seen.total("redis_lock_sink_errors_total") == 2
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


# at every point


@cache
def _interruptible(code: CodeType) -> frozenset[int]:
    """Return the offsets before which the interpreter looks for signals."""
    found, before = set(), ""
    for instruction in dis.get_instructions(code):
        if before.startswith(("CALL", "RESUME")):
            found.add(instruction.offset)
        if instruction.opname.startswith("JUMP_BACKWARD"):
            found.add(int(instruction.argval))
        before = instruction.opname
    return frozenset(found)


class Strike:
    """Raises the signal at the nth point of the shim's code at which the interpreter would take one."""

    def __init__(self, point: int) -> None:
        self.left = point
        self.where = ""

    def __enter__(self) -> Self:
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _enter(self, frame: FrameType, _event: str, _argument: object) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(SHIM) or code.co_name == "__del__":
            return None
        frame.f_trace_opcodes = True
        return self._step

    def _step(self, frame: FrameType, event: str, _argument: object) -> Any:
        if event == "opcode" and frame.f_lasti in _interruptible(frame.f_code):
            self.left -= 1
            if not self.left:
                self.where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                signal.raise_signal(signal.SIGUSR1)
        return self._step


@pytest.mark.parametrize("contended", [False, True])
def test_an_interruption_at_every_point(
    client: redis.Redis, limit: type[BaseException], contended: bool
) -> None:
    """Wherever it strikes it comes through; no call has two outcomes, nothing stays held or waits.

    Only a number that is being counted at that very point may be off.
    """
    before = sys.gettrace()
    with Observed() as seen:
        counted = waiting = 0.0
        try:
            for point in count(1):
                client.delete("order:1")
                if contended:
                    client.set("order:1", "theirs")
                lock = client.lock("order:1", timeout=30, sleep=0.001)
                strike, came = Strike(point), False
                try:
                    with strike:
                        if lock.acquire(blocking_timeout=0.002):
                            lock.release()
                except limit:
                    came = True
                del lock
                gc.collect(0)
                assert came == bool(strike.where), strike.where
                acquires = sum(seen.outcomes("acquire").values())
                assert acquires - counted in ((0, 1) if came else (1,)), strike.where
                counted = acquires
                assert seen.total("held") == 0, strike.where
                if not strike.where.startswith(COUNTING):
                    assert seen.total("waiters") == waiting, strike.where
                waiting = seen.total("waiters")
                if not came:
                    break
        finally:
            sys.settrace(before)
        assert point > 20

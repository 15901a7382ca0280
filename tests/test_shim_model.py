"""The shim's counts against a plain model: any order of lock calls, expiries, takeovers, failures and drops.

The model is what redis-py documents of its locks: who holds a key, what each call then answers. The shim must
count exactly that, whatever the order.
"""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
import redis
import redis.asyncio
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import LockError, LockNotOwnedError
from redis.retry import Retry

from servers import RedisServer, free_port
from shim import SHORT, Observed

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYS = ("order:1", "order:2", "invoice:1")
TTLS = (None, 30.0)


class Locks(RuleBasedStateMachine):
    """Drives up to six lock objects on three keys; each rule predicts what must be counted."""

    server: ClassVar[RedisServer]

    @initialize()
    def begin(self) -> None:
        """Start to observe on an empty server."""
        self.plain = self.server.client()
        self.plain.flushall()
        self.observed = Observed()
        self.observed.__enter__()
        self.client, self.dead = self.clients()
        self.owner: dict[str, object] = {}  # key: the lock object or the stranger that holds it in Redis
        self.locks: dict[int, Any] = {}
        self.tokens: dict[int, bool] = {}  # the lock object has a token, whether or not it still holds
        self.leases: dict[int, bool] = {}  # counts as held
        self.expected: Counter[tuple[str, str]] = Counter()
        self.attempts = 0

    def clients(self) -> tuple[Any, Any]:
        """Return a client of the server and one of nothing."""
        return self.server.client(), redis.Redis(port=free_port(), retry=Retry(NoBackoff(), 0))

    def run(self, call: Any) -> Any:
        """Make a call to a lock."""
        return call()

    def teardown(self) -> None:
        """Release or drop everything: nothing counts as held or waiting any more."""
        if not hasattr(self, "observed"):
            return
        for number in list(self.locks):
            if self.owner.get(self.locks[number].name) is self.locks[number]:
                self.release(number)
            self.kill(number)
        if self.observed.total("held"):
            gc.collect()
        try:
            assert self.observed.total("held") == 0
            assert self.observed.total("waiters") == 0
        finally:
            self.close()

    def close(self) -> None:
        """Stop observing."""
        self.observed.__exit__(None, None, None)
        self.plain.close()
        self.client.close()

    def lock_of(self, number: int, key: str, ttl: float | None) -> Any:
        """Return lock object ``number``, made for a key at its first use."""
        if number not in self.locks:
            lock = self.locks[number] = self.client.lock(key, timeout=ttl, sleep=0.001)
            self.tokens[number] = self.leases[number] = False
            lock.do_acquire = partial(self.try_once, weakref.ref(lock))
        return self.locks[number]

    def try_once(self, lock: Any, token: bytes) -> Any:
        """Count one try against Redis."""
        self.tries += 1
        return type(lock()).do_acquire(lock(), token)

    def holds(self, number: int) -> bool:
        """Tell whether the lock object holds its key in Redis."""
        lock = self.locks[number]
        return self.tokens[number] and self.owner.get(lock.name) is lock

    def expect(self, metric: str, outcome: str) -> None:
        """Note what must have been counted."""
        self.expected[metric, outcome] += 1

    numbers = st.integers(0, 5)

    @rule(number=numbers, key=st.sampled_from(KEYS), ttl=st.sampled_from(TTLS), wait=st.booleans())
    def acquire(self, number: int, key: str, ttl: float | None, wait: bool) -> None:
        """Acquire without waiting, or with a short wait."""
        lock = self.lock_of(number, key, ttl)
        self.attempts += 1
        self.tries = 0
        got = self.run(lambda: lock.acquire(**({"blocking_timeout": 0.01} if wait else {"blocking": False})))
        assert got == (lock.name not in self.owner)
        if got:
            self.owner[lock.name] = lock
            self.tokens[number] = self.leases[number] = True
            self.expect("acquire", "acquired")
        else:
            self.expect("acquire", "timeout" if self.tries > 1 else "contended")

    @precondition(lambda self: self.locks)
    @rule(number=numbers)
    def acquire_from_a_dead_server(self, number: int) -> None:
        """Acquire while the server cannot be reached."""
        lock = self.lock_of(number, KEYS[0], None)
        self.attempts += 1
        lock.redis = self.dead
        with pytest.raises(redis.ConnectionError):
            self.run(lambda: lock.acquire(blocking=False))
        lock.redis = self.client
        self.expect("acquire", "error")

    @precondition(lambda self: self.locks)
    @rule(number=numbers, how=st.sampled_from(["extend", "replace", "reacquire"]))
    def renew(self, number: int, how: str) -> None:
        """Renew, whether or not the lock is held."""
        lock = self.lock_of(number, KEYS[0], 30.0)
        calls = {
            "extend": lambda: lock.extend(5),
            "replace": lambda: lock.extend(40, replace_ttl=True),
            "reacquire": lock.reacquire,
        }
        if not self.tokens[number] or lock.timeout is None:
            outcome, error = "error", LockError
        elif self.holds(number):
            outcome, error = "renewed", None
        else:
            outcome, error = "lost", LockNotOwnedError
            self.leases[number] = False
        if error is None:
            assert self.run(calls[how]) is True
        else:
            with pytest.raises(error):
                self.run(calls[how])
        self.expect("renew", outcome)

    @precondition(lambda self: self.locks)
    @rule(number=numbers)
    def release(self, number: int) -> None:
        """Release, whether or not the lock is held."""
        lock = self.lock_of(number, KEYS[1], 30.0)
        if not self.tokens[number]:
            outcome, error = "error", LockError
        elif self.holds(number):
            outcome, error = "released", None
            del self.owner[lock.name]
        else:
            outcome, error = "lost", LockNotOwnedError
        if error is None:
            self.run(lock.release)
        else:
            with pytest.raises(error):
                self.run(lock.release)
        if outcome != "error":
            self.tokens[number] = self.leases[number] = False
        self.expect("release", outcome)

    @rule(key=st.sampled_from(KEYS))
    def expire(self, key: str) -> None:
        """The key goes, as at its TTL."""
        self.plain.delete(key)
        self.owner.pop(key, None)

    @rule(key=st.sampled_from(KEYS))
    def take_over(self, key: str) -> None:
        """Somebody else's token stands under the key."""
        self.plain.set(key, "theirs", px=60_000)
        self.owner[key] = "somebody else"

    @precondition(lambda self: self.locks)
    @rule(number=numbers)
    def kill(self, number: int) -> None:
        """The lock object goes away, as with a killed job; its key stays until it expires."""
        lock = self.locks.pop(number, None)
        if lock is not None:
            if self.owner.get(lock.name) is lock:
                self.owner[lock.name] = "nobody's any more"
            del self.tokens[number], self.leases[number], lock

    @invariant()
    def counts_are_those_of_the_model(self) -> None:
        """Every outcome was counted exactly as often as it happened, and held is what is held."""
        if not hasattr(self, "observed"):
            return
        counted = self.observed.all_totals()
        for metric in ("acquire", "renew", "release"):
            expected = {outcome: count for (name, outcome), count in self.expected.items() if name == metric}
            assert counted.get(SHORT[metric], {}) == expected
        assert sum(counted.get(SHORT["acquire"], {}).values()) == self.attempts
        assert SHORT["waiters"] not in counted
        held = sum(self.leases.values())
        if counted.get(SHORT["held"], {}).get("", 0) != held:
            gc.collect()  # a dropped lock may hang in a cycle with the exception that it raised
            assert self.observed.total("held") == held


class AsyncLocks(Locks):
    """The same with asyncio locks."""

    def clients(self) -> tuple[Any, Any]:
        """Return asyncio clients."""
        self.loop = asyncio.new_event_loop()
        client = redis.asyncio.Redis(unix_socket_path=self.server.socket)
        self.run(client.ping)
        return client, redis.asyncio.Redis(port=free_port(), retry=AsyncRetry(NoBackoff(), 0))

    def run(self, call: Any) -> Any:
        """Make a call and await what it returns."""

        async def work() -> Any:
            return await call()

        return self.loop.run_until_complete(work())

    def close(self) -> None:
        """Close clients and loop too."""
        self.observed.__exit__(None, None, None)
        self.plain.close()
        self.loop.run_until_complete(self.client.aclose())
        self.loop.run_until_complete(self.dead.aclose())
        self.loop.close()


@pytest.fixture(autouse=True)
def one_server(server: RedisServer) -> Iterator[None]:
    """Let the machines use the test worker's server."""
    Locks.server = server
    yield
    del Locks.server


SETTINGS = settings(
    max_examples=20,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def test_blocking_locks_count_as_the_model() -> None:
    """redis-py's blocking locks: attempts are the sum of outcomes, held returns to 0, in any order."""
    run_state_machine_as_test(Locks, settings=SETTINGS)


def test_asyncio_locks_count_as_the_model() -> None:
    """redis-py's asyncio locks the same."""
    run_state_machine_as_test(AsyncLocks, settings=SETTINGS)

"""redis-py's documented lock behaviour, on a real server, plain and observed: the same either way.

Every test runs four times: standalone and cluster, without and with observation.
"""

from __future__ import annotations

import inspect
import threading
import time
import traceback
from typing import TYPE_CHECKING

import pytest
import redis
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import LockError, LockNotOwnedError
from redis.lock import Lock

import lockscope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servers import RedisServer


@pytest.fixture(params=["plain", "observed"], autouse=True)
def observed(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Run the test without and with observation."""
    if request.param == "observed":
        lockscope.instrument()
    yield request.param == "observed"
    lockscope.uninstrument()


@pytest.fixture(params=["standalone", "cluster"])
def r(request: pytest.FixtureRequest, server: RedisServer) -> Iterator[redis.Redis | RedisCluster]:
    """Give a client of an empty standalone server or cluster."""
    if request.param == "standalone":
        client = server.client()
    else:
        cluster = request.getfixturevalue("cluster_server")
        client = RedisCluster(startup_nodes=[ClusterNode("127.0.0.1", cluster.port)])
        client.flushall()
    yield client
    client.close()


def test_acquire_returns_true_and_sets_the_token(r: redis.Redis) -> None:
    """A free lock is taken at once: True, the token in Redis is the lock's own, no TTL without a timeout."""
    lock = r.lock("foo")
    assert lock.acquire(blocking=False) is True
    assert r.get("foo") == lock.local.token
    assert r.ttl("foo") == -1
    assert lock.release() is None
    assert r.get("foo") is None


def test_caller_token_is_kept(r: redis.Redis) -> None:
    """A token that the caller passes, as text or bytes, stands in Redis unchanged."""
    for token in ("caller-1", b"caller-2"):
        lock = r.lock("foo")
        assert lock.acquire(token=token) is True
        assert r.get("foo") == (token.encode() if isinstance(token, str) else token)
        lock.release()


def test_positional_arguments_work(r: redis.Redis) -> None:
    """Acquire takes sleep, blocking, blocking_timeout and token by position."""
    lock = r.lock("foo", timeout=10)
    assert lock.acquire(0.01, True, 0.1, "by-position") is True
    assert r.get("foo") == b"by-position"
    assert r.lock("foo").acquire(0.01, False) is False
    lock.release()


def test_locked_and_owned(r: redis.Redis) -> None:
    """``locked`` tells whether anybody holds the lock, ``owned`` whether this object does."""
    lock = r.lock("foo")
    assert lock.locked() is False
    assert lock.owned() is False
    lock.acquire(blocking=False)
    assert lock.locked() is True
    assert lock.owned() is True
    other = r.lock("foo")
    assert other.locked() is True
    assert other.owned() is False
    lock.release()
    assert lock.locked() is False
    assert lock.owned() is False


def test_owned_with_decoding_client(server: RedisServer) -> None:
    """``owned`` works for a client that decodes answers."""
    client = server.client(decode_responses=True)
    lock = client.lock("foo", timeout=5)
    assert lock.acquire()
    assert lock.owned() is True
    assert lock.extend(5) is True
    lock.release()
    client.close()


def test_competing_locks(r: redis.Redis) -> None:
    """One of two competitors gets the lock; the other gets it after the release."""
    one, two = r.lock("foo"), r.lock("foo")
    assert one.acquire(blocking=False) is True
    assert two.acquire(blocking=False) is False
    one.release()
    assert two.acquire(blocking=False) is True
    assert one.acquire(blocking=False) is False
    two.release()


def test_timeout_sets_the_ttl(r: redis.Redis) -> None:
    """A timeout becomes the key's TTL; a float is kept to the millisecond."""
    lock = r.lock("foo", timeout=10)
    assert lock.acquire(blocking=False)
    assert 8 < r.ttl("foo") <= 10
    lock.release()
    short = r.lock("foo", timeout=9.5)
    assert short.acquire(blocking=False)
    assert 8 < r.pttl("foo") / 1000 <= 9.5
    short.release()


def test_blocking_timeout_gives_up(r: redis.Redis) -> None:
    """A blocked acquire returns False after its blocking timeout, not later by more than a sleep."""
    holder = r.lock("foo")
    assert holder.acquire(blocking=False)
    waiter = r.lock("foo", blocking_timeout=0.3, sleep=0.05)
    start = time.monotonic()
    assert waiter.acquire() is False
    assert 0.2 <= time.monotonic() - start < 2
    start = time.monotonic()
    assert waiter.acquire(blocking_timeout=0.1) is False
    assert time.monotonic() - start < 2
    holder.release()


def test_waiter_gets_the_lock(r: redis.Redis) -> None:
    """A waiter gets the lock once the holder releases it."""
    holder = r.lock("foo", thread_local=False)
    assert holder.acquire()
    threading.Timer(0.2, holder.release).start()
    assert r.lock("foo", sleep=0.02, timeout=5).acquire(blocking_timeout=5) is True


def test_context_manager(r: redis.Redis) -> None:
    """``with`` acquires and releases and gives the lock object."""
    with r.lock("foo") as lock:
        assert isinstance(lock, Lock)
        assert r.get("foo") == lock.local.token
    assert r.get("foo") is None


def test_context_manager_raises_when_refused(r: redis.Redis) -> None:
    """``with`` raises LockError when the lock is not had in time, and the text is redis-py's."""
    r.set("foo", "somebody")
    with (
        pytest.raises(LockError, match="Unable to acquire lock"),
        r.lock("foo", blocking_timeout=0.1, sleep=0.05),
    ):
        pytest.fail("entered without the lock")
    assert r.get("foo") == b"somebody"


def test_context_manager_loses_lock(r: redis.Redis) -> None:
    """Leaving ``with`` after the lock was taken away raises LockError, or not if so told."""
    with pytest.raises(LockError), r.lock("foo", blocking_timeout=0.1, raise_on_release_error=True):
        r.set("foo", "somebody")
    assert r.get("foo") == b"somebody"
    r.delete("foo")
    with r.lock("foo", blocking_timeout=0.1, raise_on_release_error=False):
        r.set("foo", "somebody")
    assert r.get("foo") == b"somebody"


def test_release_of_unlocked_lock(r: redis.Redis) -> None:
    """Releasing a lock that was never acquired raises LockError."""
    with pytest.raises(LockError, match="not owned or is already unlocked"):
        r.lock("foo").release()


def test_release_of_lost_lock(r: redis.Redis) -> None:
    """Releasing a lock that is somebody else's raises LockNotOwnedError and forgets the token."""
    lock = r.lock("foo")
    lock.acquire(blocking=False)
    r.set("foo", "somebody")
    with pytest.raises(LockNotOwnedError):
        lock.release()
    assert lock.local.token is None
    assert r.get("foo") == b"somebody"


def test_extend_adds_or_replaces(r: redis.Redis) -> None:
    """``extend`` adds to the TTL, or replaces it when told."""
    lock = r.lock("foo", timeout=10)
    assert lock.acquire(blocking=False)
    assert lock.extend(10) is True
    assert 16_000 < r.pttl("foo") <= 20_000
    assert lock.extend(10, replace_ttl=True) is True
    assert 8_000 < r.pttl("foo") <= 10_000
    assert lock.extend(additional_time=5.5, replace_ttl=False) is True
    assert 13_000 < r.pttl("foo") <= 15_500
    lock.release()


def test_extend_needs_a_held_lock_with_timeout(r: redis.Redis) -> None:
    """``extend`` raises LockError for a lock that is not held, has no timeout, or is lost."""
    with pytest.raises(LockError, match="unlocked"):
        r.lock("foo", timeout=10).extend(10)
    lock = r.lock("foo")
    assert lock.acquire(blocking=False)
    with pytest.raises(LockError, match="no timeout"):
        lock.extend(10)
    lock.release()
    lost = r.lock("foo", timeout=10)
    assert lost.acquire(blocking=False)
    r.set("foo", "somebody")
    with pytest.raises(LockNotOwnedError):
        lost.extend(10)


def test_reacquire_resets_the_ttl(r: redis.Redis) -> None:
    """``reacquire`` sets the TTL back to the timeout, and raises for a lock that is not held or lost."""
    lock = r.lock("foo", timeout=10)
    with pytest.raises(LockError, match="unlocked"):
        lock.reacquire()
    assert lock.acquire(blocking=False)
    assert r.pexpire("foo", 5000)
    assert lock.reacquire() is True
    assert 8_000 < r.pttl("foo") <= 10_000
    r.set("foo", "somebody")
    with pytest.raises(LockNotOwnedError):
        lock.reacquire()
    timeless = r.lock("bar")
    assert timeless.acquire(blocking=False)
    with pytest.raises(LockError, match="no timeout"):
        timeless.reacquire()
    timeless.release()


def test_token_is_thread_local(r: redis.Redis) -> None:
    """By default another thread does not see the token and cannot release; with thread_local off it can."""
    outcome: list[object] = []

    def release(lock: Lock) -> None:
        try:
            outcome.append(lock.release())
        except (LockError, AttributeError) as error:  # redis-py sets no token at all for other threads
            outcome.append(type(error))

    lock = r.lock("foo")
    lock.acquire()
    thread = threading.Thread(target=release, args=(lock,))
    thread.start()
    thread.join()
    assert outcome == [AttributeError]
    lock.release()
    shared = r.lock("foo", thread_local=False)
    shared.acquire()
    thread = threading.Thread(target=release, args=(shared,))
    thread.start()
    thread.join()
    assert outcome == [AttributeError, None]
    assert r.get("foo") is None


def test_subclass_keeps_its_behaviour(server: RedisServer) -> None:
    """A subclass that ``lock_class`` names is used, with its own overrides."""

    class Shouting(Lock):
        def acquire(self, *args: object, **kwargs: object) -> bool:
            self.shouted = True
            return super().acquire(*args, **kwargs)  # type: ignore[arg-type]

    client = server.client()
    lock = client.lock("foo", lock_class=Shouting, timeout=5)
    with lock:
        assert lock.shouted
        assert client.get("foo") == lock.local.token
    client.close()


def test_connection_error_is_the_callers(own_server: RedisServer) -> None:
    """A server that is gone raises redis-py's ConnectionError from acquire, extend and release."""
    client = own_server.client(retry=None)
    held = client.lock("foo", timeout=30)
    assert held.acquire()
    own_server.stop()
    with pytest.raises(redis.ConnectionError):
        client.lock("bar", timeout=30).acquire()
    with pytest.raises(redis.ConnectionError):
        held.extend(1)
    with pytest.raises(redis.ConnectionError):
        held.release()
    client.close()


def test_traceback_points_at_the_caller(r: redis.Redis) -> None:
    """An exception's traceback has the caller's own line first and redis-py's line last."""
    lock = r.lock("foo", timeout=5)
    try:
        lock.release()
    except LockError as error:
        frames = traceback.extract_tb(error.__traceback__)
        assert frames[0].filename == __file__
        assert frames[0].line == "lock.release()"
        assert frames[-1].filename.endswith("redis/lock.py")
    else:
        pytest.fail("released a lock that was never held")


def test_signatures_and_documentation_stay() -> None:
    """Help, signatures and names of the observed methods are redis-py's own."""
    assert list(inspect.signature(Lock.acquire).parameters) == [
        "self",
        "sleep",
        "blocking",
        "blocking_timeout",
        "token",
    ]
    assert Lock.acquire.__name__ == "acquire"
    assert "Use Redis to hold" in (Lock.acquire.__doc__ or "")
    assert Lock.release.__qualname__ == "Lock.release"

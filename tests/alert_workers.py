"""Worker processes of the alert test: ``python alert_workers.py ROLE REDIS_URL PORT [JOURNAL_URL]``.

Metrics on PORT; with a journal, what happens goes to that stream too.
"""

from __future__ import annotations

import itertools
import signal
import sys
import threading
import time
from contextlib import suppress
from threading import Event

import redis
from prometheus_client import start_http_server
from redis.backoff import NoBackoff
from redis.exceptions import LockError
from redis.retry import Retry

import lockscope

stop = Event()
burst = Event()


def loop(job_type: str, work) -> None:
    """Do ``work(number)`` as jobs of one type until the process is told to stop."""

    def run() -> None:
        for number in itertools.count(1):
            if stop.is_set():
                return
            with suppress(redis.RedisError), lockscope.job(job_type, job_id=str(number)):
                work(number)

    threading.Thread(target=run).start()


def healthy(client: redis.Redis) -> None:
    """Do what goes well: short locks with a little waiting, renewed long ones, a refused cron, first runs."""

    def order(_: int) -> None:
        with client.lock("lock:order:4711", timeout=10, blocking_timeout=5):
            stop.wait(0.01)
        stop.wait(0.05)

    def video(_: int) -> None:
        with client.lock("lock:video:1", timeout=3) as lock, lockscope.keep_alive(lock, every=0.5):
            stop.wait(2)
        stop.wait(0.1)

    def cron(_: int) -> None:
        lock = client.lock("lock:cron:nightly", timeout=10, blocking=False)
        if lock.acquire():
            stop.wait(0.4)
            lock.release()
        stop.wait(0.1)

    def payment(number: int) -> None:
        with lockscope.idempotent(f"payment:{number}", ttl=60, client=client):
            stop.wait(0.02)

    def report(_: int) -> None:
        client.hset("job:1:progress", mapping={"status": "running", "updated_at": time.time()})
        stop.wait(0.2)

    loop("report", report)
    for name, work in (("order", order), ("order", order), ("video", video), ("cron", cron), ("cron", cron)):
        loop(name, work)
    loop("payment", payment)


HELD = ("kill", "gone", "slow", "forever", "queue", "storm", "starved", "crowd")


def hold(client: redis.Redis) -> None:
    """Hold one lock of each of several families until told to stop; then release them."""
    locks = [client.lock(f"lock:{family}:1", timeout=600) for family in HELD]
    with lockscope.job("hold"):
        for lock in locks:
            assert lock.acquire(blocking=False)
    client.set("holding", 1)
    # A holder that shows that it works starves nobody, however many wait.
    with lockscope.keep_alive(locks[HELD.index("crowd")], every=0.5):
        stop.wait()
    for lock in locks:
        with suppress(LockError):
            lock.release()


def want(client: redis.Redis) -> None:
    """Wait for a lock that somebody else has."""

    def work(_: int) -> None:
        lock = client.lock("lock:kill:1", timeout=5, blocking_timeout=1)
        if lock.acquire():
            lock.release()
            stop.wait(0.1)

    for _ in range(3):
        loop("want", work)


def renew(client: redis.Redis) -> None:
    """Hold locks for long and renew them often."""

    def work(number: int) -> None:
        with (
            client.lock(f"lock:renew:{number % 5}", timeout=8) as lock,
            lockscope.keep_alive(lock, every=0.2),
        ):
            stop.wait(30)

    for _ in range(3):
        loop("renew", work)


def duplicate(client: redis.Redis) -> None:
    """Be delivered the same few jobs again and again."""

    def work(number: int) -> None:
        with lockscope.idempotent(f"charge:{number % 3}", ttl=60, client=client):
            stop.wait(0.03)

    loop("duplicate", work)


def hot(client: redis.Redis) -> None:
    """Let six threads want one lock."""

    def work(_: int) -> None:
        lock = client.lock("lock:hot:1", timeout=10, blocking_timeout=20)
        if lock.acquire():
            stop.wait(0.2)
            lock.release()

    for _ in range(6):
        loop("hot", work)


def misfit(client: redis.Redis) -> None:
    """Use locks whose TTL does not fit the work: outlived, nearly outlived, renewed late."""

    def outlive(number: int) -> None:
        lock = client.lock(f"lock:lost:{number}", timeout=0.3)
        if lock.acquire(blocking=False):
            stop.wait(0.5 if number % 4 else 0.01)
            lock.release()

    def nearly(number: int) -> None:
        with client.lock(f"lock:tight:{number}", timeout=3):
            stop.wait(2.6)

    def late(number: int) -> None:
        with client.lock(f"lock:late:{number}", timeout=3) as lock:
            for _ in range(3):
                stop.wait(2.6)
                lock.reacquire()

    loop("outlive", outlive)
    for _ in range(4):
        loop("nearly", nearly)
        loop("late", late)


def crowd(client: redis.Redis) -> None:
    """Ask in vain for what others hold: retried, waited for, waited for by more and more, left unfinished."""

    def storm(_: int) -> None:
        lock = client.lock("lock:storm:1", timeout=5)
        if not lock.acquire(blocking=False):
            lockscope.retried("contended", key=lock.name)
        stop.wait(0.1)

    def wait(family: str) -> None:
        lock = client.lock(f"lock:{family}:1", timeout=5, blocking_timeout=3, sleep=0.3)
        if lock.acquire():
            lock.release()
            stop.wait(0.1)

    def unfinished(_: int) -> None:
        with lockscope.idempotent("stuck:1", ttl=600, client=client) as run:
            stop.wait(600 if run.first else 0.1)

    loop("storm", storm)
    for _ in range(2):
        loop("starved", lambda _: wait("starved"))
        loop("unfinished", unfinished)

    def gather() -> None:
        for _ in range(40):
            if stop.wait(0.7):
                return
            loop("crowd", lambda _: wait("crowd"))

    threading.Thread(target=gather).start()


def families(client: redis.Redis) -> None:
    """Use more families of locks than the process may tell apart."""

    def work(number: int) -> None:
        with client.lock(f"lock:{'abcdefghij'[number % 10] * 4}:1", timeout=5):
            stop.wait(0.05)

    loop("families", work)


def stall(client: redis.Redis) -> None:
    """Hold a lock and renew it at a cadence."""

    def work(_: int) -> None:
        with client.lock("lock:stall:1", timeout=60) as lock, lockscope.keep_alive(lock, every=0.3):
            stop.wait()

    loop("stall", work)


def clash(client: redis.Redis) -> None:
    """Work on after the lease is over, while another process has the lock."""

    def work(_: int) -> None:
        lock = client.lock("lock:clash:1", timeout=0.3, blocking_timeout=5)
        if lock.acquire():
            stop.wait(1)
            lock.release()

    loop("clash", work)


def flood(_: redis.Redis) -> None:
    """Say more at once, when told to, than a journal can take that nobody reads."""

    def work(_: int) -> None:
        if burst.wait(0.1):
            for _ in range(20_000):
                lockscope.retried("contended", key="lock:flood:1")
            burst.clear()

    loop("flood", work)


ROLES = {
    role.__name__: role
    for role in (
        healthy,
        hold,
        want,
        renew,
        duplicate,
        hot,
        misfit,
        crowd,
        families,
        stall,
        clash,
        flood,
    )
}

if __name__ == "__main__":
    name, url, port, *journal = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGUSR1, lambda *_: burst.set())
    lockscope.instrument(journal=journal[0] if journal else None)
    start_http_server(int(port), addr="127.0.0.1")
    # A call that Redis does not answer fails soon and once, so that a short pause is enough to see it.
    quick = {"socket_timeout": 0.4, "socket_connect_timeout": 0.4, "retry": Retry(NoBackoff(), 0)}
    ROLES[name](redis.Redis.from_url(url, **quick))
    stop.wait()

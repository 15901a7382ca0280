"""Worker processes of the alert test: ``python alert_workers.py ROLE REDIS_URL PORT``. Metrics on PORT."""

from __future__ import annotations

import itertools
import signal
import sys
import threading
from contextlib import suppress
from threading import Event

import redis
from prometheus_client import start_http_server
from redis.backoff import NoBackoff
from redis.exceptions import LockError
from redis.retry import Retry

import lockscope

stop = Event()


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

    for name, work in (("order", order), ("order", order), ("video", video), ("cron", cron), ("cron", cron)):
        loop(name, work)
    loop("payment", payment)


def hold(client: redis.Redis) -> None:
    """Hold one lock of each of several families until told to stop; then release them."""
    locks = [client.lock(f"lock:{family}:1", timeout=600) for family in ("kill", "gone", "slow", "forever")]
    with lockscope.job("hold"):
        for lock in locks:
            assert lock.acquire(blocking=False)
    client.set("holding", 1)
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


ROLES = {role.__name__: role for role in (healthy, hold, want, renew, duplicate, hot)}

if __name__ == "__main__":
    name, url, port = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    lockscope.instrument()
    start_http_server(int(port), addr="127.0.0.1")
    # A call that Redis does not answer fails soon and once, so that a short pause is enough to see it.
    quick = {"socket_timeout": 0.4, "socket_connect_timeout": 0.4, "retry": Retry(NoBackoff(), 0)}
    ROLES[name](redis.Redis.from_url(url, **quick))
    stop.wait()

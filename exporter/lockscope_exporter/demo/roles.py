"""What each demo worker does, over and over: one function a job type, written as application code would be.

The workers know nothing of the demo; they use redis-py locks and the shim's helpers, and run into trouble on
their own. All times are seconds.
"""

from __future__ import annotations

import itertools
import random
import time
from typing import TYPE_CHECKING, Any

from redis.exceptions import LockError

import lockscope

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

    from redis import Redis

    Role = Callable[[Redis, Event], None]

NAMESPACE = "lockdemo"  # every key of the demo begins so
PAYMENTS = f"{NAMESPACE}:queue:payments"  # list that the demo delivers payments to, each at least once
FEED_HOLDING = f"{NAMESPACE}:feed:holding"  # set while an import holds its lock
FEED_TTL = 12.0


def invoices(client: Redis, stop: Event) -> None:
    """Several workers want the same few customers: they wait, and some give up."""
    for number in itertools.count(1):
        customer = random.choice(("4711", "4712"))
        with lockscope.job("invoice.generate", job_id=f"inv-{number}", resource_id=customer):
            lock = client.lock(f"{NAMESPACE}:lock:invoice:{customer}", timeout=10, blocking_timeout=0.6)
            if lock.acquire():
                stop.wait(random.uniform(0.3, 1.4))
                lock.release()
        if stop.wait(random.uniform(0.05, 0.2)):
            return


def reports(client: Redis, stop: Event) -> None:
    """One report at a time: whoever finds it running puts the job back, for later and later."""
    back_off = 0.3
    for number in itertools.count(1):
        with lockscope.job("report.nightly", job_id=f"rep-{number}"):
            lock = client.lock(f"{NAMESPACE}:lock:report:nightly", timeout=20, blocking=False)
            if lock.acquire():
                back_off = 0.3
                stop.wait(2.5)
                lock.release()
            else:
                lockscope.retried("locked", key=f"{NAMESPACE}:lock:report:nightly")
                back_off = min(back_off * 2, 2.0)
        if stop.wait(back_off):
            return


def transcodes(client: Redis, stop: Event) -> None:
    """A long job with a short lease that it renews while it works."""
    for number in itertools.count(1):
        with (
            lockscope.job("video.transcode", job_id=f"vid-{number}"),
            client.lock(f"{NAMESPACE}:lock:transcode:{number}", timeout=3) as lock,
            lockscope.keep_alive(lock),
        ):
            stop.wait(9)
        if stop.wait(0.5):
            return


def stock(client: Redis, stop: Event) -> None:
    """A job that takes longer than its lease: the next one is let in while it still works."""
    for number in itertools.count(1):
        with lockscope.job("stock.sync", job_id=f"stk-{number}"):
            lock = client.lock(f"{NAMESPACE}:lock:stock:warehouse-7", timeout=1.0, blocking_timeout=5)
            if lock.acquire():
                stop.wait(2.2)
                try:
                    lock.release()
                except LockError:  # somebody else's by now; a real worker would undo its work here
                    stop.wait(0.5)
        if stop.wait(0.3):
            return


def feeds(client: Redis, stop: Event) -> None:
    """Imports that are killed in the middle; the next worker finds the lock of the dead one."""
    for number in itertools.count(1):
        with lockscope.job("feed.import", job_id=f"feed-{number}"):
            lock = client.lock(f"{NAMESPACE}:lock:feed:supplier-3", timeout=FEED_TTL, blocking_timeout=2)
            if lock.acquire():
                client.set(FEED_HOLDING, time.time(), px=5000)
                stop.wait(FEED_TTL)
                lock.release()
        if stop.wait(0.5):
            return


def backups(client: Redis, stop: Event) -> None:
    """A lock without a TTL: if this worker dies, it stays for ever."""
    for number in itertools.count(1):
        with (
            lockscope.job("backup.run", job_id=f"bak-{number}"),
            client.lock(f"{NAMESPACE}:lock:backup:db-1"),
        ):
            stop.wait(8)
        if stop.wait(1):
            return


def payments(client: Redis, stop: Event) -> None:
    """A queue that delivers at least once: an idempotency key blocks the second charge."""
    while not stop.is_set():
        item: Any = client.blpop([PAYMENTS], timeout=1)
        if item is None:
            continue
        payment = item[1].decode()
        with (
            lockscope.job("payment.capture", job_id=payment, resource_id=payment),
            lockscope.idempotent(f"{NAMESPACE}:payment:{payment}", ttl=120, client=client) as once,
        ):
            if once.first:
                stop.wait(0.05)


ROLES: dict[str, Role] = {
    "invoice.generate": invoices,
    "report.nightly": reports,
    "video.transcode": transcodes,
    "stock.sync": stock,
    "feed.import": feeds,
    "backup.run": backups,
    "payment.capture": payments,
}

"""What reaches Redis from outside the demo's workers: a queue's deliveries and other applications' locks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockscope_exporter.demo.roles import FEED_HOLDING, NAMESPACE, PAYMENTS

if TYPE_CHECKING:
    from redis import Redis

# Every key of the demo begins with NAMESPACE, so that on a real server it touches nobody else's.
LOCKS = (
    f"{NAMESPACE}:lock:*",
    f"{NAMESPACE}_laravel_cache:*=laravel",
    f"{NAMESPACE}:redisson:*=redisson-rlock",
)
LARAVEL_KEY = f"{NAMESPACE}_laravel_cache:laravel_unique_job:App\\Jobs\\ImportPodcast:42"
REDISSON_KEY = f"{NAMESPACE}:redisson:stocktake"

_STREAMS = ("lockscope:journal", "lockscope:audit")
_KILL_AFTER = 2.0  # seconds that the victim may hold its lock


class Outside:
    """The demo's own hand on Redis.

    Args:
        client: a client of the demo's server.
    """

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._streams = [stream for stream in _STREAMS if not client.exists(stream)]
        self._payments = 0
        self._held_since: float | None = None

    def take_foreign_locks(self) -> None:
        """Take or keep two locks as a PHP and a Java application would, with raw commands."""
        self._client.set(LARAVEL_KEY, "tdAgfwcuQq5gE6Hw", ex=3600, nx=True)
        pipeline = self._client.pipeline()
        pipeline.hset(REDISSON_KEY, "b983c153-7421-469a-addb-44fb92259a1b:47", "1")
        pipeline.pexpire(REDISSON_KEY, 30_000)
        pipeline.execute()

    def deliver(self) -> None:
        """Put a payment into the queue; deliver some again, at once or later, as a queue may."""
        self._payments += 1
        again = self._payments - 1 if self._payments % 3 == 0 else self._payments
        copies = [again] if self._payments % 3 == 0 or self._payments % 5 == 0 else []
        self._client.rpush(PAYMENTS, *(f"pay-{number}" for number in (self._payments, *copies)))

    def time_to_kill(self, now: float) -> bool:
        """Tell whether the victim has held its lock for long enough to be killed in mid-work."""
        if not self._client.exists(FEED_HOLDING):
            self._held_since = None
        elif self._held_since is None:
            self._held_since = now
        elif now - self._held_since >= _KILL_AFTER:
            self._held_since = None
            self._client.delete(FEED_HOLDING)
            return True
        return False

    def clean_up(self) -> None:
        """Remove every key of the demo, and the journal if there was none before."""
        keys = [*self._client.scan_iter(f"{NAMESPACE}*", count=1000), *self._streams]
        if keys:
            self._client.delete(*keys)

"""Cost of a scrape with a million foreign keys, beside Debian's prometheus-redis-exporter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bench._mirror import exporter, fetch, fill_foreign, fill_locks, redis_exporter, row, server, timed

if TYPE_CHECKING:
    import redis

FEW, MANY, LOCKS = 100_000, 1_000_000, 10_000


def commands(client: redis.Redis, url: str, scrapes: int = 20) -> int:
    """Return the commands that the server ran because of a number of scrapes, at most."""
    client.config_resetstat()
    for _ in range(scrapes):
        fetch(url)
    stats = client.info("commandstats")
    return sum(
        value["calls"]
        for name, value in stats.items()
        if name not in ("cmdstat_info", "cmdstat_config|resetstat")
    )


def main() -> None:
    """Measure with few foreign keys, then with ten times as many."""
    with server() as running:
        client = running.client()
        fill_locks(client, LOCKS)
        fill_foreign(client, 0, FEW)
        with exporter(running.url) as (url, process):
            before = timed(lambda: fetch(url), 51)
            fill_foreign(client, FEW, MANY - FEW)
            after = timed(lambda: fetch(url), 51)
            asked = commands(client, url)
            memory = process.memory_info().rss / 1e6
            text = fetch(url)
            assert 'dialect="redis-py",prefix="lock:order:*"' in text or "lock:order" in text
        with redis_exporter(running.url, "-count-keys", "lock:*") as other:
            theirs = timed(lambda: fetch(other), 5)
        with redis_exporter(running.url, "-check-keys", "lock:order:1*") as other:
            checking = timed(lambda: fetch(other), 3)
        row(f"lockscope, {LOCKS:,} locks, {FEW:,} foreign keys", f"{before * 1000:.2f} ms")
        row(f"lockscope, {LOCKS:,} locks, {MANY:,} foreign keys", f"{after * 1000:.2f} ms")
        row(
            "growth with tenfold foreign keys",
            f"{after / before:.2f}x",
            "at most 1.2x",
            good=after / before <= 1.2,
        )
        row("redis_exporter -count-keys lock:*", f"{theirs * 1000:.0f} ms")
        row("redis_exporter -check-keys lock:order:1*", f"{checking * 1000:.0f} ms")
        row(
            "faster than redis_exporter -count-keys",
            f"{theirs / after:.0f}x",
            "at least 50x",
            good=theirs / after >= 50,
        )
        row("commands on the server during 20 scrapes", str(asked), "not one by a scrape")
        row("exporter memory", f"{memory:.0f} MB")

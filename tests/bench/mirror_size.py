"""A hundred thousand live locks: scrape and memory of the exporter, and how long it takes to find them."""

from __future__ import annotations

import time

from tests.bench._mirror import exporter, fetch, fill_locks, row, server, timed

LOCKS = 100_000


def main() -> None:
    """Measure the exporter as users run it."""
    with server() as running:
        fill_locks(running.client(), LOCKS)
        began = time.monotonic()
        with exporter(running.url) as (url, process):
            row(f"{LOCKS:,} locks: from start to ready", f"{time.monotonic() - began:.1f} s")
            first = timed(lambda: fetch(url), 1)
            slowest = max(timed(lambda: fetch(url), 1) for _ in range(50))
            row("first scrape", f"{first * 1000:.1f} ms", "at most 500 ms", good=first <= 0.5)
            row("slowest of 50 scrapes", f"{slowest * 1000:.1f} ms", "at most 500 ms", good=slowest <= 0.5)
            memory = process.memory_info().rss / 1e6
            row("exporter memory", f"{memory:.0f} MB", "at most 300 MB", good=memory <= 300)

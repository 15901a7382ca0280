"""A scrape eighty milliseconds away from Redis, beside redis_exporter; how soon a change shows nearby."""

from __future__ import annotations

import statistics
import time

from tests.bench._mirror import exporter, fetch, fill_locks, redis_exporter, row, server, timed

LOCKS = 10_000


def seen_after(url: str, change: object, text: str) -> float:
    """Return the seconds from a change until a scrape shows it."""
    began = time.perf_counter()
    change()  # type: ignore[operator]
    while text not in fetch(url):
        pass
    return time.perf_counter() - began


def main() -> None:
    """Scrape through a proxy that delays every byte, then time changes without it."""
    from faraway import far_away  # noqa: PLC0415 - the path is set by now

    with server() as running:
        client = running.client()
        fill_locks(client, LOCKS)
        with far_away(running.port) as away, exporter(away) as (url, _):
            took = timed(lambda: fetch(url), 31)
            row(
                "80 ms away: a scrape of 10,000 locks",
                f"{took * 1000:.1f} ms",
                "under 50 ms",
                good=took < 0.05,
            )
        with far_away(running.port) as away, redis_exporter(away, "-check-keys", "lock:order:12?") as other:
            theirs = timed(lambda: fetch(other), 1)
            row("80 ms away: redis_exporter, ten keys of them", f"{theirs * 1000:.0f} ms")
        with exporter(running.url) as (url, _):
            lags = []
            for number in range(20):
                name = f"lock:seen{chr(97 + number)}"
                lags.append(
                    seen_after(url, lambda name=name: client.set(name, "0" * 32, px=60_000), f'"{name}"')
                )
            median, slowest = statistics.median(lags), max(lags)
            row("loopback: until a scrape shows a new lock, median", f"{median * 1000:.0f} ms")
            row("the same, slowest of 20", f"{slowest * 1000:.0f} ms", "at most 250 ms", good=slowest <= 0.25)

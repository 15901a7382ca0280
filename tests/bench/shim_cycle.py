"""What observation costs: a lock cycle plain, observed, and beside OpenTelemetry's own Redis instrumentation.

Every round runs each variant once, in turn, in one process on one server; ratios are taken within a round.
"""

from __future__ import annotations

import logging
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psutil
from opentelemetry.instrumentation.redis import RedisInstrumentor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from prometheus_client import CollectorRegistry, generate_latest
from tests.servers import RedisServer

import lockscope

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import redis
    from opentelemetry.sdk.trace import ReadableSpan

ROUNDS = 15
CYCLES = 1000
MANY_KEYS = 1_000_000
IMPORT_ROUNDS = 11


class _Nowhere(SpanExporter):
    """Takes spans and forgets them, so that only making and batching them is measured."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002
        return SpanExportResult.SUCCESS


def cycles(client: redis.Redis, count: int) -> tuple[float, float]:
    """Return wall and CPU microseconds a cycle of acquire and release."""
    lock = client.lock("lock:order:42", timeout=10)
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(count):
        lock.acquire()
        lock.release()
    return (time.perf_counter() - wall) / count * 1e6, (time.process_time() - cpu) / count * 1e6


def compare(client: redis.Redis) -> None:
    """Print wall and CPU of each variant as medians, and the medians of their ratios to the plain cycle.

    CPU is that of the whole process. ``to the end`` adds what was put off: spans made and exported later.
    redis-py's own tokens are ``uuid1``, some 20 µs on Linux; observed locks get cheaper ones.
    """
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(_Nowhere()))
    meters = MeterProvider(metric_readers=[InMemoryMetricReader()])
    redis_instrumentor = RedisInstrumentor()
    registry = CollectorRegistry()

    def observed() -> Callable[[], None]:
        lockscope.instrument(registry=registry, otel=False)
        return lockscope.uninstrument

    def everything() -> Callable[[], None]:
        lockscope.instrument(registry=registry, otel=True, tracer_provider=provider, meter_provider=meters)
        return lockscope.uninstrument

    def otel_redis() -> Callable[[], None]:
        redis_instrumentor.instrument(tracer_provider=provider)
        return redis_instrumentor.uninstrument

    variants: dict[str, Callable[[], Callable[[], None]]] = {
        "plain": lambda: lambda: None,
        "Prometheus and logs": observed,
        "all, with OTel spans": everything,
        "opentelemetry-instrumentation-redis": otel_redis,
    }
    results: dict[str, list[tuple[float, float, float]]] = {name: [] for name in variants}
    cycles(client, CYCLES)
    for _ in range(ROUNDS):
        for name, begin in variants.items():
            end = begin()
            cycles(client, 50)
            began = time.process_time()
            wall, cpu = cycles(client, CYCLES)
            end()  # what the background has not done yet is done here
            provider.force_flush()
            results[name].append((wall, cpu, (time.process_time() - began) / CYCLES * 1e6))
    print(f"acquire and release, medians of {ROUNDS} interleaved rounds of {CYCLES} cycles")
    print(f"{'':38}{'wall µs':>9}{'CPU µs':>9}{'wall ratio':>12}{'added CPU µs':>14}{'to the end':>12}")
    plain = results["plain"]
    for name, rounds in results.items():
        wall = statistics.median(one[0] for one in rounds)
        cpu = statistics.median(one[1] for one in rounds)
        ratio = statistics.median(one[0] / base[0] for one, base in zip(rounds, plain, strict=True))
        added = statistics.median(one[1] - base[1] for one, base in zip(rounds, plain, strict=True))
        whole = statistics.median(one[2] - base[2] for one, base in zip(rounds, plain, strict=True))
        print(f"{name:38}{wall:9.1f}{cpu:9.1f}{ratio:12.3f}{added:14.1f}{whole:12.1f}")
    provider.shutdown()
    meters.shutdown()


def growth(client: redis.Redis) -> None:
    """Print how series and memory grow over a million acquires of a million different keys."""
    registry = CollectorRegistry()
    lockscope.instrument(registry=registry, otel=False)
    process = psutil.Process()

    def take(first: int, count: int) -> None:
        for number in range(first, first + count):
            lock = client.lock(f"lock:family{number % 1000:x}x:order:{number}", timeout=10)
            lock.acquire()
            lock.release()

    take(0, 20_000)
    series = generate_latest(registry).count(b"\n")
    before = process.memory_info().rss
    take(20_000, MANY_KEYS - 20_000)
    grown = (process.memory_info().rss - before) / 1e6
    more = generate_latest(registry).count(b"\n") - series
    lockscope.uninstrument()
    print(f"{MANY_KEYS:,} acquires of as many keys in 1000 families: {more:+d} lines, {grown:+.1f} MB")


def import_time() -> None:
    """Print what importing lockscope adds to importing redis and prometheus_client."""

    def child(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - start

    base, full = [], []
    for _ in range(IMPORT_ROUNDS):
        base.append(child("import redis, prometheus_client"))
        full.append(child("import redis, prometheus_client, lockscope"))
    added = statistics.median(with_it - bare for with_it, bare in zip(full, base, strict=True)) * 1000
    print(f"import lockscope adds {added:.0f} ms to {statistics.median(base) * 1000:.0f} ms")


def main() -> None:
    """Run all three."""
    logging.getLogger("lockscope").setLevel(logging.WARNING)
    server = RedisServer()
    try:
        client = server.client()
        compare(client)
        import_time()
        growth(client)
        client.close()
    finally:
        server.close()


if __name__ == "__main__":
    main()

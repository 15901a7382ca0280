"""What the mirror's benchmarks share: an exporter as users run it, key spaces, and what to compare with."""

from __future__ import annotations

import contextlib
import shutil
import statistics
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from servers import Process, RedisServer, free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis


@contextlib.contextmanager
def server(**options: Any) -> Iterator[RedisServer]:
    """Give a redis-server."""
    running = RedisServer(port=None, **options)
    try:
        yield running
    finally:
        running.close()


@contextlib.contextmanager
def exporter(url: str, *arguments: str, ready: float = 120.0) -> Iterator[tuple[str, psutil.Process]]:
    """Run ``lockscope export``, and give the URL of its metrics and its process once it is ready."""
    port = free_port()
    folder = Path(tempfile.mkdtemp(prefix="ls-bench-"))
    command = [sys.executable, "-m", "lockscope_exporter", "export", "--redis-url", url]
    process = Process([*command, "--listen", f"127.0.0.1:{port}", *arguments], folder / "log")
    try:
        wait_until(
            lambda: status(f"http://127.0.0.1:{port}/-/ready") == 200, ready, 0.1, f"ready: {folder}/log"
        )
        yield f"http://127.0.0.1:{port}/metrics", psutil.Process(process.pid)
    finally:
        process.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def redis_exporter(url: str, *arguments: str) -> Iterator[str]:
    """Run Debian's prometheus-redis-exporter, and give the URL of its metrics."""
    port = free_port()
    folder = Path(tempfile.mkdtemp(prefix="ls-bench-"))
    command = ["prometheus-redis-exporter", "-redis.addr", url, "-web.listen-address", f"127.0.0.1:{port}"]
    process = Process([*command, *arguments], folder / "log")
    try:
        wait_until(lambda: status(f"http://127.0.0.1:{port}/") == 200, 10, 0.05, "redis_exporter answers")
        yield f"http://127.0.0.1:{port}/metrics"
    finally:
        process.stop()
        shutil.rmtree(folder, ignore_errors=True)


def status(url: str) -> int:
    """Return the HTTP status of a URL, 0 if nothing answers."""
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            code: int = answer.status
            return code
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def fetch(url: str) -> str:
    """Return what a URL says."""
    with urllib.request.urlopen(url, timeout=120) as answer:
        text: str = answer.read().decode()
        return text


def timed(work: Callable[[], object], times: int) -> float:
    """Return the median of the seconds that something takes."""
    took = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return statistics.median(took)


def fill_foreign(client: redis.Redis, start: int, count: int) -> None:
    """Add keys that are no locks, inside the server."""
    script = """
    for i = ARGV[1], ARGV[1] + ARGV[2] - 1 do
      redis.call('SET', 'session:' .. string.format('%08d', i), 'x')
    end
    """
    for first in range(start, start + count, 50_000):
        client.eval(script, 0, first, min(50_000, start + count - first))


def fill_locks(client: redis.Redis, count: int, family: str = "lock:order") -> None:
    """Take locks as an instrumented worker would."""
    pipe = client.pipeline(transaction=False)
    for number in range(count):
        token = (
            f"ls1;host=web-{number % 9};pid={number % 4000};worker={number % 50:012x};type=invoice.generate;"
            f"id={number};at={time.time():.3f};n={number:032x}"
        )
        pipe.set(f"{family}:{number}", token, px=3_600_000 + number)
        if number % 5000 == 4999:
            pipe.execute()
    pipe.execute()


def cpu_of(process: psutil.Process) -> float:
    """Return the CPU seconds that a process has used."""
    times = process.cpu_times()
    return float(times.user + times.system)


def server_cpu(client: redis.Redis) -> float:
    """Return the CPU seconds that a server has used."""
    info = client.info("cpu")
    return float(info["used_cpu_user"] + info["used_cpu_sys"])


def row(what: str, value: str, bar: str = "", *, good: bool | None = None) -> None:
    """Print one line of a table."""
    verdict = "" if good is None else ("ok" if good else "MISSED")
    print(f"   {what:<58} {value:>14}  {bar:<22} {verdict}")

"""What two exporters and five watch sessions cost a server that takes a thousand lock operations a second.

CPU of the server's main thread over windows with and without them, in turn, as shares of one core: sessions
that watch through an exporter, and sessions that ask Redis themselves. Beside the latter their floor: as many
connections that are told of every change and do nothing else. On a virtual machine a push over loopback TCP
costs about ten microseconds, on a bare one a fifth of that.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import redis
from tests.bench._mirror import exporter, row, server

if TYPE_CHECKING:
    from collections.abc import Iterator

RATE = 1000  # commands a second that take or release a lock
KEYS = 500
EXPORTERS, WATCHERS = 2, 5
ROUNDS = int(os.environ.get("WATCH_ROUNDS", "4"))
WINDOW = float(os.environ.get("WATCH_SECONDS", "8"))
SCRIPT = Path(sys.executable).with_name("lockscope")


def work(url: str) -> None:
    """Take and release locks at the rate, one command a round trip, until killed."""
    client = redis.from_url(url, protocol=2)
    chance = random.Random(1)
    held: dict[str, str] = {}
    due = time.monotonic()
    while True:
        name = f"lock:order:{chance.randrange(KEYS)}"
        if name in held:
            client.delete(name)
            del held[name]
        else:
            held[name] = f"{chance.getrandbits(128):032x}"
            client.set(name, held[name], nx=True, px=30_000)
        due = max(due + 1 / RATE, time.monotonic() - 0.01)  # no bursts to make up for what a busy host cost
        time.sleep(max(due - time.monotonic(), 0.0))


@contextlib.contextmanager
def child(command: list[str], **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the end of the block."""
    process = subprocess.Popen(command, **options)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        process.terminate()
        process.wait(10)


@contextlib.contextmanager
def watchers(url: str, *, through: bool) -> Iterator[None]:
    """Run exporters and watch sessions, ready and idle, that look through an exporter or at Redis."""
    with contextlib.ExitStack() as stack:
        served = [stack.enter_context(exporter(url))[0] for _ in range(EXPORTERS)]
        where = ("--exporter", served[0].removesuffix("/metrics")) if through else ("--redis-url", url)
        started = []
        for _ in range(WATCHERS):
            output = stack.enter_context(tempfile.NamedTemporaryFile())
            command = ["nice", str(SCRIPT), "watch", *where]  # the load is to go on at its rate
            process = stack.enter_context(child(command, stdout=output))
            started.append((process, Path(output.name)))
        while not all(output.stat().st_size for _, output in started):
            if any(process.poll() is not None for process, _ in started):
                raise RuntimeError("a watch session has ended")
            time.sleep(0.05)
        yield


@contextlib.contextmanager
def listeners(port: int) -> Iterator[None]:
    """Keep as many tracking connections that drop whatever comes four times a second."""
    stop = threading.Event()
    connections = []
    for _ in range(EXPORTERS + WATCHERS):
        connection = redis.Redis(port=port, protocol=3).connection_pool.make_connection()
        connection.connect()
        connection.send_command("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "lock")
        connection.read_response()
        connections.append(connection)

    def drain() -> None:
        while not stop.wait(0.25):
            for connection in connections:
                with contextlib.suppress(BlockingIOError):
                    connection._sock.recv(1 << 20, socket.MSG_DONTWAIT)

    thread = threading.Thread(target=drain)
    thread.start()
    yield
    stop.set()
    thread.join()
    for connection in connections:
        connection.disconnect()


class Window(NamedTuple):
    """What the server did in one window.

    Attributes:
        share: of one core that it worked.
        operations: lock operations a second.
        others: other commands a second.
    """

    share: float
    operations: float
    others: float

    @property
    def cost(self) -> float:
        """Share of a core at the wanted rate: a busy host lets fewer operations through."""
        return self.share / self.operations * RATE


def window(client: redis.Redis) -> Window:
    """Watch the server for one window."""
    names = ("used_cpu_user_main_thread", "used_cpu_sys_main_thread")
    client.config_resetstat()
    before, began = client.info("cpu"), time.monotonic()
    time.sleep(WINDOW)
    after, took = client.info("cpu"), time.monotonic() - began
    calls = {name: one["calls"] for name, one in client.info("commandstats").items()}
    operations = calls["cmdstat_set"] + calls["cmdstat_del"]
    others = sum(calls.values()) - operations
    return Window(sum(after[name] - before[name] for name in names) / took, operations / took, others / took)


def main() -> None:
    """Measure windows in turn; the best of each kind count, as what else runs only ever adds."""
    root = Path(__file__).resolve().parents[2]
    path = f"{root}{os.pathsep}{root / 'tests'}"
    with server() as running:
        command = [sys.executable, "-c", f"from tests.bench.watch_cost import work; work({running.url!r})"]
        with child(command, env={**os.environ, "PYTHONPATH": path}):
            client = running.client()
            while client.dbsize() < KEYS // 4:
                time.sleep(0.05)
            plain, told, beside, through = [], [], [], []
            for _ in range(ROUNDS):
                plain.append(window(client))
                with listeners(running.port):
                    told.append(window(client))
                with watchers(running.url, through=False):
                    beside.append(window(client))
                with watchers(running.url, through=True):
                    through.append(window(client))
    alone = min(plain, key=lambda one: one.cost)
    row("lock operations a second", f"{alone.operations:,.0f}", f"{RATE:,}")
    row("server, alone", f"{alone.cost:.2%} of a core")
    both = f"{EXPORTERS} exporters and {WATCHERS} sessions"
    for name, found in (
        (f"{EXPORTERS + WATCHERS} connections that only listen", told),
        (f"{both} that ask Redis", beside),
        (f"{both} through an exporter", through),
    ):
        best = min(found, key=lambda one: one.cost)
        added = best.cost - alone.cost
        row(f"{name}: commands a second", f"{best.others:,.0f}")
        bar = {"good": added <= 0.02} if found is through else {}
        row(f"{name}: added", f"{added:.2%} of a core", "at most 2 %" if bar else "", **bar)

"""Five thousand lock changes a second for a minute: lag, CPU, and whether anything is lost."""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

import psutil
import redis
from tests.bench._mirror import cpu_of, row, server, server_cpu

RATE, SECONDS, KEYS = 5000, int(os.environ.get("CHURN_SECONDS", "60")), 3000
_BATCH = 25


def churn(url: str) -> None:
    """Take, renew and release locks at the rate, from a process of its own."""
    client = redis.from_url(url, protocol=2)
    chance = random.Random(1)
    held: dict[int, str] = {}
    began = time.monotonic()
    done = 0
    while time.monotonic() - began < SECONDS:
        pipe = client.pipeline(transaction=False)
        for _ in range(_BATCH):
            number = chance.randrange(KEYS)
            name = f"lock:order:{number}"
            if number not in held:
                held[number] = f"{chance.getrandbits(128):032x}"
                pipe.set(name, held[number], nx=True, px=30_000)
            elif chance.random() < 0.5:
                pipe.pexpire(name, 30_000)
            else:
                del held[number]
                pipe.delete(name)
        pipe.execute()
        done += _BATCH
        time.sleep(max(began + done / RATE - time.monotonic(), 0.0))
    print(done)


def main() -> None:
    """Follow the storm from this process, and time how long a marker takes to show."""
    from lockscope_exporter.targets import LockPattern, Target  # noqa: PLC0415
    from mirroring import assert_same, mirror  # noqa: PLC0415 - the path is set by now

    patterns = (LockPattern(b"lock*"),)
    with server() as running, mirror(targets=[Target(running.url, patterns=patterns)]) as source:
        client = running.client()
        command = [
            sys.executable,
            "-c",
            f"from tests.bench.mirror_churn import churn; churn({running.url!r})",
        ]
        root = Path(__file__).resolve().parents[2]
        path = f"{root}{os.pathsep}{root / 'tests'}"
        worker = subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True
        )
        lags = []
        time.sleep(1.0)
        me, busy, began = cpu_of(psutil.Process()), server_cpu(client), time.monotonic()
        while worker.poll() is None:
            token = f"{len(lags):032x}"
            asked = time.monotonic()
            client.set("lock:marker", token, px=60_000)
            while (seen := source.lock(b"lock:marker")) is None or seen.value != token.encode():
                time.sleep(0.002)
            lags.append(time.monotonic() - asked)
            source.families()
            time.sleep(0.1)
        took = time.monotonic() - began
        me, busy = cpu_of(psutil.Process()) - me, server_cpu(client) - busy
        assert worker.stdout is not None
        done = int(worker.stdout.read())
        assert_same(source, [(0, running.client(protocol=2))], patterns=patterns)
        [family] = [one for one in source.families() if one.prefix == "lock:order:*"]
        row("changes a second", f"{done / took:.0f}", f"about {RATE}")
        row("slowest of the lags", f"{max(lags) * 1000:.0f} ms", "at most 1000 ms", good=max(lags) <= 1)
        row(
            "median lag",
            f"{statistics.median(lags) * 1000:.1f} ms",
            "at most 250 ms",
            good=statistics.median(lags) <= 0.25,
        )
        row("exporter CPU (with the harness)", f"{me / took:.2f} cores", "at most 1", good=me / took <= 1)
        row("server CPU (with the storm)", f"{busy / took:.2f} cores")
        row("differences from a plain scan afterwards", "0", "0", good=True)
        row(
            "events counted",
            f"{family.acquired + family.renewed + sum(family.ended.values()):,}",
            f"of {done:,}",
        )

"""What following the default patterns costs a server that writes keys which are no locks.

CPU of the server's main thread a SET, by redis-benchmark, with and without the exporter in turn. The smallest
of several rounds counts: what other programs do on the machine only ever adds to it.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from tests.bench._mirror import exporter, row, server

if TYPE_CHECKING:
    from servers import RedisServer

ROUNDS = 12


def cost(running: RedisServer, pipeline: int, writes: int) -> float:
    """Return microseconds of server CPU a SET."""
    client = running.client()
    before = client.info("cpu")
    command = ["redis-benchmark", "-p", str(running.port), "-t", "set", "-n", str(writes), "-r", "100000"]
    subprocess.run([*command, "-P", str(pipeline), "-c", "20", "-q"], check=True, stdout=subprocess.DEVNULL)
    after = client.info("cpu")
    names = ("used_cpu_user_main_thread", "used_cpu_sys_main_thread")
    return sum(after[name] - before[name] for name in names) / writes * 1e6


def main() -> None:
    """Compare one command a round trip, and pipelines of sixteen."""
    with server() as running:
        for pipeline, writes in ((1, 60_000), (16, 1_500_000)):
            plain, followed = [], []
            cost(running, pipeline, writes)
            for _ in range(ROUNDS):
                plain.append(cost(running, pipeline, writes))
                with exporter(running.url):
                    followed.append(cost(running, pipeline, writes))
            ratio = min(followed) / min(plain)
            name = "SET, one a round trip" if pipeline == 1 else f"SET, pipelines of {pipeline}"
            row(f"{name}: alone", f"{min(plain):.2f} us")
            row(f"{name}: followed", f"{min(followed):.2f} us")
            row("ratio", f"{ratio:.3f}x", "at most 1.05x", good=ratio <= 1.05)

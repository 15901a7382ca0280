"""What tracking the default patterns costs a server that writes keys which are no locks."""

from __future__ import annotations

import statistics

from tests.bench._mirror import exporter, row, server, server_cpu

WRITES, ROUNDS = 200_000, 7


def main() -> None:
    """Compare server CPU of unrelated SETs with and without the exporter, in turn."""
    with server() as running:
        client = running.client()
        script = "for i = 1, ARGV[1] do redis.call('SET', 'session:' .. (i % 1000), 'x') end"

        def cost() -> float:
            pipe = client.pipeline(transaction=False)
            before = server_cpu(client)
            for first in range(0, WRITES, 10_000):
                for number in range(first, first + 10_000):
                    pipe.set(f"session:{number % 1000}", "x")
                pipe.execute()
            return (server_cpu(client) - before) / WRITES

        client.eval(script, 0, 1000)
        ratios = []
        for _ in range(ROUNDS):
            without = cost()
            with exporter(running.url):
                tracked = cost()
            ratios.append(tracked / without)
        ratio = statistics.median(ratios)
        row("server CPU of an unrelated SET", f"{ratio:.3f}x", "at most 1.05x", good=ratio <= 1.05)
        row("all rounds", " ".join(f"{one:.2f}" for one in ratios))

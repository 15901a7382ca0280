"""What sampling asks of a server on which nothing happens."""

from __future__ import annotations

import time

import pytest

from lockscope_exporter.sampling import open_source
from lockscope_exporter.targets import SamplingOptions, Target
from servers import RedisServer, wait_until

SECONDS = 3.0


@pytest.mark.parametrize("mode", ["auto", "scan"])
@pytest.mark.parametrize("cut", [False, True], ids=["from the start", "after a reconnect"])
def test_idle_locks_cost_a_few_commands_a_second(own_server: RedisServer, mode: str, cut: bool) -> None:
    """Locks that only lie there, with or without expiry, are not asked for again and again."""
    client = own_server.client()
    client.set("lock:raw:1", "worker-7")
    client.set("lock:raw:2", "0f92c2ad2f5c06cfaae5c479da62848c")
    client.set("lock:raw:3", "0f92c2ad2f5c06cfaae5c479da62848d", ex=600)
    client.hset(
        "uniquejobs:8b7ca18b795d69a3c3d5734c13c73223:LOCKED", "b8d36283a81e1853c2344528", "1795969880.9"
    )
    source = open_source([Target(own_server.url)], SamplingOptions(mode=mode))
    source.start()
    try:
        assert source.wait_ready(20)
        wait_until(lambda: len(source.locks()) == 4)
        if cut:
            client.execute_command("CLIENT KILL TYPE normal SKIPME yes")
            wait_until(lambda: all(node.up for node in source.nodes()) and len(source.locks()) == 4)
        before, end = client.info("stats")["total_commands_processed"], time.monotonic() + SECONDS
        wait_until(lambda: time.monotonic() > end)
        asked = client.info("stats")["total_commands_processed"] - before
        assert asked / SECONDS < 40
    finally:
        source.stop()
        client.close()

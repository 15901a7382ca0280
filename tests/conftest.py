"""Fixtures that every test may use: real servers, clean between tests."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from servers import RedisServer, free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis


# A run that a script starts in the background ignores SIGINT, and so would every process that it starts:
# tests of Ctrl-C need the disposition that a terminal gives.
signal.signal(signal.SIGINT, signal.default_int_handler)


# A busy machine is no finding: what is slow is measured by the benchmarks. In CI every run tries the same
# examples, so that a change is judged by what it changes; runs by hand go on searching.
settings.register_profile(
    "lockscope",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("lockscope")


@pytest.fixture(scope="session")
def shared_server() -> Iterator[RedisServer]:
    """Give one redis-server (unix socket and port) a test worker; tests take ``server``, which is clean."""
    server = RedisServer(port=None)
    yield server
    server.close()


@pytest.fixture
def server(shared_server: RedisServer) -> RedisServer:
    """Give a running redis-server with no keys in it."""
    client = shared_server.client()
    client.flushall()
    client.close()
    return shared_server


@pytest.fixture
def client(server: RedisServer) -> Iterator[redis.Redis]:
    """Give a client of the clean server."""
    client = server.client()
    yield client
    client.close()


@pytest.fixture(scope="session")
def cluster_server() -> Iterator[RedisServer]:
    """Give a cluster of one node that owns every slot; tests empty it themselves."""
    # Without a port of its own the cluster bus takes the port plus 10,000, which may be none.
    server = RedisServer(
        port=None, cluster_enabled="yes", cluster_port=free_port(), cluster_require_full_coverage="no"
    )
    try:
        client = server.client()
        client.execute_command("CLUSTER ADDSLOTSRANGE 0 16383")
        wait_until(lambda: client.execute_command("CLUSTER INFO")["cluster_state"] == "ok")
        client.close()
        yield server
    finally:
        server.close()


@pytest.fixture
def own_server() -> Iterator[RedisServer]:
    """Give a redis-server of the test's own, to restart, pause or configure."""
    server = RedisServer(port=None)
    yield server
    server.close()

"""Redlock groups: copies of a lock on several servers are one lock, held by a majority."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from lockscope_exporter.redis_url import UrlError
from lockscope_exporter.sampling import open_source
from lockscope_exporter.targets import LockPattern, SamplingOptions, Target
from mirroring import mirror
from servers import RedisServer, free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

A, B = "a" * 32, "b" * 32
PATTERNS = (LockPattern(b"lock*"),)


@pytest.fixture(scope="module")
def three() -> Iterator[list[RedisServer]]:
    """Give three independent servers."""
    servers = [RedisServer(port=None) for _ in range(3)]
    yield servers
    for server in servers:
        server.close()


@pytest.fixture
def servers(three) -> list[RedisServer]:
    """Give the three servers, empty and running."""
    for server in three:
        server.client().flushall()
    return three


def group(servers) -> list[Target]:
    """Return the servers as one Redlock group."""
    return [
        Target(server.url, name=f"redis-{number}", quorum_group="redlock", patterns=PATTERNS)
        for number, server in enumerate(servers)
    ]


def counted(source) -> int:
    """Return how many live locks the families count."""
    return sum(sum(family.keys.values()) for family in source.families())


def test_copies_count_once(servers):
    """Three copies are one lock of the group, taken, renewed and released once."""
    clients = [server.client() for server in servers]
    with mirror(targets=group(servers)) as source:
        for client in clients:
            client.set("lock:1", A, px=30_000, nx=True)
        state = wait_until(lambda: (s := source.lock(b"lock:1")) and s.quorum == (3, 3) and s)
        assert (state.target, counted(source)) == ("redlock", 1)
        assert "on 3 of 3 servers" in state.evidence[-1]
        for client in clients:
            client.pexpire("lock:1", 60_000)
        wait_until(lambda: source.lock(b"lock:1").ttl_seconds > 50)
        assert source.lock(b"lock:1").renewals == 1
        for client in clients:
            client.delete("lock:1")
        wait_until(lambda: source.lock(b"lock:1") is None)
        [family] = source.families()
        assert (family.acquired, family.renewed, family.takeover) == (1, 1, 0)
        assert {how: count for how, count in family.ended.items() if count} == {"released": 1}
        assert [node.target for node in source.nodes()] == ["redis-0", "redis-1", "redis-2"]


def test_a_minority_holds_nothing(servers):
    """One copy of three is an attempt or a leftover: no lock, and a warning once it stays."""
    client = servers[0].client()
    with mirror(targets=group(servers)) as source:
        client.set("lock:1", A)
        servers[1].client().set("lock:2", A, px=30_000)
        servers[2].client().set("lock:2", A, px=30_000)
        wait_until(lambda: source.lock(b"lock:2"))
        assert source.lock(b"lock:2").quorum == (2, 3)
        assert source.lock(b"lock:1") is None
        assert counted(source) == 1
        warning = "1 key is on fewer servers than a quorum of 2"
        wait_until(lambda: all(warning in " ".join(node.warnings) for node in source.nodes()), 15)


def test_two_owners_without_a_majority(servers):
    """Copies of different owners do not add up."""
    with mirror(targets=group(servers)) as source:
        servers[0].client().set("lock:1", A, px=30_000)
        servers[1].client().set("lock:1", B, px=30_000)
        servers[2].client().set("lock:2", A, px=30_000)
        servers[1].client().set("lock:2", A, px=30_000)
        wait_until(lambda: source.lock(b"lock:2"))
        assert source.lock(b"lock:1") is None
        servers[2].client().set("lock:1", B, px=30_000)
        wait_until(lambda: source.lock(b"lock:1"))
        assert source.lock(b"lock:1").holder.token == B.encode()


def test_held_until_the_majority_ends(servers):
    """The lock lasts as long as a majority of its copies."""
    with mirror(targets=group(servers)) as source:
        for server, ttl in zip(servers, (500, 60_000, 1_000), strict=True):
            server.client().set("lock:1", A, px=ttl)
        wait_until(lambda: (s := source.lock(b"lock:1")) and s.quorum == (3, 3))
        assert source.lock(b"lock:1").ttl_seconds < 1.1
        wait_until(lambda: (s := source.lock(b"lock:1")) is None or s.quorum == (2, 3))
        wait_until(lambda: source.lock(b"lock:1") is None, 3)
        [family] = source.families()
        wait_until(lambda: source.families()[0].ended["expired"] == 1)
        assert family.acquired == 1


def test_a_dead_member(servers):
    """A server out of reach is said to be down; the lock lives on by the others, and its copy comes back."""
    clients = [server.client() for server in servers]
    with mirror(targets=group(servers)) as source:
        for client in clients:
            client.set("lock:1", A, px=60_000)
        wait_until(lambda: (s := source.lock(b"lock:1")) and s.quorum == (3, 3))
        servers[2].stop(signal.SIGKILL)
        wait_until(lambda: [node.up for node in source.nodes()] == [True, True, False])
        assert counted(source) == 1
        aside = "1 of them is out of reach and counted as last seen"
        wait_until(lambda: aside in source.lock(b"lock:1").evidence[-1])
        servers[2].start()
        wait_until(lambda: source.lock(b"lock:1").quorum == (2, 3))
        assert source.lock(b"lock:1").evidence[-1] == "on 2 of 3 servers, 2 make a quorum"
        assert counted(source) == 1
        assert source.families()[0].ended["released"] == 0


def test_a_group_needs_independent_servers():
    """A cluster or Sentinel URL in a Redlock group is refused."""
    targets = [Target(f"cluster://127.0.0.1:{free_port()}", quorum_group="redlock")]
    with pytest.raises(UrlError, match="independent"):
        open_source(targets, SamplingOptions())

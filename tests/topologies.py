"""Groups of real servers: a master with its replica and a Sentinel, a cluster whose slots can be moved."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import redis
from redis.crc import key_slot

from servers import Process, RedisServer, free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


class SentinelGroup:
    """A master, a replica of it, and one Sentinel that fails over after half a second."""

    def __init__(self) -> None:
        self.servers = [RedisServer(port=None), RedisServer(port=None)]
        master, replica = self.servers
        replica.client().replicaof("127.0.0.1", master.port)
        self.port = free_port()
        configuration = master.dir / "sentinel.conf"
        configuration.write_text(
            f"port {self.port}\nbind 127.0.0.1\nsentinel monitor orders 127.0.0.1 {master.port} 1\n"
            "sentinel down-after-milliseconds orders 500\nsentinel failover-timeout orders 3000\n"
        )
        self.sentinel = Process(
            ["redis-server", str(configuration), "--sentinel"], master.dir / "sentinel.log"
        )
        wait_until(lambda: replica.client().info()["master_link_status"] == "up", what="replica in sync")
        wait_until(self._knows_replica, what="sentinel knows the replica")

    @property
    def url(self) -> str:
        """URL of the group."""
        return f"sentinel://127.0.0.1:{self.port}/orders/0"

    def close(self) -> None:
        """Stop everything."""
        self.sentinel.stop()
        for server in self.servers:
            server.close()

    def _knows_replica(self) -> bool:
        client = redis.Redis(port=self.port)
        with contextlib.suppress(redis.RedisError):
            return client.sentinel_master("orders")["num-slaves"] >= 1
        return False


class Cluster:
    """Primaries without replicas that share the slots evenly."""

    def __init__(self, size: int = 2) -> None:
        self.servers = [
            RedisServer(
                port=free_port(), cluster_enabled="yes", cluster_node_timeout="2000", cluster_port=free_port()
            )
            for _ in range(size)
        ]
        self.ids = [server.client().cluster("myid").decode() for server in self.servers]
        bounds = [16384 * index // size for index in range(size + 1)]
        first = self.servers[0].client()
        for index, server in enumerate(self.servers):
            server.client().cluster("addslotsrange", bounds[index], bounds[index + 1] - 1)
            bus = server.options["cluster_port"]
            first.execute_command("CLUSTER", "MEET", "127.0.0.1", server.port, bus)
        wait_until(self._whole, 20, what="cluster is whole")

    @property
    def url(self) -> str:
        """URL of the cluster, by one seed."""
        return f"cluster://127.0.0.1:{self.servers[0].port}"

    def owner(self, slot: int) -> int:
        """Return the index of the server that owns a slot, by its own word."""
        for index, server in enumerate(self.servers):
            for first, last, node, *_ in server.client(protocol=2).execute_command(
                "CLUSTER SLOTS", NEVER_DECODE=True
            ):
                if first <= slot <= last and node[2].decode() == self.ids[index]:
                    return index
        raise AssertionError(f"nobody owns slot {slot}")

    def begin_move(self, slot: int, target: int) -> None:
        """Open a slot for migration."""
        source = self.owner(slot)
        self.servers[target].client().cluster("setslot", slot, "importing", self.ids[source])
        self.servers[source].client().cluster("setslot", slot, "migrating", self.ids[target])

    def move_keys(self, slot: int, target: int, count: int = 1000) -> None:
        """Move the keys of an open slot."""
        source = self.servers[self.owner(slot)].client()
        keys = source.execute_command("CLUSTER GETKEYSINSLOT", slot, count)
        for key in keys:
            source.migrate("127.0.0.1", self.servers[target].port, key, 0, 2000)

    def end_move(self, slot: int, target: int) -> None:
        """Give a slot to its new owner for good."""
        for server in (self.servers[target], *self.servers):
            server.client().cluster("setslot", slot, "node", self.ids[target])

    def move(self, slot: int, target: int) -> None:
        """Move a slot with its keys."""
        self.begin_move(slot, target)
        self.move_keys(slot, target)
        self.end_move(slot, target)

    def close(self) -> None:
        """Stop everything."""
        for server in self.servers:
            server.close()

    def _whole(self) -> bool:
        for server in self.servers:
            info = server.client().cluster("info")
            if info["cluster_state"] != "ok" or int(info["cluster_size"]) != len(self.servers):
                return False
        return True


def slot_of(key: str | bytes) -> int:
    """Return the slot of a key."""
    return key_slot(key.encode() if isinstance(key, str) else key)


@contextlib.contextmanager
def sentinel_group() -> Iterator[SentinelGroup]:
    """Give a Sentinel group."""
    group = SentinelGroup()
    try:
        yield group
    finally:
        group.close()


@contextlib.contextmanager
def cluster(size: int = 2) -> Iterator[Cluster]:
    """Give a cluster."""
    group = Cluster(size)
    try:
        yield group
    finally:
        group.close()

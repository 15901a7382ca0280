"""Reading once, in whatever state the servers are: what can be read is shown, and what cannot is said."""

from __future__ import annotations

import json
import signal
import subprocess
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from commands import SCRIPT, Exporter
from lockscope_exporter.sampling import open_source
from lockscope_exporter.targets import SamplingOptions, Target
from servers import RedisServer
from topologies import cluster, slot_of

if TYPE_CHECKING:
    from collections.abc import Iterator

FILL = "for number = 1, tonumber(ARGV[1]) do redis.call('set', 'x:' .. number, 'value') end"
ONCE = SamplingOptions(mode="scan", interval=3600, once=True)


def ls(*arguments: str) -> tuple[int, set[str], str]:
    """Run ``lockscope ls``; return its exit status, the keys listed, and what it complained about."""
    done = subprocess.run(
        [SCRIPT, "ls", "--json", *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, {lock["key"] for lock in json.loads(done.stdout or "[]")}, done.stderr


def targets_file(folder, **urls: str) -> str:
    """Write a file of targets; return its path."""
    path = folder / "targets.yaml"
    path.write_text(
        "targets:\n" + "".join(f"  - {{name: {name}, url: '{url}'}}\n" for name, url in urls.items())
    )
    return str(path)


@contextmanager
def loading() -> Iterator[RedisServer]:
    """Give a server that has a lock and takes half a minute to load its keys after a restart."""
    server = RedisServer(port=None)
    try:
        with server.client() as client:
            client.eval(FILL, 0, 25_000)
            client.set("lock:late", uuid.uuid4().hex, px=600_000)
            client.save()
        server.stop()
        slowly = {"key_load_delay": 1200, "loading_process_events_interval_bytes": 1024}
        server.options.update(slowly)
        server.start(loaded=False)
        yield server
    finally:
        server.stop(signal.SIGKILL)
        server.close()


@pytest.mark.parametrize("feed", ["scan", "tracking"])
def test_a_server_that_loads_its_data_is_not_up(feed):
    """It answers INFO, but nobody knows its locks: the exporter says so, and is ready to be scraped."""
    with loading() as server, Exporter(server.url, "--feed", feed, "--interval", "100ms") as exporter:
        exporter.wait_ready()
        for _ in range(6):  # it is tried again and again meanwhile
            assert exporter.value("redis_lock_up") == 0
            told = exporter.get("/api/v1/locks").json()
            assert told["complete"] is False
        assert "loading its data" in told["nodes"][0]["error"]


def test_a_server_that_loads_its_data_does_not_hide_the_others(server, client, tmp_path):
    """The locks of the others are listed at once; of this one is said what is wrong."""
    client.set("lock:order:1", uuid.uuid4().hex, px=600_000)
    with loading() as late:
        status, keys, complaint = ls("--targets", targets_file(tmp_path, ok=server.url, late=late.url))
        assert (status, keys) == (2, {"lock:order:1"})
        assert "incomplete, late" in complaint
        assert "loading its data" in complaint


def test_what_takes_too_long_hides_nothing(server, client, own_server, tmp_path):
    """A keyspace that cannot be walked in time is named; the locks found until then are listed."""
    client.set("lock:order:1", uuid.uuid4().hex, px=600_000)
    with own_server.client() as other:
        other.eval(FILL, 0, 50_000)
    path = targets_file(tmp_path, ok=server.url, large=own_server.url)
    status, keys, complaint = ls("--targets", path, "--scan-budget", "1000", "--wait", "2s")
    assert (status, keys) == (2, {"lock:order:1"})
    assert complaint.startswith("lockscope ls: incomplete, large ")
    assert "not every key was visited within 2.0s; allow more with --wait" in complaint
    assert complaint.count("incomplete") == 1


def test_locks_in_an_open_slot_of_a_cluster_are_found_wherever_they_are():
    """While a slot moves its keys are on two nodes, each of which sends readers to the other."""
    with cluster(3) as nodes:
        slot = slot_of("lock:{x}")
        source = nodes.owner(slot)
        target = (source - 1) % 3
        with nodes.servers[source].client() as client:
            for number in range(4):
                client.set(f"lock:{{x}}:{number}", uuid.uuid4().hex, px=600_000)
        nodes.begin_move(slot, target)
        nodes.move_keys(slot, target, count=2)
        for _ in range(25):
            reading = open_source([Target(nodes.url)], ONCE)
            reading.start()
            try:
                assert reading.wait_ready(20)
                assert len(reading.locks()) == 4
            finally:
                reading.stop()

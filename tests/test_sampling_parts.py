"""The small pure parts of sampling: order, clock, watch lists, counts of evictions, answers, layouts."""

from __future__ import annotations

import json
import random

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from lockscope.globs import matches
from lockscope_exporter.sampling import facts
from lockscope_exporter.sampling.answers import Abilities, forbidden, moved, refused
from lockscope_exporter.sampling.clock import ServerClock
from lockscope_exporter.sampling.composite import shaped
from lockscope_exporter.sampling.counts import bucket_of, leaves_bucket
from lockscope_exporter.sampling.evictions import Evictions
from lockscope_exporter.sampling.expectations import Expectations
from lockscope_exporter.sampling.feeds.notifications import missing_classes
from lockscope_exporter.sampling.layout import Layout, parse_slots
from lockscope_exporter.sampling.ordered import Ordered
from lockscope_exporter.sampling.watch import Watch, covering_glob, tracked_prefixes
from lockscope_exporter.sampling.wire import pack
from lockscope_exporter.targets import LockPattern

GLOBS = st.lists(
    st.lists(
        st.sampled_from([b"l", b"o", b"]", b"^", b"-", b"\\*", b"\\\\", b"*", b"?", b"[ab]", b"\xff"]),
        max_size=6,
    ).map(b"".join),
    min_size=1,
    max_size=4,
)


class Item:
    """Something that moves and leaves."""

    def __init__(self, position: float | None) -> None:
        self.position = position


@given(st.lists(st.tuples(st.integers(0, 30), st.one_of(st.none(), st.integers(0, 100))), max_size=200))
def test_ordered_agrees_with_a_plain_minimum(steps):
    """Whatever moves or leaves, the first item is the one with the smallest position."""
    items = [Item(None) for _ in range(31)]
    heap: Ordered[Item] = Ordered(lambda item: item.position)
    for index, position in steps:
        items[index].position = position
        heap.add(items[index])
        first = heap.first()
        live = [item.position for item in items if item.position is not None]
        assert (first.position if first else None) == min(live, default=None)


def test_ordered_memory_follows_the_items_alive():
    """Items that keep moving leave no trail of stale entries behind."""
    items = [Item(0.0) for _ in range(10)]
    heap: Ordered[Item] = Ordered(lambda item: item.position)
    for step in range(5000):
        item = items[step % 10]
        item.position = float(step)
        heap.add(item)
    assert len(heap) < 200


def test_ordered_due_yields_each_item_once():
    """Items that are due come out once, in order, and not again."""
    items = [Item(float(number)) for number in (3, 1, 2, 9)]
    heap: Ordered[Item] = Ordered(lambda item: item.position)
    for item in (*items, *items):
        heap.add(item)
    out = []
    for item in heap.due(3.0):
        out.append(item.position)
        item.position = None
    assert out == [1.0, 2.0, 3.0]
    assert heap.first() is items[3]


def test_clock_trusts_the_shortest_round_trip():
    """A slow answer does not spoil what a fast one told; a jump of the server's clock is believed."""
    clock = ServerClock()
    clock.observe(1000.0, 10.0, 10.002)
    assert clock.offset == pytest.approx(989.999, abs=0.0011)
    clock.observe(1001.0, 10.5, 11.5)
    assert clock.round_trip == pytest.approx(0.002)
    clock.observe(5000.0, 12.0, 12.5)
    assert clock.offset == pytest.approx(4987.75)


def test_clock_forgets_after_a_minute():
    """Drift is followed: a better sample counts for a minute only."""
    clock = ServerClock()
    clock.observe(1000.0, 10.0, 10.001)
    clock.observe(1075.01, 85.0, 85.02)
    assert clock.round_trip == pytest.approx(0.02)


@settings(max_examples=300)
@given(GLOBS, st.data())
def test_covering_glob_covers(globs, data):
    """Every key that any of the globs matches is matched by the one that covers them."""
    cover = covering_glob(globs)
    chosen = data.draw(st.sampled_from(globs))
    key = _key_of(chosen, data.draw(st.binary(max_size=3)))
    if matches(chosen, key):
        assert cover is None or matches(cover, key)


def test_covering_glob_on_a_real_server(client):
    """The server understands the covering glob as it is meant: special bytes are taken literally."""
    wanted = [b"lock:1", b"l]ck:2", b"l^ck:3", b"l-ck:4", b"l\\ck:5", b"l*ck:6"]
    for key in (*wanted, b"foreign:1", b"lxck:9"):
        client.set(key, "x")
    globs = [b"lock:*", b"l]ck:*", b"l^ck:*", b"l-ck:*", b"l\\\\ck:*", b"l\\*ck:*"]
    cover = covering_glob(globs)
    assert cover is not None
    assert set(client.scan_iter(match=cover)) == set(wanted)


def test_tracked_prefixes_do_not_overlap():
    """Prefixes that another covers are left out; a leading wildcard has none."""
    globs = (b"lock:*", b"lock*", b"bull:*:lock", b"*:guard", b"[ab]c")
    assert tracked_prefixes(globs) == ((b"bull:", b"lock"), (b"*:guard", b"[ab]c"))


def test_watch_takes_the_first_pattern_that_matches():
    """The user's patterns decide in order, companions and our own keys are never locks."""
    watch = Watch((LockPattern(b"lock:a*", "redis-py"), LockPattern(b"lock*"), LockPattern(b"lockscope:*")))
    assert watch.lock(b"lock:abc") == (True, "redis-py")
    assert watch.lock(b"lock:x") == (True, None)
    assert watch.lock(b"lock-signal:x") == (False, None)
    assert watch.lock(b"lockscope:journal") == (False, None)
    assert watch.lock(b"other") == (False, None)


@given(st.floats(0.001, 200_000), st.floats(0, 1e6))
def test_buckets_are_left_when_time_says(remaining, now):
    """A lock is in a lower bucket just after the time that was told, and in the same just before."""
    deadline = now + remaining
    slot = bucket_of(deadline - now)
    leaves = leaves_bucket(deadline, slot)
    assert leaves >= now - 1e-6
    assert bucket_of(deadline - (leaves + 1e-6)) < slot or (slot == 0 and leaves == deadline)


def test_evictions_are_shared_out_by_number():
    """A cache that evicts all day long explains no release; locks evicted among equals are explained."""
    busy = Evictions(0)
    assert (
        sum(busy.explain(1, 100, evicted, 1_000_000, "allkeys-lru") for evicted in range(0, 10_000, 100)) <= 1
    )
    full = Evictions(0)
    assert full.explain(9, 100, 900, 10_000, "allkeys-random") == 8
    first = Evictions(0)
    assert first.explain(3, 10, 5, 100_000, "volatile-ttl") == 3
    assert first.explain(3, 7, 5, 100_000, "volatile-ttl") == 2
    assert first.explain(3, 7, 5, 100_000, "volatile-ttl") == 0


def test_evictions_of_before_are_forgotten():
    """What was evicted while no lock was gone explains nothing later; a restart counts from 0."""
    evictions = Evictions(0)
    evictions.forget(5000)
    assert evictions.explain(5, 10, 5000, 10, "allkeys-random") == 0
    assert evictions.explain(5, 10, 3, 10, "allkeys-random") == 0


@pytest.mark.parametrize(
    ("setting", "lacks"),
    [("KA", 0), ("EA", 0), ("Kg$shzxe", 0), ("A", 1), ("", 8), ("Ex", 6), ("K$", 6)],
)
def test_notification_classes(setting, lacks):
    """A setting is good enough only if it tells of every change to every type of lock."""
    assert len(missing_classes(setting)) == lacks


def test_facts_say_what_endangers_locks():
    """Eviction, lack of persistence, replication lag, a replica and a wrong clock are all told."""
    info = facts.parse_info(
        "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\nrole:master\r\nmaxmemory:100\r\n"
        "maxmemory_policy:allkeys-lru\r\nevicted_keys:7\r\naof_enabled:0\r\nmaster_repl_offset:9000000\r\n"
        "slave0:ip=127.0.0.1,port=1,state=online,offset=5000000,lag=9\r\n"
    )
    found = facts.server_facts(info, -3.0)
    assert (found.version, found.replicas, found.replica_behind_bytes, found.replica_lag_seconds) == (
        "7.0.15",
        1,
        4_000_000,
        9,
    )
    assert facts.eviction_safe(found) is False
    text = " ".join(facts.warnings(found))
    assert "allkeys-lru" in text
    assert "9 s behind" in text
    assert "3.0 s behind this host" in text
    replica = facts.server_facts({"role": "slave"}, 0.0)
    assert facts.eviction_safe(replica) is None
    assert "replica" in facts.warnings(replica)[0]


def test_no_limit_means_no_eviction():
    """An evicting policy without maxmemory never evicts."""
    found = facts.server_facts({"maxmemory": "0", "maxmemory_policy": "allkeys-lru"}, 0.0)
    assert facts.eviction_safe(found) is True


def test_answers_are_told_apart():
    """Moved, forbidden keys, forbidden commands and unknown commands are different things."""
    assert moved(redis.exceptions.MovedError("3999 127.0.0.1:6381")) == ("127.0.0.1", 6381)
    assert moved(redis.exceptions.AskError("3999 :6381")) == ("", 6381)
    assert moved(b"value") is None
    key = redis.exceptions.NoPermissionError("No permissions to access a key")
    command = redis.exceptions.NoPermissionError("User x has no permissions to run the 'eval' command")
    assert forbidden(key)
    assert not forbidden(command)
    assert refused(command)
    assert not refused(key)
    assert refused(redis.ResponseError("unknown command 'EVAL_RO'"))


def test_relative_deadlines_may_differ_a_little():
    """Two looks by PTTL agree within the way there, two by PEXPIRETIME exactly."""
    assert Abilities(pexpiretime=False).same(10.0, 10.01)
    assert not Abilities().same(10.0, 10.001)
    assert not Abilities(pexpiretime=False).same(10.0, None)


def test_replies_of_both_protocols_take_one_shape():
    """RESP2 and RESP3 replies of sorted sets read the same."""
    assert shaped("ZRANGE", [b"a", b"1.5"]) == shaped("ZRANGE", [[b"a", 1.5]]) == ((b"a", 1.5),)
    assert shaped("HSCAN", [b"f", b"v"]) == {b"f": b"v"}
    assert shaped("SSCAN", [b"m"]) == frozenset({b"m"})


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=5))
def test_packed_commands_are_what_redis_py_packs(parts):
    """The hand-made packer writes the same bytes as redis-py's."""
    theirs = redis.connection.PythonRespSerializer(65536, lambda part: part).pack(b"MGET", *parts)
    assert pack(b"MGET", *parts) == b"".join(theirs)


def test_layout_of_a_cluster():
    """Slots are looked up by range; an empty host is the one that was asked."""
    layout = parse_slots(
        [[0, 5460, [b"", 7000, b"id"]], [5461, 16383, [b"10.0.0.2", 7001, b"id"]]], "10.0.0.1"
    )
    assert layout.addresses == (("10.0.0.1", 7000), ("10.0.0.2", 7001))
    assert layout.owner(b"foo") == "10.0.0.2:7001"  # slot 12182
    assert layout.owner(b"{bar}x") == "10.0.0.1:7000"  # slot 5061
    assert Layout((), ((0, 1, ("h", 1)),)).owner(b"foo") is None


def test_learned_holds_survive_a_restart(tmp_path):
    """What was learned is written whole and read back; the configured threshold wins over it."""
    path = tmp_path / "state.json"
    first = Expectations({"lock:slow:*": 600.0}, str(path))
    for number in range(50):
        first.learn("lock:order:*", 1.0 + number / 100, 1000.0 + number)
    first.save(1100.0)
    second = Expectations({"lock:slow:*": 600.0}, str(path))
    second.load(1100.0)
    learned = second.of("lock:order:*", 1100.0)
    assert learned is not None
    assert (learned.source, round(learned.holds, -1)) == ("learned", 50)
    assert 1.4 < learned.seconds < 1.8
    configured = second.of("lock:slow:*", 1100.0)
    assert configured is not None
    assert (configured.seconds, configured.source) == (600.0, "configured")
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", json.dumps({"version": 99, "holds": {}}), "\x00\xff" * 100])
def test_a_broken_state_file_is_set_aside(tmp_path, caplog, text):
    """A state file that cannot be read is kept under another name and said, sampling goes on."""
    path = tmp_path / "state.json"
    path.write_text(text, encoding="latin-1")
    expectations = Expectations({}, str(path))
    expectations.load(1000.0)
    assert not path.exists()
    assert (tmp_path / "state.json.unreadable").exists()
    assert "cannot be read" in caplog.text
    expectations.save(1000.0)
    Expectations({}, str(path)).load(1000.0)
    assert path.exists()


def test_a_state_file_that_cannot_be_written_is_said_once(tmp_path, caplog):
    """A missing folder is logged once, not at every attempt."""
    expectations = Expectations({}, str(tmp_path / "missing" / "state.json"))
    expectations.save(1000.0)
    expectations.save(1001.0)
    assert caplog.text.count("cannot be written") == 1


def _key_of(glob: bytes, filling: bytes) -> bytes:
    """Return a key that may match a glob."""
    chance = random.Random(filling)
    key = b""
    index = 0
    while index < len(glob):
        char = glob[index : index + 1]
        if char == b"\\":
            key += glob[index + 1 : index + 2]
            index += 1
        elif char == b"*":
            key += filling
        elif char == b"?":
            key += b"q"
        elif char == b"[":
            key += chance.choice((b"a", b"b"))
            index += 3
        else:
            key += char
        index += 1
    return key

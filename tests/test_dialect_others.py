"""Libraries beyond the recorded ones: what their published code writes, seen by a mirror of a real server."""

from __future__ import annotations

import json
import struct
import time
import uuid

import pytest

from lockscope.globs import compile_glob
from lockscope_exporter.dialects import DEFAULT_PATTERNS, Reading, decode
from lockscope_exporter.dialects.values import scalar
from lockscope_exporter.targets import LockPattern, Target
from mirroring import mirror

NOW = time.time()
MS = int(NOW * 1000)
UUID4 = "8e12d004-d8b0-43c7-9a99-5136d61c70a7"
HEX4 = uuid.UUID(UUID4).hex
BINARY = bytes(range(0xD0, 0xD0 + 24))
JAVA = b"\xac\xed\x00\x05t\x00$" + UUID4.encode()
PAIR = b"\x92\xcb" + struct.pack(">d", NOW) + b"\xb8aB3/x9+ZkQ1mN0pQrStUvg=="

# Key, value, whether it expires, and the dialect it is shown as; None is no lock.
LEFT = [
    ("mutex:report", UUID4, True, "redis-semaphore(npm)"),
    ("mutex:report:2", f"{UUID4}-worker-1", True, "redis-semaphore(npm)"),
    ("semaphore:pool", {f"{UUID4}_0": MS - 900, f"{UUID4}_1": MS - 900}, True, "redis-semaphore(npm)"),
    ("lock:owner:report", "web-1:4242", False, "redis-lock(rb)"),
    ("lock:expire:report", str(int(NOW) + 60), False, None),
    ("suo:two", b"\x92" + PAIR + PAIR.replace(b"aB3", b"cD4"), False, "suo"),
    ("suo:free", b"\x90", True, None),
    ("uniquejobs:9e9b:GRABBED", {"bd1e62ecb9b9ea4b4b0f5e3f": str(NOW)}, False, "sidekiq-unique-jobs"),
    ("uniquejobs:9e9b:EXISTS", "bd1e62ecb9b9ea4b4b0f5e3f", False, None),
    ("uniquejobs:9e9b:VERSION", "1", False, None),
    ("dear-leader", "web-1:4121:7f3a9c2b1d0e", True, "generic"),
    ("my-lock", f"{UUID4}:{MS + 3_600_000}", False, "jedis-lock"),
    ("my-other-lock", f"{UUID4}:{MS - 60_000}", False, None),
    ("SEATA_ROW_LOCK_jdbc:mysql://db^^^t^^^1", {"xid": "10.0.0.1:8091:2", "rowKey": "t^^^1"}, False, "seata"),
    ("SEATA_GLOBAL_LOCK_10.0.0.1:8091:2", {"28": "SEATA_ROW_LOCK_1"}, False, None),
    ("rueidislock:0:report", BINARY, True, "rueidislock"),
    ("rq:scheduler_lock", repr(NOW), True, "rq-scheduler"),
    ("rq:scheduler", {"birth": str(NOW)}, True, None),
    ("gitlab:exclusive_lease:housekeeping:1", UUID4, True, "gitlab"),
    ("rslock", BINARY[:20], True, "generic"),
    ("resource", BINARY[:20], True, "generic"),
    ("lock", UUID4, True, "generic"),
    ("lock4j:Service#call", HEX4, True, "generic"),
    ("lockOrder:7", UUID4, True, "generic"),
    ("lock:jackson", json.dumps(UUID4), True, "generic"),
    ("lock:jdk", JAVA, True, "generic"),
    ("lock:php", f's:36:"{UUID4}";', True, "generic"),
    ("lock:php:flag", "b:1;", True, "generic"),
    ("lock:php:free", "b:0;", True, None),
    ("9f86lockfiles/0cc1", '"exclusive"', True, "generic"),
    ("lock:title", '"How to lock a door"', True, None),
    ("order:7", json.dumps(UUID4), True, None),
    ("{/_qk1bcd}_Write_Lock", "639000000000000000", True, "generic"),
    ("{/_qk1bcd}_Data", {"a": "b"}, True, None),
    ("app:lock:report", str(int(NOW) + 60), True, "generic"),
    ("lock:ratelimit:1.2.3.4", "17", True, None),
    ("lock:attempts:user:7", "1", True, None),
    ("lock:fencing:order", "17", False, None),
    ("lock:version", "42", False, None),
    ("lockscreen:theme", "dark", True, None),
    ("locker:7", "open", True, None),
    ("user:7:locks", {"lock:a", "lock:b"}, False, None),
    ("locks:index", {"a", "b"}, False, None),
    ("lock:ratelimit:user:7", {UUID4: MS - 900}, True, None),
    ("lock:waiting:orders", {UUID4: MS + 900_000}, True, None),
    ("lock:queue:orders", {UUID4: "1"}, True, None),
    ("lock:queue:default", {f"{UUID4}:47": "1"}, True, "redisson-rlock"),
    ("lock:session:abc", '{"user_id": 7, "csrf": "x"}', True, None),
    ("lock:import", '{"lockedBy": "ann"}', True, "generic"),
    ("lock:import:2", '{"expiresAt": 1796000000}', True, "generic"),
    ("app:uniquejobs:9e9b:LOCKED", {"bd1e62ecb9b9ea4b4b0f5e3f": str(NOW)}, False, "sidekiq-unique-jobs"),
    ("app:resque:lock:Import-[42]", "true", False, "resque-lock"),
    ("locks:total", "17", False, None),
    ("account_locked:7", "1", True, None),
    ("login:locked:user:7", "1", True, None),
    ("shop:locks", {"order:1": UUID4}, False, "generic"),
    ("shop:leases", {f"{UUID4}:47": "1"}, True, "redisson-rlock"),
    ("guard:7", '{"lockId": "f3f8", "expiresAtMs": 1796000000000}', True, "generic"),
    ("sem:pool:holders", {"a-1", "b-2"}, True, "generic"),
    ("oauth:state:7", HEX4, True, None),
    ("session:7", HEX4[:24], True, None),
    ("session:8", "alice", True, None),
    ("csrf:7", "aB3dE6gH1jK2mN5pQ", True, None),
    ("cache:page:7", HEX4, True, None),
    ("unlock:code:7", UUID4, True, None),
    ("session:lock:7", HEX4, True, "generic"),
]


def put(client, key, value, expires):
    """Write a string, hash, sorted set or set."""
    if isinstance(value, set):
        client.sadd(key, *value)
    elif isinstance(value, dict) and all(isinstance(score, int) for score in value.values()):
        client.zadd(key, value)
    elif isinstance(value, dict):
        client.hset(key, mapping=value)
    else:
        client.set(key, value)
    if expires:
        client.pexpire(key, 300_000)


def test_every_librarys_locks_are_seen_and_nothing_beside_them(server, client):
    """Whatever is watched, each key is shown as the right dialect or not at all, and causes no error."""
    for key, value, expires, _ in LEFT:
        put(client, key, value, expires)
    client.config_resetstat()
    with mirror(targets=[Target(server.url, patterns=(LockPattern(b"*"),))]) as source:
        seen = {lock.key.decode(): lock for lock in source.locks()}
    expected = {key: dialect for key, _, _, dialect in LEFT if dialect is not None}
    assert {key: lock.dialect for key, lock in seen.items()} == expected
    assert "errorstat_WRONGTYPE" not in client.info("errorstats")

    without = {"lock:owner:report", "suo:two", "my-lock", "app:resque:lock:Import-[42]", "shop:locks"}
    without |= {key for key in seen if "uniquejobs" in key or key.startswith("SEATA")}
    assert {key for key in seen if seen[key].state == "no_ttl"} == set()
    assert {key for key, _, expires, dialect in LEFT if dialect and not expires} == without
    assert len(seen["suo:two"].holders) == len(seen["semaphore:pool"].holders) == 2
    assert seen["semaphore:pool"].holders[0].started_at == pytest.approx(NOW - 0.9, abs=0.01)
    lock = seen["my-lock"]
    assert lock.sampled_at + lock.ttl_seconds == pytest.approx(NOW + 3600, abs=0.1)
    leader = seen["dear-leader"].holders[0]
    assert (leader.host, leader.pid, leader.job_id) == ("web-1", 4121, None)
    assert not seen["lock:jackson"].weak_owner
    assert seen["lock:php:flag"].weak_owner


@pytest.mark.parametrize("key", [b"lock", b"lock4j:x", b"lockOrder:7", b"uniquejobs:9e9b:GRABBED"])
def test_these_names_are_watched_unasked(key):
    """They begin like what is watched anyway, so they cost the server nothing more."""
    assert any(compile_glob(pattern.glob).fullmatch(key) for pattern in DEFAULT_PATTERNS)


def test_each_field_of_a_hash_called_locks_is_a_lock():
    """Its value is the owner's token; if one is none, the hash is something else."""
    fields = {b"order:1": UUID4.encode(), b"order:2": b"web-1:4242"}
    one, two = decode(Reading(b"shop:locks", "hash", fields, None, NOW))
    assert (one.field, one.owner_identity) == (b"order:1", UUID4.encode())
    assert (two.field, two.holders[0].host, two.holders[0].pid) == (b"order:2", "web-1", 4242)
    assert decode(Reading(b"shop:locks", "hash", {**fields, b"size": b"2"}, None, NOW)) == ()
    assert decode(Reading(b"shop:lock:orders", "hash", {b"order:1": UUID4.encode()}, None, NOW)) == ()


def test_a_lock_that_is_renewed_in_its_value_keeps_its_owner():
    """The time in a value moves on at each renewal; the token before it does not."""
    one, two = (
        decode(Reading(b"x", "string", b"%b:%d" % (UUID4.encode(), MS + later), None, NOW))[0]
        for later in (30_000, 60_000)
    )
    assert one.owner_identity == two.owner_identity == UUID4.encode()
    assert one.deadline + 30 == pytest.approx(two.deadline)


@pytest.mark.parametrize(
    ("value", "inner"),
    [
        (b'"a b"', b"a b"),
        (b'"a', None),
        (b'""', b""),
        (b's:1:"a";', b"a"),
        (b"i:-7;", b"-7"),
        (b"b:1;", b"1"),
        (b"a:0:{}", None),
        (JAVA, UUID4.encode()),
        (JAVA[:-1], None),
        (b"plain", None),
        (b"", None),
    ],
)
def test_what_a_serialiser_wrapped_is_unwrapped(value, inner):
    """Text and numbers only, and only if nothing is missing."""
    assert scalar(value) == inner

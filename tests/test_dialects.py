"""Lock formats: what real libraries left in Redis, replayed into a real server and read back."""

from __future__ import annotations

import base64
import json
import re
import time
from pathlib import Path

import pytest
import redis

from lockscope import tokens
from lockscope.jobs import Job
from lockscope_exporter.dialects import DIALECTS, Reading, decode, plan, recognise, wants

NOW = 1_796_000_000.0


ROOT = Path(__file__).parents[1]


RECORDS = [
    (f"{source}{number}-{record['dialect']}", record)
    for source in ("observed", "replayed")
    for number, record in enumerate(json.loads((ROOT / f"tests/data/dialects-{source}.json").read_text()))
]


# Records whose bytes tell no library from others: recognition says so, only the user can know.
SAME_BYTES = {
    "aioredlock": "generic",
    "redlock-ng": "generic",
    "redlock-rb": "generic",
    "aiocache": "generic",
    "spring-integration": "generic",
    "stackexchange.redis": "generic",
    "dramatiq": "generic",
    "redisson-fairlock": "redisson-rlock",
    "redisson-fencedlock": "redisson-rlock",
}


CALLERS_OWN = {"host-a:4242:job-9", "web1:77"}  # tokens that the caller chose: any library's


NO_EXPIRY_IS_NORMAL = {"celery-singleton", "huey", "sidekiq-unique-jobs"}


# What the record's owner says beyond the token itself: host, pid, job id.
OWNERS = {
    "host-a:4242:job-9": ("host-a", 4242, "job-9"),
    "web1:77": ("web1", 77, None),
    "0142246e-beac-4a84-9334-5186d88fe30c": (None, None, "0142246e-beac-4a84-9334-5186d88fe30c"),
    "job-42": (None, None, "job-42"),
    "b3421bbd-1c63-420a-be09-af7267b8228b:0": (None, None, "j-42"),
    "job 1": (None, None, "1"),
    "b8d36283a81e1853c2344528": (None, None, "b8d36283a81e1853c2344528"),
    "a948398bc054c601da584aec": (None, None, "a948398bc054c601da584aec"),
    "host=web-1 pid=42": ("web-1", 42, None),
    "host=web-1": ("web-1", None, None),
    "WEB01 pid 4242": ("WEB01", 4242, None),
}


def raw(text):
    """Return the bytes that a record writes as text."""
    return base64.b64decode(text[7:]) if text.startswith("base64:") else text.encode()


def put(client, item):
    """Write one key of a record."""
    key, value = item["key"].encode(), item["value"]
    if item["type"] == "string":
        client.set(key, raw(value))
    elif item["type"] == "hash":
        client.hset(key, mapping={raw(field): raw(content) for field, content in value})
    elif item["type"] == "zset":
        client.zadd(key, {raw(member): float(score) for member, score in value})
    elif item["type"] == "set":
        client.sadd(key, *map(raw, value))
    elif item["type"] == "list":
        client.rpush(key, *map(raw, value))
    else:
        client.xadd(key, {"a": "b"})
    if item["pttl"] >= 0:
        client.pexpire(key, item["pttl"] + 60_000)
    return key


def command(client, *words):
    """Send one command as it is and return the bare RESP2 reply."""
    connection = client.connection_pool.get_connection()
    try:
        connection.send_command(*words)
        return connection.read_response()
    finally:
        client.connection_pool.release(connection)


def read(client, key, forced=None):
    """Read a key by the plan for its type, ``None`` if it is never to be read."""
    kind = client.type(key).decode()
    how = plan(key, kind, forced)
    if how is None:
        return None
    reply = command(client, how.command, key, *how.args)
    if how.command in ("HSCAN", "SSCAN"):
        cursor, parts = reply
        while cursor != b"0" and len(parts) < how.limit:
            cursor, more = command(client, how.command, key, cursor, *how.args[1:])
            parts += more
        value = (
            frozenset(parts) if how.command == "SSCAN" else dict(zip(parts[::2], parts[1::2], strict=True))
        )
    elif how.command == "ZRANGE":
        value = tuple((member, float(score)) for member, score in zip(reply[::2], reply[1::2], strict=True))
    else:
        value = reply
    left = client.pttl(key)
    return Reading(key, kind, value, None if left < 0 else time.time() + left / 1000, None)


def found(client, keys, forced=None):
    """Return the locks among these keys, by key, read as the mirror would."""
    locks = {}
    for key in keys:
        reading = read(client, key, forced) if wants(key, forced) else None
        decoded = decode(reading, forced) if reading is not None else ()
        if decoded:
            locks[key] = decoded
    return locks


@pytest.fixture
def resp2(server):
    """Give a client whose bare replies are those of RESP2."""
    client = server.client(protocol=2)
    yield client
    client.close()


@pytest.mark.parametrize("forced", [False, True], ids=["recognised", "named"])
@pytest.mark.parametrize(("name", "record"), RECORDS, ids=[name for name, _ in RECORDS])
def test_what_a_library_left_in_redis_gives_its_locks_and_only_those(resp2, name, record, forced):
    """Locks, dialect, owner and expiry come out right for every record, and no companion shows as a lock."""
    known = record["dialect"]
    items = {item["key"]: item for item in record.get("keys_after_release", []) + record["keys"]}
    keys = [put(resp2, item) for item in items.values()]
    locks = found(resp2, keys, known if forced else None)
    assert set(locks) == {key.encode() for key, item in items.items() if item["is_lock"]}, name

    for key, decoded in locks.items():
        (lock,) = decoded
        item = items[key.decode()]
        expected = SAME_BYTES.get(known, known)
        if item["owner"] in CALLERS_OWN:
            expected = "generic"
        assert lock.dialect == (known if forced else expected)
        assert (lock.deadline is None) == (item["pttl"] < 0 and item["type"] != "zset")
        assert lock.started_at is None or 1.79e9 < lock.started_at < 1.80e9
        if item["owner"] in OWNERS:
            holder = lock.holders[0]
            assert (holder.host, holder.pid, holder.job_id) == OWNERS[item["owner"]]
        if item["type"] == "string":
            assert lock.value == raw(item["value"])
        if forced or expected == known:
            missing_is_normal = known in NO_EXPIRY_IS_NORMAL or key.startswith(
                (b"bull:mail:de:", b"work:jobs:")
            )
            assert lock.ttl_expected != missing_is_normal


def test_the_owner_that_a_redis_py_token_names_is_when_the_attempt_began(resp2):
    """A UUIDv1 gives the start of the attempt and the MAC address, and nothing is made up beyond that."""
    before = time.time()
    lock = resp2.lock("orders:lock", timeout=30)
    assert lock.acquire()
    decoded = found(resp2, [b"orders:lock"])[b"orders:lock"][0]
    assert decoded.dialect == "redis-py"
    assert before - 1 < decoded.started_at < time.time() + 1
    assert decoded.holders[0].pid is None
    assert decoded.holders[0].worker is None
    lock.release()
    assert found(resp2, [b"orders:lock"]) == {}


def test_a_self_describing_token_names_host_process_and_job(resp2):
    """The shim's token is read in full, under a key of any name, also one that another library claims."""
    token = tokens.describe(Job("invoice.generate", "8812"), NOW)
    for key in (b"orders:lock", b"lock:order:1", b"resource", b"_lockuser:1"):
        resp2.set(key, token, px=30_000)
    for key, (lock,) in found(resp2, [b"orders:lock", b"lock:order:1", b"resource", b"_lockuser:1"]).items():
        holder = lock.holders[0]
        assert (holder.host, holder.pid, holder.worker) == (
            tokens.process.host,
            tokens.process.pid,
            tokens.process.worker,
        )
        assert (holder.job_type, holder.job_id, holder.started_at) == ("invoice.generate", "8812", NOW)
        assert lock.dialect == ("dogpile.cache" if key.startswith(b"_lock") else "redis-py")
        assert lock.started_at == NOW
        assert not lock.weak_owner


def test_locks_are_found_among_many_thousand_results_of_huey(resp2):
    """The hash is scanned to its end, for the fields that are locks alone."""
    resp2.hset("huey.results.app", mapping={f"result-{number}": "x" for number in range(3000)})
    resp2.hset("huey.results.app", "app.lock.nightly", "1")
    assert [lock.field for lock in found(resp2, [b"huey.results.app"])[b"huey.results.app"]] == [
        b"app.lock.nightly"
    ]


def test_no_read_plan_causes_an_error_on_the_server(resp2):
    """Every plan is a command that its type answers; the server counts what is not."""
    resp2.set("lock:s", "x")
    resp2.hset("lock:h", "a", "b")
    resp2.zadd("lock:z", {"a": NOW})
    resp2.sadd("lock:m", "a")
    resp2.rpush("lock:l", "a")
    resp2.config_resetstat()
    found(resp2, [b"lock:s", b"lock:h", b"lock:z", b"lock:m", b"lock:l"])
    assert resp2.info("errorstats") == {}
    with pytest.raises(redis.ResponseError):
        command(resp2, "GETRANGE", "lock:h", 0, 1)
    assert "errorstat_WRONGTYPE" in resp2.info("errorstats")


def test_every_glob_takes_one_number_as_any_other():
    """Keys that differ in their numbers alone are recognised once: no glob of a dialect asks for a digit."""
    globs = [glob for one in DIALECTS.values() for form in one.forms for glob in form.keys]
    globs += [glob for one in DIALECTS.values() for glob in one.companions]
    assert [glob for glob in globs if re.search(rb"[0-9?]", glob.replace(b"[0-9]*", b""))] == []
    recognise._recognised_shape.cache_clear()
    assert all(wants(b"lock:order:%d:step-%d" % (number, number % 7)) for number in range(500))
    assert recognise._recognised_shape.cache_info().currsize == 1

"""Reading keys: what is found, and with which commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lockscope_exporter.dialects.model import MAX_VALUE
from lockscope_exporter.sampling.dial import Dial
from lockscope_exporter.sampling.reader import Asked, Reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

    from lockscope_exporter.sampling.reader import Sample
    from servers import RedisServer


@pytest.fixture
def reader(server: RedisServer) -> Iterator[Reader]:
    """Give a reader of the clean server."""
    dial = Dial(lambda db: server.client(db=db, protocol=3))
    yield Reader(dial.line(0))
    dial.close()


def nothing_known(_key: bytes) -> bool:
    """Say that no key was read before."""
    return False


def hold(client: redis.Redis, *numbers: int) -> list[Asked]:
    """Take locks of one kind; return them as keys to read."""
    for number in numbers:
        client.set(f"lock:order:{number}", f"{number:032x}", px=60_000 + number)
    return [Asked(b"lock:order:%d" % number, None) for number in numbers]


def values(sample: Sample) -> dict[bytes, object]:
    """Return what was read by key."""
    return {reading.key: reading.value for reading in sample.readings}


def commands(client: redis.Redis) -> set[str]:
    """Return the commands that the server ran since its statistics were reset."""
    return {name.removeprefix("cmdstat_") for name in client.info("commandstats")}


def test_many_known_strings(reader, client):
    """Whatever became of keys that were strings, each is found as it is now, and no error is caused."""
    asked = hold(client, *range(40))
    client.delete("lock:order:0", "lock:order:1")
    client.set("lock:order:2", "somebody else", px=5_000)
    client.persist("lock:order:3")
    client.delete("lock:order:4")
    client.hset("lock:order:4", "uuid:1", "1")
    client.delete("lock:order:5")
    client.rpush("lock:order:5", "job")
    client.config_resetstat()
    sample = reader.read(asked, {item.key for item in asked}.__contains__)
    found = {reading.key: reading for reading in sample.readings}
    assert {key for key, _ in sample.gone} == {b"lock:order:0", b"lock:order:1"}
    assert found[b"lock:order:2"].value == b"somebody else"
    assert found[b"lock:order:3"].deadline is None
    assert found[b"lock:order:4"].value == {b"uuid:1": b"1"}
    assert found[b"lock:order:5"].type == "list"
    assert len(found) == 38
    assert not sample.again
    for item in asked[6:]:
        assert found[item.key].deadline == client.pexpiretime(item.key) / 1000
    assert "errorstat_WRONGTYPE" not in client.info("errorstats")


@pytest.mark.parametrize("granted", [True, False])
def test_keys_that_are_gone_cost_one_command_together(reader, server, client, granted):
    """Many releases between two looks are one EXISTS; without that permission each deadline tells, too."""
    asked = hold(client, *range(40))
    keys = {item.key for item in asked}
    client.delete(*(f"lock:order:{number}" for number in range(20)))
    if not granted:
        client.acl_setuser("narrow", enabled=True, nopass=True, keys=["*"], commands=["+@all", "-exists"])
        dial = Dial(lambda db: server.client(db=db, protocol=3, username="narrow", password="any"))
        reader = Reader(dial.line(0))
    client.config_resetstat()
    for _ in range(2):
        sample = reader.read(asked, keys.__contains__)
        assert {key for key, _ in sample.gone} == {item.key for item in asked[:20]}
        assert len(sample.readings) == 20
        assert not sample.again
    stats = client.info("commandstats")
    if granted:
        assert stats["cmdstat_exists"]["calls"] == 2
        assert stats["cmdstat_pexpiretime"]["calls"] == 40
    else:
        assert stats["cmdstat_exists"]["rejected_calls"] == 1
        assert stats["cmdstat_pexpiretime"]["calls"] == 80
        dial.close()
        client.acl_deluser("narrow")


def test_names_that_were_always_strings_are_read_at_once(reader, client):
    """After a few of a kind, a new key of the kind costs neither TYPE nor MEMORY USAGE; one alone, too."""
    reader.read(hold(client, *range(20)), nothing_known)
    assert {"type", "memory|usage"} <= commands(client)
    for new in (range(100, 101), range(200, 220)):
        asked = hold(client, *new)
        client.config_resetstat()
        sample = reader.read([*asked, Asked(b"lock:order:99999", None)], nothing_known)
        assert values(sample) == {b"lock:order:%d" % number: b"%032x" % number for number in new}
        assert [key for key, _ in sample.gone] == [b"lock:order:99999"]
        assert not {"type", "memory|usage"} & commands(client)


@pytest.mark.parametrize("large", [True, False])
def test_one_other_ends_the_confidence(reader, client, large):
    """One key of the kind that is large or no string, and every key of the kind is looked at first again."""
    reader.read(hold(client, *range(20)), nothing_known)
    if large:
        client.set("lock:order:77", "x" * (10 * MAX_VALUE))
    else:
        client.hset("lock:order:77", "uuid:1", "1")
    reader.read([Asked(b"lock:order:77", None)], nothing_known)
    client.set("lock:order:78", "x" * (10 * MAX_VALUE))
    client.config_resetstat()
    sample = reader.read([Asked(b"lock:order:78", None)], nothing_known)
    assert values(sample) == {b"lock:order:78": None}
    assert "mget" not in commands(client)


@pytest.mark.parametrize("count", [2, 12])
def test_a_lock_whose_key_becomes_a_large_result_is_fetched_once_and_never_again(reader, client, count):
    """A key that is the lock of a job first and its result next: from then on its size is asked for first."""
    asked = hold(client, *range(count))
    everything = {item.key for item in asked}.__contains__
    sizes = []
    for _ in range(3):
        reader.read(hold(client, *range(count)), everything)
        for item in asked:
            client.set(item.key, "x" * 1_000_000)
        before = client.info("stats")["total_net_output_bytes"]
        sample = reader.read(asked, everything)
        sizes.append(client.info("stats")["total_net_output_bytes"] - before)
        assert set(values(sample).values()) == {None}
    assert sizes[0] < 1.1 * count * 1_000_000
    assert max(sizes[1:]) < 20_000
    client.set("lock:order:0", "token", px=60_000)
    assert values(reader.read(asked[:1], everything)) == {b"lock:order:0": b"token"}


@pytest.mark.parametrize("kind", ["hash", "zset", "set"])
def test_what_is_too_large_for_holders_is_not_read(reader, client, kind):
    """Few fields or members may be megabytes; those of locks are short. A lock's own size is read."""
    for size, key in ((100_000, "lock:large"), (36, "lock:small")):
        members = [f"{number:0{size}}" for number in range(20)]
        if kind == "hash":
            client.hset(key, mapping=dict.fromkeys(members, "1"))
        elif kind == "zset":
            client.zadd(key, dict.fromkeys(members, 1.8e9))
        else:
            client.sadd(key, *members)
    sample = reader.read([Asked(b"lock:large", None), Asked(b"lock:small", None)], nothing_known)
    found = values(sample)
    assert found[b"lock:large"] is None
    assert len(found[b"lock:small"]) == 20


def test_a_large_hash_whose_fields_are_locks_is_searched(reader, client):
    """Results beside the locks of a hash may be of any size: only the fields that are asked for come over."""
    client.hset("huey.results.app", mapping={f"result-{number}": "x" * 100_000 for number in range(20)})
    client.hset("huey.results.app", "app.lock.nightly", "1")
    sample = reader.read([Asked(b"huey.results.app", None)], nothing_known)
    assert values(sample) == {b"huey.results.app": {b"app.lock.nightly": b"1"}}


def test_what_no_dialect_reads_is_not_read(reader, client):
    """Names alike do not make a key readable whose dialect has another type."""
    reader.read(hold(client, *range(20)), nothing_known)
    asked = [Asked(item.key, "redisson") for item in hold(client, *range(100, 120))]
    client.config_resetstat()
    sample = reader.read(asked, nothing_known)
    assert set(values(sample).values()) == {None}
    assert "mget" not in commands(client)

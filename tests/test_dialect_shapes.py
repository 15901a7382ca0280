"""Lock formats in detail: who holds, how often, until when."""

from __future__ import annotations

import base64
import uuid

import pytest

from lockscope_exporter.dialects import Reading, decode, form_of, plan

NOW = 1_796_000_000.0


REDISSON = "b983c153-7421-469a-addb-44fb92259a1b"


def test_a_reentrant_redisson_lock_has_one_holder_with_its_count():
    """The hash field is the holder, the value how many times it holds."""
    (lock,) = decode(Reading(b"myLock", "hash", {f"{REDISSON}:47".encode(): b"2"}, NOW + 30))
    assert [(holder.token, holder.count) for holder in lock.holders] == [(f"{REDISSON}:47".encode(), 2)]
    assert lock.renews
    assert lock.owner_identity == f"{REDISSON}:47".encode()


def test_a_redisson_read_lock_has_every_reader_and_a_write_lock_its_writer():
    """The field mode is no holder."""
    readers = {b"mode": b"read", f"{REDISSON}:47".encode(): b"1", f"{REDISSON}:48".encode(): b"3"}
    (lock,) = decode(Reading(b"rw", "hash", readers, NOW + 30))
    assert [holder.count for holder in lock.holders] == [1, 3]
    writer = {b"mode": b"write", f"{REDISSON}:47:write".encode(): b"1"}
    (lock,) = decode(Reading(b"rw", "hash", writer, NOW + 30))
    assert (lock.dialect, len(lock.holders)) == ("redisson-rwlock", 1)
    assert decode(Reading(b"rw", "hash", {b"mode": b"read"}, NOW + 30)) == ()


def _symfony(seed):
    return base64.b64encode(bytes([seed]) * 32)


def test_symfony_holders_end_one_by_one_and_the_lock_with_the_last():
    """A member's score is when its hold ends; one that has ended holds nothing though it is still there."""
    members = (
        (_symfony(1), (NOW - 5) * 1000),
        (_symfony(2), (NOW + 20) * 1000),
        (_symfony(3), (NOW + 60) * 1000),
    )
    reading = Reading(b"invoice", "zset", members, NOW + 60, NOW)
    (lock,) = decode(reading)
    assert lock.dialect == "symfony-lock"
    assert {holder.token for holder in lock.holders} == {_symfony(2), _symfony(3)}
    assert (lock.next_change, lock.deadline) == (NOW + 20, NOW + 60)
    assert decode(Reading(b"invoice", "zset", members[:1], NOW + 60, NOW)) == ()


def test_a_symfony_write_lock_has_one_holder_and_a_marker_that_is_none():
    """The member __write__ only says that the lock is exclusive."""
    members = ((_symfony(2), (NOW + 20) * 1000), (b"__write__", (NOW + 20) * 1000))
    (lock,) = decode(Reading(b"invoice", "zset", members, NOW + 20, NOW))
    assert [holder.token for holder in lock.holders] == [_symfony(2)]
    assert form_of("symfony", b"invoice", "zset").markers == (b"__write__",)
    assert decode(Reading(b"invoice", "string", _symfony(2), NOW + 20, NOW))[0].dialect == "symfony-lock"


def test_a_redisson_permit_ends_at_its_score_and_one_without_lease_time_never():
    """The key itself has no expiry; what counts is the permit's."""
    permit = b"68f8bc9a952445b88661554f1ea34fc4"
    (lock,) = decode(Reading(b"{psem}:timeout", "zset", ((permit, (NOW + 9) * 1000),), None, NOW))
    assert (lock.dialect, lock.deadline) == ("redisson-permit-semaphore", NOW + 9)
    (lock,) = decode(Reading(b"{psem}:timeout", "zset", ((permit, 922337203685477.0),), None, NOW))
    assert lock.deadline is None
    assert decode(Reading(b"{psem}:timeout", "zset", ((permit, (NOW - 9) * 1000),), None, NOW)) == ()


def test_each_huey_lock_in_one_hash_is_a_lock_of_its_own():
    """Results beside them are none, and nobody is said to hold them."""
    fields = {
        b"some-result": b"\x80\x05K{.",
        b"app.lock.nightly": b"\x80\x05.",
        b"app.lock.hourly": b"\x80\x05.",
    }
    locks = decode(Reading(b"huey.results.app", "hash", fields))
    assert [lock.field for lock in locks] == [b"app.lock.hourly", b"app.lock.nightly"]
    assert all(lock.holders == () and lock.weak_owner and not lock.ttl_expected for lock in locks)
    assert plan(b"huey.results.app", "hash").args[1:3] == (b"MATCH", b"*.lock.*")


def test_a_dramatiq_mutex_that_is_free_is_no_lock():
    """Releasing writes 0; the count of a semaphore names nobody."""
    assert decode(Reading(b"distributed-mutex", "string", b"0", NOW), "dramatiq") == ()
    (lock,) = decode(Reading(b"pool", "string", b"3", NOW), "dramatiq")
    assert (lock.holders, lock.weak_owner) == ((), True)
    one, two = (decode(Reading(b"pool", "string", count, NOW), "dramatiq")[0] for count in (b"1", b"2"))
    assert one.owner_identity == two.owner_identity  # one more holder took nothing over


@pytest.mark.parametrize(
    "stored",
    [
        b"uOegCrQqE4SfGrjB",
        b's:16:"uOegCrQqE4SfGrjB";',
        b'"uOegCrQqE4SfGrjB"',
        b"\xb0uOegCrQqE4SfGrjB",
        b"\x00\x00\x00\x02\x11\x10uOegCrQqE4SfGrjB",
    ],
)
def test_a_laravel_lock_is_read_as_every_serialiser_of_phpredis_stores_it(stored):
    """The exact bytes are kept, quoting and all: a release must compare those."""
    (lock,) = decode(Reading(b"shop_database_shop_cache:processing", "string", stored, NOW))
    assert (lock.dialect, lock.value) == ("laravel", stored)


def test_a_laravel_guard_names_the_job_class_that_it_guards():
    """Unique jobs and overlap guards carry the class in the key; without an expiry they are a fault."""
    for key in (
        b"shop_database_laravel_unique_job:App\\Jobs\\ImportPodcast:42",
        b"shop_cache:laravel-queue-overlap:App\\Jobs\\ImportPodcast:42",
    ):
        (lock,) = decode(Reading(key, "string", b"tdAgfwcuQq5gE6Hw", None))
        assert lock.holders[0].job_type == "App\\Jobs\\ImportPodcast"
        assert lock.ttl_expected


def test_bullmq_locks_are_recognised_under_a_prefix_of_the_users_own():
    """The worker's token tells; the job's id is in the key, colons of repeated jobs and all."""
    token = b"b3421bbd-1c63-420a-be09-af7267b8228b:0"
    (lock,) = decode(Reading(b"myapp:mail:repeat:3f2a:1796000000000:lock", "string", token, NOW))
    assert (lock.dialect, lock.holders[0].job_id) == ("bullmq", "repeat:3f2a:1796000000000")
    (lock,) = decode(Reading(b"mq:mail:j-42:lock", "string", token, NOW), "bullmq")
    assert lock.holders[0].job_id == "j-42"


def test_medallion_semaphores_and_readers_name_machine_and_process():
    """A writer that waits for readers holds nothing yet."""
    one, two = b"WEB01_4242_6fd7eb8c2a924520a1fe105f6b49e9f5", b"my_host_7_" + b"0" * 32
    (lock,) = decode(
        Reading(b"name", "zset", ((one, (NOW + 5) * 1000), (two, (NOW + 9) * 1000)), NOW + 90, NOW)
    )
    assert [(holder.host, holder.pid) for holder in lock.holders] == [("WEB01", 4242), ("my_host", 7)]
    assert lock.deadline == NOW + 9
    (lock,) = decode(Reading(b"name.readers", "set", frozenset((one, two)), NOW + 9))
    assert len(lock.holders) == 2
    assert decode(Reading(b"name.writer", "string", one, NOW))[0].dialect == "medallion-distributedlock"
    assert decode(Reading(b"name.writer", "string", one + b"_WRITERWAITING", NOW), "medallion") == ()


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (
            b"job-lock:default:report",
            b"ADDED:2026-11-29T20:53:20.123Z@web-3.local",
            ("shedlock", "web-3.local", None),
        ),
        (b"resque:resque_scheduler_master_lock", b"localhost:99", ("resque-scheduler", "localhost", 99)),
        (b"jobs:leader", b"12345@ip-10-0-0-1", ("generic", "ip-10-0-0-1", 12345)),
        (b"app:mutex:x", b'{"hostname":"db1","pid":77,"token":"a"}', ("generic", "db1", 77)),
        (b"app:mutex:x", b"host=db1;pid=77", ("generic", "db1", 77)),
        (b"asynq:{default}:unique:email:4f", b"task-9", ("asynq", None, None)),
        (
            b"activejob_uniqueness:job:14",
            str(uuid.UUID(int=4, version=4)).encode(),
            ("activejob-uniqueness", None, None),
        ),
        (b"my-mutex", base64.b64encode(bytes(range(16))), ("redsync", None, None)),
    ],
)
def test_formats_beyond_the_records_are_read_too(key, value, expected):
    """Dialects read from their sources, and owners in the notations that people use."""
    (lock,) = decode(Reading(key, "string", value, NOW + 30))
    assert (lock.dialect, lock.holders[0].host, lock.holders[0].pid) == expected


def test_a_shedlock_says_since_when_and_is_the_same_holder_when_it_prolongs():
    """The instant in the value is when it was taken; rewriting it changes no owner."""
    values = [b"ADDED:2026-11-30T00:53:%d.000Z@web-3" % second for second in (20, 30)]
    first, second = (decode(Reading(b"job-lock:default:x", "string", value, NOW + 30))[0] for value in values)
    assert (first.started_at, second.started_at) == (NOW, NOW + 10)
    assert first.owner_identity == second.owner_identity

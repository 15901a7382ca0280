"""Locks of no known library, and hostile keys and values: what is plausible, and that nothing raises."""

from __future__ import annotations

import time
import uuid

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import lockscope
from lockscope import tokens
from lockscope_exporter.dialects import ANY, DIALECTS, Reading, decode, plan, wants
from lockscope_exporter.dialects.model import MAX_MEMBERS, MAX_VALUE

NOW = 1_796_000_000.0


PLAUSIBLE = [
    (b"locks:payment:7", "string", b"1", None),
    (b"app:distlock", "string", b"locked", NOW),
    (b"cron:mutex:nightly", "string", b"2026-11-29 20:53", NOW),
    (b"app:leader", "string", b"node-3", NOW),
    (b"resource", "string", b"8e12d004-d8b0-43c7-9a99-5136d61c70a7", NOW),
    (b"resource", "string", b"8e12d004-d8b0-43c7-9a99-5136d61c70a7", None),
    (b"key", "string", b"WEB01", NOW),
    (b"anything", "string", b"host-a:77", None),
    (b"batch:running", "string", b"1", NOW),
    (b"app:lock", "hash", {b"owner": b"3f2a", b"acquired_at": b"1796000000"}, NOW),
    (b"app:lock", "hash", {b"host": b"web-3", b"pid": b"4"}, NOW),
    (b"app:semaphore", "zset", ((b"a-1", NOW + 5), (b"b-2", NOW + 9)), NOW + 9),
    (b"app:semaphore", "zset", ((b"a-1", NOW - 5),), None),
    (b"app:rwlock:readers", "set", frozenset((b"a", b"b")), NOW),
    (b"lock:\xff\xfe", "string", b"\x00\xff" * 8, NOW),
]


IMPLAUSIBLE = [
    (b"block:42", "string", b"1", NOW),
    (b"clock", "string", b"1", NOW),
    (b"account:lockout:42", "string", b"1", NOW),
    (b"release:notes", "string", b"1", NOW),
    (b"leaderboard", "zset", ((b"ann", 1.796e9),), NOW),
    (b"app:lock:enabled", "string", b"0", None),
    (b"counter", "string", b"17", NOW),
    (b"flag", "string", b"true", NOW),
    (b"page", "string", b"hello world", NOW),
    (b"user:1", "string", b'{"name": "ann"}', NOW),
    (b"php", "string", b's:1:"x";', NOW),
    (b"pickled", "string", b"\x80\x05K{.", NOW),
    (b"name", "string", b"ann", None),
    (b"my-semaphore", "string", b"2", None),
    (b"user:1", "hash", {b"owner": b"ann", b"host": b"x"}, NOW),
    (b"app:lock:config", "hash", {b"owner": b"x"}, None),
    (b"app:lock:settings2", "hash", {b"ttl": b"30", b"retries": b"3"}, None),
    (b"app:lock:queue", "zset", ((b"a", NOW + 5),), None),
    (b"followers", "set", frozenset((b"a", b"b")), None),
    (b"lock:x", "list", None, None),
    (b"lock:x", "stream", None, None),
    (b"lock:x", "none", None, None),
    (b"lock:x", "string", None, None),
]


@pytest.mark.parametrize("reading", PLAUSIBLE)
def test_an_unknown_but_plausible_lock_is_generic(reading):
    """Under a name that says lock nearly everything is; elsewhere a token, or a word that expires."""
    (lock,) = decode(Reading(*reading, NOW))
    assert lock.dialect == "generic"


@pytest.mark.parametrize("reading", IMPLAUSIBLE)
def test_counters_flags_caches_and_waiting_lists_are_no_locks(reading):
    """A name that merely contains the letters, or a value that is plainly something else, is not enough."""
    assert decode(Reading(*reading, NOW)) == ()


@pytest.mark.parametrize("value", [b"abc", b"17", b"1", b"hello world", b"web-1", b'"abc"'])
def test_under_a_pattern_that_the_user_named_plain_values_are_locks(value):
    """What nothing speaks for but the user is generic, with or without expiry, of which nobody knows whether
    it ought to be there; the built-in patterns do not take it for a lock.
    """
    reading = Reading(b"other:1", "string", value, None, NOW)
    (lock,) = decode(reading, ANY)
    assert (lock.dialect, lock.ttl_expected, lock.deadline) == ("generic", False, None)
    assert decode(reading) == ()
    assert len(decode(Reading(b"other:1", "string", value, NOW + 9, NOW), ANY)) == 1


@pytest.mark.parametrize(
    "reading",
    [
        Reading(b"other:1", "string", b"0", None, NOW),
        Reading(b"other:1:attempts", "string", b"3", None, NOW),
        Reading(b"other:1:queue", "string", b"abc", None, NOW),
        Reading(b"other:1", "string", b"\x80\x05K{.", None, NOW),
        Reading(b"other:1", "string", b"[1, 2]", None, NOW),
        Reading(b"other:1", "hash", {b"name": b"ann"}, None, NOW),
        Reading(b"other:1", "list", None, None, NOW),
        Reading(b"lockscope:journal", "string", b"abc", None, NOW),
    ],
)
def test_under_a_pattern_that_the_user_named_counters_and_data_are_still_none(reading):
    """Flags that are off, counters beside locks, waiting lists and serialised data stay out."""
    assert decode(reading, ANY) == ()


def test_a_named_pattern_recognises_libraries_as_before():
    """A value of a known format keeps its dialect and what that says of its expiry."""
    for value in (uuid.uuid1().hex.encode(), b"host-a:77"):
        reading = Reading(b"lock:order:1", "string", value, None, NOW)
        assert decode(reading, ANY) == decode(reading) != ()


@pytest.mark.parametrize(
    ("value", "weak"),
    [
        (b"1", True),
        (b"locked", True),
        (b"", True),
        (b"WEB01", True),
        (b"worker", True),
        (b"8e12d004-d8b0-43c7-9a99-5136d61c70a7", False),
        (b"host-a:4242", False),
        (b"jjFQtgCubyJhediy", False),
        (b"1796000000123", False),
        (bytes(range(200, 232)), False),
    ],
)
def test_an_owner_value_that_others_would_write_too_is_weak(value, weak):
    """Constants, words and host names cannot be told apart at release; tokens can."""
    (lock,) = decode(Reading(b"app:lock", "string", value, NOW))
    assert lock.weak_owner is weak


def test_oversized_values_and_hashes_are_no_locks_whatever_they_hold():
    """One byte over the bound, or one member, and it is data."""
    assert decode(Reading(b"lock:x", "string", b"a" * MAX_VALUE, NOW)) != ()
    assert decode(Reading(b"lock:x", "string", b"a" * (MAX_VALUE + 1), NOW)) == ()
    many = {str(uuid.UUID(int=number, version=4)).encode() + b":1": b"1" for number in range(MAX_MEMBERS + 1)}
    assert decode(Reading(b"myLock", "hash", many, NOW)) == ()
    many.popitem()
    assert len(decode(Reading(b"myLock", "hash", many, NOW))[0].holders) == MAX_MEMBERS
    how = plan(b"lock:x", "string")
    assert (how.command, how.args) == ("GETRANGE", (0, MAX_VALUE))


@pytest.mark.parametrize(
    "piece", [b"lock", b":", b"a:1:lock", b"un", b"_cache_", b"*", b"{", b"\xff", b"huey.r.", b".lock."]
)
def test_a_key_of_64_kib_takes_no_noticeable_time(piece):
    """Recognition stays linear whatever a hostile key repeats."""
    key = (piece * 65536)[:65536]
    began = time.perf_counter()
    for prefix in (b"", b"bull:", b"huey.r.", b":1:"):
        decode(Reading(prefix + key, "string", b"x" * 1000, NOW))
    assert time.perf_counter() - began < 1.0


VALUES = st.one_of(
    st.none(),
    st.binary(max_size=80),
    st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from(
        [b"1", b"0", b"", b"\n", b'{"a":' * 200, b"ls1;host=a", b"ls1;" * 120, b"\x00" * 65536, b"=1+1"]
    ),
    st.dictionaries(st.binary(max_size=40), st.binary(max_size=40), max_size=6),
    st.lists(st.tuples(st.binary(max_size=44), st.floats()), max_size=6).map(tuple),
    st.frozensets(st.binary(max_size=44), max_size=6),
)


KEYS = st.one_of(
    st.binary(max_size=60),
    st.builds(
        bytes.__add__,
        st.sampled_from(
            [b"lock:", b"bull:q:", b"huey.results.", b"uniquejobs:", b"x:semaphore", b"{a}:timeout", b":1:"]
        ),
        st.one_of(st.binary(max_size=20), st.sampled_from([b":lock", b"x:LOCKED", b"a}:timeout"])),
    ),
)


TYPES = st.sampled_from(["string", "hash", "zset", "set", "list", "stream", "none", "ReJSON-RL", ""])


@settings(max_examples=600, deadline=None)
@given(
    KEYS,
    TYPES,
    VALUES,
    st.one_of(st.none(), st.floats()),
    st.one_of(st.none(), st.sampled_from([ANY, *sorted(DIALECTS)])),
)
@example(b"{a}:timeout", "zset", ((b"68f8bc9a952445b88661554f1ea34fc4", float("inf")),), None, None)
@example(b"{a}:timeout", "zset", ((b"68f8bc9a952445b88661554f1ea34fc4", float("nan")),), None, None)
def test_no_key_type_or_value_can_raise_and_what_comes_out_is_sound(key, kind, value, deadline, forced):
    """Hostile bytes give locks or none; tokens keep their fingerprints, values their bytes."""
    wants(key, forced)
    plan(key, kind, forced)
    for lock in decode(Reading(key, kind, value, deadline, NOW), forced):
        assert lock.dialect in DIALECTS
        assert lock.value in (None, value)
        assert lock.note.isprintable()
        assert all(holder.fingerprint == tokens.fingerprint(holder.token) for holder in lock.holders)
        assert all(holder.host is None or len(holder.host) <= 130 for holder in lock.holders)
        assert not key.startswith(b"lockscope:")


@settings(max_examples=300, deadline=None)
@given(st.binary(min_size=1, max_size=60), st.binary(max_size=60))
def test_a_lock_changes_hands_exactly_when_its_token_does(before, after):
    """The identity of a string lock is its value: same bytes, same owner."""
    one = decode(Reading(b"app:lock", "string", before, NOW), "generic")
    two = decode(Reading(b"app:lock", "string", after, NOW + 9), "generic")
    if one and two:
        assert (one[0].owner_identity == two[0].owner_identity) == (before == after)


def test_an_idempotency_key_is_a_lock_while_the_work_runs(client):
    """What is remembered of work that is done is held by nobody, whatever the pattern says."""
    with lockscope.idempotent("payment:7", ttl=60, client=client) as run:
        assert run.first
        (lock,) = decode(Reading(b"payment:7", "string", client.get("payment:7"), NOW))
        assert lock.holders
        run.result = {"paid": True}
    value = client.get("payment:7")
    assert value.startswith(b"ls1done;")
    assert decode(Reading(b"payment:7", "string", value, NOW)) == ()
    assert decode(Reading(b"payment:7", "string", value, NOW), "redis-py") == ()

"""The entries of the lock formats: companions, names, releases, defaults, documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockscope.globs import compile_glob, fixed_part
from lockscope_exporter.dialects import (
    DEFAULT_PATTERNS,
    DIALECTS,
    KNOWN_GLOBS,
    Reading,
    Release,
    decode,
    dialect,
    form_of,
    plan,
    wants,
)
from lockscope_exporter.dialects.manual import manual

ROOT = Path(__file__).parents[1]

NOW = 1_796_000_000.0


def test_companions_and_lockscopes_own_keys_are_never_even_read():
    """Keys beside the locks of known libraries are refused by name alone, also when the dialect is named."""
    beside = [
        b"bull:mail:meta",
        b"bull:mail:stalled-check",
        b"rq:job:7",
        b"arq:retry:j",
        b"uniquejobs:changelog",
    ]
    beside += [b"lock-signal:report", b"lock.event:x", b"redisson_lock_queue:{x}", b"celery-task-meta-1"]
    beside += [b"saq:default:sweep", b"bq:mail:stallBlock", b"lockscope:journal", b"lockscope:lock:x"]
    assert [key for key in beside if wants(key)] == []
    assert not wants(b"lockscope:journal", "generic")
    assert not wants(b"lock-signal:report", "python-redis-lock")
    assert not wants(b"bull:mail:meta", "bullmq")
    assert not any(wants(key, "saq") and plan(key, "string", "saq") for key in beside)
    assert plan(b"lock:x", "list") is None
    assert plan(b"lock:x", "stream") is None


def test_what_the_user_names_wins_over_recognition():
    """A named dialect reads values that recognition would give to another, and refuses what cannot be it."""
    uuid4 = b"8e12d004-d8b0-43c7-9a99-5136d61c70a7"
    assert decode(Reading(b"redlock:x", "string", uuid4, NOW), "redlock.net")[0].dialect == "redlock.net"
    assert decode(Reading(b"lock:x", "string", b"my own token", NOW), "redis-py")[0].dialect == "redis-py"
    assert decode(Reading(b"lock:x", "string", b"1", NOW), "redis-py") == ()
    assert decode(Reading(b"lock:x", "hash", {b"a": b"1"}, NOW), "redis-py") == ()
    assert decode(Reading(b"flag", "string", b"1", NOW), "generic")[0].weak_owner


def test_an_unknown_dialect_is_refused_with_the_nearest_names():
    """A slip of the pen is named, with what was probably meant; aliases are understood."""
    assert dialect("symfony").name == "symfony-lock"
    assert dialect("hangfire").name == "hangfire-redis"
    with pytest.raises(ValueError, match="did you mean redis-py"):
        dialect("redispy")
    with pytest.raises(ValueError, match="known are"):
        wants(b"x", "@@@@")


def test_releasing_wakes_waiters_where_the_library_needs_it():
    """The list or channel is the library's own, made from the lock's key."""
    wake = form_of("python-redis-lock", b"lock:report", "string").wake
    assert (wake.where(b"lock:report"), wake.message, wake.reset, wake.ttl_ms) == (
        b"lock-signal:report",
        b"1",
        True,
        1000,
    )
    assert form_of("walrus", b"lock:a", "string").wake.where(b"lock:a") == b"lock.event:a"
    redisson = form_of("redisson-rlock", b"myLock", "hash")
    assert redisson.wake.where(b"myLock") == b"redisson_lock__channel:{myLock}"
    assert redisson.wake.where(b"shop:{7}:lock") == b"redisson_lock__channel:shop:{7}:lock"
    assert form_of("huey", b"huey.results.app", "hash").release is Release.HASH_FIELD
    assert form_of("sidekiq-unique-jobs", b"uniquejobs:x:LOCKED", "hash").release is Release.NONE
    assert form_of("redis-py", b"x", "zset") is None
    for entry in DIALECTS.values():
        for form in entry.forms:
            assert (form.wake is not None) == (
                form.release in (Release.COMPARE_AND_DELETE_AND_SIGNAL, Release.REDISSON_HASH)
            )


def test_every_entry_is_consistent_with_itself():
    """Globs claim the entry's own example, no companion glob hides it, and the texts are there."""
    for entry in DIALECTS.values():
        if entry.forms:
            assert entry.ttl, entry.name
        for form in entry.forms:
            sample = form.example.partition(", ")[0].partition(" (")[0].encode()
            assert sample, entry.name
            assert wants(sample, entry.name), (entry.name, sample)
            if form.keys and form.example:
                globs = form.keys + form.forced_keys
                assert any(compile_glob(glob).fullmatch(sample) for glob in globs), (entry.name, sample)


def test_the_default_patterns_are_few_distinct_beginnings():
    """Each costs the server at every write: at most six, and they cover keys of the wide-spread libraries."""
    beginnings = {fixed_part(pattern.glob) for pattern in DEFAULT_PATTERNS}
    distinct = {
        one for one in beginnings if not any(one != two and one.startswith(two) for two in beginnings)
    }
    assert len(distinct) <= 6
    assert b"" not in distinct
    for key in (
        b"lock:order:1",
        b"lock.myLock",
        b"locks:account:1",
        b"lock:{a}",
        b"redlock:printer",
        b"redbeat::lock",
        b"bull:mail:j-42:lock",
        b"bull:mail:de:cust-1",
        b"uniquejobs:8b7c:LOCKED",
        b"SINGLETONLOCK_f4c4",
        b"rq:scheduler-lock:default",
    ):
        assert any(compile_glob(pattern.glob).fullmatch(key) for pattern in DEFAULT_PATTERNS), key
        assert wants(key)
    for key in (b"lockers", b"locked_users", b"reddit:1", b"bull:mail:1", b"user:lock"):
        assert not any(compile_glob(pattern.glob).fullmatch(key) for pattern in DEFAULT_PATTERNS), key
    assert all(fixed_part(glob) for glob in KNOWN_GLOBS)


def test_the_page_about_dialects_says_what_the_entries_say():
    """docs/dialects.md is written from them; run ``make generate`` after a change."""
    page = manual()
    assert (ROOT / "docs/dialects.md").read_text() == page
    for entry in DIALECTS.values():
        assert f"### {entry.name}\n" in page

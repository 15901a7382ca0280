"""What a plan makes of a lock as it was seen. No server."""

from __future__ import annotations

import pytest

from lockscope.tokens import fingerprint
from lockscope_exporter import release
from lockscope_exporter.dialects import Release
from lockscope_exporter.release.model import NEVER
from lockscope_exporter.state import Holder
from releasing import string_lock

TOKEN = b"3df60a44ec1111f1a07202fc00000001"
NOW = 1_796_000_000.0


def seen(**more):
    """Return a redis-py lock that expires in half a minute, whose holder is gone."""
    return string_lock(b"lock:a", TOKEN)._replace(**{"sampled_at": NOW, "ttl_seconds": 30.125, **more})


def test_a_lock_whose_holder_is_gone_needs_no_force():
    """The plan of an orphaned lock carries the exact token, type and expiry that were seen."""
    plan = release.plan(seen())
    assert plan.blocked is None
    assert plan.needs_force == ""
    assert plan.way is Release.COMPARE_AND_DELETE
    assert plan.holders[0].token == TOKEN
    assert plan.expires_ms == round((NOW + 30.125) * 1000)
    assert not plan.weak
    assert fingerprint(TOKEN) in plan.steps[0]
    assert TOKEN.decode() not in repr(plan.steps)


@pytest.mark.parametrize(
    ("alive", "state", "says"),
    [
        ("alive", "held", "web-1/7 holds it and lives"),
        ("alive", "overdue", "web-1/7 holds it and lives"),
        ("unknown", "held", "nothing proves that web-1/7 is gone"),
        ("unknown", "no_ttl", "no expiry, but nothing proves that web-1/7 is gone"),
        ("unknown", "stalled", "no longer renewed, but nothing proves that web-1/7 is gone"),
        ("unknown", "overdue", "longer than expected, but nothing proves that web-1/7 is gone"),
    ],
)
def test_a_lock_whose_holder_may_work_needs_force(alive, state, says):
    """Only proof that the holder is gone makes force superfluous, whatever the state."""
    holder = Holder(TOKEN, fingerprint(TOKEN), host="web-1", pid=7, alive=alive)
    assert says in release.plan(seen(holders=(holder,), state=state)).needs_force


def test_a_lock_of_nobody_needs_force():
    """Where no holder is named nothing proves that it is gone, and the plan warns of the missing token."""
    lock = seen(dialect="resque-lock", key=b"resque:lock:x", value=b"true", holders=(), weak_owner=True)
    plan = release.plan(lock)
    assert "names no holder" in plan.needs_force
    assert plan.weak
    assert "only its expiry" in plan.warnings[0]
    assert "would look the same" in release.plan(lock._replace(ttl_seconds=None)).warnings[0]


def test_a_lock_without_expiry_must_still_have_none():
    """A missing expiry is a fact to check too."""
    assert release.plan(seen(ttl_seconds=None)).expires_ms == NEVER


def test_the_expiry_of_a_shared_key_proves_nothing():
    """The expiry of a hash with other data, and of a value that carries its own end, is not compared."""
    huey = seen(
        dialect="huey", key=b"huey.results.app", type="hash", field=b"app.lock.a", value=None, holders=()
    )
    assert release.plan(huey).expires_ms is None
    mutex = seen(dialect="redis-mutex", key=b"RedisMutex:x", value=b"1796000030.1", holders=())
    assert release.plan(mutex).expires_ms is None


@pytest.mark.parametrize(
    ("dialect", "type_", "key"),
    [
        ("redisson-rwlock", "hash", b"rw"),
        ("redisson-fairlock", "hash", b"myLock"),
        ("sidekiq-unique-jobs", "hash", b"uniquejobs:8b7c:LOCKED"),
        ("medallion-distributedlock", "set", b"name.readers"),
        ("generic", "hash", b"app:lock"),
        ("symfony-semaphore", "zset", b"pool:time"),
        ("huey", "set", b"x"),
    ],
)
def test_a_format_that_cannot_be_freed_from_outside_is_blocked(dialect, type_, key):
    """The plan says why, and force does not change that."""
    plan = release.plan(seen(dialect=dialect, type=type_, key=key, value=None))
    assert plan.blocked is not None
    assert plan.blocked.outcome == "refused"
    assert f"{dialect} locks cannot be freed from outside" in plan.blocked.reason


def test_the_token_guards_the_plan():
    """A fingerprint that is not the holder's blocks it; the right one in any case does not."""
    assert release.plan(seen(), token=f" {fingerprint(TOKEN).upper()} ").blocked is None
    blocked = release.plan(seen(), token="00000000").blocked
    assert blocked is not None
    assert blocked.outcome == "changed"
    assert fingerprint(TOKEN) in blocked.reason
    nobody = seen(dialect="resque-lock", key=b"resque:lock:x", value=b"true", holders=())
    assert release.plan(nobody, token=fingerprint(b"true")).blocked is None
    assert release.plan(nobody, token="00000000").blocked is not None


@pytest.mark.parametrize(
    ("key", "queue"),
    [(b"myLock", b"redisson_lock_queue:{myLock}"), (b"a{b}c", b"redisson_lock_queue:a{b}c")],
)
def test_a_redisson_lock_must_have_no_queue(key, queue):
    """The plan names the list that only a fair lock has, as Redisson names it."""
    plan = release.plan(seen(dialect="redisson-rlock", key=key, type="hash", value=None))
    assert plan.must_be_absent == queue
    assert plan.wake is not None
    assert plan.wake.how == "publish"


def test_copies_of_a_redlock_are_mentioned():
    """One server holds one copy of a Redlock, so freeing it there is not enough."""
    lock = seen(dialect="redlock-py", key=b"my_resource", value=b"m9tmUls7GHpsHRF9gfbyf2")
    assert any("other servers" in warning for warning in release.plan(lock).warnings)


def test_hostile_names_stay_on_one_line():
    """Nothing in a plan's sentences can act on a terminal or break a line."""
    key = b"lock:\n\x1b[31m\xff" + b"x" * 65_536
    holder = Holder(TOKEN, fingerprint(TOKEN), host="a\nb\x1b[0m", alive="unknown")
    plan = release.plan(seen(key=key, holders=(holder,)))
    texts = (*plan.steps, *plan.warnings, plan.needs_force)
    assert all(text.isprintable() and len(text) < 1_000 for text in texts)


@pytest.mark.parametrize("text", ["1", "true", " YES ", "on"])
def test_releases_are_switched_on_by_a_true_word(text):
    """The variable that allows releases takes the usual words for true."""
    assert release.allowed({release.VARIABLE: text})


@pytest.mark.parametrize("text", ["", "0", "false", "off", "no", "maybe"])
def test_releases_are_off_otherwise(text):
    """Everything else leaves releases off, the missing variable too."""
    assert not release.allowed({release.VARIABLE: text})
    assert not release.allowed({})

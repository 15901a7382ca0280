"""The ledger: what it makes of readings, without any server."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lockscope.catalog import TTL_BUCKETS
from lockscope.prefixes import Prefixes
from lockscope_exporter.dialects.model import Reading
from lockscope_exporter.presence import Standing
from lockscope_exporter.sampling.expectations import Expectations
from lockscope_exporter.sampling.ledger import Ledger
from lockscope_exporter.sampling.news import News
from lockscope_exporter.sampling.reader import Glance

T0 = 1_800_000_000.0
A, B, C = (
    f"{letter * 8}-{letter * 4}-4{letter * 3}-8{letter * 3}-{letter * 12}".encode() for letter in "abc"
)


class Scene:
    """A ledger and a clock."""

    def __init__(self, expected: dict[str, float] | None = None) -> None:
        self.now = T0
        self.life: dict[str, Standing] = {}
        self.ledger = Ledger(
            "t",
            Prefixes(),
            Expectations(expected or {}),
            lambda holder, _: self.life.get(holder.worker, Standing("unknown")),
        )

    def see(
        self,
        key: bytes,
        value: Any,
        ttl: float | None,
        *,
        dialect: str | None = None,
        node: str = "n",
        type_: str = "string",
        **news: Any,
    ) -> bool:
        """Read a key now."""
        deadline = None if ttl is None else self.now + ttl
        reading = Reading(key, type_, value, deadline, self.now)
        return self.ledger.take(0, node, reading, dialect, News(self.now, **news))

    def miss(self, key: bytes, *, node: str = "n", **news: Any) -> bool:
        """Read a key that is not there now."""
        return self.ledger.gone(0, node, key, News(self.now, **news))

    def family(self) -> Any:
        """Return the only family."""
        [family] = self.ledger.families(self.now)
        return family

    def state(self, key: bytes) -> Any:
        """Return the only lock of a key."""
        [state] = self.ledger.find(key, self.now)
        return state


@pytest.fixture
def scene() -> Scene:
    """Give an empty scene."""
    return Scene()


def test_taken_renewed_released(scene):
    """A lock's life is counted once each: acquired, renewed, released."""
    scene.see(b"lock:1", A, 10)
    scene.now += 4
    scene.see(b"lock:1", A, 10)
    scene.now += 4
    scene.miss(b"lock:1")
    family = scene.family()
    assert (family.acquired, family.renewed, family.takeover) == (1, 1, 0)
    assert family.ended == {"released": 1, "expired": 0, "evicted": 0, "flushed": 0}
    assert sum(family.keys.values()) == 0


def test_what_was_there_before_is_no_event(scene):
    """Locks found by the first look are not counted as acquired, and their age is a lower bound."""
    scene.see(b"lock:1", b"q7Zp0rTn4LmXw9Yc", 10, seen=False, initial=True)
    scene.now += 3
    state = scene.state(b"lock:1")
    assert (state.age_seconds, state.age_at_least) == (3, True)
    assert scene.family().acquired == 0


def test_a_token_that_says_when_gives_the_age(scene):
    """A lock that was there before is as old as its token says."""
    token = f"ls1;host=web;pid=1;worker=0123456789ab;at={T0 - 90:.3f};n={0:032x}".encode()
    scene.see(b"lock:1", token, 10, seen=False, initial=True)
    state = scene.state(b"lock:1")
    assert (state.age_seconds, state.age_at_least) == (90, False)


def test_gone_at_its_deadline_is_expired(scene):
    """A lock is not live past its deadline, even before a reading confirms it; then it counts as expired."""
    scene.see(b"lock:1", A, 10)
    scene.now += 10.5
    assert sum(scene.family().keys.values()) == 0
    assert scene.family().ended["expired"] == 0
    assert scene.ledger.take_due("n") == [(0, b"lock:1")]
    assert scene.ledger.take_due("n") == []
    scene.miss(b"lock:1")
    assert scene.family().ended == {"released": 0, "expired": 1, "evicted": 0, "flushed": 0}


def test_a_deadline_that_moved_in_time_is_a_renewal(scene):
    """A lock whose renewal was on its way when its old deadline passed comes back as renewed."""
    scene.see(b"lock:1", A, 10)
    scene.now += 10.2
    scene.ledger.tick(scene.now)
    scene.see(b"lock:1", A, 9.8)
    family = scene.family()
    assert (family.acquired, family.renewed, sum(family.keys.values())) == (1, 1, 1)
    assert family.ended["expired"] == 0
    assert family.oldest_age == pytest.approx(10.2)


@pytest.mark.parametrize("how", ["evicted", "flushed", "released", "expired"])
def test_the_feed_knows_how_it_ended(scene, how):
    """What the feed says of an end is what is counted."""
    scene.see(b"lock:1", A, 10)
    scene.now += 1
    scene.miss(b"lock:1", end=how)
    assert [end for end, count in scene.family().ended.items() if count] == [how]


def test_a_flush_does_not_claim_what_had_expired(scene):
    """A lock that was past its deadline when the database was flushed had expired."""
    scene.see(b"lock:1", A, 10)
    scene.now += 11
    scene.miss(b"lock:1", end="flushed")
    assert scene.family().ended["expired"] == 1


def test_one_write_that_changes_the_owner_is_a_takeover(scene):
    """Another owner by one write, with no end between, is a takeover and no release."""
    scene.see(b"lock:1", A, 10)
    scene.now += 1
    scene.see(b"lock:1", B, 10, overwrite=True)
    family = scene.family()
    assert (family.acquired, family.takeover, family.ended["released"]) == (2, 1, 0)
    assert scene.state(b"lock:1").age_seconds == 0


def test_several_writes_that_change_the_owner_are_a_release(scene):
    """Another owner after several writes is a release and an acquisition."""
    scene.see(b"lock:1", A, 10)
    scene.now += 1
    scene.see(b"lock:1", B, 10, overwrite=False)
    family = scene.family()
    assert (family.acquired, family.takeover, family.ended["released"]) == (2, 0, 1)


def test_taken_right_after_expiry_is_a_takeover(scene):
    """Who gets in within a second of an expiry may work beside the old holder: expired, and taken over."""
    scene.see(b"lock:1", A, 10)
    scene.now += 10.01
    scene.miss(b"lock:1")
    scene.now += 0.3
    scene.see(b"lock:1", B, 10)
    scene.see(b"lock:2", A, 1)
    scene.now += 1.01
    scene.miss(b"lock:2")
    scene.now += 5
    scene.see(b"lock:2", B, 10)
    family = scene.family()
    assert (family.ended["expired"], family.takeover, family.acquired) == (2, 1, 4)


def test_the_same_owner_again_takes_over_nothing(scene):
    """An owner who takes its own lock again after an expiry is no takeover."""
    scene.see(b"lock:1", A, 10)
    scene.now += 10.01
    scene.miss(b"lock:1")
    scene.see(b"lock:1", A, 10)
    assert scene.family().takeover == 0


def test_a_changed_owner_past_the_deadline_is_expired_and_taken_over(scene):
    """If the old lease had run out when another owner is seen, it expired, and was taken over at once."""
    scene.see(b"lock:1", A, 10)
    scene.now += 10.05
    scene.see(b"lock:1", B, 10, overwrite=True)
    family = scene.family()
    assert (family.ended["expired"], family.takeover, family.acquired) == (1, 1, 2)


def test_members_come_and_go(scene):
    """Holders that join and leave a shared lock are counted each; the lock itself goes on."""
    one, two, three = (b"b983c153-7421-469a-addb-44fb92259a1b:%d" % number for number in (1, 2, 3))
    scene.see(b"rw", {b"mode": b"read", one: b"1"}, 30, dialect="redisson-rwlock", type_="hash")
    scene.now += 1
    scene.see(
        b"rw",
        {b"mode": b"read", one: b"1", two: b"1", three: b"1"},
        30,
        dialect="redisson-rwlock",
        type_="hash",
    )
    scene.now += 1
    scene.see(b"rw", {b"mode": b"read", two: b"1"}, 30, dialect="redisson-rwlock", type_="hash")
    family = scene.family()
    assert (family.acquired, family.ended["released"], family.takeover) == (3, 2, 0)
    assert scene.state(b"rw").age_seconds == 2
    assert len(scene.state(b"rw").holders) == 1


def test_losing_the_expiry_is_no_ttl_and_not_a_renewal(scene):
    """A renewed lock that loses its TTL is no_ttl at once, with the renewals before it remembered."""
    scene.see(b"lock:1", A, 10)
    for _ in range(3):
        scene.now += 3
        scene.see(b"lock:1", A, 10)
    scene.now += 1
    scene.see(b"lock:1", A, None)
    state = scene.state(b"lock:1")
    assert (state.state, state.renewals, state.ttl_seconds) == ("no_ttl", 3, None)
    assert scene.family().without_ttl == 1
    assert scene.family().renewed == 3


def test_missed_renewals_stall(scene):
    """A holder that renewed at a cadence and stopped is stalled, and held again when it goes on."""
    scene.see(b"lock:1", A, 60)
    for _ in range(4):
        scene.now += 2
        scene.see(b"lock:1", A, 60)
    assert scene.state(b"lock:1").state == "held"
    scene.now += 4.4  # two intervals, and a quarter of slack
    assert ("generic", "stalled") not in {pair for pair, count in scene.family().keys.items() if count}
    assert [pair[1] for pair, count in scene.family().keys.items() if count] == [scene.state(b"lock:1").state]
    scene.now += 0.2
    assert [pair[1] for pair, count in scene.family().keys.items() if count] == ["stalled"]
    scene.see(b"lock:1", A, 60)
    assert [pair[1] for pair, count in scene.family().keys.items() if count] == ["held"]


def test_overdue_by_configuration_by_learning_and_by_first_ttl():
    """What is expected is configured, else learned from past holds, else the first TTL."""
    configured = Scene({"lock:*": 2.0})
    configured.see(b"lock:1", A, 60)
    configured.now += 2.1
    assert configured.state(b"lock:1").state == "overdue"
    learned = Scene()
    for number in range(100):
        learned.see(b"lock:%d" % number, A, 60)
        learned.now += 0.5
        learned.miss(b"lock:%d" % number)
    learned.now += 11
    learned.see(b"lock:777", A, 60)
    learned.now += 0.7
    state = learned.state(b"lock:777")
    assert state.state == "overdue"
    assert 0.5 <= state.expected_hold_seconds < 0.6
    assert learned.family().expected_hold == state.expected_hold_seconds
    first = Scene()
    first.see(b"lock:1", A, 5)
    first.now += 4
    first.see(b"lock:1", A, 5)
    assert first.state(b"lock:1").state == "held"
    first.now += 1.5
    assert first.state(b"lock:1").state == "overdue"


def test_expired_holds_teach_nothing(scene):
    """How long a lock was held is learned from releases only: an expiry tells the TTL, not the job."""
    for number in range(100):
        scene.see(b"lock:%d" % number, A, 1)
        scene.now += 1.01
        scene.miss(b"lock:%d" % number)
    scene.now += 11
    scene.ledger.tick(scene.now)
    assert scene.family().expected_hold is None


def test_presence_decides_orphaned(scene):
    """The counts follow a holder's presence as soon as its worker is reconsidered."""
    token = f"ls1;host=web;pid=1;worker=0123456789ab;at={T0:.3f};n={0:032x}".encode()
    scene.see(b"lock:1", token, 60)
    assert scene.ledger.workers() == ["0123456789ab"]
    scene.life["0123456789ab"] = Standing("gone", T0)
    scene.now += 1
    scene.ledger.reconsider(["0123456789ab"], scene.now)
    assert [pair[1] for pair, count in scene.family().keys.items() if count] == ["orphaned"]
    assert scene.state(b"lock:1").state == "orphaned"
    scene.miss(b"lock:1")
    assert scene.ledger.workers() == []


def test_a_node_out_of_reach_is_counted_out_and_back_in(scene):
    """Locks of a lost node are not shown; what is read again goes on as if nothing had been."""
    scene.see(b"lock:1", A, 100)
    scene.see(b"lock:2", B, 100)
    scene.now += 5
    scene.ledger.suspend("n")
    assert sum(scene.family().keys.values()) == 0
    assert scene.ledger.keys(0, "n") == [b"lock:1", b"lock:2"]
    scene.now += 5
    scene.see(b"lock:1", A, 90, seen=False)
    scene.miss(b"lock:2", seen=False, end="flushed")
    family = scene.family()
    assert (family.acquired, family.renewed, family.oldest_age) == (2, 0, 10)
    assert family.ended["flushed"] == 1
    assert sum(family.keys.values()) == 1


def test_a_lock_that_moves_between_nodes_stays_one_lock(scene):
    """MIGRATE rounds the TTL anew: neither a renewal nor an end, and the old node's word counts no more."""
    scene.see(b"lock:1", A, 100)
    assert scene.ledger.assign(lambda _: "m") == [("m", 0, b"lock:1")]
    scene.now += 1
    scene.see(b"lock:1", A, 99.003, node="m", seen=False)
    assert scene.miss(b"lock:1", node="n") is False
    family = scene.family()
    assert (family.acquired, family.renewed, sum(family.keys.values())) == (1, 0, 1)
    assert scene.state(b"lock:1").node == "m"


def test_no_lock_any_more(scene):
    """A key that holds something else now has released its lock."""
    scene.see(b"lock:1", A, 100)
    scene.now += 1
    scene.see(b"lock:1", None, None, type_="list")
    assert scene.family().ended["released"] == 1
    assert not scene.ledger.knows(0, b"lock:1")


def test_glances(scene):
    """A glance agrees if type and deadline do; a lock without expiry has to be read."""
    scene.see(b"lock:1", A, 100)
    scene.see(b"lock:2", A, None)
    deadline = scene.now + 100
    agrees = scene.ledger.agrees
    assert agrees(0, "n", Glance(b"lock:1", "string", deadline), scene.now, 0.0)
    assert not agrees(0, "n", Glance(b"lock:1", "string", deadline + 1), scene.now, 0.0)
    assert not agrees(0, "n", Glance(b"lock:1", "none", None), scene.now, 0.0)
    assert agrees(0, "n", Glance(b"lock:1", "none", None), deadline, 0.0)
    assert not agrees(0, "n", Glance(b"lock:2", "string", None), scene.now, 0.0)
    assert agrees(0, "n", Glance(b"lock:3", "none", None), scene.now, 0.0)
    assert not agrees(0, "n", Glance(b"lock:3", "string", None), scene.now, 0.0)


class Counting(RuleBasedStateMachine):
    """Running counts against a recount of every lock, whatever happens."""

    def __init__(self) -> None:
        super().__init__()
        self.scene = Scene({"lock:b:*": 3.0})

    keys = st.sampled_from([f"lock:{family}:{number}".encode() for family in "ab" for number in range(3)])
    news = st.fixed_dictionaries({"seen": st.booleans(), "overwrite": st.booleans()})

    @rule(
        key=keys,
        value=st.sampled_from([A, B, C, b"1", b""]),
        ttl=st.sampled_from([None, 0.4, 2, 20, 100]),
        news=news,
    )
    def see(self, key, value, ttl, news):
        """A key is read."""
        self.scene.see(key, value, ttl, **news)

    @rule(key=keys, news=news)
    def miss(self, key, news):
        """A key is gone."""
        self.scene.miss(key, **news)

    @rule(seconds=st.sampled_from([0.1, 0.5, 1, 7, 40]))
    def wait(self, seconds):
        """Time passes."""
        self.scene.now += seconds

    @rule()
    def lose(self):
        """The node goes out of reach."""
        self.scene.ledger.suspend("n")

    @invariant()
    def counts_are_true(self):
        """Every number of every family is what a walk over the locks finds, within two milliseconds."""
        now = self.scene.now
        families = {family.prefix: family for family in self.scene.ledger.families(now)}
        states = self.scene.ledger.states(self.scene.ledger.entries(), now)
        earlier = self.scene.ledger.states(self.scene.ledger.entries(), now - 0.002)
        for prefix, family in families.items():
            mine = [state for state in states if state.prefix == prefix]
            counted = Counter({pair: count for pair, count in family.keys.items() if count})
            before = [state for state in earlier if state.prefix == prefix]
            assert counted in [Counter((one.dialect, one.state) for one in walk) for walk in (mine, before)]
            expiring = [state.ttl_seconds for state in mine if state.ttl_seconds is not None]
            assert family.without_ttl == len(mine) - len(expiring)
            assert family.weak_owner == sum(state.weak_owner for state in mine)
            assert family.ttl_min == pytest.approx(min(expiring)) if expiring else family.ttl_min is None
            assert family.ttl_sum == pytest.approx(sum(expiring), abs=0.01)
            assert family.ttl_buckets[-1] == len(expiring)
            for bound, count in zip(TTL_BUCKETS, family.ttl_buckets, strict=False):
                low, high = (sum(left <= bound + shift for left in expiring) for shift in (-0.002, 0.002))
                assert low <= count <= high, bound
            ages = [state.age_seconds for state in mine]
            assert family.oldest_age == pytest.approx(max(ages)) if ages else family.oldest_age is None
        assert {state.prefix for state in states} <= set(families)


Counting.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestCounting = Counting.TestCase

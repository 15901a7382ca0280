"""States of a lock and the sentences that prove them; renew cadence; usual holds."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockscope_exporter.cadence import Cadence
from lockscope_exporter.classify import Expected, Facts, classify, state_of
from lockscope_exporter.evidence import beyond_columns, holder_name
from lockscope_exporter.holds import HoldLearner
from lockscope_exporter.moments import moment, span
from lockscope_exporter.state import Holder

NOW = 1_796_000_000.0
DAY = 86400.0


def holder(**known):
    return Holder(b"token", "3fa2b1c9", **known)


ALIVE = holder(
    host="web-3", pid=4121, worker="7f3a9c", job_type="invoice.generate", job_id="8812", alive="alive"
)
GONE = holder(
    host="web-3", pid=4121, worker="7f3a9c", job_type="invoice.generate", alive="gone", gone_since=NOW - 2.1
)
UNKNOWN = holder(host="web-1", pid=7)


def facts(**known):
    base = {
        "now": NOW,
        "dialect": "redis-py",
        "ttl_expected": True,
        "deadline": NOW + 41,
        "holders": (UNKNOWN,),
        "held_since": NOW - 12,
    }
    return Facts(**{**base, **known})


def renewing(interval, count, silence, start=NOW - 1000):
    """Return the cadence of a holder that renewed ``count`` times, and the time after ``silence`` seconds."""
    cadence = Cadence(last=start)
    for number in range(1, count + 1):
        cadence = cadence.renewed(start + number * interval)
    return cadence, start + count * interval + silence


def test_a_lock_of_a_holder_that_left_is_orphaned_and_says_who_and_for_how_long():
    """The first sentence is what someone needs at three in the morning."""
    state, evidence = classify(facts(holders=(GONE,)))
    assert state == "orphaned"
    assert evidence[0] == "holder web-3/4121 of invoice.generate left 2.1 s ago; frees itself in 41 s"
    assert "presence" in evidence[1]


def test_the_lock_of_a_vanished_host_does_not_claim_that_a_connection_was_closed():
    """What is known of the connection takes the place of what usually proves a death."""
    why = "its presence connection has been silent for over 5 min: its host has vanished"
    state, evidence = classify(facts(holders=(replace(GONE, doubt=why),)))
    assert (state, evidence[1]) == ("orphaned", why)


def test_an_orphaned_lock_that_never_expires_says_so():
    """Orphaned comes before no_ttl, and the missing expiry is told."""
    state, evidence = classify(facts(holders=(GONE,), deadline=None))
    assert state == "orphaned"
    assert evidence[0].endswith("left 2.1 s ago; it never expires")


@pytest.mark.parametrize("others", [(UNKNOWN,), (ALIVE,), (ALIVE, UNKNOWN)])
def test_a_lock_is_not_orphaned_while_any_holder_may_live(others):
    """Only positive evidence about every holder counts; the one that is gone is told."""
    state, evidence = classify(facts(holders=(GONE, *others)))
    assert state == "held"
    assert any(f"1 of {len(others) + 1} holders is gone: web-3/4121" in sentence for sentence in evidence)


def test_all_holders_of_a_shared_lock_gone_is_orphaned():
    """The one that left last is named."""
    earlier = holder(host="web-9", pid=1, alive="gone", gone_since=NOW - 90)
    state, evidence = classify(facts(holders=(earlier, GONE)))
    assert state == "orphaned"
    assert evidence[0].startswith(
        "all 2 holders are gone, the last, web-3/4121 of invoice.generate, left 2.1 s ago"
    )


def test_unknown_holders_are_never_guessed_to_be_gone():
    """Without presence nothing is orphaned, however long it is held."""
    assert classify(facts(holders=(UNKNOWN,), held_since=NOW - 9e6))[0] == "held"
    assert classify(facts(holders=()))[0] == "held"


def test_a_missing_expiry_is_a_fault_where_the_dialect_wants_one_and_normal_elsewhere():
    """The evidence says which of the two it is."""
    state, evidence = classify(facts(deadline=None))
    assert state == "no_ttl"
    assert "it never expires, and locks of redis-py ought to" in evidence[0]
    state, evidence = classify(facts(deadline=None, ttl_expected=False, dialect="huey", holders=()))
    assert state == "held"
    assert (
        evidence[0] == "held for 12 s, the format names no holder; it never expires, which is normal for huey"
    )


def test_a_lock_that_lost_its_expiry_while_it_was_renewed_tells_that_story():
    """The renewals before it are the history that a person asks for."""
    cadence, _ = renewing(10, 5, 0)
    state, evidence = classify(facts(deadline=None, cadence=cadence, held_since=NOW - 3700))
    assert state == "no_ttl"
    assert "it was renewed 5 times, then lost its expiry" in evidence
    assert "held for 1 h 1 min by web-1/7" in evidence


def test_a_holder_that_missed_two_renewals_has_stalled():
    """One late renewal is not enough; what is known of the holder's life is said."""
    cadence, late = renewing(10, 6, silence=19)
    assert classify(facts(now=late, cadence=cadence))[0] == "held"
    cadence, later = renewing(10, 6, silence=24)
    state, evidence = classify(facts(now=later, deadline=later + 6, cadence=cadence, holders=(ALIVE,)))
    assert state == "stalled"
    assert evidence[0] == "renewed every 10 s until 24 s ago: two renewals are missing; frees itself in 6.0 s"
    assert evidence[1] == "its holder lives"
    assert classify(facts(now=later, cadence=cadence))[1][1] == "whether its holder lives is not known"


@pytest.mark.parametrize("renewals", [0, 1])
def test_a_single_renewal_is_no_cadence(renewals):
    """A lock that was extended once is not expected to be extended again."""
    cadence, later = renewing(10, renewals, silence=10_000)
    assert classify(facts(now=later, deadline=later + 6, held_since=None, cadence=cadence))[0] == "held"


def test_a_renewal_after_an_unknown_gap_teaches_no_interval():
    """The first renewal of a lock that was there before is counted, the time before it is not."""
    cadence = Cadence(last=NOW - 500).renewed(NOW, complete=False)
    assert (cadence.renewals, cadence.interval) == (1, None)
    cadence = cadence.renewed(NOW + 10)
    assert (cadence.interval, cadence.missed_two_at()) == (10, None)
    assert cadence.renewed(NOW + 20).missed_two_at() == pytest.approx(NOW + 20 + 22.5)


def test_a_holder_that_renews_irregularly_is_given_more_time():
    """The largest late renewal widens what counts as missed, and is forgotten again."""
    cadence, _ = renewing(10, 6, silence=0)
    steady = cadence.missed_two_at() - cadence.last
    late = cadence.renewed(cadence.last + 18)
    assert late.missed_two_at() - late.last > steady + 10
    for _ in range(30):
        late = late.renewed(late.last + 10)
    assert late.missed_two_at() - late.last == pytest.approx(steady, rel=0.05)


@pytest.mark.parametrize(
    ("expected", "why"),
    [
        (Expected(60, "configured"), "expected at most 1 min (configured)"),
        (Expected(60, "learned", 240), "expected at most 1 min (99 % of 240 past holds were shorter)"),
        (Expected(60, "first_ttl"), "expected at most 1 min (its first TTL"),
    ],
)
def test_a_lock_held_longer_than_expected_is_overdue_and_says_by_what_measure(expected, why):
    """Configured, learned and first TTL are told apart."""
    state, evidence = classify(facts(held_since=NOW - 95, expected=expected, holders=(ALIVE,)))
    assert state == "overdue"
    assert evidence[0].startswith("held for 1 min 35 s by web-3/4121 of invoice.generate (job 8812)")
    assert why in evidence[0]
    assert evidence[0].endswith("; frees itself in 41 s")
    assert classify(facts(held_since=NOW - 60, expected=expected))[0] == "held"


def test_a_lower_bound_of_the_age_is_enough_to_be_overdue_and_shown_as_one():
    """A lock that was there before anyone looked has been held at least since then."""
    state, evidence = classify(
        facts(held_since=NOW - 95, since_at_least=True, expected=Expected(60, "configured"))
    )
    assert state == "overdue"
    assert "held for at least 1 min 35 s" in evidence[0]


def test_without_an_age_or_an_expectation_nothing_is_overdue():
    """Unknown stays unknown."""
    assert classify(facts(held_since=None, expected=Expected(0.001, "configured")))[0] == "held"
    assert classify(facts(held_since=NOW - 1e9, expected=None))[0] == "held"


def test_the_first_state_that_applies_wins():
    """Orphaned before no_ttl before stalled before overdue before held."""
    cadence, later = renewing(1, 9, silence=100)
    everything = {
        "now": later,
        "cadence": cadence,
        "held_since": 0.0,
        "expected": Expected(1, "configured"),
        "deadline": None,
    }
    assert classify(facts(holders=(GONE,), **everything))[0] == "orphaned"
    assert classify(facts(**everything))[0] == "no_ttl"
    assert classify(facts(**{**everything, "deadline": later + 1}))[0] == "stalled"
    assert classify(facts(**{**everything, "deadline": later + 1, "cadence": Cadence()}))[0] == "overdue"
    assert classify(facts())[0] == "held"


def test_a_healthy_lock_says_who_holds_it_how_it_renews_and_until_when():
    """Good news has evidence as well."""
    cadence, now = renewing(10, 3, silence=4)
    state, evidence = classify(
        facts(now=now, cadence=cadence, deadline=now + 26, held_since=now - 34, holders=(ALIVE,))
    )
    assert state == "held"
    assert evidence == (
        "held for 34 s by web-3/4121 of invoice.generate (job 8812); frees itself in 26 s",
        "renewed 3 times every 10 s, last 4.0 s ago",
        "its holder lives",
    )


def test_a_note_of_the_dialect_is_the_last_sentence():
    """What the bytes do not tell belongs to the evidence of every state."""
    for known in ({}, {"deadline": None}, {"holders": (GONE,)}, {"expected": Expected(1, "learned", 30)}):
        assert classify(facts(note="the count names nobody", **known))[1][-1] == "the count names nobody"


@pytest.mark.parametrize(
    ("known", "name"),
    [
        ({"host": "web-3", "pid": 4121}, "web-3/4121"),
        ({"host": "web-3"}, "web-3"),
        ({"host": "mac:02fc00000001"}, "the machine with MAC address 02fc00000001"),
        ({"worker": "7f3a9c"}, "worker 7f3a9c"),
        ({"job_id": "j-42"}, "job j-42"),
        ({"job_type": "a.b"}, "the owner of token 3fa2b1c9 of a.b"),
        ({}, "the owner of token 3fa2b1c9"),
        ({"host": "web\n3\x1b[31m", "pid": 1}, "web\\n3\\x1b[31m/1"),
    ],
)
def test_a_holder_is_named_by_what_is_known_of_it_in_one_safe_line(known, name):
    """The token itself never appears, and hostile names cannot forge a line."""
    assert holder_name(holder(**known)) == name


_TEXT = st.one_of(st.none(), st.text(max_size=200))
_TIME = st.one_of(st.none(), st.floats(0, 4e9))


@given(
    st.lists(
        st.builds(
            Holder,
            st.just(b"secret-token-bytes"),
            st.just("3fa2b1c9"),
            _TEXT,
            st.one_of(st.none(), st.integers(1, 9999)),
            st.none(),
            _TEXT,
            _TEXT,
            _TIME,
            st.sampled_from(["alive", "gone", "unknown"]),
            _TIME,
        ),
        max_size=4,
    ),
    _TIME,
    _TIME,
    st.booleans(),
    st.builds(Cadence, st.integers(0, 9), st.floats(0, 4e9), _TIME, st.floats(0, 1e6), st.integers(0, 9)),
)
def test_whatever_is_known_gives_a_state_with_printable_evidence_and_no_token(
    holders, deadline, since, at_least, cadence
):
    """Evidence is never empty, one line a sentence, and state_of agrees with it."""
    known = facts(
        holders=tuple(holders), deadline=deadline, held_since=since, since_at_least=at_least, cadence=cadence
    )
    state, evidence = classify(known)
    assert classify(known)[1].beyond == beyond_columns(state, tuple(evidence))
    assert state == state_of(known)
    assert evidence
    for sentence in evidence:
        assert sentence.isprintable()
        assert "secret-token-bytes" not in sentence


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0 s"),
        (0.0004, "1 ms"),
        (0.05, "50 ms"),
        (2.13, "2.1 s"),
        (9.97, "10 s"),
        (41.2, "41 s"),
        (59.6, "1 min"),
        (200, "3 min 20 s"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (3 * DAY + 4 * 3600, "3 d 4 h"),
        (float("inf"), "for ever"),
        (float("nan"), "0 s"),
    ],
)
def test_durations_read_as_people_say_them(seconds, text):
    """Two units at most, no false precision."""
    assert span(seconds) == text


@pytest.mark.parametrize(
    "value", ["", "x", "12", "1e400", "nan", "2026-13-45", True, None, -5, 1e300, 10**400, [], b"1"]
)
def test_what_is_no_time_is_none(value):
    """Small numbers, text and containers are not read as moments."""
    assert moment(value) is None


def learned(holds, prefix="lock:*", **options):
    learner = HoldLearner(**options)
    for at, seconds in holds:
        learner.observe(prefix, seconds, at)
    return learner


def test_the_threshold_is_the_99th_percentile_within_a_tenth():
    """1,000 holds of 1 to 1,000 seconds: the threshold is 990 seconds, at most 10 % higher."""
    learner = learned((NOW + number, float(number)) for number in range(1, 1001))
    seconds, holds = learner.expected("lock:*", NOW + 1000)
    assert 990 <= seconds <= 990 * 1.1
    assert holds in (999, 1000)


@given(st.lists(st.floats(0.001, 1e6), min_size=20, max_size=200))
def test_the_threshold_is_never_below_the_percentile_nor_far_above_it(holds):
    """Whatever the distribution, at most the accuracy of a bucket is lost, and only upwards."""
    seconds, _ = learned([(NOW, hold) for hold in holds]).expected("lock:*", NOW)
    exact = sorted(holds)[max(0, -(-99 * len(holds) // 100) - 1)]
    assert exact * (1 - 1e-6) <= seconds <= exact * 1.1 * (1 + 1e-6)


def test_too_few_holds_teach_nothing():
    """Nineteen are not enough, twenty are; a prefix never seen has no threshold."""
    assert learned([(NOW, 5.0)] * 19).expected("lock:*", NOW) is None
    assert learned([(NOW, 5.0)] * 20).expected("lock:*", NOW)[1] == 20
    assert learned([]).expected("lock:*", NOW) is None


def test_old_holds_fade_and_new_ones_take_over():
    """When a job gets slow for good its threshold follows; when it is gone for long nothing is known."""
    learner = learned([(NOW, 1.0)] * 1000, half_life=DAY)
    for number in range(40):
        learner.observe("lock:*", 100.0, NOW + 14 * DAY + number)
    assert learner.expected("lock:*", NOW + 14 * DAY)[0] >= 100
    slow_once = learned([(NOW, 1.0)] * 1000 + [(NOW, 500.0)], half_life=DAY)
    assert slow_once.expected("lock:*", NOW)[0] < 1.2
    assert learner.expected("lock:*", NOW + 60 * DAY) is None


def test_memory_stays_bounded_whatever_is_observed():
    """At most 241 buckets a prefix, at most ``limit`` prefixes, the one unused for longest goes first."""
    learner = HoldLearner(limit=3)
    for number in range(20_000):
        learner.observe("a", 1.01 ** (number % 3000), NOW + number)
    assert len(learner._prefixes["a"]._buckets) <= 241
    for prefix in ("b", "c", "a", "d"):
        learner.observe(prefix, 1.0, NOW)
    assert set(learner._prefixes) == {"a", "c", "d"}


def test_what_was_learned_survives_a_restart():
    """The state file gives the same thresholds, and they go on fading."""
    learner = learned([(NOW, 5.0)] * 50 + [(NOW, 7.0)], half_life=DAY)
    restored = HoldLearner(half_life=DAY)
    restored.loads(learner.dumps(NOW), NOW + 60)
    assert restored.expected("lock:*", NOW + 60) == learner.expected("lock:*", NOW + 60)
    assert restored.expected("lock:*", NOW + 9 * DAY) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[]",
        "{}",
        '{"version": 2, "holds": {}}',
        '{"version": 1, "holds": {"a": 1}}',
        '{"version": 1, "holds": {"a": {"at": 1, "buckets": {"9999": 1}}}}',
        '{"version": 1, "holds": {"a": {"at": 1, "buckets": {"1": -1}}}}',
        '{"version": 1, "holds": {"a": {"at": NaN, "buckets": {"1": 1}}}}',
        '{"version": 1, "holds": {"a": {"at": 1e300, "buckets": {"1": 1}}}}',
        "[" * 100_000,
    ],
)
def test_a_damaged_state_file_is_refused_and_leaves_what_was_known(text):
    """One ValueError, no half-read state."""
    learner = learned([(NOW, 5.0)] * 20)
    with pytest.raises(ValueError, match=r"."):
        learner.loads(text, NOW)
    assert learner.expected("lock:*", NOW) is not None


def test_a_state_file_of_a_clock_that_was_ahead_does_no_harm():
    """Holds from the future count from now on, and fade from there."""
    ahead = learned([(NOW + 400 * DAY, 5.0)] * 50)
    learner = HoldLearner()
    learner.loads(ahead.dumps(NOW + 400 * DAY), NOW)
    assert learner.expected("lock:*", NOW)[1] == 50
    assert learner.expected("lock:*", NOW + 30 * DAY) is None


@given(st.lists(st.tuples(st.floats(0, 4e9), st.floats(allow_nan=True, allow_infinity=True)), max_size=60))
def test_no_duration_or_clock_can_break_the_learner(holds):
    """Negative, endless and unordered times are left out or taken in stride, and the file stays JSON."""
    learner = learned(holds, half_life=60)
    learner.expected("lock:*", NOW)
    text = learner.dumps(NOW)
    json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    HoldLearner(half_life=60).loads(text, NOW)


def test_a_list_repeats_nothing_that_its_columns_say():
    """Beside columns for state, age, TTL and holder only what they do not tell is left of the evidence."""

    def left(**known):
        return beyond_columns(*classify(facts(**known)))

    assert left() == ()
    assert left(holders=(ALIVE,), note="a note") == ("its holder lives", "a note")
    assert left(deadline=None, ttl_expected=False) == ("it never expires, which is normal for redis-py",)
    never = "it never expires, and locks of redis-py ought to: if its holder dies it stays for ever"
    assert left(deadline=None) == (never,)
    limit = "expected at most 10 s (configured)"
    assert left(expected=Expected(10, "configured")) == (limit,)
    assert left(holders=(GONE,))[0].startswith("holder web-3/4121")
    assert not any(one.startswith("held") for one in left(holders=(GONE,)))


@given(st.sampled_from(["orphaned", "no_ttl", "stalled", "overdue", "held"]), st.lists(st.text(max_size=30)))
def test_any_evidence_can_be_shortened(state, evidence):
    """Evidence of an earlier version or a hostile source shortens without an error."""
    assert len(beyond_columns(state, evidence)) <= len(evidence)

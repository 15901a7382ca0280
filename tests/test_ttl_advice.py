"""TTL advice: the arithmetic, what a real mirror learns for it, and the metric."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from commands import series
from lockscope_dashboard.frames.ttl import advice_frame
from lockscope_exporter.collector import LockCollector
from lockscope_exporter.exposition import PLAIN, render
from lockscope_exporter.holds import HoldLearner
from lockscope_exporter.ttl_advice import (
    LATE,
    MARGIN,
    PATIENCE,
    RENEWALS,
    TIGHT,
    WASTEFUL,
    recommend,
    recommend_for,
    rounded,
)
from mirroring import mirror
from servers import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockscope_exporter.state import Family

seconds = st.floats(0.001, 1e6)


def test_a_tight_ttl_gets_twice_the_p99():
    """A p99 beyond 80 % of the TTL is too short, and the sum is written out."""
    why = "p99 is 90% of the TTL of 10 s; 2 times the p99 of 9.0 s = 18 s, rounded up to 20 s"
    assert recommend(9.0, 10.0) == ("too short", 20.0, why)


def test_a_ttl_that_delays_recovery_is_too_long():
    """Far more than needed is a finding only where a crash would block for longer than anybody waits."""
    found = recommend(2.0, 3600.0)
    assert (found.verdict, found.seconds) == ("too long", 5.0)
    assert found.why.startswith("after a crash the lock stays for up to 1 h, though p99 is 2.0 s")
    assert recommend(0.01, 30.0) == ("good", 30.0, "p99 is 0% of the TTL of 30 s")


def test_locks_that_expire_under_their_holder_hide_the_true_p99():
    """Holds cut off by the TTL are not seen: if many expire, half the TTL is tight; few say nothing."""
    often = recommend(6.0, 10.0, ended=100, expired=5)
    assert (often.verdict, often.seconds) == ("too short", 20.0)
    assert "5 of 100 locks expired under a holder" in often.why
    assert recommend(6.0, 10.0, ended=100, expired=1).verdict == "good"
    assert recommend(6.0, 10.0, ended=10, expired=5).verdict == "good"
    rarely_long = recommend(0.5, 10.0, ended=100, expired=5)
    assert rarely_long.verdict == "good"
    assert "5 of 100" in rarely_long.why


def test_renewed_locks_are_judged_by_their_renewals():
    """The hold may be longer than the TTL; what counts is how much of it is left at a renewal."""
    assert recommend(100.0, 9.0, renewed=True, interval=3.0).verdict == "good"
    late = recommend(100.0, 10.0, renewed=True, interval=9.0)
    assert late == (
        "too short", 30.0,
        (
            "renewed every 9.0 s, which leaves 10% of the TTL of 10 s; 3 times the interval of 9.0 s = 27 s, "
            "rounded up to 30 s"
        ),
    )  # fmt: skip
    assert recommend(None, 3600.0, renewed=True, interval=5.0)[:2] == ("too long", 15.0)
    assert recommend(100.0, 10.0, renewed=True, headroom=0.1, interval=1.0).verdict == "too short"
    assert recommend(100.0, 10.0, renewed=True)[:2] == ("unknown", 10.0)
    assert recommend(100.0, None, renewed=True, interval=1.0)[:2] == ("unknown", None)


def test_nothing_known_is_no_advice():
    """Without holds nothing is recommended; without a TTL no verdict is given."""
    assert recommend(None, 10.0)[:2] == ("unknown", None)
    assert recommend(4.0, None)[:2] == ("unknown", 10.0)


@given(seconds, seconds)
def test_following_the_advice_ends_it(p99, ttl):
    """The recommended TTL is good when judged itself, never below the margin, and a round number."""
    found = recommend(p99, ttl)
    assert found.seconds is not None
    assert recommend(p99, found.seconds)[:2] == ("good", found.seconds)
    if found.verdict == "good":
        assert found.seconds == ttl
        assert p99 <= TIGHT * ttl
        assert ttl <= max(WASTEFUL * rounded(MARGIN * p99), PATIENCE)
    else:
        assert found.seconds >= MARGIN * p99
        assert found.seconds == int(found.seconds)


@given(seconds, seconds)
def test_following_the_advice_ends_it_for_renewed_locks_too(interval, ttl):
    """Three intervals are good when they are judged themselves."""
    found = recommend(None, ttl, renewed=True, interval=interval)
    assert found.seconds is not None
    assert recommend(None, found.seconds, renewed=True, interval=interval).verdict == "good"
    if found.verdict == "too short":
        assert interval > (1 - LATE) * ttl * 0.999
        assert found.seconds >= RENEWALS * interval


@given(seconds)
def test_rounding_goes_up_to_the_next_round_number(value):
    """Never below, and at most ten minutes or the double above."""
    assert value <= rounded(value) <= max(2 * value, value + 600, 1.0)


@pytest.fixture
def metrics(server, tmp_path) -> tuple[Callable[..., float | None], Callable[[], Family | None]]:
    """Give functions that ask a mirror for a metric of ``lock:job``, whose holds last 2 s, and its family."""
    learner = HoldLearner()
    for _ in range(30):
        learner.observe("lock:job", 2.0, time.time())
    state_file = tmp_path / "state.json"
    state_file.write_text(learner.dumps(time.time()))
    with mirror(server.url, state_file=str(state_file)) as source:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(LockCollector(source))

        def metric(name: str) -> float | None:
            found = series(render(registry, PLAIN).decode(), name, prefix="lock:job")
            return found[0] if found else None

        def family() -> Family | None:
            return next((one for one in source.families() if one.prefix == "lock:job"), None)

        yield metric, family


def test_learned_holds_make_the_metric(client, metrics):
    """Past holds of 2 s and a TTL of an hour make a recommendation of seconds, beside the usual TTL."""
    metric, family = metrics
    client.set("lock:job", "t", px=3_600_000)
    wait_until(lambda: seen(family, "acquired", 1))
    assert metric("redis_lock_ttl_usual_seconds") == pytest.approx(3600.0, abs=1.0)
    assert metric("redis_lock_ttl_recommended_seconds") == 5.0
    assert recommend_for(family()).verdict == "too long"


def test_renewals_that_a_mirror_sees_make_the_metric(client, metrics):
    """A lock of an hour that is renewed all the time is judged by its renewals, not by its hold."""
    metric, family = metrics
    client.set("lock:job", "t", px=3_600_000)
    wait_until(lambda: seen(family, "acquired", 1))
    for number in range(1, 7):
        threading.Event().wait(0.1)  # what is measured
        client.pexpire("lock:job", 3_600_000)
        wait_until(lambda: seen(family, "renewed", number))  # noqa: B023 - called at once
    assert 0.1 <= (family().renewal_interval or 0) < 2
    assert metric("redis_lock_ttl_usual_seconds") == pytest.approx(3600.0, abs=1.0)
    assert 1.0 <= (metric("redis_lock_ttl_recommended_seconds") or 0) <= 10.0
    assert recommend_for(family()).why.startswith("after a crash the lock stays for up to 1 h, though it is")


def seen(family: Callable[[], Family | None], what: str, count: int) -> bool:
    """Tell whether the mirror has counted so many events of a family."""
    found = family()
    if found is None:
        return False
    count_of: int = getattr(found, what)
    return count_of == count


def test_before_anything_is_known_there_is_no_series(client, server):
    """A family of which neither TTL nor hold is known yet has no such series, rather than a made-up one."""
    client.set("lock:job", "t")
    with mirror(server.url) as source:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(LockCollector(source))
        text = render(registry, PLAIN).decode()
    assert series(text, "redis_lock_keys_without_ttl", prefix="lock:job") == [1.0]
    assert series(text, "redis_lock_ttl_usual_seconds", prefix="lock:job") == []
    assert series(text, "redis_lock_ttl_recommended_seconds", prefix="lock:job") == []


def test_the_explorer_judges_renewed_locks_by_what_the_sampler_sees():
    """Without Prometheus, renewals that the sampler saw excuse a hold that is longer than its TTL."""
    nothing = pd.DataFrame(columns=["prefix", "value"])
    rows = advice_frame(
        {}, renewals=nothing, headroom=nothing, lost=nothing, leases={"a": 9.0, "b": 9.0},
        learned={"a": 600.0, "b": 600.0}, intervals={"a": 3.0},
    ).set_index("prefix")  # fmt: skip
    assert (rows["verdict"]["a"], rows["recommended"]["a"]) == ("good", 9.0)
    assert rows["verdict"]["b"] == "too short"

"""What the explorer tells from the journal: a lock's past, who blocks whom, counts without Prometheus."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import streamlit as st
from prometheus_client import CollectorRegistry, Counter, Histogram
from streamlit.testing.v1 import AppTest

import lockscope_dashboard
from explorer_stage import Folder
from lockscope import catalog, events
from lockscope.events import LockEvent
from lockscope.jobs import Job
from lockscope.journal import Recorded, Writer
from lockscope.tokens import Owner
from lockscope_dashboard.frames import blocking, tally, timeline
from lockscope_exporter.journal.history import History
from servers import RedisServer, wait_until

APP = Path(lockscope_dashboard.__file__).parent / "app.py"
NOW = 1_700_000_000.0
ANN = Writer("web-1", 11, "aaaaaa")
BOB = Writer("web-2", 22, "bbbbbb")


def told(event, at, writer=ANN, owner="", *, key=b"lock:order:1", job="order.sync", **more):
    """Make an event as the journal tells it, ``at`` seconds after ``NOW``."""
    return Recorded(LockEvent(event, key, "lock:order:*", NOW + at, Job(job_type=job), **more), owner, writer)


def spans(recorded, held=(), now=100.0):
    """Return the spans as tuples, times from ``NOW``."""
    frame = timeline.spans_frame(recorded, held, NOW + now)
    return [
        (row.who, row.kind, round(row.start - NOW, 3), round(row.end - NOW, 3), row.how)
        for row in frame.itertuples()
    ]


class TestTimeline:
    """Who held a lock when."""

    def test_wait_and_hold_of_a_lock_that_was_released(self):
        """A call that waited is a wait followed by a hold."""
        found = spans(
            [
                told(events.ACQUIRED, 0, owner="a", wait_seconds=2.0, ttl=30.0),
                told(events.RELEASED, 5, owner="a", ends_lease=True),
            ]
        )
        assert found == [
            ("web-1/11 order.sync", "waited", 0, 2, "then got it"),
            ("web-1/11 order.sync", "held", 2, 5, "released"),
        ]

    def test_work_after_the_lease_had_lapsed_is_unprotected(self):
        """A release that found the lock lost splits into the lease and the work without it."""
        found = spans(
            [
                told(events.ACQUIRED, 0, owner="a", ttl=3.0),
                told(events.ACQUIRED, 4, BOB, "b", ttl=3.0),
                told(events.RELEASE_LOST, 5, owner="a", ends_lease=True, unprotected_seconds=2.0),
            ],
            held={"b"},
            now=6,
        )
        assert ("web-1/11 order.sync", "held", 0, 3, "ran out") in found
        assert ("web-1/11 order.sync", "unprotected", 3, 5, "found lost") in found
        assert ("web-2/22 order.sync", "held", 4, 6, "still held") in found

    def test_loss_found_twice_counts_each_second_once(self):
        """A renewal that found the loss and the release after it give unprotected time that adds up."""
        found = spans(
            [
                told(events.ACQUIRED, 0, owner="a", ttl=2.0),
                told(events.RENEW_LOST, 3, owner="a", ends_lease=True, unprotected_seconds=1.0),
                told(events.RELEASE_LOST, 6, owner="a", unprotected_seconds=3.0),
            ]
        )
        assert [(kind, start, end) for _, kind, start, end, _ in found] == [
            ("held", 0, 2),
            ("unprotected", 2, 3),
            ("unprotected", 3, 6),
        ]

    def test_killed_holder_ends_when_its_lease_ran_out(self):
        """Nobody tells the end of a killed process's lease: it is taken to last to its renewed deadline."""
        recorded = [
            told(events.ACQUIRED, 0, owner="a", ttl=10.0),
            told(events.RENEWED, 8, owner="a", ttl=10.0),
        ]
        assert spans(recorded)[0][2:] == (0, 18, "end not told")
        assert spans(recorded, held={"a"}, now=12)[0][2:] == (0, 12, "still held")

    def test_end_without_a_told_beginning_uses_the_hold_time(self):
        """Where the beginning was trimmed from the journal, the end still tells how long it lasted."""
        found = spans([told(events.RELEASED, 9, owner="a", ends_lease=True, hold_seconds=4.0)])
        assert found == [("web-1/11 order.sync", "held", 5, 9, "released")]

    def test_given_up_waits_and_marks(self):
        """A wait in vain is a span, renewals and losses are marks, and a refusal at once is neither."""
        recorded = [
            told(events.ACQUIRE_TIMEOUT, 0, BOB, wait_seconds=3.0),
            told(events.CONTENDED, 1, BOB, wait_seconds=0.001),
            told(events.RENEWED, 2, owner="a"),
            told(events.RENEW_LOST, 4, owner="a"),
        ]
        assert spans(recorded) == [("web-2/22 order.sync", "waited", 0, 3, "gave up")]
        marks = timeline.marks_frame(recorded)
        assert list(marks["what"]) == ["renewed", "renewal found it lost"]
        assert list(marks["bad"]) == [False, True]

    def test_many_waits_do_not_hide_the_holds(self):
        """Of a lock that many wait for in vain the last holders still show."""
        recorded = [
            told(events.ACQUIRED, 0, owner="a"),
            told(events.RELEASED, 5, owner="a", ends_lease=True),
            *(told(events.ACQUIRE_TIMEOUT, 1 + number / 100, BOB, wait_seconds=0.5) for number in range(300)),
        ]
        found = timeline.latest(timeline.spans_frame(recorded, [], NOW + 9), 20)
        assert list(found["kind"]).count("held") == 1
        assert list(found["kind"]).count("waited") == 20

    def test_nothing_told(self):
        """An empty journal gives empty frames with their columns."""
        assert timeline.spans_frame([], [], NOW).empty
        assert list(timeline.marks_frame([]).columns) == ["who", "at", "what", "bad"]
        assert timeline.overlaps_frame([]).empty


class TestBlocking:
    """Who blocks whom."""

    def test_edges_count_refusals_by_waiter_lock_and_holder(self):
        """Refusals that name the holder are counted, others are not."""
        by = Owner(host="web-1", pid=11, job_type="report.nightly")
        recorded = [
            told(events.CONTENDED, 0, BOB, blocked_by=by),
            told(events.ACQUIRE_TIMEOUT, 1, BOB, blocked_by=by, wait_seconds=2.5),
            told(events.CONTENDED, 2, BOB),
            told(events.ACQUIRED, 3, BOB, "b"),
            told(events.CONTENDED, 4, BOB, blocked_by=Owner(host="web-9", pid=9)),
        ]
        found = blocking.edges_frame(recorded)
        assert found.to_dict("list") == {
            "waiter": ["order.sync", "order.sync"],
            "key": ["lock:order:1", "lock:order:1"],
            "holder": ["report.nightly", "web-9/9"],
            "times": [2, 1],
            "waited": [2.5, 0.0],
        }

    @pytest.mark.parametrize(
        "name", ['a"]; evil [label="x', "back\\slash\\", 'end\\"', "<b>html</b>", "\u202eq\nz"]
    )
    def test_no_name_writes_graph_of_its_own(self, name):
        """Whatever a key or job is called, the graph has the three nodes and two edges that it should."""
        recorded = [
            told(
                events.CONTENDED,
                0,
                BOB,
                key=name.encode(),
                job=name,
                blocked_by=Owner(host="h", job_type=name),
            )
        ]
        dot = blocking.to_dot(blocking.edges_frame(recorded), dark=False)
        bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', dot)
        assert bare.count("->") == 2
        assert bare.count("shape=") == 3
        assert "evil" not in bare
        assert bare.count('"') % 2 == 0

    def test_recent_events_are_those_of_the_time_asked_for(self):
        """Old events are left out, and the number is bounded."""
        history = History()
        for number in range(300):
            history.take([told(events.CONTENDED, number, key=b"lock:%d" % (number % 50))])
        assert len(history.recent(NOW + 250)) == 50
        assert {each.event.at >= NOW + 250 for each in history.recent(NOW + 250)} == {True}
        assert len(history.recent(NOW, most=100)) == 100
        assert history.recent(NOW + 999) == ()


class TestTally:
    """Counts from metric families."""

    def test_sums_and_quantiles_of_a_real_registry(self):
        """Sums by label, and quantiles as PromQL estimates them from the same buckets."""
        registry = CollectorRegistry()
        calls = Counter("redis_lock_acquire", "h", ["prefix", "job_type", "outcome"], registry=registry)
        calls.labels("a", "j", "acquired").inc(3)
        calls.labels("a", "k", "timeout").inc(2)
        wait = Histogram(
            "redis_lock_acquire_wait_seconds",
            "h",
            ["prefix", "outcome"],
            registry=registry,
            buckets=(1.0, 2.0, 4.0),
        )
        for seconds in (0.5, 0.5, 1.5, 3.0):
            wait.labels("a", "acquired").observe(seconds)
        wait.labels("late", "acquired").observe(99.0)
        frame = tally.samples_frame(registry.collect())
        assert tally.summed(frame, catalog.ACQUIRE, "prefix")["value"].tolist() == [5.0]
        assert tally.summed(frame, catalog.ACQUIRE, "prefix", outcome="timeout")["value"].tolist() == [2.0]
        medians = tally.quantiles(frame, catalog.ACQUIRE_WAIT, 0.5, "prefix").set_index("prefix")["value"]
        assert medians["a"] == 1.0
        assert medians["late"] == 4.0
        assert tally.quantiles(frame, catalog.ACQUIRE_WAIT, 0.75, "prefix")["value"].iloc[0] == 2.0
        assert tally.quantiles(frame, catalog.HOLD, 0.5, "prefix").empty


WORKER = '''
"""Two processes' worth of threads that fight for a lock whose TTL is too short; argv: redis URL."""
import sys, threading, time
import redis, lockscope

lockscope.instrument(journal=sys.argv[1])

def work(job, hold, wait, key="lock:order:1"):
    client = redis.Redis.from_url(sys.argv[1])
    while True:
        lock = client.lock(key, timeout=0.3, blocking_timeout=wait)
        try:
            with lockscope.job(job_type=job, job_id="j1"):
                if lock.acquire():
                    time.sleep(hold)
                    lock.release()
        except redis.exceptions.LockError:
            pass
        time.sleep(0.02)

for job, hold, wait in (("order.sync", 0.1, 1.0), ("report.nightly", 0.5, 1.0), ("mail.digest", 0.05, 0.01)):
    threading.Thread(target=work, args=(job, hold, wait), daemon=True).start()
redis.Redis.from_url(sys.argv[1]).set("lock:stock:1", "somebody who is not told of")
threading.Thread(target=work, args=("stock.import", 0, 1.0, "lock:stock:1"), daemon=True).start()
print("ready", flush=True)
threading.Event().wait()
'''


@pytest.fixture(scope="module")
def journaled():
    """Give a Redis in whose journal a worker wrote contention, losses and work without a lock."""
    server, folder = RedisServer(port=None), Folder()
    workers = [folder.script(f"worker{number}", WORKER, server.url) for number in range(2)]
    wait_until(lambda: all("ready" in one.output() for one in workers), what="workers")
    client = server.client()

    def enough():
        whole = b"".join(
            value for _, fields in client.xrange("lockscope:journal") for value in fields.values()
        )
        return b"release_lost" in whole and whole.count(b'"by"') > 3

    wait_until(enough, timeout=30, every=0.2, what="journal")
    yield server
    client.close()
    folder.close()
    server.close()


@pytest.fixture
def open_page(journaled, monkeypatch):
    """Give a function that opens a page over that Redis, without Prometheus."""
    monkeypatch.setenv("LOCKSCOPE_REDIS_URL", journaled.url)
    monkeypatch.delenv("LOCKSCOPE_PROMETHEUS_URL", raising=False)
    monkeypatch.delenv("LOCKSCOPE_JOURNAL", raising=False)
    st.cache_resource.clear()

    def opened(name, **params):
        page = AppTest.from_file(str(APP), default_timeout=30)
        page.switch_page(f"pages/{name}.py")
        page.query_params.update(params)
        page.run()
        assert not page.exception, [one.value for one in page.exception]
        return page

    yield opened
    st.cache_resource.clear()


def grids(page):
    """Return the tables of facts on a page."""
    found = [one.proto for one in page.get("bidi_component")]
    return [json.loads(one.json or one.mixed.json) for one in found if one.component_name == "lockscope_grid"]


def test_past_of_a_lock_is_drawn_and_told(open_page):
    """The page of a lock shows its timeline, who is blocked, that two held it at once, and the moments."""
    page = open_page("lock", key="lock:order:1")
    assert len(page.get("vega_lite_chart")) == 1
    wait_until(lambda: page.run().error, timeout=20, every=0.3, what="overlap")  # certain after some seconds
    assert "Two held this lock at once" in page.error[0].value
    assert "Blocked by it" in page.warning[0].value
    happened = " ".join(str(row["cells"]["what"]) for row in grids(page)[-1]["rows"])
    assert "acquired" in happened
    assert "of work without it" in happened


def test_contention_without_prometheus_comes_from_the_journal(open_page):
    """Attempts, refusals, waits and who blocks whom, and the page says where they come from."""
    page = open_page("contention")
    row = grids(page)[0]["rows"][0]["cells"]
    assert row["prefix"]["text"] == "lock:order:*"
    assert row["attempts"]["sort"] > row["refused"]["sort"] > 0
    assert row["p99"]["sort"] > 0
    assert len(page.get("graphviz_chart")) == 1
    assert any("from the journal" in one.value for one in page.caption)


def test_ttl_advice_without_prometheus_comes_from_the_journal(open_page):
    """A TTL of 0.3 s for jobs of 0.5 s is too short, by the holds that the journal tells."""
    page = open_page("ttl")

    def judged():
        found = {row["cells"]["prefix"]["text"]: row["cells"] for row in grids(page.run())[0]["rows"]}
        return found if found["lock:order:*"]["ttl"]["text"] else None

    advice = wait_until(judged, timeout=20, every=0.1, what="a TTL was seen")
    assert advice["lock:order:*"]["lost"]["sort"] > 0
    assert advice["lock:order:*"]["verdict"]["text"] == "too short"


def test_duplicates_page_without_prometheus_counts_refusals(open_page):
    """Jobs that were refused are counted from the journal."""
    waiting = {row["cells"]["job"]: row["cells"] for row in grids(open_page("duplicates"))[1]["rows"]}
    assert waiting["mail.digest"]["refused"]["sort"] > 0


def test_starving_job_is_named_as_it_is(open_page):
    """The sentence about jobs that never got their lock writes their names without added backslashes."""
    page = open_page("duplicates")
    wait_until(lambda: page.run().warning, timeout=20, every=0.3, what="a job that starves")
    assert "` stock.import `" in page.warning[0].value


def test_past_that_tells_only_of_refusals_says_so(open_page):
    """A lock of which the journal tells only refusals says so, instead of an empty table."""
    page = open_page("lock", key="lock:stock:1")
    assert grids(page)[-1]["rows"] == []
    assert "only of calls that were refused" in grids(page)[-1]["empty"]


def test_journal_that_is_no_journal_breaks_no_page(server, client, monkeypatch):
    """A key of another type, or entries of another format, leave the pages as they are without a journal."""
    monkeypatch.setenv("LOCKSCOPE_REDIS_URL", server.url)
    monkeypatch.delenv("LOCKSCOPE_PROMETHEUS_URL", raising=False)
    client.xadd("lockscope:journal", {"v": "99", "data": b"\xff\xfe"})
    client.set("lockscope:audit", "not a stream")
    st.cache_resource.clear()
    for name in ("lock", "contention", "health"):
        page = AppTest.from_file(str(APP), default_timeout=30)
        page.switch_page(f"pages/{name}.py")
        page.query_params["key"] = "lock:order:1"
        page.run()
        assert not page.exception, [one.value for one in page.exception]
    assert any("audit trail" in one.value for one in page.warning)
    st.cache_resource.clear()

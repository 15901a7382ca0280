"""From a running source to exposition text: what is counted, what 0 and NaN mean, and sharing of work."""

from __future__ import annotations

import asyncio
import math
import threading
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry

from commands import series
from lockscope import catalog
from lockscope_exporter.collector import LockCollector
from lockscope_exporter.exposition import OPENMETRICS, PLAIN, accepts_gzip, negotiate, render
from lockscope_exporter.sampling import open_source
from lockscope_exporter.state import NodeStatus
from lockscope_exporter.targets import LockPattern, SamplingOptions, Target
from lockscope_exporter.web import Shared, scrape_timeout, silent_nodes
from servers import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def registry(server, client) -> Iterator[CollectorRegistry]:
    """Give a registry that collects from a real source on a server with three locks."""
    client.set("lock:short:1", "token-1", px=2_000_000)
    client.set("lock:short:2", "token-2", px=4_000_000)
    client.set("lock:endless:1", "token-3")
    target = Target(server.url, patterns=(LockPattern(b"lock:*"),))
    source = open_source([target], SamplingOptions(interval=0.05))
    source.start()
    assert source.wait_ready(10)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(LockCollector(source))
    yield registry
    source.stop()


def text_of(registry: CollectorRegistry) -> str:
    """Return the plain text of one scrape."""
    return render(registry, PLAIN).decode()


def test_every_series_is_in_the_catalogue(registry):
    """Each name, type, help and label that is written is declared in the catalogue."""
    for family in registry.collect():
        name = family.name + ("_total" if family.type == "counter" else "")
        declared = catalog.BY_NAME[name]
        assert (declared.kind, declared.help) == (family.type, family.documentation)
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(declared.labels), sample
            for label, allowed in declared.values.items():
                assert sample.labels[label] in allowed


def test_all_states_of_a_dialect_exist(registry):
    """Every state of every dialect seen under a prefix has a series, most of them at 0."""
    text = text_of(registry)
    for state in catalog.STATES:
        [count] = series(text, "redis_lock_keys", prefix="lock:endless:*", state=state)
        assert count == (1.0 if state == "no_ttl" else 0.0)


def test_remaining_ttls_are_a_histogram(registry):
    """Buckets are cumulative, end in all locks that expire, and agree with count and sum."""
    text = text_of(registry)
    where = {"prefix": "lock:short:*"}
    assert series(text, "redis_lock_ttl_seconds_bucket", le="900.0", **where) == [0.0]
    assert series(text, "redis_lock_ttl_seconds_bucket", le="3600.0", **where) == [1.0]
    assert series(text, "redis_lock_ttl_seconds_bucket", le="86400.0", **where) == [2.0]
    assert series(text, "redis_lock_ttl_seconds_bucket", le="+Inf", **where) == [2.0]
    assert series(text, "redis_lock_ttl_seconds_gcount", **where) == [2.0]
    [total] = series(text, "redis_lock_ttl_seconds_gsum", **where)
    assert 5900 < total <= 6000


def test_what_nothing_tells_is_nan_and_not_zero(registry):
    """A prefix in which nothing expires has no shortest TTL: NaN, which no comparison takes for 0."""
    text = text_of(registry)
    [shortest] = series(text, "redis_lock_ttl_min_seconds", prefix="lock:endless:*")
    assert math.isnan(shortest)
    [shortest] = series(text, "redis_lock_ttl_min_seconds", prefix="lock:short:*")
    assert 1900 < shortest <= 2000


def test_a_lock_that_goes_is_counted_and_its_series_stay(registry, client):
    """A released lock raises the counter of ends and lowers the gauge, at once in both formats."""
    client.delete("lock:short:1")
    wait_until(
        lambda: series(text_of(registry), "redis_lock_keys", prefix="lock:short:*", state="held") == [1]
    )
    text = render(registry, OPENMETRICS).decode()
    assert series(text, "redis_lock_observed_ended_total", prefix="lock:short:*", how="released") == [1.0]


PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", PLAIN),
        ("*/*", PLAIN),
        ("text/html,application/xhtml+xml,*/*;q=0.8", PLAIN),
        ("application/openmetrics-text", OPENMETRICS),
        (PROMETHEUS_2, OPENMETRICS),
        ("application/openmetrics-text;version=1.0.0;q=0.2,text/plain;q=0.9", PLAIN),
        ("application/openmetrics-text;q=0", PLAIN),
        ("application/openmetrics-text;version=2.0.0", PLAIN),
        ("application/openmetrics-text;q=high", PLAIN),
        ('APPLICATION/OpenMetrics-Text ; version="1.0.0" ; charset=utf-8', OPENMETRICS),
        (";;;,,q=1", PLAIN),
    ],
)  # fmt: skip
def test_negotiation(accept, content_type):
    """OpenMetrics only where it is asked for and preferred, and in a version that is served."""
    assert negotiate(accept) == content_type


@pytest.mark.parametrize(
    ("header", "expected"),
    [("", False), ("gzip", True), ("deflate, gzip;q=0.5", True), ("gzip;q=0", False), ("br", False)],
)
def test_gzip_negotiation(header, expected):
    """Compression needs gzip with a quality above 0."""
    assert accepts_gzip(header) is expected


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("", 10), ("10", 9), ("0.5", 0.45), ("abc", 10), ("-1", 10), ("nan", 10), ("inf", 10), ("1e9", 540)],
)
def test_the_scrapers_timeout_is_honoured(header, seconds):
    """The header's seconds, less a margin for the way back, bound a scrape; nonsense means the default."""
    assert scrape_timeout(header) == pytest.approx(seconds)


async def test_work_for_many_clients_runs_once():
    """Ten clients that ask for the same at once cost one piece of work and get the same answer."""
    shared = Shared(threads=2)
    go = threading.Event()
    runs = []

    def work() -> str:
        runs.append(1)
        go.wait(10)
        return "answer"

    clients = [asyncio.create_task(shared.run("k", work, 10)) for _ in range(10)]
    while not runs:  # noqa: ASYNC110 - the work starts in a thread that no event of this loop announces
        await asyncio.sleep(0)
    go.set()
    assert await asyncio.gather(*clients) == ["answer"] * 10
    assert runs == [1]


async def test_a_client_that_gives_up_leaves_the_others_their_answer():
    """A timeout or a hang-up ends one client's wait, not the work that others wait for."""
    shared = Shared(threads=1)
    go = threading.Event()

    def work() -> str:
        go.wait(10)
        return "answer"

    patient = asyncio.create_task(shared.run("k", work, 10))
    gone = asyncio.create_task(shared.run("k", work, 10))
    await asyncio.sleep(0)
    gone.cancel()
    with pytest.raises(TimeoutError):
        await shared.run("k", work, 0.01)
    go.set()
    assert await patient == "answer"
    assert gone.cancelled()


async def test_failed_work_is_not_remembered():
    """An error reaches those who waited; the next client gets a new attempt."""
    shared = Shared(threads=1)
    with pytest.raises(ZeroDivisionError):
        await shared.run("k", lambda: 1 / 0, 10)
    assert await shared.run("k", lambda: 1, 10) == 1


def test_only_a_silent_node_that_counts_as_up_is_unhealthy():
    """Stale figures that look current are unhealthy; a server known to be down is not."""

    def node(up: bool, age: float) -> NodeStatus:
        return NodeStatus(target="default", node="h:1", up=up, mode="scan", age_seconds=age)

    assert silent_nodes([node(up=True, age=1.0), node(up=False, age=1e6)]) == []
    assert silent_nodes([node(up=True, age=61.0)]) == ["default h:1"]

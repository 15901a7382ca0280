"""What a scrape says: every value as the events make it, in both formats, bounded whatever comes in."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, exposition
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

import lockscope
from lockscope import Job, LockEvent, catalog, events
from lockscope.sinks.prometheus import PrometheusSink
from shim import Observed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from servers import RedisServer

    Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scraped(registry: CollectorRegistry) -> Samples:
    """Return every sample of a scrape, by name and labels, after both formats were read and agree."""
    text = _samples(parse_text(exposition.generate_latest(registry).decode()))
    strict = _samples(parse_openmetrics(openmetrics.generate_latest(registry).decode()))
    assert text == strict
    return text


def _samples(families: Iterable[Any]) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


class Scrape:
    """A sink on a registry of its own, fed with events."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.sink = PrometheusSink(self.registry)

    def add(self, name: str, prefix: str = "lock:*", job_type: str = "job", **fields: Any) -> None:
        """Count one event."""
        self.sink(LockEvent(name, b"lock:1", prefix, 1732896000.0, Job(job_type), **fields))

    def of(self, name: str) -> dict[str, float]:
        """Return a metric's samples, by the value of its last label beside prefix and job type."""
        found: dict[str, float] = {}
        for (sample, labels), value in scraped(self.registry).items():
            if sample == name:
                further = [text for label, text in labels if label not in ("prefix", "job_type")]
                found[",".join(further)] = value
        return found


@pytest.fixture
def scrape() -> Scrape:
    """Give an empty sink."""
    return Scrape()


@pytest.fixture
def seen() -> Iterator[Observed]:
    """Observe locks."""
    with Observed(presence=False) as observed:
        yield observed


def test_counters_are_born_at_zero(client: redis.Redis, seen: Observed) -> None:
    """With the first event of a prefix and job type every counter that rules use is there, at 0."""
    with lockscope.job("mail.send"):
        lock = client.lock("lock:order:1", timeout=5)
        assert lock.acquire()
    labels = (("job_type", "mail.send"), ("prefix", "lock:order:*"))
    samples = scraped(seen.registry)
    for name, outcomes in (
        ("redis_lock_acquire_total", catalog.ACQUIRE_OUTCOMES),
        ("redis_lock_renew_total", catalog.RENEW_OUTCOMES),
        ("redis_lock_release_total", catalog.RELEASE_OUTCOMES),
    ):
        for outcome in outcomes:
            expected = 1 if outcome == "acquired" else 0
            key = name, tuple(sorted((*labels, ("outcome", outcome))))
            assert samples[key] == expected, key
    for name in ("unprotected_seconds_total", "hold_seconds_count", "waiters"):
        assert samples[f"redis_lock_{name}", labels] == 0
    assert samples["redis_lock_held", labels] == 1
    assert samples["redis_lock_prefix_overflow_total", ()] == 0


def test_a_lock_cycle_in_numbers(client: redis.Redis, seen: Observed) -> None:
    """A scrape agrees with the events of real locks: counts, sums and buckets."""
    for number in range(3):
        lock = client.lock(f"lock:{number}", timeout=4)
        assert lock.acquire()
        lock.extend(1)
        client.lock(f"lock:{number}").acquire(blocking=False)
        if number == 2:
            client.delete(lock.name)
            with pytest.raises(redis.exceptions.LockError):
                lock.release()
        else:
            lock.release()
    assert seen.outcomes("acquire") == {"acquired": 3, "contended": 3}
    assert seen.outcomes("renew") == {"renewed": 3}
    assert seen.outcomes("release") == {"released": 2, "lost": 1}
    samples = scraped(seen.registry)
    base = (("job_type", "none"), ("prefix", "lock:*"))
    gave = seen.events("released", "release_lost")
    assert samples["redis_lock_hold_seconds_count", base] == 3
    assert samples["redis_lock_hold_seconds_sum", base] == pytest.approx(
        sum(event.hold_seconds for event in gave), abs=0.005
    )
    assert samples["redis_lock_ttl_used_ratio_count", base] == 3
    assert samples["redis_lock_ttl_used_ratio_sum", base] == pytest.approx(
        sum(event.ttl_used for event in gave), abs=0.005
    )
    assert samples["redis_lock_renew_headroom_ratio_sum", base] == pytest.approx(
        sum(event.headroom for event in seen.events("renewed"))
    )
    for outcome, name in (("acquired", "acquired"), ("contended", "contended")):
        labels = tuple(sorted((*base, ("outcome", outcome))))
        waits = [event.wait_seconds for event in seen.events(name)]
        assert samples["redis_lock_acquire_wait_seconds_count", labels] == 3
        assert samples["redis_lock_acquire_wait_seconds_sum", labels] == pytest.approx(sum(waits), abs=0.005)


@pytest.mark.parametrize(
    ("name", "outcome", "counter"),
    [
        (events.ACQUIRED, "acquired", "redis_lock_acquire_total"),
        (events.CONTENDED, "contended", "redis_lock_acquire_total"),
        (events.ACQUIRE_TIMEOUT, "timeout", "redis_lock_acquire_total"),
        (events.ACQUIRE_ERROR, "error", "redis_lock_acquire_total"),
        (events.RENEWED, "renewed", "redis_lock_renew_total"),
        (events.RENEW_LOST, "lost", "redis_lock_renew_total"),
        (events.RENEW_ERROR, "error", "redis_lock_renew_total"),
        (events.RELEASED, "released", "redis_lock_release_total"),
        (events.RELEASE_LOST, "lost", "redis_lock_release_total"),
        (events.RELEASE_ERROR, "error", "redis_lock_release_total"),
        (events.IDEMPOTENCY, "first", "redis_lock_idempotency_total"),
        (events.IDEMPOTENCY, "in_progress", "redis_lock_idempotency_total"),
        (events.IDEMPOTENCY, "error", "redis_lock_idempotency_total"),
        (events.DUPLICATE, "duplicate", "redis_lock_idempotency_total"),
    ],
)
def test_each_outcome_counts_once(scrape: Scrape, name: str, outcome: str, counter: str) -> None:
    """An event raises its own outcome of its own counter by one, and no other."""
    before = scraped(scrape.registry)
    scrape.add(name, outcome=outcome)
    changed = {
        (sample, dict(labels).get("outcome")): value
        for (sample, labels), value in scraped(scrape.registry).items()
        if sample.endswith("_total") and value != before.get((sample, labels), 0)
    }
    assert changed == {(counter, outcome): 1}


def test_events_without_a_metric_change_nothing(scrape: Scrape) -> None:
    """What has no metric, such as a forced release, is not counted as something else."""
    before = scraped(scrape.registry)
    scrape.add(events.FORCE_RELEASED)
    assert scraped(scrape.registry) == before


def test_gauges_follow_the_events(scrape: Scrape) -> None:
    """Held and waiting go up and down with the events that say so, whatever their outcome."""
    scrape.add(events.WAITING)
    scrape.add(events.WAITING)
    assert scrape.of("redis_lock_waiters") == {"": 2}
    scrape.add(events.ACQUIRED, outcome="acquired", waited=True)
    scrape.add(events.ACQUIRE_TIMEOUT, outcome="timeout", waited=True)
    assert (scrape.of("redis_lock_waiters"), scrape.of("redis_lock_held")) == ({"": 0}, {"": 1})
    scrape.add(events.ACQUIRED, outcome="acquired")
    scrape.add(events.RENEW_LOST, outcome="lost", ends_lease=True, unprotected_seconds=1.5)
    scrape.add(events.RELEASE_LOST, outcome="lost", unprotected_seconds=0.25)
    assert scrape.of("redis_lock_held") == {"": 1}
    assert scrape.of("redis_lock_unprotected_seconds_total") == {"": 1.75}
    scrape.add(events.ABANDONED, ends_lease=True)
    assert scrape.of("redis_lock_held") == {"": 0}
    scrape.add(events.WAITING)
    scrape.add(events.ACQUIRED, outcome="acquired")
    scrape.sink.reset()
    assert (scrape.of("redis_lock_waiters"), scrape.of("redis_lock_held")) == ({"": 0}, {"": 0})


@settings(max_examples=15, deadline=None)
@given(values=st.lists(st.floats(0, 1e5), min_size=1, max_size=30))
def test_histograms_are_cumulative(values: list[float]) -> None:
    """A bucket holds all observations up to its bound, +Inf holds all, and the sum is their sum."""
    scrape = Scrape()
    for value in values:
        times = {"hold_seconds": value, "ttl": 10.0, "ttl_remaining": 10 - value}
        scrape.add(events.RELEASED, outcome="released", **times)
    buckets = scrape.of("redis_lock_hold_seconds_bucket")
    assert list(buckets) == [*map(str, catalog.HOLD_BUCKETS), "+Inf"]
    for bound, count in buckets.items():
        assert count == sum(value <= float(bound) for value in values)
    assert scrape.of("redis_lock_hold_seconds_count") == {"": len(values)}
    assert scrape.of("redis_lock_hold_seconds_sum") == {"": pytest.approx(sum(values))}
    assert scrape.of("redis_lock_ttl_used_ratio_count") == {"": len(values)}


def test_unknown_times_are_not_observed(scrape: Scrape) -> None:
    """A release of unknown hold, or without TTL, counts as release and makes up no observation."""
    scrape.add(events.RELEASED, outcome="released")
    scrape.add(events.RELEASED, outcome="released", hold_seconds=1.0)
    scrape.add(events.RENEWED, outcome="renewed")
    assert scrape.of("redis_lock_release_total")["released"] == 2
    assert scrape.of("redis_lock_hold_seconds_count") == {"": 1}
    assert scrape.of("redis_lock_ttl_used_ratio_count") == {"": 0}
    assert scrape.of("redis_lock_renew_headroom_ratio_count") == {"": 0}


def test_hostile_label_values_can_be_scraped(scrape: Scrape) -> None:
    """Quotes, newlines, stray surrogates and huge names in job types and reasons do not break a scrape."""
    for text in ('a"b\\c\n', "\ud800\udcff", "{}", "\u2028", "x" * 100_000, ""):
        scrape.add(events.RETRY, job_type=text, reason=text)
    samples = scraped(scrape.registry)
    retries = [dict(labels) for (name, labels) in samples if name == "redis_lock_retry_total"]
    assert len(retries) == 6
    assert {labels["reason"] for labels in retries} == {'a"b\\c\n', "??", "{}", "\u2028", "x" * 160, ""}
    assert max(len(text) for labels in retries for text in labels.values()) == 160


def test_series_are_bounded(client: redis.Redis) -> None:
    """Endless families, job types and reasons fold into ``other``; no count is lost."""
    with Observed(presence=False, max_prefixes=5, logs=False) as seen:
        for number in range(260):
            name = "".join(chr(ord("a") + int(digit)) for digit in str(number))
            with lockscope.job(f"type-{name}"):
                lockscope.retried(f"reason-{name}", f"family-{name}:lock")
        samples = _samples(seen.registry.collect())
        retries = [labels for name, labels in samples if name == "redis_lock_retry_total"]
        assert sum(samples["redis_lock_retry_total", labels] for labels in retries) == 260
        assert len({dict(labels)["prefix"] for labels in retries}) == 6
        assert len({dict(labels)["job_type"] for labels in retries}) == 201
        assert len({dict(labels)["reason"] for labels in retries}) == 21
        assert samples["redis_lock_prefix_overflow_total", ()] >= 255
        with client.lock("family-zzz:lock", timeout=5):
            assert seen.total("held", prefix="other") == 1


def test_no_growth_however_many_keys(server: RedisServer) -> None:
    """Thousands of locks on keys that never repeat add no series and hardly any memory."""
    del server
    with Observed(presence=False, logs=False) as seen:
        recorder = lockscope.runtime.recorder
        emit = recorder.emit
        emit.use(tuple(sink for sink in emit.sinks if hasattr(sink, "tally")))

        def cycles(start: int, count: int) -> None:
            for number in range(start, start + count):
                lease = recorder.begin(seen, f"lock:order:{number}")
                recorder.acquired(lease, b"token", 5.0)
                recorder.released(lease)

        tracemalloc.start()
        cycles(0, 4096)  # the cache of prefixes is full then, and again at the end
        recorder.flush()
        series = len(_samples(seen.registry.collect()))
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        cycles(4096, 4096)
        recorder.flush()
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        assert len(_samples(seen.registry.collect())) == series
        assert grown < 50_000
        assert seen.total("acquire") == 2 * 4096


def test_sink_failures_are_served(client: redis.Redis, seen: Observed) -> None:
    """A sink that raises is counted by its name in the same scrape, and the others go on."""

    def broken(_: LockEvent) -> None:
        raise RuntimeError("sink")

    emit = lockscope.runtime.recorder.emit
    emit.use((*emit.sinks, broken))
    with client.lock("lock:a", timeout=5):
        pass
    samples = scraped(seen.registry)
    name = "test_sink_failures_are_served.<locals>.broken"
    assert samples["redis_lock_sink_errors_total", (("sink", name),)] == 2
    assert seen.outcomes("release") == {"released": 1}


def test_scrapes_while_threads_count(server: RedisServer, seen: Observed) -> None:
    """Scrapes that run while locks are taken never fail, never fall back, and in the end miss nothing."""
    rounds, threads = 60, 3

    def work(number: int) -> None:
        with server.client() as client:
            for _ in range(rounds):
                with client.lock(f"lock:{number}", timeout=5):
                    pass

    running = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    last: dict[str, float] = {}
    while any(thread.is_alive() for thread in running):
        now = {**seen.outcomes("acquire"), **seen.outcomes("release")}
        assert all(now[name] >= value for name, value in last.items())
        assert 0 <= seen.total("held") <= threads
        last = now
    assert seen.outcomes("acquire") == {"acquired": rounds * threads}
    assert seen.outcomes("release") == {"released": rounds * threads}
    assert seen.total("held") == 0


def test_two_sinks_on_one_registry_share_their_counts() -> None:
    """A second start on the same registry goes on with the counts, and is no duplicate."""
    first = Scrape()
    first.add(events.RETRY, reason="contended")
    second = PrometheusSink(first.registry)
    second(LockEvent(events.RETRY, b"lock:1", "lock:*", 0.0, Job("job"), reason="contended"))
    assert first.of("redis_lock_retry_total") == {"contended": 2}


@pytest.mark.parametrize("generate", [exposition.generate_latest, openmetrics.generate_latest])
def test_an_empty_registry_names_every_metric(generate: Callable[[CollectorRegistry], bytes]) -> None:
    """Before any lock was taken each family is there with type and help, and without samples."""
    text = generate(Scrape().registry).decode()
    for metric in catalog.CATALOG:
        if metric.labels[:2] == catalog.SHIM_LABELS:
            strict = generate is openmetrics.generate_latest
            name = metric.name.removesuffix("_total") if strict else metric.name
            assert f"# TYPE {name} {metric.kind}\n" in text
            assert f"# HELP {name} {metric.help}\n" in text

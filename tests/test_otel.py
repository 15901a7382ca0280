"""OpenTelemetry: spans, span events, links and metrics, on the real SDK, against a real OTLP receiver."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from prometheus_client import CollectorRegistry
from redis.exceptions import LockNotOwnedError

import lockscope
from lockscope import catalog, runtime
from lockscope.tokens import fingerprint
from otlp import Receiver, attributes
from servers import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.sdk.trace import ReadableSpan

    from servers import RedisServer

SHIM = [metric for metric in catalog.CATALOG if metric.origin in ("shim", "both")]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def finished() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(finished: InMemorySpanExporter) -> Iterator[TracerProvider]:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(finished))
    lockscope.instrument(tracer_provider=provider, registry=CollectorRegistry())
    yield provider
    lockscope.uninstrument()
    provider.shutdown()


def only(finished: InMemorySpanExporter, name: str) -> ReadableSpan:
    (span,) = [span for span in finished.get_finished_spans() if span.name == name]
    return span


def test_acquire_is_a_span_with_the_times_of_the_call(
    provider: TracerProvider, finished: InMemorySpanExporter, client: redis.Redis
) -> None:
    """An acquired lock gives a child of the current span with prefix, outcome, wait, attempts, owner."""
    with provider.get_tracer("app").start_as_current_span("work") as work:
        lock = client.lock("lock:order:7", timeout=30)
        lock.acquire()
        token = client.get("lock:order:7")
        lock.release()
    span = only(finished, "acquire lock:order:*")
    assert span.parent is not None
    assert span.parent.span_id == work.get_span_context().span_id
    assert span.kind is SpanKind.INTERNAL
    assert dict(span.attributes) == {
        "db.system.name": "redis",
        "redis.lock.prefix": "lock:order:*",
        "redis.lock.key": "lock:order:7",
        "redis.lock.outcome": "acquired",
        "redis.lock.wait": pytest.approx((span.end_time - span.start_time) / 1e9, abs=1e-5),
        "redis.lock.attempts": 1,
        "redis.lock.owner": fingerprint(token),
        "redis.lock.ttl": 30.0,
    }
    assert work.start_time <= span.start_time <= span.end_time <= work.end_time
    assert span.status.status_code is StatusCode.UNSET


@pytest.mark.usefixtures("provider")
@pytest.mark.usefixtures("provider")
def test_refused_acquire_names_who_holds_the_lock(
    finished: InMemorySpanExporter, client: redis.Redis
) -> None:
    """A refused acquire carries blocked_by with host, pid, job and age of the holder, and is no error."""
    with lockscope.job("invoice.generate", job_id="8812"):
        client.lock("lock:invoice:1", timeout=30).acquire()
    assert not client.lock("lock:invoice:1", timeout=30).acquire(blocking=False)
    span = finished.get_finished_spans()[-1]
    values = dict(span.attributes)
    assert values["redis.lock.outcome"] == "contended"
    assert values["redis.lock.blocked_by.job_type"] == "invoice.generate"
    assert values["redis.lock.blocked_by.job_id"] == "8812"
    assert values["redis.lock.blocked_by.pid"] > 0
    assert values["redis.lock.blocked_by.host"]
    assert 0 <= values["redis.lock.blocked_by.held_for"] < 60
    assert span.status.status_code is StatusCode.UNSET


@pytest.mark.usefixtures("provider")
@pytest.mark.usefixtures("provider")
def test_timeout_counts_its_attempts_and_its_wait(
    finished: InMemorySpanExporter, client: redis.Redis
) -> None:
    """A call that waited and gave up is one span as long as the wait, with every try counted."""
    client.set("lock:slow", "someone")
    assert not client.lock("lock:slow", timeout=5, sleep=0.02).acquire(blocking_timeout=0.1)
    span = only(finished, "acquire lock:slow")
    assert span.attributes["redis.lock.outcome"] == "timeout"
    assert span.attributes["redis.lock.attempts"] >= 3
    assert (span.end_time - span.start_time) / 1e9 >= 0.07


@pytest.mark.usefixtures("provider")
@pytest.mark.usefixtures("provider")
def test_failed_acquire_is_an_error_span(finished: InMemorySpanExporter, tmp_path: Path) -> None:
    """An acquire that raised has error status, error.type and the exception as an event."""
    nowhere = redis.Redis(unix_socket_path=str(tmp_path / "none"), retry=None)
    with pytest.raises(redis.ConnectionError):
        nowhere.lock("lock:x", timeout=5).acquire(blocking=False)
    span = only(finished, "acquire lock:x")
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["redis.lock.outcome"] == "error"
    assert span.attributes["error.type"] == "ConnectionError"
    (event,) = span.events
    assert event.name == "exception"
    assert event.attributes["exception.type"] == "ConnectionError"


def test_renewals_are_events_of_the_current_span(
    provider: TracerProvider, finished: InMemorySpanExporter, client: redis.Redis
) -> None:
    """A renewal in a span of its own is an event there, with the time that was left."""
    lock = client.lock("lock:r", timeout=30)
    lock.acquire()
    with provider.get_tracer("app").start_as_current_span("step"):
        lock.extend(60, replace_ttl=True)
    lock.release()
    (event,) = only(finished, "step").events
    assert event.name == "lock.renewed"
    assert 29 < event.attributes["redis.lock.ttl_remaining"] <= 30
    assert event.attributes["redis.lock.outcome"] == "renewed"


def test_renewal_from_another_thread_lands_on_the_holding_span(
    provider: TracerProvider, finished: InMemorySpanExporter, client: redis.Redis
) -> None:
    """A renewing thread has no span; its events go to the span around the acquire, while that is open."""
    lock = client.lock("lock:r", timeout=30, thread_local=False)
    with provider.get_tracer("app").start_as_current_span("job"):
        lock.acquire()
        thread = threading.Thread(target=lock.reacquire)
        thread.start()
        thread.join()
        lock.release()
    assert [event.name for event in only(finished, "job").events] == ["lock.renewed"]


@pytest.mark.usefixtures("provider")
@pytest.mark.usefixtures("provider")
def test_loss_without_any_open_span_is_a_span_of_its_own(
    finished: InMemorySpanExporter, client: redis.Redis
) -> None:
    """A loss is never lost itself: with no span open it makes one, linked to the acquire."""
    lock = client.lock("lock:lost", timeout=30)
    lock.acquire()
    client.delete("lock:lost")
    with pytest.raises(LockNotOwnedError):
        lock.extend(10)
    acquire = only(finished, "acquire lock:lost")
    renew = only(finished, "renew lock:lost")
    assert [link.context.span_id for link in renew.links] == [acquire.get_span_context().span_id]
    assert renew.attributes["redis.lock.outcome"] == "lost"


def test_lost_release_says_how_long_the_work_was_unprotected(
    provider: TracerProvider, finished: InMemorySpanExporter, client: redis.Redis
) -> None:
    """Releasing after the lease lapsed is an event with the unprotected seconds."""
    with provider.get_tracer("app").start_as_current_span("job"):
        lock = client.lock("lock:short", timeout=0.05)
        lock.acquire()
        wait_until(lambda: not client.exists("lock:short"), every=0.005)
        with pytest.raises(LockNotOwnedError):
            lock.release()
    (event,) = only(finished, "job").events
    assert event.name == "lock.release_lost"
    assert event.attributes["redis.lock.unprotected"] > 0
    assert event.attributes["redis.lock.hold"] > 0.05


def test_job_span_links_to_its_acquires(
    provider: TracerProvider, finished: InMemorySpanExporter, client: redis.Redis
) -> None:
    """The span that was open when the job began links to the acquires deep inside it, and they link back."""
    tracer = provider.get_tracer("app")
    with tracer.start_as_current_span("job"), lockscope.job("report", job_id="1"):  # noqa: SIM117
        with tracer.start_as_current_span("query"), client.lock("lock:j", timeout=9):
            pass
    job, acquire = only(finished, "job"), only(finished, "acquire lock:j")
    assert [link.context.span_id for link in job.links] == [acquire.get_span_context().span_id]
    assert [link.context.span_id for link in acquire.links] == [job.get_span_context().span_id]
    assert acquire.attributes["redis.lock.job_type"] == "report"
    assert acquire.attributes["redis.lock.job_id"] == "1"


def test_job_span_that_begins_inside_the_job_is_found(
    provider: TracerProvider, finished: InMemorySpanExporter, client: redis.Redis
) -> None:
    """A framework that opens its span after the job began gets the link: the first span seen stands in."""
    with lockscope.job("report"), provider.get_tracer("app").start_as_current_span("task"):
        client.lock("lock:j", timeout=9).acquire()
    assert len(only(finished, "task").links) == 1


@pytest.mark.usefixtures("provider")
@pytest.mark.usefixtures("provider")
def test_hostile_key_is_bounded_text(finished: InMemorySpanExporter, client: redis.Redis) -> None:
    """A key of 64 KiB of bytes that are no text gives a short printable attribute."""
    client.lock(b"lock:\xff\n" + b"\x00<b>" * 16384, timeout=9).acquire()
    (span,) = finished.get_finished_spans()
    assert len(span.attributes["redis.lock.key"]) < 600
    assert span.attributes["redis.lock.key"].isprintable()
    assert len(span.name) < 200


def test_a_storm_of_acquires_loses_no_span(
    provider: TracerProvider, finished: InMemorySpanExporter, client: redis.Redis
) -> None:
    """Acquires faster than spans are made at once are made up for by a flush, with parent, link and times."""
    with provider.get_tracer("app").start_as_current_span("job"), lockscope.job("storm"):
        for number in range(400):
            client.lock(f"lock:storm:{number}", timeout=9).acquire()
        provider.force_flush()
    job = only(finished, "job")
    acquires = [span for span in finished.get_finished_spans() if span.name == "acquire lock:storm:*"]
    assert {span.attributes["redis.lock.key"] for span in acquires} == {
        f"lock:storm:{number}" for number in range(400)
    }
    assert {span.parent.span_id for span in acquires} == {job.get_span_context().span_id}
    assert all(job.start_time <= span.start_time <= span.end_time <= job.end_time for span in acquires)
    assert len({span.get_span_context().span_id for span in acquires}) == 400


@pytest.mark.usefixtures("provider")
def test_a_storm_is_made_up_for_without_any_flush(
    finished: InMemorySpanExporter, client: redis.Redis
) -> None:
    """The background thread makes the spans that are due by itself, and sleeps again after that."""
    for _ in range(3):
        finished.clear()
        for number in range(100):
            client.lock(f"lock:storm:{number}", timeout=9).acquire()
        wait_until(lambda: len(finished.get_finished_spans()) == 100)
        client.flushall()


@pytest.mark.usefixtures("provider")
def test_a_forked_child_makes_its_own_spans_only(finished: InMemorySpanExporter, client: redis.Redis) -> None:
    """A child that is forked while spans are due makes none of its parent's, and its own arrive."""
    for number in range(100):
        client.lock(f"lock:fork:{number}", timeout=9).acquire()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        finished.clear()
        own = redis.Redis(connection_pool=client.connection_pool)
        for number in range(100):
            own.lock(f"lock:child:{number}", timeout=9).acquire()
        lockscope.uninstrument()
        names = {span.name for span in finished.get_finished_spans()}
        os.write(writing, f"{sorted(names)} {len(finished.get_finished_spans())}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 1000) == b"['acquire lock:child:*'] 100"
    wait_until(lambda: len(finished.get_finished_spans()) == 100)


def test_spans_that_are_due_arrive_at_exit(server: RedisServer, receiver: Receiver) -> None:
    """A program that ends right after a storm of locks sends every span."""
    program = """
import sys, redis, lockscope
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
lockscope.instrument(tracer_provider=provider)
client = redis.Redis(unix_socket_path=sys.argv[1])
for number in range(300):
    client.lock(f"lock:exit:{number}", timeout=9).acquire()
"""
    done = run(program, server, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(receiver.spans()) == 300


def drive(client: redis.Redis) -> None:
    """Make every kind of event once."""
    with lockscope.job("invoice.generate"):
        lock = client.lock("lock:order:1", timeout=30)
        lock.acquire()
        assert not client.lock("lock:order:1").acquire(blocking=False)
        assert not client.lock("lock:order:1", sleep=0.01).acquire(blocking_timeout=0.03)
        lock.extend(5)
        lock.release()
        with pytest.raises(redis.exceptions.LockError):
            lock.release()
        lock.acquire()
        client.delete("lock:order:1")
        with pytest.raises(LockNotOwnedError):
            lock.reacquire()
        held = client.lock("lock:order:2", timeout=0.02)
        held.acquire()
        wait_until(lambda: not client.exists("lock:order:2"), every=0.005)
        with pytest.raises(LockNotOwnedError):
            held.release()
        runtime.recorder.retried("lock not acquired", "lock:order:1")
        for outcome in catalog.IDEMPOTENCY_OUTCOMES:
            runtime.recorder.idempotency("idem:1", outcome)


def test_sdk_prometheus_exporter_makes_the_catalogue_of_the_metrics(client: redis.Redis) -> None:
    """Names, types, labels, values and buckets by way of the SDK equal what the Prometheus sink serves."""
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    reader = PrometheusMetricReader(disable_target_info=True, scope_info_enabled=False, registry=theirs)
    provider = MeterProvider(metric_readers=[reader])
    lockscope.instrument(meter_provider=provider, registry=ours)
    try:
        drive(client)
        held = client.lock("lock:order:3", timeout=9)
        held.acquire()
        runtime.recorder.emit.errors["test"] = 2  # so that every family has a sample
        families = [{family.name: family for family in registry.collect()} for registry in (ours, theirs)]
    finally:
        lockscope.uninstrument()
        provider.shutdown()
    expected = {metric.name: metric.kind for metric in SHIM}
    for found in families:
        named = {
            name + ("_total" if family.type == "counter" else ""): family.type
            for name, family in found.items()
        }
        assert named == expected
    by_sample = [
        {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in found.values()
            for sample in family.samples
        }
        for found in families
    ]
    assert by_sample[1].keys() <= by_sample[0].keys()
    for key, value in by_sample[0].items():  # a histogram without values does not exist for the SDK
        assert by_sample[1].get(key, 0) == pytest.approx(value, rel=0.05, abs=0.001), key
    assert by_sample[0]["redis_lock_held", (("job_type", "none"), ("prefix", "lock:order:*"))] == 1


def test_metrics_survive_uninstrument_and_a_second_start(client: redis.Redis) -> None:
    """A reload on the same provider goes on counting in the same instruments, without duplicates."""
    registry = CollectorRegistry()
    reader = PrometheusMetricReader(disable_target_info=True, scope_info_enabled=False, registry=registry)
    provider = MeterProvider(metric_readers=[reader])
    labels = {"prefix": "lock:a", "job_type": "none", "outcome": "acquired"}
    for expected in (1, 2):
        lockscope.instrument(meter_provider=provider, prometheus=False, registry=CollectorRegistry())
        lock = client.lock("lock:a", timeout=9)
        lock.acquire()
        lockscope.uninstrument()
        lock.release()
        assert registry.get_sample_value("redis_lock_acquire_total", labels) == expected
        assert registry.get_sample_value("redis_lock_acquire_wait_seconds_count", labels) == expected
        held = registry.get_sample_value("redis_lock_held", {"prefix": "lock:a", "job_type": "none"})
        assert held == 0
    provider.shutdown()


def test_otlp_receiver_gets_spans_and_dotted_metrics(receiver: Receiver, client: redis.Redis) -> None:
    """Spans by a batch processor and metrics by a periodic reader arrive over OTLP with all they carry."""
    tracers = TracerProvider()
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{receiver.url}/v1/traces")))
    exporter = OTLPMetricExporter(f"{receiver.url}/v1/metrics")
    meters = MeterProvider([PeriodicExportingMetricReader(exporter, export_interval_millis=60_000)])
    lockscope.instrument(tracer_provider=tracers, meter_provider=meters, registry=CollectorRegistry())
    try:
        with tracers.get_tracer("app").start_as_current_span("job"):
            drive(client)
        tracers.force_flush()
        meters.force_flush()
    finally:
        lockscope.uninstrument()
        tracers.shutdown()
        meters.shutdown()
    acquires = [span for span in receiver.spans() if span.name == "acquire lock:order:*"]
    outcomes = sorted(attributes(span)["redis.lock.outcome"] for span in acquires)
    assert outcomes == ["acquired", "acquired", "acquired", "contended", "timeout"]
    (job,) = [span for span in receiver.spans() if span.name == "job"]
    assert {event.name for event in job.events} >= {"lock.renewed", "lock.renew_lost", "lock.release_lost"}
    assert len(job.links) == len(acquires)
    metrics = receiver.metrics()
    expected = {metric.otel_name: metric for metric in SHIM if metric.labels[:1] == ("prefix",)}
    assert expected.keys() <= metrics.keys()
    for name, metric in expected.items():
        assert (metrics[name].unit, metrics[name].description) == (metric.unit, metric.help)
    (waits,) = [
        point
        for point in metrics["redis.lock.acquire.wait"].histogram.data_points
        if attributes(point)["outcome"] == "acquired"
    ]
    assert tuple(waits.explicit_bounds) == catalog.WAIT_BUCKETS
    assert waits.count == 3


PROGRAM = """
import sys, redis
{before}
import lockscope
{instrument}
client = redis.Redis(unix_socket_path=sys.argv[1])
with client.lock("lock:cli", timeout=9):
    pass
{after}
"""


def run(program: str, server: RedisServer, *wrapper: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(wrapper or [sys.executable]),
            *([sys.executable] if wrapper else []),
            "-c",
            program,
            server.socket,
        ],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": str(Path(sys.executable).parent), **env},
        check=False,
    )


def test_opentelemetry_instrument_finds_lockscope(receiver: Receiver, server: RedisServer) -> None:
    """A program that never heard of lockscope is observed when opentelemetry-instrument runs it."""
    program = PROGRAM.format(before="", instrument="", after="").replace("import lockscope", "")
    done = run(
        program,
        server,
        str(Path(sys.executable).with_name("opentelemetry-instrument")),
        OTEL_TRACES_EXPORTER="otlp",
        OTEL_METRICS_EXPORTER="otlp",
        OTEL_LOGS_EXPORTER="none",
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
        OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url,
        OTEL_PYTHON_DISABLED_INSTRUMENTATIONS="redis",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [span.name for span in receiver.spans()] == ["acquire lock:cli"]
    assert {"redis.lock.acquire", "redis.lock.hold", "redis.lock.held"} <= receiver.metrics().keys()


def test_application_settings_win_over_the_automatic_start(server: RedisServer) -> None:
    """A program under the instrumentor that calls instrument() gets its own prefixes, and spans go on."""
    program = PROGRAM.format(
        before="""
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from lockscope.otel import LockscopeInstrumentor
spans = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
LockscopeInstrumentor().instrument(tracer_provider=provider)""",
        instrument="lockscope.instrument(prefixes=['lock:c*'])",
        after="""print([span.name for span in spans.get_finished_spans()])
LockscopeInstrumentor().uninstrument()
from lockscope import runtime
print(runtime.recorder)""",
    )
    done = run(program, server)
    assert done.stdout.splitlines() == ["['acquire lock:c*']", "None"], done.stderr


def test_sdk_configured_after_instrument_is_used(server: RedisServer) -> None:
    """Observation that began first takes OpenTelemetry up with the first lock after it was configured."""
    program = PROGRAM.format(
        before="",
        instrument="""lockscope.instrument()
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(formatter=lambda s: s.name + chr(10))))
trace.set_tracer_provider(provider)""",
        after="",
    )
    done = run(program, server)
    assert done.stdout == "acquire lock:cli\n", done.stderr


def test_nothing_of_opentelemetry_is_imported_where_it_is_not_used(server: RedisServer) -> None:
    """Observation adds no OpenTelemetry module to those that redis-py imports where it is installed."""
    program = PROGRAM.format(
        before="",
        instrument="lockscope.instrument()",
        after="print(sorted(name for name in sys.modules if name.startswith('opentelemetry')))",
    )
    without = program.replace("lockscope.instrument()", "").replace("import lockscope", "")
    done = run(program, server)
    assert done.stdout.startswith("["), done.stderr
    assert done.stdout == run(without, server).stdout


def test_otel_without_the_package_says_what_to_install(server: RedisServer) -> None:
    """LOCKSCOPE_OTEL=1 where OpenTelemetry is not installed fails at start with the command to install it."""
    program = PROGRAM.format(
        before="sys.modules['opentelemetry'] = None", instrument="lockscope.instrument()", after=""
    )
    done = run(program, server, LOCKSCOPE_OTEL="1")
    assert done.returncode == 1
    assert "ValueError: otel: opentelemetry is not installed; pip install opentelemetry-api" in done.stderr
    assert run(program, server).returncode == 0


def test_current_span_of_log_and_span_agree(
    provider: TracerProvider, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """The log record of a lock carries the trace and span id of the span around it."""
    with caplog.at_level("INFO", "lockscope"), provider.get_tracer("app").start_as_current_span("w") as span:
        client.lock("lock:l", timeout=9).acquire()
    (record,) = caplog.records
    assert record.trace_id == format(span.get_span_context().trace_id, "032x")
    assert record.span_id == format(span.get_span_context().span_id, "016x")
    assert trace.get_current_span().get_span_context().is_valid is False

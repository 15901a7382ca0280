"""The shim's metrics in every way that ``prometheus_client`` serves them."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import prometheus_client
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

import lockscope
from lockscope import catalog
from shim import Observed, run_python

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import redis

    from servers import RedisServer


@pytest.fixture
def seen() -> Iterator[Observed]:
    """Observe locks."""
    with Observed() as observed:
        yield observed


def exercise(client: redis.Redis) -> None:
    """Make every kind of metric have a series."""
    lock = client.lock("order:1", timeout=30)
    with lock:
        lock.extend(10)
        client.lock("order:1").acquire(blocking=False)
    with lockscope.idempotent("charge:1", ttl=5, client=client):
        pass
    lockscope.retried("contended", "order:1")


def test_own_registry_keeps_to_itself(client: redis.Redis, seen: Observed) -> None:
    """With a registry of the application's own nothing is registered in the global one."""
    with client.lock("only-here", timeout=30):
        pass
    assert b"only-here" in generate_latest(seen.registry)
    assert b"only-here" not in generate_latest(prometheus_client.REGISTRY)


def test_families_are_those_of_the_catalogue(client: redis.Redis, seen: Observed) -> None:
    """Names, types, help and labels are what the catalogue says, in the text format and in OpenMetrics."""
    exercise(client)
    expected = {metric.name.removesuffix("_total"): metric for metric in catalog.CATALOG}
    for parsed in (
        list(parse_text(generate_latest(seen.registry).decode())),
        list(parse_openmetrics(generate_openmetrics(seen.registry).decode())),
    ):
        assert len(parsed) > 10
        for family in parsed:
            metric = expected[family.name]
            assert family.type == metric.kind
            assert family.documentation == metric.help
            for sample in family.samples:
                assert set(sample.labels) - {"le"} == set(metric.labels)


EXEMPLARS = """
import json, sys, time
import redis
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families
import lockscope

registry = CollectorRegistry()
lockscope.instrument(registry=registry)
trace.set_tracer_provider(TracerProvider())
client = redis.Redis(unix_socket_path=sys.argv[1])
found = set()
with trace.get_tracer("test").start_as_current_span("job") as span:
    trace_id = format(span.get_span_context().trace_id, "032x")
    deadline = time.monotonic() + 20
    while len(found) < 4 and time.monotonic() < deadline:  # it is looked at once a second who traces
        lock = client.lock("order:1", timeout=30)
        with lock:
            lock.extend(10)
        time.sleep(0.05)
        for family in text_string_to_metric_families(generate_openmetrics(registry).decode()):
            found |= {
                sample.name
                for sample in family.samples
                if sample.exemplar is not None and sample.exemplar.labels["trace_id"] == trace_id
            }
print(json.dumps([sorted(found), trace_id in generate_latest(registry).decode()]))
"""


def test_exemplars_carry_trace_ids(server: RedisServer) -> None:
    """Inside a span the histograms' buckets name its trace in OpenMetrics; the classic format does not."""
    done = run_python(EXEMPLARS, server.socket)
    assert done.stderr == ""
    histograms = (catalog.ACQUIRE_WAIT, catalog.HOLD, catalog.RENEW_HEADROOM, catalog.TTL_USED)
    assert json.loads(done.stdout) == [sorted(f"{metric.name}_bucket" for metric in histograms), False]


def test_no_exemplar_without_a_trace(client: redis.Redis, seen: Observed) -> None:
    """Where nobody traces there are no exemplars."""
    exercise(client)
    families = parse_openmetrics(generate_openmetrics(seen.registry).decode())
    assert not [sample for family in families for sample in family.samples if sample.exemplar is not None]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool comes with Debian's prometheus")
def test_promtool_finds_nothing(client: redis.Redis, seen: Observed) -> None:
    """Prometheus's own linter has nothing to say."""
    exercise(client)
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=generate_latest(seen.registry),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_counts_go_on_after_a_restart_of_observation(client: redis.Redis) -> None:
    """Off and on again on one registry: no duplicated time series, and counters do not fall back."""
    registry = CollectorRegistry()
    for _ in range(3):
        lockscope.instrument(registry=registry)
        with client.lock("order:1", timeout=30):
            pass
        lockscope.uninstrument()
    text = generate_latest(registry).decode()
    families = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(families) == len(set(families))
    labels = {"prefix": "order:*", "job_type": "none", "outcome": "acquired"}
    assert registry.get_sample_value("redis_lock_acquire_total", labels) == 3


def test_an_emptied_registry_is_filled_again(client: redis.Redis) -> None:
    """A test suite or reloader that unregisters all collectors gets the metrics back with the next start."""
    registry = CollectorRegistry()
    lockscope.instrument(registry=registry)
    lockscope.uninstrument()
    for collector in list(registry._collector_to_names):
        registry.unregister(collector)
    lockscope.instrument(registry=registry)
    try:
        with client.lock("order:1", timeout=30):
            pass
        assert b'redis_lock_held{job_type="none",prefix="order:*"} 0.0' in generate_latest(registry)
    finally:
        lockscope.uninstrument()


RELOAD = """
import sys
import redis
from prometheus_client import REGISTRY, generate_latest
for turn in range(3):
    for name in [name for name in sys.modules if name.partition(".")[0] == "lockscope"]:
        del sys.modules[name]
    import lockscope
    lockscope.instrument()
    with redis.Redis(unix_socket_path=sys.argv[1]).lock("order:1", timeout=5):
        pass
    lockscope.uninstrument()
labels = {"prefix": "order:*", "job_type": "none", "outcome": "acquired"}
print(REGISTRY.get_sample_value("redis_lock_acquire_total", labels))
"""


def test_reloaded_code_is_no_duplicate(server: RedisServer) -> None:
    """An autoreloader that imports everything anew finds the metrics of before and goes on with them."""
    done = run_python(RELOAD, server.socket)
    assert (done.stdout.strip(), done.stderr) == ("3", "")


MULTIPROCESS = """
import json, os, signal, sys
import redis
from prometheus_client import CollectorRegistry, generate_latest, multiprocess
import lockscope

lockscope.instrument()
client = redis.Redis(unix_socket_path=sys.argv[1])

def value(name, **labels):
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)
    return registry.get_sample_value(name, {"prefix": "order:*", "job_type": "none"} | labels)

out = {}
mine = client.lock("order:1", timeout=30)
mine.acquire()
ready, tell = os.pipe()
children = []
for number in (2, 3):
    pid = os.fork()
    if pid == 0:
        lock = client.lock(f"order:{number}", timeout=30)
        lock.acquire()
        lock.extend(5)
        client.lock("order:1", timeout=30).acquire(blocking=False)
        os.write(tell, b"x")
        signal.pause()
    children.append(pid)
for _ in children:
    os.read(ready, 1)
out["held by three"] = value("redis_lock_held")
out["acquired"] = value("redis_lock_acquire_total", outcome="acquired")
out["contended"] = value("redis_lock_acquire_total", outcome="contended")
out["waited"] = value("redis_lock_acquire_wait_seconds_count", outcome="acquired")
for pid in children:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    multiprocess.mark_process_dead(pid)
out["held by one"] = value("redis_lock_held")
mine.release()
out["held"] = value("redis_lock_held")
out["acquired after all"] = value("redis_lock_acquire_total", outcome="acquired")
out["renewed after all"] = value("redis_lock_renew_total", outcome="renewed")
out["hold"] = value("redis_lock_hold_seconds_count")
out["lost"] = value("redis_lock_release_total", outcome="lost")
print(json.dumps(out))
"""


def test_multiprocess_mode(server: RedisServer, tmp_path: Path) -> None:
    """Counters add up over processes that live and died, gauges over those that live, across forks."""
    done = run_python(MULTIPROCESS, server.socket, env={"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)})
    assert done.stderr == ""
    assert json.loads(done.stdout) == {
        "held by three": 3,
        "acquired": 3,
        "contended": 2,
        "waited": 3,
        "held by one": 1,
        "held": 0,
        "acquired after all": 3,
        "renewed after all": 2,
        "hold": 1,
        "lost": 0,
    }

"""``lockscope export`` as Prometheus and people meet it: a real process, a real Redis, HTTP."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from commands import Exporter, series
from servers import Process, RedisServer, free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

HOSTILE = b'lock:a"b\\c\n\xff\x1b[31m<b>{}:x'


@pytest.fixture(scope="module")
def stage() -> Iterator[tuple[RedisServer, Exporter]]:
    """Give a redis-server with a few locks and an exporter that has sampled it."""
    server = RedisServer(port=None)
    client = server.client()
    client.set("lock:order:1", "token-of-order-1", px=600_000)
    client.set("lock:order:2", "token-of-order-2")
    client.set(HOSTILE, "token-of-hostile", px=600_000)
    with Exporter(server.url, "--locks", "lock:*", "--interval", "100ms") as exporter:
        exporter.wait_ready()
        yield server, exporter
    client.close()
    server.close()


@pytest.fixture
def exporter(stage) -> Exporter:
    """Give the shared exporter."""
    return stage[1]


def test_metrics_say_what_redis_holds(exporter):
    """A scrape shows the server up and each lock counted by prefix and state."""
    text = exporter.get().text
    assert series(text, "redis_lock_up") == [1.0]
    assert series(text, "redis_lock_keys", prefix="lock:order:*", state="held") == [1.0]
    assert series(text, "redis_lock_keys", prefix="lock:order:*", state="no_ttl") == [1.0]
    assert series(text, "redis_lock_keys_without_ttl", prefix="lock:order:*") == [1.0]
    [shortest] = series(text, "redis_lock_ttl_min_seconds", prefix="lock:order:*")
    assert 500 < shortest <= 600
    assert series(text, "process_start_time_seconds")


def test_counters_exist_at_zero(exporter):
    """Every counter of a prefix exists from the first scrape that knows the prefix."""
    text = exporter.get().text
    for name in ("acquired", "renewed", "takeover"):
        assert series(text, f"redis_lock_observed_{name}_total", prefix="lock:order:*") == [0.0]
    for how in ("released", "expired", "evicted", "flushed"):
        assert series(text, "redis_lock_observed_ended_total", prefix="lock:order:*", how=how) == [0.0]


def test_a_family_without_locks_drops_to_zero(stage):
    """When the last lock of a prefix goes, its series stay and say 0."""
    server, exporter = stage
    client = server.client()
    client.set("lock:passing:1", "token", px=600_000)
    wait_until(lambda: exporter.value("redis_lock_keys", prefix="lock:passing:*", state="held") == 1)
    client.delete("lock:passing:1")
    wait_until(lambda: exporter.value("redis_lock_keys", prefix="lock:passing:*", state="held") == 0)
    text = exporter.get().text
    assert series(text, "redis_lock_oldest_age_seconds", prefix="lock:passing:*") == [0.0]
    assert series(text, "redis_lock_ttl_seconds_gcount", prefix="lock:passing:*") == [0.0]
    assert series(text, "redis_lock_observed_ended_total", prefix="lock:passing:*", how="released") == [1.0]


def test_no_unbounded_labels(exporter):
    """No key, token, owner or host of a lock is a label."""
    text = exporter.get().text
    assert "token-of" not in text
    assert "lock:order:1" not in text
    labels = {name for family in parse_plain(text) for sample in family.samples for name in sample.labels}
    assert labels <= {
        "target", "node", "mode", "reason", "prefix", "db", "dialect", "state", "how", "le",
        "implementation", "major", "minor", "patchlevel", "version",
    }  # fmt: skip


def test_the_format_follows_accept(exporter):
    """Prometheus gets OpenMetrics, a browser plain text; both parse to the same series."""
    prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
    rich = exporter.get(headers={"Accept": prometheus})
    assert rich.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert rich.text.endswith("# EOF\n")
    plain = exporter.get(headers={"Accept": "text/html,*/*;q=0.8"})
    assert plain.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"

    def names(families):
        return {
            (sample.name, tuple(sorted(sample.labels.items())))
            for family in families
            for sample in family.samples
            if sample.name.startswith("redis_lock")
        }

    assert names(parse_openmetrics(rich.text)) == names(parse_plain(plain.text))


def test_gzip_only_where_accepted(exporter):
    """The answer is compressed if the client says so, and not else."""
    plain = exporter.get(headers={"Accept-Encoding": "identity"})
    packed = exporter.get(headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < int(plain.headers["content-length"]) / 3
    assert series(packed.text, "redis_lock_up") == [1.0]


def test_hostile_prefixes_pass_promtool(exporter):
    """Quotes, backslashes, newlines and bytes in keys leave the text valid for promtool."""
    text = exporter.get().text
    assert "lock:a" in text
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_prometheus_scrapes_it(exporter, tmp_path):
    """A real Prometheus takes the hostile prefix in and gives its label back unchanged."""
    port = free_port()
    target = exporter.url.removeprefix("http://")
    (tmp_path / "p.yml").write_text(
        "scrape_configs: [{job_name: locks, scrape_interval: 500ms, scrape_timeout: 500ms, "
        f"static_configs: [{{targets: ['{target}']}}]}}]\n"
    )
    command = [
        "prometheus", f"--config.file={tmp_path}/p.yml", f"--storage.tsdb.path={tmp_path}/data",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=error",
    ]  # fmt: skip
    prometheus = Process(command, tmp_path / "log")

    def found() -> list[str]:
        query = {"query": 'redis_lock_keys{prefix=~"lock:a.*",state="held"} == 1'}
        try:
            answer = httpx.get(f"http://127.0.0.1:{port}/api/v1/query", params=query)
        except httpx.TransportError:
            return []
        return (
            [item["metric"]["prefix"] for item in answer.json()["data"]["result"]]
            if answer.is_success
            else []
        )

    try:
        [prefix] = wait_until(found, timeout=20)
    finally:
        prometheus.stop()
    [listed] = exporter.get("/api/v1/locks", params={"key": 'lock:a"*'}).json()["locks"]
    assert prefix == listed["prefix"]


def test_redis_down_at_the_start():
    """Without Redis it says up 0 and claims nothing about locks; it recovers without restart."""
    port = free_port()
    with Exporter(f"redis://127.0.0.1:{port}/0", "--locks", "lock:*", "--interval", "100ms") as exporter:
        exporter.wait_ready()
        began = time.monotonic()
        assert exporter.value("redis_lock_up") == 0
        assert time.monotonic() - began < 1
        assert exporter.get("/-/healthy").status_code == 200
        server = RedisServer(port=port)
        try:
            server.client().set("lock:order:1", "token", px=600_000)
            wait_until(lambda: exporter.value("redis_lock_keys", prefix="lock:order:*", state="held") == 1)
            assert exporter.value("redis_lock_up") == 1
        finally:
            server.close()
        wait_until(lambda: exporter.value("redis_lock_up") == 0)
        text = exporter.get().text
        assert series(text, "redis_lock_keys") == []
        assert series(text, "redis_lock_observed_acquired_total", prefix="lock:order:*")
        assert exporter.close(signal.SIGINT) == 0


def test_redis_that_never_answers(own_server):
    """A Redis that accepts and stays silent is down within the timeout, and scrapes go on meanwhile."""
    with Exporter(own_server.url, "--timeout", "300ms", "--interval", "100ms") as exporter:
        wait_until(lambda: exporter.value("redis_lock_up") == 1)
        own_server.signal(signal.SIGSTOP)
        began = time.monotonic()
        assert exporter.get().status_code == 200
        assert time.monotonic() - began < 0.5
        wait_until(lambda: exporter.value("redis_lock_up") == 0, timeout=3)
        [node] = exporter.get("/api/v1/locks").json()["nodes"]
        assert "no answer in time" in node["error"]
        own_server.signal(signal.SIGCONT)
        wait_until(lambda: exporter.value("redis_lock_up") == 1)


def test_clients_that_hang_up_leave_nothing(exporter):
    """Fifty clients that ask and vanish cost no file descriptor and no later scrape."""
    host, port = exporter.url.removeprefix("http://").split(":")
    before = exporter.value("process_open_fds")
    for _ in range(50):
        with socket.create_connection((host, int(port))) as peer:
            peer.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    wait_until(lambda: exporter.value("process_open_fds") <= before)
    assert exporter.get().status_code == 200
    assert "Traceback" not in exporter.process.output()


def test_wrong_paths_and_methods(exporter):
    """Unknown paths are 404, writing methods 405, HEAD has no body."""
    assert exporter.get("/nonsense").status_code == 404
    assert httpx.post(exporter.url + "/metrics").status_code == 405
    head = httpx.head(exporter.url + "/-/ready")
    assert (head.status_code, head.content) == (200, b"")


def test_landing_page_shows_hostile_names_as_text(exporter):
    """The landing page lists servers and prefixes, and a key with HTML in it stays text."""
    page = exporter.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "lock:order:*" in page.text
    assert "&lt;b&gt;" in page.text
    assert "<b>" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_locks_as_json(exporter):
    """The JSON list has every lock with state, evidence and holder, the most urgent first."""
    answer = exporter.get("/api/v1/locks").json()
    assert answer["total"] == len(answer["locks"]) >= 3
    first = answer["locks"][0]
    assert (first["key"], first["state"], first["ttl_seconds"]) == ("lock:order:2", "no_ttl", None)
    assert first["evidence"]
    assert set(first["holder"]) >= {"host", "pid", "worker", "job_type", "job_id", "alive", "fingerprint"}
    assert "token-of" not in str(answer)
    [node] = answer["nodes"]
    assert (node["up"], node["error"]) == (True, "")


def test_json_filters_and_limit(exporter):
    """Filters, order and limit pick from the list; the total counts what the filters admit."""
    answer = exporter.get(
        "/api/v1/locks", params={"prefix": "lock:order:*", "order": "key", "limit": 1}
    ).json()
    assert ([lock["key"] for lock in answer["locks"]], answer["total"]) == (["lock:order:1"], 2)
    answer = exporter.get("/api/v1/locks?state=no_ttl&key=lock:order:*").json()
    assert [lock["key"] for lock in answer["locks"]] == ["lock:order:2"]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("colour=red", "'colour' is not known"),
        ("state=lost", "state must be one of orphaned"),
        ("order=size", "order must be one of urgency"),
        ("limit=-1", "limit must be a whole number"),
        ("key=lock:[", "has a [ without ]"),
    ],
)
def test_bad_parameters_are_named(exporter, query, says):
    """A parameter that means nothing is answered with 400 and the fault, not with a wrong list."""
    answer = exporter.get(f"/api/v1/locks?{query}")
    assert answer.status_code == 400
    assert says in answer.json()["error"]


def test_stops_at_once_and_frees_its_port(server):
    """SIGTERM ends it with status 0, also with an idle connection open, and its port is free again."""
    exporter = Exporter(server.url)
    with httpx.Client() as idle:
        idle.get(exporter.url + "/-/healthy")
        began = time.monotonic()
        assert exporter.close(signal.SIGTERM) == 0
        assert time.monotonic() - began < 3
    with pytest.raises(httpx.ConnectError):
        httpx.get(exporter.url)

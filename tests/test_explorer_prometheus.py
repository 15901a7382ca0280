"""The explorer's questions to a real Prometheus that scrapes a real worker."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from explorer_stage import WORKER, Folder, start_prometheus
from lockscope import catalog
from lockscope_dashboard import queries
from lockscope_dashboard.frames.series import instant_frame, per_bucket, range_frame
from lockscope_dashboard.prometheus import Prometheus, PrometheusError, selector
from servers import free_port, wait_until


@pytest.fixture(scope="module")
def stage(shared_server):
    """Give a Prometheus that has scraped a contending worker for a while."""
    folder = Folder()
    port = free_port()
    worker = folder.script("worker", WORKER, shared_server.url, str(port))
    wait_until(lambda: "ready" in worker.output(), what="worker")
    prometheus = Prometheus(start_prometheus(folder, port))
    counted = queries.counted(catalog.ACQUIRE, "15m", "outcome", outcome="timeout")
    wait_until(
        lambda: any(one.points[-1][1] > 0 for one in prometheus.instant(counted)), timeout=20, every=0.2
    )
    yield prometheus
    folder.close()


def test_every_question_of_a_page_has_an_answer(stage):
    """What the shim counted arrives in the frames: attempts, waits, holds, by prefix."""
    attempts = instant_frame(
        stage.instant(queries.counted(catalog.ACQUIRE, "15m", "prefix", "outcome")), "prefix", "outcome"
    )
    found = {(row.prefix, row.outcome): row.value for row in attempts.itertuples()}
    assert found["lock:order:*", "acquired"] > 0
    assert found["lock:order:*", "timeout"] > 0
    assert found["lock:mail:*", "timeout"] == 0
    for query in (
        queries.quantile(catalog.ACQUIRE_WAIT, 0.99, "15m", "prefix"),
        queries.quantile(catalog.HOLD, 0.5, "15m", "prefix"),
    ):
        values = instant_frame(stage.instant(query), "prefix").set_index("prefix")["value"]
        assert values["lock:order:*"] > 0
    waiting = stage.instant(f"sum({queries.waiters})")
    assert waiting[0].points[-1][1] >= 0
    assert stage.instant(queries.losses("1h"))[0].points[-1][1] == 0


def test_course_over_time(stage):
    """A range comes as points in order, and cumulative buckets as counts that add up to the whole."""
    now = time.time()
    calls = range_frame(
        stage.range(f"sum by (outcome) ({catalog.ACQUIRE.name})", now - 5, now, 1.0), "outcome"
    )
    acquired = calls[calls["outcome"] == "acquired"]
    assert acquired["value"].is_monotonic_increasing
    assert acquired["at"].is_monotonic_increasing
    query = f"sum by (le) ({catalog.ACQUIRE_WAIT.name}_bucket)"
    cumulative = range_frame(stage.range(query, now, now, 1.0), "le")
    whole = cumulative[cumulative["le"] == "+Inf"]["value"].iloc[0]
    assert per_bucket(cumulative)["value"].sum() == whole > 0


@pytest.mark.parametrize("value", ['a"b', "a\\b", "a\nb", "\u202ez", "{x='y'}"])
def test_any_label_value_makes_a_valid_query(stage, value):
    """A hostile prefix selects nothing, rather than breaking out of the query."""
    assert stage.instant(f"count({selector(catalog.ACQUIRE.name, prefix=value)})") == []


def test_refused_query_says_why_and_does_not_count_as_an_outage(stage):
    """A query error carries Prometheus' own words; the next good query is asked at once."""
    with pytest.raises(PrometheusError, match=r"refused the query: .*parse error"):
        stage.instant("sum(")
    assert stage.instant("vector(1)")[0].points[-1][1] == 1.0


def test_unreachable_server_is_left_alone_for_a_while():
    """A refused connection is one clear line, and is not tried again by every viewer at every refresh."""
    now = [0.0]
    port = free_port()
    client = Prometheus(f"http://user:secret@127.0.0.1:{port}/", clock=lambda: now[0])
    with pytest.raises(
        PrometheusError, match=rf"^Prometheus at http://127.0.0.1:{port} does not answer"
    ) as first:
        client.instant("up")
    assert "secret" not in str(first.value)
    with serving(port, 200, b'{"status":"success","data":{"resultType":"vector","result":[]}}') as asked:
        with pytest.raises(PrometheusError, match="does not answer"):
            client.instant("up")
        assert asked == []
        now[0] = 60.0
        assert client.instant("up") == []
        assert asked == ["/api/v1/query Basic dXNlcjpzZWNyZXQ="]


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (200, b"<html>hello</html>", "is not Prometheus"),
        (200, b"[1]", "is not Prometheus"),
        (200, b'{"status":"success","data":{"resultType":"vector","result":[{"metric":1}]}}', "unknown form"),
        (200, b'{"status":"success"}', "unknown form"),
        (404, b"not found", "HTTP status 404"),
        (503, b'{"status":"error","error":"starting"}', "starting"),
    ],
)
def test_what_is_not_prometheus_is_named(status, body, words):
    """Any other server at that address gives one clear line, never a traceback."""
    port = free_port()
    with serving(port, status, body), pytest.raises(PrometheusError, match=words):
        Prometheus(f"http://127.0.0.1:{port}").instant("up")


@pytest.mark.parametrize(
    "url", ["localhost:9090", "ftp://x", "http://", "http://[::1", "http://h:port", "file:///etc/passwd"]
)
def test_wrong_url_names_the_variable(url):
    """A URL that is none says which variable to mend."""
    with pytest.raises(PrometheusError, match="LOCKSCOPE_PROMETHEUS_URL is not an http"):
        Prometheus(url).instant("up")


class serving:  # noqa: N801 - reads as a statement
    """Serve one fixed answer to every POST; gives the list of what was asked."""

    def __init__(self, port, status, body):
        self.asked = asked = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                asked.append(f"{self.path} {self.headers.get('Authorization', '')}".strip())
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments):
                """Say nothing."""

        self.server = HTTPServer(("127.0.0.1", port), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))

    def __enter__(self):
        self.thread.start()
        return self.asked

    def __exit__(self, *_error):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

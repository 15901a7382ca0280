"""``watch --exporter``: the same as at Redis itself, without asking Redis; whatever the exporter answers."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import bcrypt
import httpx
import pytest
import trustme

from commands import SCRIPT, Exporter
from lockscope import events
from lockscope.events import LockEvent
from lockscope.jobs import Job
from lockscope.journal import KEY, Entry, Recorded, Writer, encode
from lockscope.journal.model import VERSION
from lockscope_exporter.cli import main
from lockscope_exporter.listing import lock_object
from lockscope_exporter.state import Holder, LockState
from lockscope_exporter.watching.address import Address, AnswerError, Asker, parse_address
from lockscope_exporter.watching.objects import lock_of
from lockscope_exporter.watching.tail import Tail
from servers import Process, RedisServer, free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WRITER = Writer("web-1", 7, "abcdef", 0)


def entry(number: int, event: str, at: float, key: bytes = b"lock:a") -> Entry:
    """Return what a worker writes to the journal."""
    told = LockEvent(event, key, "lock:*", at, Job("invoice", "8812"))
    return Entry(WRITER, number, at, (Recorded(told, "", WRITER),))


def write(client: Any, number: int, event: str, at: float | None = None) -> None:
    """Write an event to the journal as a worker does."""
    at = time.time() if at is None else at
    client.xadd(KEY, {"v": VERSION, "b": "".join(encode(entry(number, event, at)))})


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Give a function that runs ``watch`` in a pipe, through an exporter."""
    started: list[Process] = []

    def run(url: str, *words: str) -> Process:
        command = [SCRIPT, "watch", "--exporter", url, "--refresh", "0.1s", *words]
        started.append(Process(command, tmp_path / f"log{len(started)}"))
        return started[-1]

    yield run
    for process in started:
        process.stop()


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    """Give a server of its own, so that its connections can be counted."""
    server = RedisServer(port=None)
    yield server
    server.close()


@pytest.fixture
def exporter(redis_server) -> Iterator[Exporter]:
    """Give an exporter of it that reads the journal."""
    with Exporter(redis_server.url, "--locks", "lock:*", "--journal") as found:
        yield found.wait_ready()


def test_locks_and_the_journal_come_through_an_exporter(redis_server, exporter, watching):
    """What happens is told as at Redis itself, and Redis sees no connection more."""
    client = redis_server.client()
    write(client, 1, events.RELEASE_LOST, time.time() - 60)
    before = len(client.client_list())
    lines, objects = watching(exporter.url), watching(exporter.url, "--json")
    wait_until(lambda: "watching exporter 127.0.0.1" in lines.output(), 60)
    names = (f"lock:probe:{number}" for number in range(1000))
    wait_until(lambda: client.set(next(names), "x" * 20, px=500) and objects.output(), 60, every=0.2)
    client.set("lock:a", "7c9e6679-7425-40de-944b-e07fc1f90ae7", px=900)
    write(client, 2, events.CONTENDED)
    write(client, 3, events.RENEW_LOST)
    wait_until(lambda: re.search(r"^\d\d:\d\d:\d\d  acquired +lock:a", lines.output(), re.MULTILINE))
    wait_until(lambda: re.search(r"refused +lock:a  web-1/7 of invoice \(job 8812\)", lines.output()))
    wait_until(lambda: re.search(r"  expired +lock:a  after", lines.output()))
    assert len(client.client_list()) == before
    wait_until(lambda: "renewal lost" in objects.output())
    found = [json.loads(line) for line in objects.output().splitlines()]
    assert [one["what"] for one in found if one["what"] in {"refused", "renewal lost"}] == [
        "refused", "renewal lost",
    ]  # fmt: skip
    assert "release lost" not in lines.output() + objects.output()  # it was before they began
    for process in (lines, objects):
        assert process.stop(signal.SIGINT) == 0
        assert "Traceback" not in process.output()


def test_once_is_what_ls_says(redis_server, exporter, capsys):
    """The locks are those that ``ls`` finds, in the same form, filtered and sorted alike."""
    client = redis_server.client()
    client.set("lock:order:1", "7c9e6679-7425-40de-944b-e07fc1f90ae7", px=600_000)
    client.set("lock:stuck", "7c9e6679-7425-40de-944b-e07fc1f90ae8")
    client.set(b"lock:\x1b[31m\xe2\x80\xaex", "7c9e6679-7425-40de-944b-e07fc1f90ae9", px=600_000)
    wait_until(lambda: exporter.get("/api/v1/locks").json()["total"] == 3)

    def listed(*words: str) -> Any:
        assert main((*words, "--json")) == 0
        return json.loads(capsys.readouterr().out)

    through = listed("watch", "--once", "--exporter", exporter.url)
    beside = listed("ls", "--redis-url", redis_server.url, "--locks", "lock:*")
    varies = {"age_seconds", "ttl_seconds", "sampled_at", "lease_seconds", "evidence", "age_at_least"}
    varies |= {"expected_hold_seconds"}
    without = [
        {name: value for name, value in one.items() if name not in varies} for one in (*through, *beside)
    ]
    by_key = sorted(without[:3], key=lambda one: one["key"]), sorted(without[3:], key=lambda one: one["key"])
    assert by_key[0] == by_key[1]
    [stuck] = listed("watch", "--once", "--exporter", exporter.url, "--state", "no_ttl")
    assert stuck["key"] == "lock:stuck"
    assert main(("watch", "--once", "--exporter", exporter.url)) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "3 locks: 1 no_ttl, 2 held" in out


def test_an_exporter_that_goes_and_comes_back(redis_server, watching):
    """While it is away that is said once and nothing counts as released; a new one is followed from there."""
    client = redis_server.client()
    client.set("lock:a", "7c9e6679-7425-40de-944b-e07fc1f90ae7", px=600_000)
    port = free_port()
    words = ["--locks", "lock:*", "--journal", "--listen", f"127.0.0.1:{port}"]
    with Exporter(redis_server.url, *words) as first:
        process = watching(first.wait_ready().url)
        wait_until(lambda: "1 lock: 1 held" in process.output(), 60)
    wait_until(lambda: "connection refused" in process.output())
    with Exporter(redis_server.url, *words) as second:
        second.wait_ready()
        wait_until(lambda: "answers again" in process.output())
        write(client, 1, events.RENEW_LOST)
        client.delete("lock:a")
        wait_until(lambda: "renewal lost" in process.output() and "released" in process.output())
    assert process.output().count("answers again") == 1
    assert process.output().count("released") == 1
    assert "Traceback" not in process.output()


def test_a_redis_that_goes_and_comes_back_is_told_through_the_exporter(redis_server, watching):
    """What the exporter says of its servers is told, too; an exporter that is away says nothing of them."""
    words = ["--locks", "lock:*", "--timeout", "0.5s"]
    with Exporter(redis_server.url, *words) as exporter:
        process = watching(exporter.wait_ready().url)
        wait_until(lambda: "watching exporter" in process.output(), 60)
        node = f"127.0.0.1:{redis_server.port}"
        redis_server.signal(signal.SIGSTOP)
        wait_until(lambda: f"{node}: no answer in time, its locks are not known" in process.output(), 30)
        redis_server.signal(signal.SIGCONT)
        wait_until(lambda: f"{node}: answers again" in process.output(), 30)
    wait_until(lambda: "connection refused" in process.output())
    assert process.output().count("its locks are not known") == 1


def test_a_redis_that_is_away_is_told_through_the_exporter(capsys):
    """The exporter answers, its Redis does not: the list is incomplete, with status 2 and the reason."""
    with Exporter(f"redis://127.0.0.1:{free_port()}", "--locks", "lock:*") as exporter:
        exporter.wait_ready()
        assert main(("watch", "--once", "--exporter", exporter.url)) == 2
    err = capsys.readouterr().err
    assert "incomplete, 127.0.0.1:" in err
    assert "connection refused" in err


def test_without_a_journal_that_is_said(redis_server):
    """An exporter that reads no journal can tell of no waiting; people are told why."""
    with Exporter(redis_server.url, "--locks", "lock:*") as exporter:
        exporter.wait_ready()
        assert exporter.get("/api/v1/happened").json()["journal"] is False
        code = (
            "from lockscope_exporter.watching.remote import Remote\n"
            "from lockscope_exporter.watching.address import parse_address\n"
            f"remote = Remote(parse_address({exporter.url!r}), every=0.1, journal=True)\n"
            "remote.start(); assert remote.wait_ready(20)\n"
            "import time\n"
            "while not remote.notes(): time.sleep(0.01)\n"
            "print(remote.notes()[0]); remote.stop()"
        )
        done = subprocess.check_output([sys.executable, "-c", code], text=True, timeout=60)
    assert "reads no journal (--journal)" in done


def test_many_who_watch_are_served_the_same_snapshot(exporter, redis_server):
    """Whoever asks within a moment gets the same bytes: a hundred people cost what one costs."""
    redis_server.client().set("lock:a", "7c9e6679-7425-40de-944b-e07fc1f90ae7", px=600_000)
    wait_until(lambda: exporter.get("/api/v1/locks").json()["total"] == 1)

    def stamps() -> set[float]:
        with httpx.Client(base_url=exporter.url) as session:
            answers = [session.get("/api/v1/snapshot") for _ in range(20)]
        return {answer.json()["locks"][0]["sampled_at"] for answer in answers if answer.json()["locks"]}

    wait_until(lambda: 1 <= len(stamps()) <= 2)
    assert exporter.get("/api/v1/snapshot").headers["content-encoding"] == "gzip"
    plain = exporter.get("/api/v1/snapshot", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers


@pytest.mark.parametrize(
    "query", ["after=x", "after=-1", "after=1&what=2", "after=" + "9" * 16, "after=\u0661"]
)
def test_questions_that_mean_nothing(exporter, query):
    """A parameter that is unknown or no number is refused with one line."""
    answer = exporter.get(f"/api/v1/happened?{query}")
    assert answer.status_code == 400
    assert "after=NUMBER" in answer.json()["error"]


def test_a_tail_keeps_the_last_and_counts_what_was_missed():
    """Numbers go on, room is bounded, and who asks too late learns how much is gone."""
    tail = Tail(since=100.0, most=3)
    tail.told(entry(1, events.CONTENDED, 99.0))
    assert tail.after(None) == ([], 0, 0)
    for number in range(5):
        tail.told(entry(number, events.CONTENDED, 100.0 + number, key=b"lock:%d" % number))
    tail.told(entry(9, events.ACQUIRED, 110.0))  # the sampler shows it better
    happened, last, missed = tail.after(1)
    assert [one.key for one in happened] == [b"lock:2", b"lock:3", b"lock:4"]
    assert (last, missed) == (5, 1)
    assert tail.after(4)[0][0].key == b"lock:4"
    assert tail.after(5) == ([], 5, 0)
    assert tail.after(0)[2] == 2
    assert [one.key for one in tail.after(77)[0]] == [b"lock:2", b"lock:3", b"lock:4"]  # of another run


def test_a_lock_survives_the_way():
    """What an exporter says of a lock is read back as it was, but for its token and value."""
    holder = Holder(
        b"7c9e", "7c9e7c9e", "web-1", 7, "abcdef", "invoice", "8812", 99.0, "gone", 123.5, count=2,
    )  # fmt: skip
    lock = LockState(
        key="lock:ä\n\u202ex".encode(), prefix="lock:*", dialect="redisson-rlock", state="orphaned",
        evidence=("it is gone", "for ever"), ttl_seconds=None, sampled_at=200.25, ttl_expected=False,
        age_seconds=3.5, age_at_least=True, expected_hold_seconds=9.0, lease_seconds=None, holders=(holder,),
        weak_owner=True, value=None, renewals=4, field=b"f", db=3, target="main", node="h:1",
    )  # fmt: skip
    back = lock_of(json.loads(json.dumps(lock_object(lock))))
    assert back._replace(holders=()) == lock._replace(holders=())
    assert back.holder == Holder(
        b"7c9e7c9e", "7c9e7c9e", "web-1", 7, "abcdef", "invoice", "8812", 99.0, "gone", 123.5, count=2
    )


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("http://exporter:9963", Address("exporter", 9963)),
        ("http://exporter/", Address("exporter", 9963)),
        ("https://exporter", Address("exporter", 443, tls=True)),
        ("https://ops:s%40crt@[::1]:99/redis/", Address("::1", 99, True, "/redis", "ops", "s@crt")),
    ],
)
def test_addresses(text, address):
    """Scheme, host, port, path of a proxy, user and password; the password is never shown."""
    assert parse_address(text) == address
    assert "s@crt" not in repr(parse_address(text)) + parse_address(text).shown


@pytest.mark.parametrize(
    "text", ["", "exporter:9963", "redis://h:1", "http://", "http://h:x", "http://h:70000", "http://h/?a=b"]
)
def test_what_is_no_address_of_an_exporter(text, capsys):
    """Anything else is refused with the form that is meant, or means Redis itself if it is empty."""
    if text:
        assert main(("watch", "--once", "--exporter", text)) == 2
        assert "http://exporter.internal:9963" in capsys.readouterr().err


def test_a_password_in_an_address_is_not_printed(capsys):
    """Not even in the complaint about it."""
    for text in ("http://ops:s3cret@h:x", "ops:s3cret@h:1", f"http://ops:s3cret@127.0.0.1:{free_port()}"):
        assert main(("watch", "--once", "--exporter", text)) == 2
        err = capsys.readouterr().err
        assert "s3cret" not in err
        assert len(err.splitlines()) == 1


def test_redis_beside_an_exporter(redis_server, exporter, capsys, monkeypatch):
    """Both on the command line exclude each other; Redis there goes before an exporter elsewhere."""
    redis_server.client().set("lock:a", "7c9e6679-7425-40de-944b-e07fc1f90ae7", px=600_000)
    url = ("--redis-url", redis_server.url)
    assert main(("watch", "--once", "--exporter", exporter.url, *url)) == 2
    assert "--exporter and --redis-url exclude each other" in capsys.readouterr().err
    assert main(("watch", "--once", "--exporter", exporter.url, "--targets", "x.yml")) == 2
    assert "--exporter and --targets exclude each other" in capsys.readouterr().err
    monkeypatch.setenv("LOCKSCOPE_EXPORTER", f"http://127.0.0.1:{free_port()}")
    assert main(("watch", "--once", *url)) == 0
    assert "lock:a" in capsys.readouterr().out
    monkeypatch.setenv("LOCKSCOPE_EXPORTER", exporter.url)
    monkeypatch.setenv("LOCKSCOPE_REDIS_URL", f"redis://127.0.0.1:{free_port()}")
    assert main(("watch", "--once")) == 0
    assert "lock:a" in capsys.readouterr().out


# --- exporters that are none ---

SNAPSHOT = {"locks": [], "families": [], "nodes": []}
HAPPENED = {"run": "r", "last": 0, "missed": 0, "happened": [], "journal": True, "errors": []}


@contextlib.contextmanager
def answering(status: int, body: bytes, *, after: float = 0.0, **headers: str) -> Iterator[str]:
    """Give the URL of a server that answers everything alike, after so many seconds of silence."""
    silence = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if silence.wait(after):  # nobody waits for this answer any more
                return
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        silence.set()
        server.shutdown()
        server.server_close()
        thread.join()


def test_an_exporter_may_think_for_longer_than_a_connection_may_take():
    """Only the time for the whole answer ends the waiting for one: very many locks take an exporter long."""
    with answering(200, b"[7]", after=0.5) as url:
        patient = Asker(parse_address(url), 0.1)
        assert patient.ask("/") == [7]
        patient.close()
    with answering(200, b"[7]", after=600) as url:
        hasty = Asker(parse_address(url), 600, 0.1)
        with pytest.raises(AnswerError, match="no answer in time"):
            hasty.ask("/")
        hasty.close()


@pytest.mark.parametrize(
    ("status", "body", "headers", "why"),
    [
        (404, b"not here", {}, "knows nothing of watching"),
        (401, b"who?", {}, "asks for a user and a password"),
        (
            302,
            b"",
            {"Location": "http://u:s3cret@other/"},
            "on to http://u:***@other/; give that address",
        ),
        (500, b"<html>", {}, "HTTP status 500"),
        (503, b'{"error": "busy \\u001b[31m"}', {}, "busy \\x1b[31m"),
        (200, b"<html>hello", {}, "answers with no JSON"),
        (200, b"[]", {}, "in a form of another version"),
        (200, b"\x1f\x8bnot", {"Content_Encoding": "gzip"}, "cannot be unpacked"),
        (200, gzip.compress(b"{}" * 999, mtime=0)[:30], {"Content_Encoding": "gzip"}, "or with a part only"),
    ],
)
def test_a_server_that_is_no_exporter(status, body, headers, why, capsys):
    """Each wrong answer is one line that says what to do, and status 2."""
    with answering(status, body, **headers) as url:
        assert main(("watch", "--once", "--exporter", url)) == 2
    err = capsys.readouterr().err
    assert why in err
    assert len(err.splitlines()) == 1
    assert "s3cret" not in err


def test_a_server_that_speaks_something_else(redis_server, capsys):
    """A Redis port in place of an exporter's, and the other way round with TLS."""
    assert main(("watch", "--once", "--exporter", f"http://127.0.0.1:{redis_server.port}")) == 2
    assert "does not speak HTTP" in capsys.readouterr().err
    with answering(200, b"{}") as url:
        assert main(("watch", "--once", "--exporter", url.replace("http:", "https:"))) == 2
    assert "does not speak TLS here" in capsys.readouterr().err


def test_tls_and_a_password(redis_server, tmp_path, capsys, monkeypatch):
    """An exporter behind TLS and basic authentication is watched with both, and refuses without."""
    authority = trustme.CA()
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    web = tmp_path / "web.yml"
    hashed = bcrypt.hashpw(b"s3cret", bcrypt.gensalt(4)).decode()
    web.write_text(
        f"tls_server_config:\n  cert_file: {tmp_path / 'server.pem'}\n  key_file: {tmp_path / 'server.pem'}\n"
        f"basic_auth_users:\n  ops: {hashed}\n"
    )
    redis_server.client().set("lock:a", "7c9e6679-7425-40de-944b-e07fc1f90ae7", px=600_000)
    with Exporter(redis_server.url, "--web-config-file", str(web), tls=True) as exporter:
        address = exporter.url.removeprefix("https://")
        command = ("watch", "--once", "--exporter")
        assert main((*command, f"https://ops:s3cret@{address}")) == 2
        assert "certificate is not trusted" in capsys.readouterr().err
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        assert main((*command, f"https://{address}")) == 2
        assert "asks for a user and a password" in capsys.readouterr().err
        assert main((*command, f"https://ops:s3cret@{address}")) == 0
        assert "lock:a" in capsys.readouterr().out
        assert main((*command, f"http://ops:s3cret@{address}")) == 2
        assert "https://" in capsys.readouterr().err

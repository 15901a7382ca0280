"""``watch --exporter`` and whoever answers in place of an exporter: nothing hangs, nothing harms."""

from __future__ import annotations

import contextlib
import copy
import json
import signal
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from commands import SCRIPT, Exporter
from lockscope_exporter.cli import main
from lockscope_exporter.configuration import OptionError
from lockscope_exporter.listing import family_object, lock_object, node_object
from lockscope_exporter.render import lock_lines, plain_lines
from lockscope_exporter.state import Family, Holder, LockState, NodeStatus, ServerFacts
from lockscope_exporter.watching.address import AnswerError, Asker, parse_address
from lockscope_exporter.watching.board import Board
from lockscope_exporter.watching.changes import Changes
from lockscope_exporter.watching.happenings import Happening
from lockscope_exporter.watching.objects import family_of, happening_of, lock_of, node_of
from lockscope_exporter.watching.remote import Remote
from lockscope_exporter.watching.screen import frame
from servers import Process, RedisServer, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

HOLDER = Holder(b"7c9e", "7c9e7c9e", "web-1", 7, "abcdef", "invoice", "8812", 99.0, "gone", 123.5, count=2)
LOCK = LockState(
    key=b"lock:a", prefix="lock:*", dialect="redisson-rlock", state="orphaned", evidence=("it is gone",),
    ttl_seconds=3.0, sampled_at=200.25, age_seconds=3.5, expected_hold_seconds=9.0, lease_seconds=8.0,
    holders=(HOLDER,), field=b"f", db=3, target="main", node="h:1",
)  # fmt: skip
FAMILY = Family(
    "lock:*", 0, "main", {("generic", "held"): 1}, 0, 3.5, 3.0, (), 0.0, 9.0, 0, 1, 2, 3, {"expired": 4}
)
NODE = NodeStatus(
    "main", "h:1", False, "tracking", 0.5, "it is away", warnings=("w",), facts=ServerFacts("7.0")
)
ANSWERS: dict[str, Any] = {
    "lock": lock_object(LOCK),
    "family": family_object(FAMILY),
    "node": node_object(NODE),
    "happening": Happening(1.7e9, "refused", "lock:*", b"lock:a", b"f", "web-1/7", 2).to_object(),
}
HOSTILE = [
    "\x1b]0;owned\x07\x1b[2J\r\n\u202e\x9b31m", "\ud800", "x" * 100_000, "", None, True, -1, 0, 2**70,
    10**400, 1.5, -1e300, float("inf"), float("nan"), [], ["\x1b[2J", 1], [None], {}, {"\x1b[2J": "\x1b[2J"},
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every value within a JSON value."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, name))


def changed(value: Any, path: Sequence[Any], to: Any) -> Any:
    """Return a copy of a JSON value with another value at a path."""
    found = copy.deepcopy(value)
    inner = found
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = to
    return found


def read_and_shown(answers: dict[str, Any]) -> list[str] | None:
    """Return every line that watching shows of answers; ``None`` if they are refused where they are read."""
    try:
        lock, family, node = lock_of(answers["lock"]), family_of(answers["family"]), node_of(answers["node"])
        happened = [happening_of(answers["happening"])]
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    changes = Changes()
    changes.look([], [FAMILY], [], 0.0)
    happened += changes.look([lock], [family], [node], 201.0)
    happened += changes.look([LOCK], [FAMILY], [NODE], 202.0) + changes.look([], [family], [], 203.0)
    board = Board(where="exporter")
    board.look([lock], [node], [family], 1.7e9)
    board.happened.extend(happened)
    board.notes = (node.error,)
    lines = [
        line.plain for width in (40, 200) for line in (*frame(board, width, 30), *lock_lines([lock], width))
    ]
    lines += [*plain_lines([lock]), *(one.line() for one in happened)]
    for one in happened:
        json.dumps(one.to_object(), allow_nan=False).encode()
    json.dumps(lock_object(lock), allow_nan=False).encode()
    return lines


@pytest.mark.parametrize("kind", list(ANSWERS))
def test_no_field_can_harm(kind):
    """Whatever stands in a field of an answer, it is refused as such or shown without control characters."""
    refused = 0
    assert all(line.isprintable() for line in read_and_shown(ANSWERS) or ())
    assert read_and_shown(ANSWERS)
    for path in places(ANSWERS[kind]):
        for value in HOSTILE:
            lines = read_and_shown(ANSWERS | {kind: changed(ANSWERS[kind], path, value)})
            refused += lines is None
            assert all(line.isprintable() for line in lines or ()), (path, str(value)[:40])
    assert refused > 20


def test_what_a_newer_exporter_says_more():
    """Fields and ways to end that are not known here are left out."""
    found = family_of(ANSWERS["family"] | {"ended": {"expired": 4, "vanished": 1}, "more": 1})
    assert found.ended == {"expired": 4}


def test_the_longest_expiry_and_odd_owners_are_no_error():
    """What Redis and a token may say is shown, however odd."""
    odd = copy.deepcopy(ANSWERS["lock"])
    odd["ttl_seconds"] = 9.2e15
    odd["holders"][0] |= {"pid": 10**30, "count": -1, "started_at": -1e15}
    assert lock_of(odd).holders[0].count == -1


def test_a_time_beyond_the_calendar():
    """A writer of the journal may say any time: the line comes without one."""
    assert Happening(1e15, "refused", "lock:*").line().startswith("??:??:??  refused")


# --- connections ---


@contextlib.contextmanager
def speaking(answer: Callable[[socket.socket, bytes, threading.Event], None]) -> Iterator[str]:
    """Give the URL of a server that reads one question after the other and lets a function answer."""
    ended = threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def serve(sock: socket.socket) -> None:
        with sock, contextlib.suppress(OSError):
            while not ended.is_set():
                asked = b""
                while not asked.endswith(b"\r\n\r\n"):
                    read = sock.recv(4096)
                    if not read:
                        return
                    asked += read
                answer(sock, asked, ended)

    def accept() -> None:
        while True:
            try:
                sock, _ = listening.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=serve, args=(sock,)))
            threads[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        ended.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        for thread in (accepting, *threads):
            thread.join(10)
            assert not thread.is_alive()


def whole(body: bytes, status: str = "200 OK") -> bytes:
    """Return an answer as bytes."""
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


SNAPSHOT = whole(b'{"locks": [], "families": [], "nodes": []}')
HAPPENED = whole(
    b'{"run": "\\ud800 \\u00e4&", "last": 0, "missed": 0, "happened": [], "journal": true, "errors": []}'
)


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}", "broke off in the middle"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{", "broke off in the middle"),
        (b"", "closes the connection: it is ending"),
        (whole(b"[" * 1_000_000), "answers with no JSON"),
        (whole(b'{"error": ' + b"[" * 1_000_000, "500 Oops"), "HTTP status 500"),
    ],
)
def test_answers_that_break_off_or_never_end(sent, why, capsys):
    """Each is one line that says what it was."""

    def answer(sock: socket.socket, _asked: bytes, _ended: threading.Event) -> None:
        sock.sendall(sent)
        sock.shutdown(socket.SHUT_RDWR)

    with speaking(answer) as url:
        assert main(("watch", "--once", "--exporter", url)) == 2
    err = capsys.readouterr().err
    assert why in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"])
def test_an_answer_that_trickles_is_given_up(head):
    """A byte now and then is never silence, and still no answer in time."""

    def answer(sock: socket.socket, _asked: bytes, ended: threading.Event) -> None:
        sock.sendall(head)
        while not ended.wait(0.02):
            sock.sendall(b"x")

    with speaking(answer) as url:
        asker = Asker(parse_address(url), 5, whole=0.3)
        with pytest.raises(AnswerError, match="no answer in time"):
            asker.ask("/api/v1/snapshot")


def test_a_connection_that_is_closed_between_two_questions_is_opened_again():
    """A proxy may close it whenever nothing is asked; nobody who watches learns of that."""
    answered: list[bytes] = []

    def answer(sock: socket.socket, asked: bytes, _ended: threading.Event) -> None:
        sock.sendall(whole(b"1"))
        sock.shutdown(socket.SHUT_RDWR)
        answered.append(asked)

    with speaking(answer) as url:
        asker = Asker(parse_address(url), 5)
        assert [asker.ask("/a"), asker.ask("/b")] == [1, 1]
        asker.close()
    assert len(answered) == 2


def test_watching_ends_at_once_while_an_answer_is_awaited():
    """Whoever wants to end is not kept by an exporter that hangs."""
    hanging = threading.Event()

    def answer(sock: socket.socket, asked: bytes, ended: threading.Event) -> None:
        if b"run=" in asked:
            hanging.set()
            ended.wait(60)
        else:
            sock.sendall(HAPPENED if b"happened" in asked else SNAPSHOT)

    with speaking(answer) as url:
        remote = Remote(parse_address(url), every=0.05, journal=True)
        remote.check()
        remote.start()
        assert hanging.wait(20)
        began = time.monotonic()
        remote.stop()
        took = time.monotonic() - began
        assert remote.trouble == ""
        assert not [one for one in threading.enumerate() if one.name == "lockscope-watch-exporter"]
    assert took < 2  # the answer may take 5 s


def test_a_list_of_locks_that_is_refused_is_said_at_once(capsys):
    """An exporter that tells what happened and no locks is found out before anything is shown."""

    def answer(sock: socket.socket, asked: bytes, _ended: threading.Event) -> None:
        sock.sendall(HAPPENED if b"happened" in asked else whole(b'{"locks": [{}]}'))

    with speaking(answer) as url:
        assert main(("watch", "--once", "--exporter", url)) == 2
    assert "in a form of another version (KeyError: 'key')" in capsys.readouterr().err


def test_an_exporter_that_is_still_reading_is_waited_for():
    """Its first answers are refusals; then it is watched, and nothing is said of them twice."""
    asked_for = 0

    def answer(sock: socket.socket, asked: bytes, _ended: threading.Event) -> None:
        nonlocal asked_for
        asked_for += b"snapshot" in asked
        not_yet = whole(b'{"error": "first sample not complete"}', "503 Service Unavailable")
        sock.sendall(HAPPENED if b"happened" in asked else SNAPSHOT if asked_for > 3 else not_yet)

    with speaking(answer) as url:
        remote = Remote(parse_address(url), every=0.02, journal=False)
        remote.check()
        assert not remote.wait_ready(0)
        remote.start()
        wait_until(lambda: "first sample not complete" in remote.trouble or asked_for > 3)
        assert remote.wait_ready(20)
        wait_until(lambda: not remote.trouble)
        remote.stop()


@pytest.mark.parametrize("text", ["http://a..b:1", f"http://{'a' * 64}:1", "http://a b:1", "http://a\x1bb:1"])
def test_names_that_are_none_of_a_host(text):
    """They are refused before anything is asked."""
    with pytest.raises(OptionError, match="no address of an exporter"):
        parse_address(text)


def test_a_path_is_written_as_in_a_request():
    """Blanks and letters beyond ASCII are percent-encoded, what is encoded already stays."""
    assert parse_address("http://h/über mich/%2F").path == "/%C3%BCber%20mich/%2F"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_it_while_the_exporter_is_paused(tmp_path: Path, number):
    """An exporter that is paused is said to be silent; a signal ends watching all the same."""
    with contextlib.closing(RedisServer(port=None)) as server, Exporter(server.url) as exporter:
        exporter.wait_ready()
        log = tmp_path / "log"
        watching = Process([SCRIPT, "watch", "--exporter", exporter.url], log)
        try:
            wait_until(lambda: "watching exporter" in watching.output(), 60)
            exporter.process.popen.send_signal(signal.SIGSTOP)
            wait_until(lambda: "no answer in time" in watching.output(), 30)
            began = time.monotonic()
            assert watching.stop(number) == (0 if number == signal.SIGINT else -signal.SIGTERM)
            assert time.monotonic() - began < 4
        finally:
            exporter.process.popen.send_signal(signal.SIGCONT)
            watching.stop()
    assert "Traceback" not in log.read_text()

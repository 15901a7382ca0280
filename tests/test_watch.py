"""Watching: what changed between two looks, a screen of any size, the command on a terminal and in a pipe."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import termios
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from commands import SCRIPT
from lockscope import events
from lockscope.events import LockEvent
from lockscope.jobs import Job
from lockscope.journal import KEY, Entry, Recorded, Writer, encode
from lockscope.journal.model import VERSION
from lockscope.tokens import Owner
from lockscope_exporter.cli import main
from lockscope_exporter.listing import Filter
from lockscope_exporter.sampling import open_source
from lockscope_exporter.sampling.pace import THICK, Pace
from lockscope_exporter.state import Family, Holder, LockState, NodeStatus
from lockscope_exporter.targets import SamplingOptions, Target
from lockscope_exporter.watching import told
from lockscope_exporter.watching.board import Board
from lockscope_exporter.watching.changes import Changes
from lockscope_exporter.watching.happenings import FREE, Happening, folded
from lockscope_exporter.watching.screen import bar, frame
from lockscope_exporter.watching.servers import Servers
from lockscope_exporter.watching.terminal import names_of
from servers import Process, free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

NOW = 1.8e9
UP = NodeStatus("default", "s:1", up=True, mode="tracking", age_seconds=0.0)


def lock(key: bytes = b"lock:a", owner: bytes = b"t1", at: float = NOW, **changes: Any) -> LockState:
    """Return a held lock of a minute, five seconds old."""
    holder = Holder(owner, owner.hex()[:8], host="web-1", pid=7)
    given = {
        "key": key, "prefix": "lock:*", "dialect": "redis-py", "state": "held", "evidence": ("held for 5 s",),
        "ttl_seconds": 55.0, "sampled_at": at, "age_seconds": 5.0, "lease_seconds": 60.0,
        "holders": (holder,), "node": "s:1",
    }  # fmt: skip
    return LockState(**{**given, **changes})


def family(**counts: int) -> Family:
    """Return the counts of ``lock:*``."""
    ended = {how: counts.get(how, 0) for how in ("released", "expired", "evicted", "flushed")}
    return Family(
        "lock:*", 0, "default", {}, 0, None, None, (), 0.0, None, 0, counts.get("acquired", 0), 0,
        counts.get("takeover", 0), ended,
    )  # fmt: skip


def between(
    before: Sequence[LockState], after: Sequence[LockState], at: float = NOW + 1, **counts: int
) -> list[tuple[str, bytes | None, int]]:
    """Return kind, key and number of what happened between two looks."""
    changes = Changes()
    assert changes.look(before, [family()], [UP], NOW) == []
    found = changes.look([one._replace(sampled_at=at) for one in after], [family(**counts)], [UP], at)
    return [(one.what, one.key, one.count) for one in found]


# --- changes ---


def test_locks_that_come_and_go():
    """A new lock was acquired; one that went before its deadline was released, one after it expired."""
    assert between([], [lock()]) == [("acquired", b"lock:a", 1)]
    assert between([lock()], []) == [("released", b"lock:a", 1)]
    assert between([lock(ttl_seconds=0.9)], []) == [("expired", b"lock:a", 1)]
    assert between([lock(ttl_seconds=None)], []) == [("released", b"lock:a", 1)]
    assert between([lock()], [lock()]) == []


def test_an_expired_lock_was_held_until_its_deadline():
    """However late its end is noticed; a released one was held until about then."""
    for ttl, at, text in (
        (3.0, 3.9, "after 8.0 s by "),
        (3.0, 90.0, "after 8.0 s by "),
        (60.0, 4.0, "after 9.0 s by "),
    ):
        changes = Changes()
        changes.look([lock(ttl_seconds=ttl)], [family()], [UP], NOW)
        [found] = changes.look([], [family()], [UP], NOW + at)
        assert found.text.startswith(text)


def test_another_owner_took_over_or_was_passed_the_lock():
    """With the deadline passed it is a takeover, before it somebody had released the lock."""
    other = lock(owner=b"t2")
    assert between([lock()], [other], acquired=1, released=1) == [("passed on", b"lock:a", 1)]
    assert between([lock(ttl_seconds=0.5)], [other], acquired=1, expired=1, takeover=1) == [
        ("taken over", b"lock:a", 1)
    ]


@pytest.mark.parametrize(
    ("state", "what"),
    [("orphaned", "orphaned"), ("stalled", "stalled"), ("no_ttl", "no expiry"), ("overdue", "overdue")],
)
def test_states_that_get_worse_are_told_with_their_evidence(state, what):
    """A change of state is told once, with the sentence that proves it."""
    worse = lock(state=state, evidence=("because of this",))
    changes = Changes()
    changes.look([lock()], [family()], [UP], NOW)
    [found] = changes.look([worse], [family()], [UP], NOW + 1)
    assert (found.what, found.text) == (what, "because of this")
    assert changes.look([worse], [family()], [UP], NOW + 2) == []


def test_what_nobody_saw_is_counted():
    """Locks that came and went between two looks are told as numbers, beside those that were seen."""
    found = between([], [lock()], acquired=40, released=37, expired=2, takeover=1)
    assert sorted(found[1:]) == [
        ("acquired", None, 39), ("expired", None, 2), ("released", None, 37), ("taken over", None, 1),
    ]  # fmt: skip


def test_a_server_that_is_away_releases_nothing():
    """Locks of a node that does not answer are remembered, and come back as what they were."""
    changes = Changes()
    changes.look([lock()], [family()], [UP], NOW)
    away = replace(UP, up=False)
    assert changes.look([], [family()], [away], NOW + 1) == []
    assert changes.look([], [family()], [away], NOW + 2) == []
    assert changes.look([lock(at=NOW + 3)], [family()], [UP], NOW + 3) == []
    changes.look([], [family()], [away], NOW + 4)
    [found] = changes.look([], [family(expired=1)], [UP], NOW + 90)
    assert (found.what, found.key) == ("expired", b"lock:a")


def test_servers_that_go_and_come_back_are_told_once():
    """Away at the first look or later is told with the reason, and so is the end of it, each time once."""
    servers = Servers()
    away = replace(UP, up=False, error="connection refused; check that the server runs there")
    other = replace(UP, target="stock", node="s:2")
    assert servers.look([UP, other], NOW) == []
    looks = [[away], [replace(away, error="no answer in time; wait")], [UP], [UP], [away, other], [UP, other]]
    told_ = [[(one.what, one.text) for one in servers.look(nodes, NOW)] for nodes in looks]
    assert told_ == [
        [("note", "s:1: connection refused, its locks are not known")], [],
        [("note", "s:1: answers again")], [],
        [("note", "default s:1: connection refused, its locks are not known")],
        [("note", "default s:1: answers again")],
    ]  # fmt: skip
    [found] = Servers().look([away, other], NOW)
    assert found.text == "default s:1: connection refused, its locks are not known"


def test_a_server_that_has_not_been_asked_yet_is_not_away():
    """What sampling has only begun with is nothing to tell of."""
    source = open_source([Target(f"redis://127.0.0.1:{free_port()}")], SamplingOptions())
    assert [node.up for node in source.nodes()] == [False]
    assert Servers().look(source.nodes(), NOW) == []


def test_notes_are_told_whatever_is_wanted_and_not_folded_into_one():
    """What can be known of all locks concerns whoever watches some; different notes stay different."""
    notes = [Happening(NOW, "note", "", text=f"s:{number}: answers again") for number in range(2 * FREE)]
    assert folded(notes) == notes
    [same] = folded([notes[0]] * (FREE + 1))
    assert (same.text, same.count) == ("s:0: answers again", FREE + 1)
    shown = Board(wanted=Filter(key=b"lock:x", prefixes=frozenset({"lock:*"})))
    assert shown.concerns(notes[0])
    assert not shown.concerns(Happening(NOW, "acquired", "other:*", b"other:1"))


def test_many_at_once_are_folded_and_losses_stay_single_for_longer():
    """Of routine there is one line a family beyond a few; losses stay single for longer."""
    routine = [Happening(NOW + n, "acquired", "lock:*", b"lock:%d" % n) for n in range(FREE + 1)]
    losses = [Happening(NOW, "expired", "lock:*", b"lock:%d" % n) for n in range(FREE + 1)]
    found = folded([*routine, *losses, Happening(NOW, "acquired", "other:*", b"other:1")])
    assert [(one.what, one.prefix, one.count) for one in found if one.key is None] == [
        ("acquired", "lock:*", FREE + 1)
    ]
    assert sum(one.what == "expired" for one in found) == FREE + 1
    assert len(folded(losses * 5)) == 1


def test_lines_are_harmless_whatever_keys_hold():
    """Control characters and direction marks are escaped; JSON has every byte."""
    hostile = b"lock:\xff\n\x1b[31m" + "\u202e".encode()
    one = Happening(NOW, "expired", "lock:*", hostile, b"f\r", "by \x1b]0;x\x07")
    assert one.line().isprintable()
    assert json.loads(json.dumps(one.to_object()))["key"] == "lock:\\xff\n\x1b[31m\u202e"
    assert one.bad
    assert not one.routine


@pytest.mark.parametrize(
    ("event", "what"),
    [
        (events.CONTENDED, "refused"), (events.ACQUIRE_TIMEOUT, "gave up"),
        (events.RENEW_LOST, "renewal lost"), (events.RELEASE_LOST, "release lost"),
        (events.RETRY, "retried"), (events.DUPLICATE, "duplicate"),
        (events.ACQUIRED, None), (events.RELEASED, None), (events.RENEWED, None), (events.WAITING, None),
    ],
)  # fmt: skip
def test_what_the_journal_tells(event, what):
    """Waiting and losses become lines that say who, how long and because of whom; the rest is seen anyway."""
    blocked = Owner(host="web-9", pid=3, job_type="mail")
    told_ = LockEvent(
        event, b"lock:a", "lock:*", NOW, Job("invoice", "8812"), wait_seconds=2.0, unprotected_seconds=4.0,
        blocked_by=blocked, reason="lock_timeout",
    )  # fmt: skip
    assert told.is_told(told_) is (what is not None)
    if what is not None:
        found = told.happening(Recorded(told_, "", Writer("web-1", 7, "abcdef")))
        assert found.what == what
        assert found.text == (
            "web-1/7 of invoice (job 8812) after 2.0 s worked 4.0 s without it "
            "held by web-9/3 of mail lock_timeout"
        )


def test_changes_that_come_thick_are_gathered():
    """A reader that need not be quick waits once there are many changes a second, and only then."""
    pace = Pace(0.25)
    pace.read(10, 100.0)
    assert pace.wait(100.0) == 0.0
    pace.read(int(THICK), 100.1)
    assert pace.wait(100.1) == pytest.approx(0.25)
    assert pace.wait(100.3) == pytest.approx(0.05)
    pace.read(0, 104.0)
    assert pace.wait(104.0) == 0.0
    eager = Pace(0.0)
    eager.read(10_000, 100.0)
    assert eager.wait(100.0) == 0.0


# --- board and screen ---


def board(*locks: LockState, **changes: Any) -> Board:
    """Return a board after one look."""
    found = Board(where="s:1", **changes)
    found.look(locks, [UP], [family()], NOW)
    return found


def text_of(shown: Board, width: int, height: int) -> list[str]:
    """Return the lines of a frame."""
    return [line.plain for line in frame(shown, width, height)]


def test_keys_change_what_is_shown():
    """Filter, order, events, pause and scrolling go round; q ends."""
    shown = board(lock(b"lock:a"), lock(b"lock:b", state="orphaned"), lock(b"lock:c", state="no_ttl"))
    assert [one.key for one in shown.rows()] == [b"lock:b", b"lock:c", b"lock:a"]
    assert not shown.press("s")
    assert shown.order == "key"
    assert [one.key for one in shown.rows()] == [b"lock:a", b"lock:b", b"lock:c"]
    shown.press("f")
    assert [one.key for one in shown.rows()] == [b"lock:b", b"lock:c"]
    shown.press("f")
    assert [one.key for one in shown.rows()] == [b"lock:b"]
    shown.press("p")
    shown.look([], [UP], [], NOW + 1)
    assert len(shown.locks) == 3
    shown.press(" ")
    shown.look([], [UP], [], NOW + 1)
    assert len(shown.locks) == 0
    assert shown.press("q")
    shown.press("down")
    shown.press("page down")
    assert shown.top == 11
    shown.press("home")
    shown.press("up")
    assert shown.top == 0


def test_events_are_chosen_by_how_bad_they_are():
    """All, then losses and waiting, then losses alone; keys of no interest never come."""
    shown = board(wanted=Filter(key=b"lock:*"))
    happened = [Happening(NOW, what, "x", b"lock:1") for what in ("acquired", "refused", "expired")]
    shown.happened.extend(happened)
    assert [one.what for one in shown.lines(10)] == ["acquired", "refused", "expired"]
    assert [one.what for one in shown.lines(2)] == ["refused", "expired"]
    shown.press("e")
    assert [one.what for one in shown.lines(10)] == ["refused", "expired"]
    shown.press("e")
    assert [one.what for one in shown.lines(10)] == ["expired"]
    assert not shown.concerns(Happening(NOW, "expired", "y", b"other:1"))
    assert shown.concerns(Happening(NOW, "expired", "y", None))


def test_a_row_shows_state_age_expectation_countdown_and_holder():
    """One line a lock with everything that a person asks first, and a bar as full as its lease."""
    one = lock(b"lock:order:42", ttl_seconds=30.0, expected_hold_seconds=90.0, age_seconds=31.0)
    lines = text_of(board(one), 100, 24)
    assert len(lines) == 24
    assert re.match(r"s:1  tracking  1 lock: 1 held +\d\d:\d\d:\d\d$", lines[0])
    assert re.match(r"held +lock:order:42 +31s/1m30s +████ +30s  web-1/7", lines[2])
    assert "EVENTS" in "\n".join(lines)
    assert lines[-1].startswith("q quit")


def test_a_long_table_scrolls_and_says_what_is_hidden():
    """What does not fit is counted; scrolling shows it, and never goes beyond the end."""
    shown = board(*(lock(b"lock:%03d" % n) for n in range(100)), order="key")
    lines = text_of(shown, 80, 24)
    [hidden] = [line for line in lines if line.startswith("and ")]
    rows = sum("lock:0" in line for line in lines)
    assert hidden.strip() == f"and {100 - rows} more"
    shown.top = 1000
    lines = text_of(shown, 80, 24)
    assert any("lock:099" in line for line in lines)
    assert not any(line.startswith("and ") for line in lines)


def test_troubles_are_on_top():
    """A server that does not answer and a journal that cannot be read are said above the table."""
    down = replace(UP, up=False, error="connection refused; check that the server runs there")
    shown = board(notes=("journal: the user may not read these keys",))
    shown.look([], [down], [], NOW)
    lines = text_of(shown, 80, 24)
    assert lines[1].startswith("s:1: connection refused")
    assert lines[2].startswith("journal: the user may not read")
    assert "not connected" in lines[0]
    shown.look([], [down, replace(down, target="stock")], [], NOW)
    assert [line.split()[0] for line in text_of(shown, 80, 24)[1:3]] == [down.target, "stock"]


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_narrow_terminal_shows_which_lock_something_happened_to(width):
    """However little room there is, what happened and to which lock is on the line; who comes after."""
    shown = board()
    text = "by web-3/4121 of invoice.generate (job 8812) after 12 ms, and more that nobody has room for"
    shown.happened.append(Happening(NOW, "release lost", "lock:*", b"lock:order:4711", None, text))
    [line] = [line for line in text_of(shown, width, 24) if "release lost" in line]
    assert "lock:order:4711" in line
    assert ("by web-3" in line) is (width > 40)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 200),
    st.integers(1, 60),
    st.lists(
        st.tuples(st.binary(max_size=60), st.sampled_from(["held", "orphaned"]), st.text(max_size=20)),
        max_size=30,
    ),
)
def test_a_frame_fits_any_terminal(width, height, found):
    """Whatever keys, hosts and sizes there are: exactly so many lines, none too wide, nothing to obey."""
    locks = [
        lock(key, state=state, holders=(Holder(b"t", "f", host=host, pid=1),), target=str(number))
        for number, (key, state, host) in enumerate(found)
    ]
    shown = board(*locks)
    shown.happened.extend(Happening(NOW, "expired", "lock:*", key, None, host) for key, _, host in found)
    lines = text_of(shown, width, height)
    assert len(lines) == height
    assert all(cell_len(line) <= width for line in lines)
    assert all(line.isprintable() for line in lines)


@given(st.floats(-1, 2), st.integers(1, 20))
def test_a_bar_is_as_full_as_its_share(share, size):
    """Always so many columns; empty at 0, full at 1, never falling."""
    assert cell_len(bar(share, size)) == size
    assert bar(0.0, size) == " " * size
    assert bar(1.0, size) == "█" * size
    assert bar(share, size).count("█") <= bar(share + 0.1, size).count("█")


def test_keys_of_a_terminal_are_named():
    """Letters as they are, arrows and paging by name in both modes, unknown sequences no command."""
    assert names_of(b"q") == ["q"]
    assert names_of(b"\x1b[A\x1bOBp\x1b[6~") == ["up", "down", "p", "page down"]
    assert names_of(b"\x1b") == []


# --- the command ---


class Screen:
    """A command on a terminal of its own; what it shows last can be asked for. A context manager.

    Args:
        command: the command line.
        size: columns and lines.
    """

    def __init__(self, command: Sequence[str], size: tuple[int, int] = (100, 30)) -> None:
        self.output = b""
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            environment = {**os.environ, "TERM": "xterm-256color"}
            for name in [name for name in environment if name.startswith("LOCKSCOPE_") or name == "NO_COLOR"]:
                del environment[name]
            os.execve(command[0], list(command), environment)
        self.resize(size)
        self.before = termios.tcgetattr(self.descriptor)
        self.code: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.descriptor)

    def resize(self, size: tuple[int, int]) -> None:
        """Change the size of the terminal."""
        columns, lines = size
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read(self) -> str:
        """Return the text of the last frame, without its colours."""
        while select.select([self.descriptor], [], [], 0)[0]:
            try:
                self.output += os.read(self.descriptor, 65536)
            except OSError:  # the command has ended
                break
        last = self.output.split(b"\x1b[H")[-1].decode(errors="replace")
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", last)

    def press(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self.descriptor, keys)

    def wait(self) -> int:
        """Return the exit status once the command has ended."""

        def ended() -> bool:
            self.read()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
            return bool(pid)

        wait_until(ended)
        assert self.code is not None
        return self.code

    def restored(self) -> bool:
        """Tell whether the terminal is as it was: modes, main screen, cursor."""
        tail = self.output[self.output.rfind(b"\x1b[?1049") :]
        shown = self.output.rfind(b"\x1b[?25h") > self.output.rfind(b"\x1b[?25l")
        return termios.tcgetattr(self.descriptor) == self.before and tail.startswith(b"\x1b[?1049l") and shown


@pytest.fixture
def screen(server, client) -> Iterator[Screen]:
    """Give ``watch`` on a terminal, showing two locks."""
    client.set("lock:order:42", "t" * 20, px=600_000)
    client.set("lock:stuck", "t" * 21)
    with Screen(
        [SCRIPT, "watch", "--redis-url", server.url, "--locks", "lock:*", "--refresh", "0.1s"]
    ) as found:
        wait_until(lambda: "lock:order:42" in found.read(), 60)
        yield found


def test_the_screen_lives(screen, client):
    """Locks come, go and count down on the screen; keys pause and filter it; a resize is followed."""
    assert re.search(r"no_ttl +lock:stuck", screen.read())
    client.set("lock:new", "t" * 22, px=30_000)
    wait_until(lambda: re.search(r"held +lock:new .* 2\d(\.\d)?s", screen.read()))
    wait_until(lambda: "acquired        lock:new" in screen.read())
    client.delete("lock:new")
    wait_until(lambda: "released        lock:new" in screen.read())
    screen.press(b"p")
    wait_until(lambda: "PAUSED" in screen.read())
    screen.press(b"pf")
    wait_until(lambda: not re.search(r"^held", screen.read(), re.MULTILINE))
    assert "lock:stuck" in screen.read()
    screen.resize((60, 12))
    wait_until(lambda: len(screen.read().splitlines()) == 12)
    screen.press(b"q")
    assert screen.wait() == 0
    assert screen.restored()


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_signals_leave_the_terminal_in_order(screen, number, status):
    """Ctrl-C is a normal end; whatever ends it, the terminal is as it was before."""
    if number == signal.SIGINT:
        screen.press(b"\x03")
    else:
        os.kill(screen.pid, number)
    assert screen.wait() == status
    assert screen.restored()


def test_suspending_gives_the_terminal_back_meanwhile(screen):
    """Ctrl-Z stops with the terminal in order, and the screen comes back when the shell goes on with it."""
    os.kill(screen.pid, signal.SIGTSTP)
    wait_until(lambda: os.waitpid(screen.pid, os.WNOHANG | os.WUNTRACED)[0] == screen.pid)
    screen.read()
    assert screen.restored()
    screen.output = b""
    os.kill(screen.pid, signal.SIGCONT)
    wait_until(lambda: "lock:order:42" in screen.read())
    screen.press(b"q")
    assert screen.wait() == 0


def test_a_server_that_goes_and_comes_back(own_server):
    """While the server is away that is said, and nothing counts as released; then the screen goes on."""
    own_server.client().set("lock:a", "t" * 20, px=600_000)
    words = ["--redis-url", own_server.url, "--locks", "lock:*", "--refresh", "0.1s", "--timeout", "0.5s"]
    with Screen([SCRIPT, "watch", *words]) as shown:
        wait_until(lambda: "lock:a" in shown.read(), 60)
        own_server.signal(signal.SIGSTOP)
        wait_until(lambda: "not connected" in shown.read())
        assert "released" not in shown.read()
        own_server.signal(signal.SIGCONT)
        wait_until(lambda: re.search(r"held +lock:a", shown.read()))
        assert "released" not in shown.read()
        shown.press(b"q")
        assert shown.wait() == 0


@pytest.fixture
def following(server, tmp_path) -> Iterator[Callable[..., Process]]:
    """Give a function that runs ``watch`` in a pipe."""
    with contextlib.ExitStack() as stack:

        def run(*words: str) -> Process:
            command = [SCRIPT, "watch", "--redis-url", server.url, "--locks", "lock:*", *words]
            process = Process(command, tmp_path / "log")
            stack.callback(process.stop)
            return process

        yield run


def test_a_pipe_gets_lines(following, client):
    """Without a terminal there is a line an event, at once, without colours; Ctrl-C ends with status 0."""
    process = following("--refresh", "0.1s")
    wait_until(lambda: "watching 127.0.0.1" in process.output(), 60)
    client.set("lock:a", "t" * 20, px=700)
    wait_until(lambda: re.search(r"^\d\d:\d\d:\d\d  acquired +lock:a", process.output(), re.MULTILINE))
    wait_until(lambda: re.search(r"  expired +lock:a  after", process.output()))
    assert "\x1b" not in process.output()
    assert process.stop(signal.SIGINT) == 0
    assert "Traceback" not in process.output()


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_pipe_is_told_of_a_server_that_goes_and_comes_back(own_server, tmp_path, words):
    """The server itself is a line when it stops answering and one when it answers again, with any filter."""
    client = own_server.client()
    client.set("lock:a", "t" * 20, px=600_000)
    command = [
        SCRIPT,
        "watch",
        "--redis-url",
        own_server.url,
        "--locks",
        "lock:*",
        "--prefix",
        "lock:probe:*",
    ]
    quick = ["--refresh", "0.1s", "--timeout", "0.5s", "--no-journal"]
    process = Process([*command, *quick, *words], tmp_path / "log")
    try:
        names = (f"lock:probe:{number}" for number in range(10_000))
        wait_until(lambda: client.set(next(names), "t" * 20, px=500) and "acquired" in process.output(), 60)
        node = f"127.0.0.1:{own_server.port}"
        for down, up in ((signal.SIGSTOP, signal.SIGCONT), (signal.SIGKILL, None)):
            before = len(process.output())
            own_server.signal(down)
            wait_until(lambda: f"{node}: " in process.output()[before:])  # noqa: B023 - used at once
            assert ", its locks are not known" in process.output()[before:]
            if up is None:
                own_server.stop()
                own_server.start()
            else:
                own_server.signal(up)
            wait_until(lambda: f"{node}: answers again" in process.output()[before:], 30)  # noqa: B023
        assert process.stop(signal.SIGINT) == 0
    finally:
        process.stop()
    assert process.output().count("its locks are not known") == 2
    assert f"{node}: no answer in time, its locks are not known" in process.output()
    if words:
        told_ = [one for one in map(json.loads, process.output().splitlines()) if one["what"] == "note"]
        assert [one["text"].split(":")[-1] for one in told_][1::2] == [" answers again"] * 2


def test_the_journal_adds_waiting_and_losses(following, client):
    """Refused calls and lost renewals that workers write to the journal are lines, too; old ones are not."""
    writer = Writer("web-1", 7, "abcdef", 0)

    def write(number: int, event: str, at: float) -> None:
        told_ = LockEvent(event, b"lock:a", "lock:*", at, Job("invoice", "8812"))
        entry = Entry(writer, number, at, (Recorded(told_, "", writer),))
        client.xadd(KEY, {"v": VERSION, "b": "".join(encode(entry))})

    write(1, events.RELEASE_LOST, time.time() - 60)
    process = following("--json", "--refresh", "0.1s")
    wait_until(lambda: client.client_list(_type="normal") and reading(client), 60)
    write(2, events.CONTENDED, time.time())
    write(3, events.RENEW_LOST, time.time())
    wait_until(lambda: len(process.output().splitlines()) >= 2)
    found = [json.loads(line) for line in process.output().splitlines()]
    assert [(one["what"], one["bad"]) for one in found] == [("refused", False), ("renewal lost", True)]
    assert found[0]["text"] == "web-1/7 of invoice (job 8812)"
    assert found[0]["key"] == "lock:a"


def reading(client: Any) -> bool:
    """Tell whether somebody waits for the journal."""
    return any(one["cmd"] == "xread" for one in client.client_list())


def test_once_shows_the_locks_and_ends(server, client, capsys):
    """One look without colours or screen, with the filters, and status 0."""
    client.set("lock:a", "t" * 20, px=600_000)
    client.set("lock:b", "t" * 20)
    assert main(("watch", "--once", "--redis-url", server.url, "--locks", "lock:*", "--state", "no_ttl")) == 0
    out = capsys.readouterr().out
    assert re.search(r"^no_ttl +lock:b ", out, re.MULTILINE)
    assert "lock:a" not in out
    assert out.splitlines()[-1] == "1 lock: 1 no_ttl"


def test_once_as_json_is_a_list(server, client, capsys):
    """--once with --json prints what ``ls --json`` prints, and no table."""
    client.set("lock:a", "t" * 20, px=600_000)
    assert main(("watch", "--once", "--json", "--redis-url", server.url, "--locks", "lock:*")) == 0
    [found] = json.loads(capsys.readouterr().out)
    assert (found["key"], found["state"]) == ("lock:a", "held")


def test_keys_that_may_not_be_read_make_it_incomplete(own_server, capsys):
    """A user who sees the names of keys but may not read them is told so, with status 2."""
    client = own_server.client()
    client.set("lock:a", "t" * 20, px=600_000)
    client.acl_setuser("blind", enabled=True, nopass=True, commands=["+@all"])
    url = f"redis://blind:x@127.0.0.1:{own_server.port}"
    for words in (("watch", "--once"), ("ls",)):
        assert main((*words, "--redis-url", url, "--locks", "lock:*")) == 2
        err = capsys.readouterr().err
        assert re.search(r"incomplete, \S+: this user may not read 1 key that may hold locks", err), err
        assert "no lock found" not in err


def test_it_ends_by_itself_after_the_duration(server, capsys):
    """With --duration the command ends without a key."""
    began = time.monotonic()
    assert main(("watch", "--redis-url", server.url, "--duration", "200ms", "--refresh", "50ms")) == 0
    assert time.monotonic() - began < 10
    assert capsys.readouterr().out.startswith("watching ")


def test_a_server_that_is_not_there_is_one_line(capsys):
    """At the start an unreachable server is status 2 and one line."""
    assert main(("watch", "--redis-url", f"redis://127.0.0.1:{free_port()}")) == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert "connection refused" in err


def test_it_starts_if_one_of_several_targets_answers(server, client, tmp_path, capsys):
    """A target that is down does not hide the locks of the others."""
    client.set("lock:a", "t" * 20, px=600_000)
    down = free_port()
    file = tmp_path / "targets.yml"
    file.write_text(
        f"targets: [{{name: down, url: 'redis://127.0.0.1:{down}'}}, {{name: main, url: '{server.url}'}}]"
    )
    assert main(("watch", "--targets", str(file), "--duration", "100ms", "--locks", "lock:*")) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"watching 127.0.0.1:{down}, 127.0.0.1:{server.port}: 1 lock: 1 held")
    assert f"down 127.0.0.1:{down}: connection refused, its locks are not known" in out


def test_nothing_stays_behind(server, client, capsys):
    """After the command no thread and no connection of it is left."""
    threads, connections = threading.active_count(), len(client.client_list())
    main(("watch", "--redis-url", server.url, "--duration", "100ms"))
    capsys.readouterr()
    wait_until(lambda: len(client.client_list()) <= connections)
    assert threading.active_count() <= threads

"""Locks as lines and as JSON objects: order, filters, widths, hostile text."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from lockscope_exporter.console import console, painted
from lockscope_exporter.listing import Filter, lock_object, select
from lockscope_exporter.render import age_cell, holder_cell, lock_lines, plain_lines, styled_lines, summary
from lockscope_exporter.state import Holder, LockState
from lockscope_exporter.text import duration_text

WEB = Holder(b"secret-token", "0123abcd", "web-3", 4121, "7f3a9c", "invoice.generate", "8812", 1700000000.5)
HELD = LockState(
    b"lock:order:1", "lock:order:*", "redis-py", "held", ("held by web-3/4121",), 12.3456, 1700000010.0,
    age_seconds=9.5, holders=(WEB,), value=b"secret-token",
)  # fmt: skip
ORPHAN = HELD._replace(key=b"lock:order:2", state="orphaned", evidence=("holder web-3/4121 left 2.1 s ago",),
    holders=(replace(WEB, alive="gone"),),
)  # fmt: skip
ENDLESS = LockState(b"lock:x\xff", "lock:*", "generic", "no_ttl", ("no expiry",), None, 1700000010.0, db=3)


def lines(locks, width=None) -> list[str]:
    """Return what is printed, without styles."""
    return list(plain_lines(locks)) if width is None else [line.plain for line in lock_lines(locks, width)]


def test_a_lock_as_an_object():
    """The JSON object has every promised name, rounded seconds, and no owner token."""
    found = lock_object(HELD)
    assert {
        "key", "field", "prefix", "dialect", "state", "evidence", "ttl_seconds", "age_seconds", "holder",
    } <= set(found)  # fmt: skip
    assert (found["key"], found["field"], found["ttl_seconds"]) == ("lock:order:1", None, 12.346)
    assert found["holder"] == {
        "host": "web-3", "pid": 4121, "worker": "7f3a9c", "job_type": "invoice.generate", "job_id": "8812",
        "fingerprint": "0123abcd", "alive": "unknown", "gone_since": None, "started_at": 1700000000.5,
        "count": 1,
    }  # fmt: skip
    assert "secret" not in json.dumps(found)


def test_a_lock_without_a_holder_keeps_the_names():
    """A lock that names no owner has the same object of nulls, so that readers need no special case."""
    holder = lock_object(ENDLESS)["holder"]
    assert holder["host"] is None
    assert set(holder) == set(lock_object(HELD)["holder"])
    assert lock_object(ENDLESS)["holders"] == []


def test_bytes_that_are_no_text_are_escaped_in_json():
    """Key and field that are not UTF-8 are backslash-escaped."""
    found = lock_object(ENDLESS._replace(field=b"a\xfe"))
    assert (found["key"], found["field"]) == ("lock:x\\xff", "a\\xfe")


def test_the_most_urgent_come_first():
    """By default the worst state comes first, then the oldest; other orders go by key, age and TTL."""
    old = HELD._replace(key=b"lock:order:0", age_seconds=100.0, ttl_seconds=99.0)
    locks = [HELD, old, ENDLESS, ORPHAN]
    assert select(locks, Filter()) == [ORPHAN, ENDLESS, old, HELD]
    assert select(locks, Filter(), "key") == [old, HELD, ORPHAN, ENDLESS]
    assert select(locks, Filter(), "age")[0] == old
    assert select(locks, Filter(), "ttl")[-1] == ENDLESS


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Filter(), 3),
        (Filter(states=frozenset({"orphaned", "no_ttl"})), 2),
        (Filter(prefixes=frozenset({"lock:order:*"})), 2),
        (Filter(dialects=frozenset({"generic"})), 1),
        (Filter(key=b"lock:order:[12]"), 2),
        (Filter(host="web-3"), 2),
        (Filter(host="web"), 0),
        (Filter(job_type="invoice.generate", states=frozenset({"held"})), 1),
        (Filter(targets=frozenset({"other"})), 0),
    ],
)
def test_filters(wanted, expected):
    """Each filter narrows the list, together they all must hold."""
    assert len(select([HELD, ORPHAN, ENDLESS], wanted)) == expected


def test_a_pipe_gets_every_column():
    """In a pipe each lock is one line with the evidence as its last column."""
    head, first, second = lines([ORPHAN, HELD])
    assert head.split() == ["STATE", "KEY", "AGE", "TTL", "HOLDER", "JOB", "DIALECT", "EVIDENCE"]
    assert first.split("  ")[0] == "orphaned"
    assert first.endswith("holder web-3/4121 left 2.1 s ago")
    assert "web-3/4121 gone" in first
    assert "invoice.generate 8812" in second


def test_a_narrow_terminal_keeps_state_and_key():
    """However narrow, state and key stay; evidence of a troubled lock is a line of its own."""
    printed = lines([ORPHAN, HELD], 40)
    assert all(cell_len(line) <= 40 for line in printed)
    assert printed[1].startswith("orphaned  lock:order:2")
    assert printed[2].strip().startswith("holder web-3/4121 left")
    assert len(printed) == 4


def test_database_and_target_are_shown_where_they_differ():
    """Locks of several databases say where they are."""
    assert "WHERE" in lines([HELD, ENDLESS])[0]
    assert "default/3" in lines([HELD, ENDLESS])[2]


def test_unknown_and_least_ages():
    """An age is exact, a lower bound, or unknown, and looks different."""
    assert age_cell(HELD) == "9.5s"
    assert age_cell(HELD._replace(age_at_least=True)) == ">9.5s"
    assert age_cell(HELD._replace(age_seconds=0.2, age_at_least=True)) == "?"
    assert age_cell(HELD._replace(age_seconds=None)) == "?"


def test_holders():
    """A holder is its host and process, else its token's fingerprint; further holders are counted."""
    assert holder_cell((WEB, WEB, WEB)) == "web-3/4121 +2"
    assert holder_cell((Holder(b"t", "0123abcd"),)) == "#0123abcd"
    assert holder_cell(()) == "-"


def test_summary():
    """The last line counts by state, the worst first."""
    assert summary([HELD, ENDLESS, HELD, ORPHAN]) == "4 locks: 1 orphaned, 1 no_ttl, 2 held"
    assert summary([HELD]) == "1 lock: 1 held"
    assert summary([]) == "0 locks"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0s"), (9.94, "9.9s"), (9.96, "10s"), (59.4, "59s"), (59.6, "1m00s"), (245, "4m05s"),
     (7384, "2h03m"), (273600, "3d04h"), (-3, "-3.0s")],
)  # fmt: skip
def test_durations(seconds, text):
    """Durations have at most two units and round without saying 60 seconds."""
    assert duration_text(seconds) == text


def test_a_console_has_colours_on_a_terminal_only(monkeypatch):
    """A pipe gets no escape sequence; a terminal does, but with NO_COLOR no colour."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    [_, troubled, *_] = list(lock_lines([ORPHAN], 80))
    for file, no_color, expected in (
        (io.StringIO(), "", "\x1b"),
        (Terminal(), "", "35m"),
        (Terminal(), "1", "35m"),
    ):
        monkeypatch.setenv("NO_COLOR", no_color)
        console(file).print(troubled)
        assert (expected in file.getvalue()) is (isinstance(file, Terminal) and not no_color)


@pytest.mark.parametrize("no_color", ["", "1"])
@pytest.mark.parametrize("term", ["xterm-256color", "xterm", "unknown"])
def test_lines_are_painted_as_a_console_prints_them(monkeypatch, no_color, term):
    """A long list is written at once, and looks as if each line had been printed."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("NO_COLOR", no_color)
    locks = [HELD, ORPHAN, ENDLESS, HELD._replace(key="lock:鍵:1".encode()), HELD._replace(key=b"lock:" * 40)]
    out = console(Terminal())
    for line in lock_lines(locks, 80):
        out.print(line)
    assert out.file.getvalue().splitlines() == list(painted(console(Terminal()), styled_lines(locks, 80)))


text = st.text(max_size=20)
holder = st.builds(Holder, token=st.just(b"t"), fingerprint=st.just("0"), host=text, job_id=text)
hostile = st.builds(
    LockState,
    key=st.binary(min_size=1, max_size=40),
    prefix=st.just("lock:*"),
    dialect=st.just("generic"),
    state=st.sampled_from(["orphaned", "no_ttl", "stalled", "overdue", "held"]),
    evidence=st.tuples(text),
    ttl_seconds=st.none() | st.floats(-1e5, 1e9),
    sampled_at=st.just(1.7e9),
    age_seconds=st.none() | st.floats(0, 1e9),
    field=st.none() | st.binary(max_size=20),
    holders=st.just(()) | st.tuples(holder) | st.tuples(holder, holder),
)  # fmt: skip


@settings(max_examples=60)
@given(st.lists(hostile, max_size=3), st.none() | st.integers(60, 160))
def test_whatever_locks_hold_lines_are_printable_and_fit(locks, width):
    """Hostile keys, hosts, jobs and evidence give printable lines no wider than the terminal."""
    for line in lines(locks, width):
        assert line.isprintable()
        assert width is None or cell_len(line) <= width
    json.dumps([lock_object(lock) for lock in locks], allow_nan=False).encode()

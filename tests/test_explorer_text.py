"""Keys as text, durations, commands to copy: what the explorer shows must be safe and exact."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lockscope_dashboard import commands, text
from lockscope_exporter.cli.keytext import keys_of
from lockscope_exporter.state import Holder, LockState


@given(st.binary(max_size=60))
@example(b"\\x41")
@example("\u202e\u2066\u200b\ufeff".encode())
@example(b"\xed\xa0\x80\xff")
@example(rb"App\Jobs\unique\x")
@example("a\u00a0b\u3000".encode())
def test_shown_key_gives_its_bytes_back(raw):
    """Two different keys never look the same, and the text leads back to the exact bytes."""
    assert text.unshow(text.show(raw)) == raw


@given(st.binary(max_size=60))
def test_shown_key_is_one_printable_line(raw):
    """Whatever a key holds, its text has no control, direction or line-breaking character."""
    shown = text.show(raw)
    assert shown.isprintable()
    assert not set(shown) & set("\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u2069\u200b\u200e\u200f\u2028")


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"lock:order:42", "lock:order:42"),
        (rb"laravel_unique_job:App\Jobs\Sync:7", r"laravel_unique_job:App\Jobs\Sync:7"),
        (rb"a\x41", r"a\\x41"),
        ("заказ:№1".encode(), "заказ:№1"),
        (b"a\nb\x00\x1b[31m", r"a\x0ab\x00\x1b[31m"),
        (b"\xff\xfe", r"\xff\xfe"),
        ("\u202eabc".encode(), r"\u202eabc"),
        ("\U000e0041".encode(), r"\U000e0041"),
    ],
)
def test_keys_look_as_they_are(raw, shown):
    """Plain keys stay as they are; only what could deceive is escaped."""
    assert text.show(raw) == shown


@given(st.text(max_size=40))
def test_typed_text_is_some_key(typed):
    """Whatever is typed into the address is read as bytes without an error."""
    assert isinstance(text.unshow(typed), bytes)


def test_long_key_is_named_by_a_digest():
    """A key that is too long for a URL gets a short name of its own."""
    one, other = b"lock:" + b"x" * 65_000, b"lock:" + b"x" * 64_999 + b"y"
    names = {text.identify(text.show(raw), raw) for raw in (one, other)}
    assert len(names) == 2
    assert all(len(name) < 60 for name in names)


def test_cut_keeps_both_ends_and_says_the_length():
    """A long key is cut in its middle."""
    shown = text.cut("a" * 500 + "z" * 500, 100)
    assert len(shown) <= 100
    assert shown.startswith("aaa")
    assert shown.endswith("zzz")
    assert "1,000 characters" in shown
    assert text.cut("short", 100) == "short"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 s"),
        (0.0123, "12 ms"),
        (0.4, "0.4 s"),
        (9.94, "9.9 s"),
        (12.4, "12 s"),
        (59.6, "1m 00s"),
        (200, "3m 20s"),
        (3599.7, "1h 00m"),
        (7500, "2h 05m"),
        (90000, "1d 01h"),
        (-3, "-3.0 s"),
        (None, ""),
        (float("nan"), ""),
    ],
)
def test_durations_have_at_most_two_units(seconds, shown):
    """Durations read like a person would say them, also at the borders of units."""
    assert text.duration(seconds) == shown


def test_absolute_times_are_utc_and_never_raise():
    """A hover shows UTC; a time beyond the calendar shows nothing."""
    assert text.absolute(1_732_896_000.5) == "2024-11-29 16:00:00 UTC"
    assert text.absolute(1e300) == ""
    assert text.absolute(None) == ""


KEYS = [
    b"lock:order:42",
    b'it\'s a "key" with $HOME `id` ; rm -rf / \\ and spaces',
    b"line\nbreak\ttab",
    b"\xff\x00\x01binary",
    "заказ\u202e".encode(),
    b"-n",
]


@pytest.mark.parametrize("key", KEYS)
def test_redis_cli_line_reads_the_exact_key(server, client, key):
    """The line to copy, pasted into a real shell, reads the very key it was made for."""
    client.set(key, "found", px=60_000)
    lock = LockState(key, "p", "generic", "held", (), 1.0, 1.0, node=f"127.0.0.1:{server.port}")
    line = next(line for line in commands.of(lock) if "GET" in line)
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=False, timeout=20)
    assert done.stdout.strip() == b"found", (line, done)


@pytest.mark.parametrize("key", KEYS)
def test_lockscope_lines_name_the_exact_key(key):
    """The key in a lockscope line leads back to the bytes; it is never taken for an option."""
    lines = commands.of(LockState(key, "p", "generic", "held", (), 1.0, 1.0, field=b"f"))
    words = [shlex.split(line) for line in lines if line.startswith("lockscope")]
    assert [line[1] for line in words] == ["why", "release"]
    for line in words:
        assert key in keys_of(line[-1])
        assert line[2:4] == ["--field", "f"]
        assert (line[-2] == "--") == key.startswith(b"-")


@pytest.mark.parametrize(
    ("template", "link"),
    [
        (None, None),
        ("javascript:alert(1)//{key}", None),
        ("https://t/search?q={job_type}%20{job_id}", "https://t/search?q=order.sync%20a%26b%3D%2F"),
        ("https://t/?tags={key}&{other}&{0}", "https://t/?tags=lock%3A%3Cb%3E%5Cxff&{other}&{0}"),
        ("https://t/{host}/{pid}", "https://t//"),
    ],
)
def test_trace_link_is_quoted(template, link):
    """Whatever a lock says of itself stays inside its place in the link."""
    holder = Holder(b"t", "f", job_type="order.sync", job_id="a&b=/")
    lock = LockState(b"lock:<b>\xff", "p", "generic", "held", (), 1.0, 1.0, holders=(holder,))
    assert commands.trace(template, lock) == link

"""Keys as text, durations, commands to copy: what the explorer shows must be safe and exact."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lockscope_dashboard import commands, text
from lockscope_exporter.cli.keytext import keys_of
from lockscope_exporter.state import Holder, LockState
from lockscope_exporter.targets import LockPattern, Target
from servers import RedisServer


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


def lines_of(key, url, *, targets_file="", **more):
    """Return the lines to copy about a lock of a server."""
    lock = LockState(key, "p", "generic", "held", (), 1.0, 1.0, **more)
    return commands.of(lock, [Target(url)], targets_file)


def run(line, **environment):
    """Run a line as pasted into a shell of somebody who has installed lockscope."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LOCKSCOPE_")}
    return subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        check=False,
        timeout=60,
        env={**kept, "PATH": path, **environment},
    )


@pytest.mark.parametrize("key", KEYS)
def test_redis_cli_line_reads_the_exact_key(server, client, key):
    """The line to copy, pasted into a real shell, reads the very key it was made for."""
    client.set(key, "found", px=60_000)
    lines = lines_of(key, f"redis://127.0.0.1:{server.port}/0", node=f"127.0.0.1:{server.port}")
    done = run(next(line for line in lines if "GET" in line))
    assert done.stdout.strip() == b"found", (lines, done)


@pytest.mark.parametrize("key", KEYS)
def test_lockscope_lines_name_the_exact_key(key):
    """The key in a lockscope line leads back to the bytes; it is never taken for an option."""
    lines = lines_of(key, "redis://cache.example/0", field=b"f")
    words = [shlex.split(line) for line in lines if line.startswith("lockscope")]
    assert [line[1] for line in words] == ["why", "release"]
    for line in words:
        assert key in keys_of(line[-1])
        assert line[2:6] == ["--redis-url", "redis://cache.example/0", "--field", "f"]
        assert (line[-2] == "--") == key.startswith(b"-")


def test_lines_reach_the_server_and_database_that_are_looked_at(server):
    """Pasted into a shell, every line finds the lock, though server and database are not the default ones."""
    client = server.client(db=3)
    client.set("lock:order:1", "x" * 32, px=60_000)
    client.close()
    url = f"redis://127.0.0.1:{server.port}/0"
    lines = lines_of(b"lock:order:1", url, db=3, node=f"127.0.0.1:{server.port}")
    why, pttl, get, release = map(run, lines)
    assert b"held" in why.stdout, (lines, why)
    assert 0 < int(pttl.stdout) <= 60_000
    assert get.stdout.strip() == b"x" * 32
    assert b"lock:order:1" in release.stdout + release.stderr
    assert b"not exist" not in release.stdout + release.stderr, release


def test_password_is_never_in_a_line_and_the_lines_work_without_it():
    """Where the server wants a password the lines say how to hand it over, and work once that is done."""
    server = RedisServer(port=None, requirepass="hush/hush")
    try:
        client = server.client(password="hush/hush")
        client.set("lock:order:1", "x" * 32, px=60_000)
        client.close()
        url = f"redis://:hush%2Fhush@127.0.0.1:{server.port}/0"
        lines = lines_of(b"lock:order:1", url, node=f"127.0.0.1:{server.port}")
        assert lines[0].startswith("#")
        assert "hush" not in "\n".join(lines)
        secrets = {"REDISCLI_AUTH": "hush/hush", "LOCKSCOPE_REDIS_URL": url}
        why, pttl, *_ = [run(line, **secrets) for line in lines[1:]]
        assert b"held" in why.stdout, why
        assert 0 < int(pttl.stdout) <= 60_000
    finally:
        server.close()


def test_lines_name_the_target_of_a_file():
    """With a file of targets the lines name file and target; a Redlock group is asked on each server."""
    members = [Target(f"redis://10.0.0.{n}:6379/0", name=f"r{n}", quorum_group="locks") for n in (1, 2, 3)]
    lock = LockState(b"lock:a", "p", "redlock", "held", (), 1.0, 1.0, target="locks", node="10.0.0.1:6379, …")
    why, *redis, release = commands.of(lock, [Target("redis://x/0", "x"), *members], "/etc/my targets.toml")
    assert why == "lockscope why --targets '/etc/my targets.toml' --target locks lock:a"
    assert release == why.replace("why", "release")
    assert [line for line in redis if "PTTL" in line] == [
        f"redis-cli -h 10.0.0.{number} PTTL lock:a" for number in (1, 2, 3)
    ]


def test_dialect_that_the_pattern_names_goes_along():
    """A key that is read as its pattern says is read so by the copied line too."""
    target = Target("redis://h/0", patterns=(LockPattern(b"app:*", "redisson"), LockPattern(b"lock:*")))
    for key, option in ((b"app:1", "--locks 'app:*=redisson' "), (b"lock:1", "")):
        why = commands.of(LockState(key, "p", "generic", "held", (), 1.0, 1.0), [target])[0]
        assert why == f"lockscope why {option}--redis-url redis://h/0 {key.decode()}"


@pytest.mark.parametrize(
    ("url", "lines"),
    [
        (
            "redis://h:7000/2",
            ["lockscope why --redis-url redis://h:7000/2 k", "redis-cli -h h -p 7000 -n 2 PTTL k"],
        ),
        ("cluster://h:7000", ["lockscope why --redis-url cluster://h:7000 k"]),
    ],
)
def test_lines_about_a_key_that_is_not_held(url, lines):
    """They ask the server that would hold it; where that is not known, lockscope finds it."""
    assert commands.look(b"k", None, "", [Target(url)])[:2] == lines


def test_line_for_a_huge_key_is_not_cut():
    """A key that fits into no line gets a sentence, never half a command."""
    assert lines_of(b"lock:" + b"k" * 65_536, "redis://h/0") == [
        "# a key of 65,541 bytes is too long for a line to copy"
    ]


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

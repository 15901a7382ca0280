"""The bounded names of key families."""

from __future__ import annotations

import enum
import threading
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lockscope import prefix_of
from lockscope.globs import matches
from lockscope.prefixes import _VARIABLE, MAX_LENGTH, OTHER, Prefixes, key_bytes, plain

if TYPE_CHECKING:
    import redis

real = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

# Keys as people and attackers make them: words, ids, separators, glob characters, bytes that are no text.
PIECES = st.one_of(
    st.sampled_from(
        [b"lock", b"order", b":", b"*", b"**", b"?", b"[", b"]", b"\\", b"^", b"-", b"_", b"/", b"."]
    ),
    st.sampled_from(
        [b"4711", b"1", b"ab12cd34ef", b"2026-01-31", b"ann@example.org", b"\xff\xfe", b"\n", b"\x00"]
    ),
    st.sampled_from(["é".encode(), "\u202e".encode(), "\ufffd".encode(), "🔒".encode()]),
    st.binary(max_size=4),
)
KEYS = st.lists(PIECES, min_size=1, max_size=12).map(b"".join).filter(bool)


@real
@given(key=KEYS)
@example(key=b"*123")
@example(key=b"1*2")
@example(key=b"-1-*")
@example(key=b"a\\1*")
@example(key=b"\xc3" * 200)
@example(key="é".encode() * 400)
@example(key=b"[" * 640)
@example(key=b"\\" * 159)
def test_the_prefix_finds_its_key_on_a_real_server(client: redis.Redis, key: bytes) -> None:
    """Whatever the key, SCAN with its prefix as MATCH returns it; the prefix is short printable text."""
    prefix = prefix_of(key)
    client.flushdb()
    client.set(key, 1)
    assert list(client.scan_iter(match=prefix, count=1000)) == [key]
    assert matches(prefix.encode(), key)
    assert 1 <= len(prefix) <= MAX_LENGTH
    assert prefix.isprintable()


@pytest.mark.parametrize(
    ("key", "prefix"),
    [
        ("lock:order:4711", "lock:order:*"),
        ("lock:order:4711:items", "lock:order:*:items"),
        ("order:019b3a2e-9c3f-7b10-8e4d-2f6a1c5d7e90", "order:*"),
        ("order:01ARZ3NDEKTSV4RRFFQ69G5FAV", "order:*"),
        ("celery_once_report_2026-01-31", "celery_once_report_*"),
        ("backup:2026-01-31T04:00:00Z", "backup:*"),
        ("session:9f86d081884c7d659a2feaa0c55ad015", "session:*"),
        ("mail:ann.smith+x@example.co.uk", "mail:*"),
        ("user:V1StGXR8_Z5jdHi6B-myT", "user:*"),
        ("{orders}:7:lock", "{orders}:*:lock"),
        ("queue:high", "queue:high"),
        ("v2:lock", "v2:lock"),
        ("cron:nightly-report", "cron:nightly-report"),
        ("tenant12345:lock", "tenant*:lock"),
        ("cache:schedule-0123456789abcdef0123456789abcdef01234567", "cache:schedule-*"),
        ("a:1:2:3", "a:*:*:*"),
        ("range:1-2", "range:*"),
        (b"bin:\xff\xfe\x00", "bin:*"),
        ("kunde:müller", "kunde:müller"),
        ("4711", "*"),
        ("", "*"),
    ],
)
def test_variable_segments_become_stars(key: str | bytes, prefix: str) -> None:
    """Ids, dates, addresses and bytes that are no text become a star; words, versions and hash tags stay."""
    assert prefix_of(key) == prefix


def test_text_and_bytes_of_a_key_have_one_prefix() -> None:
    """A key has the same prefix as text, as bytes, and as text with the surrogates of a lenient decoder."""
    raw = b"lock:\xff:gr\xc3\xb6\xc3\x9fe:12"
    assert prefix_of(raw) == prefix_of(raw.decode("utf-8", "surrogateescape")) == "lock:*:größe:*"
    assert prefix_of("lock:\ud800:x") == "lock:\\?:x"


def test_patterns_come_first_and_in_order() -> None:
    """The first of the user's patterns that matches is the name, as it was written."""
    patterns = ("lock:order:vip-*", "lock:*:4711", "lock:order:*")
    assert prefix_of("lock:order:vip-4711", patterns) == "lock:order:vip-*"
    assert prefix_of("lock:order:4711", patterns) == "lock:*:4711"
    assert prefix_of("lock:order:12", patterns) == "lock:order:*"
    assert prefix_of("lock:mail:12", patterns) == "lock:mail:*"


@pytest.mark.parametrize(
    "piece", ["a", "a-", "1-", "a.", "a@", "aA1", "A1a/", "2026-01-01T", "é", "\x00a", "*1", "ab12ab12ab1z:"]
)
def test_keys_of_64_kib_are_fast(piece: str) -> None:
    """No key takes long, whatever it is made of: its end is not read, and its beginning once."""
    key = (piece * 65536)[:65536]
    started = time.process_time()
    assert len(prefix_of(key)) <= MAX_LENGTH
    assert time.process_time() - started < 0.05
    started = time.process_time()
    _VARIABLE.sub("", key[:16384])  # were it the square of the length, this would take many seconds
    assert time.process_time() - started < 1


def test_distinct_names_are_capped() -> None:
    """Beyond the cap keys fold into ``other``, each time counted; names handed out before go on."""
    prefixes = Prefixes(limit=3)
    names = [prefixes.of(f"family-{letter}:lock") for letter in "abcdef"]
    assert names == ["family-a:lock", "family-b:lock", "family-c:lock", OTHER, OTHER, OTHER]
    assert prefixes.overflowed == 3
    assert prefixes.of("family-a:lock") == "family-a:lock"
    assert prefixes.of("family-f:lock") == OTHER
    assert prefixes.overflowed == 4
    assert prefixes.known() == {"family-a:lock", "family-b:lock", "family-c:lock"}


def test_patterns_do_not_use_up_the_cap() -> None:
    """The user's own patterns are names beside the cap, and are never folded."""
    prefixes = Prefixes(("lock:a:*", "lock:b:*"), limit=1)
    assert [prefixes.of(key) for key in ("x:lock", "y:lock", "lock:a:1", "lock:b:1")] == [
        "x:lock",
        OTHER,
        "lock:a:*",
        "lock:b:*",
    ]


def test_memory_is_bounded_whatever_the_keys() -> None:
    """A hundred thousand keys of families without end leave a bounded cache and a bounded set of names."""
    prefixes = Prefixes(limit=50)
    for number in range(20_000):
        prefixes.of(f"{number:x}z:lock".replace("0", "o").translate(str.maketrans("123456789", "ghijklmnp")))
    assert len(prefixes.known()) == 50
    assert len(prefixes._cache) <= 4096


def test_the_cap_holds_between_threads() -> None:
    """Threads that name new families at once never exceed the cap, and lose no count."""
    prefixes = Prefixes(limit=10)
    start = threading.Barrier(4)

    def name(letter: str) -> None:
        start.wait()
        for index in range(200):
            prefixes.of(f"{letter * (index + 1)}:lock"[:250])

    threads = [threading.Thread(target=name, args=(letter,)) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(prefixes.known()) == 10
    assert prefixes.overflowed == 4 * 200 - 10


class _Name(str, enum.Enum):  # noqa: UP042 - whose str() is its name, unlike a StrEnum's
    LOCK = "lock:enum"


@pytest.mark.parametrize(
    ("key", "raw"),
    [
        (_Name.LOCK, b"lock:enum"),
        (memoryview(b"lock:view"), b"lock:view"),
        (bytearray(b"lock:array"), b"lock:array"),
        (10**12, b"1000000000000"),
        (4711, b"4711"),
        (1.5, b"1.5"),
    ],
)
def test_keys_of_other_types_are_what_redis_gets(client: redis.Redis, key: object, raw: bytes) -> None:
    """Enumerations, views and numbers are read as the bytes that redis-py sends for them."""
    client.set(key, 1)
    assert client.keys() == [raw]
    assert key_bytes(plain(key)) == raw


def test_a_key_that_redis_refuses_is_refused() -> None:
    """What is neither text, bytes nor number raises instead of turning into some key."""
    with pytest.raises(TypeError):
        plain(object())

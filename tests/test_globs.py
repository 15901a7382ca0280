"""Redis globs: what they match is what the server says they match."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lockscope.globs import compile_glob, escape, fixed_part, matches

if TYPE_CHECKING:
    import redis

# Few letters, all that globs treat specially, and a byte that is no text: collisions are what is tested.
ALPHABET = b"ab-\\*?[]^\x00\n\xff"
# Ranges compare C chars, which are signed on x86 and unsigned on ARM: none over the border is drawn.
GLOBS = st.lists(
    st.one_of(
        st.sampled_from([bytes([byte]) for byte in ALPHABET]),
        st.sampled_from(
            [b"*", b"**", b"?", b"[ab]", b"[^a]", b"[a-b]", b"[b-a]", b"[a", b"[^", b"\\*", b"[\\]]"]
        ),
    ),
    min_size=1,
    max_size=8,
).map(b"".join)
KEYS = st.lists(st.sampled_from([bytes([byte]) for byte in ALPHABET]), min_size=1, max_size=8).map(b"".join)
real = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _without_ranges_over_the_border(glob: bytes) -> bytes:
    return re.sub(rb"\xff*-\xff*", b"-", glob)


@real
@given(glob=GLOBS, keys=st.lists(KEYS, min_size=1, max_size=12))
@example(glob=b"[a-", keys=[b"a", b"-", b"b"])
@example(glob=b"[]", keys=[b"]", b"a"])
@example(glob=b"[^]", keys=[b"]", b"ab", b"a"])
@example(glob=b"a\\", keys=[b"a\\", b"a"])
@example(glob=b"[\\", keys=[b"\\", b"["])
@example(glob=b"*a*b", keys=[b"ab", b"aab", b"ba", b"abb\n"])
def test_matches_what_the_server_matches(client: redis.Redis, glob: bytes, keys: list[bytes]) -> None:
    """Random globs pick the same of random keys as KEYS on a real server."""
    glob = _without_ranges_over_the_border(glob)
    client.flushdb()
    client.mset(dict.fromkeys(keys, 1))
    assert {key for key in keys if matches(glob, key)} == set(client.keys(glob))


@real
@given(key=st.binary(min_size=1, max_size=40))
def test_escaped_text_matches_itself_only(client: redis.Redis, key: bytes) -> None:
    """The escaped form of any key finds that key on a real server, and nothing beside it."""
    text = key.decode("latin-1")
    glob = escape(text).encode("latin-1")
    client.flushdb()
    client.mset({key: 1, key + b"x": 1, b"x" + key: 1, key[:-1] + b"\x01\x02": 1})
    assert client.keys(glob) == [key]
    assert matches(glob, key)
    assert not matches(glob, key + b"x")


@real
@given(glob=GLOBS, keys=st.lists(KEYS, min_size=1, max_size=12))
def test_fixed_part_begins_every_match(client: redis.Redis, glob: bytes, keys: list[bytes]) -> None:
    """Every key that a glob finds on a real server begins with its fixed part."""
    client.flushdb()
    client.mset(dict.fromkeys(keys, 1))
    fixed = fixed_part(glob)
    assert all(key.startswith(fixed) for key in client.keys(glob))


@pytest.mark.parametrize(
    ("glob", "fixed"),
    [
        (b"lock:order:*", b"lock:order:"),
        (b"*:lock", b""),
        (b"a\\*b?", b"a*b"),
        (b"plain", b"plain"),
        (b"a[bc]", b"a"),
        (b"a\\", b"a\\"),
    ],
)
def test_fixed_part_is_the_literal_beginning(glob: bytes, fixed: bytes) -> None:
    """The fixed part is all that stands before the first wildcard, without its backslashes."""
    assert fixed_part(glob) == fixed


@pytest.mark.parametrize(
    ("glob", "key"),
    [
        (b"*a" * 40, b"a" * 65536),
        (b"a*" * 40 + b"b", b"a" * 65536),
        (b"*?" * 40 + b"b", b"ab" * 32768),
        (b"*" * 200 + b"x", b"y" * 65536),
    ],
)
def test_hostile_pairs_are_fast(glob: bytes, key: bytes) -> None:
    """Globs of many stars on 64 KiB keys take time in proportion to the key, not to a power of it."""
    compile_glob(glob)
    started = time.process_time()
    matches(glob, key)
    assert time.process_time() - started < 0.5

"""Redis glob patterns: match them as the server does, and quote text so that it matches itself."""

from __future__ import annotations

import re
from functools import lru_cache

_SPECIAL = re.compile(r"[*?\[\]\\]")


def escape(text: str) -> str:
    """Return ``text`` with the characters that a Redis glob treats specially escaped."""
    return _SPECIAL.sub(lambda found: "\\" + found.group(), text)


@lru_cache(maxsize=1024)
def compile_glob(pattern: bytes) -> re.Pattern[bytes]:
    r"""Translate a Redis glob to a compiled pattern for ``fullmatch`` on a whole key.

    Follows ``stringmatchlen`` of the Redis server (util.c): ``*``, ``?``, ``[abc]``, ``[^abc]``, ``[a-z]``
    and ``\x`` for a literal ``x``. Every ``*`` is tried leftmost only, which is enough for globs and keeps
    matching linear in the key's length, whatever a hostile key holds.

    Args:
        pattern: the glob, as bytes.

    Returns:
        A bytes pattern; use ``fullmatch``.
    """
    pieces: list[bytes] = [b""]
    index = 0
    while index < len(pattern):
        char = pattern[index : index + 1]
        index += 1
        if char == b"*":
            if pieces[-1] or len(pieces) == 1:
                pieces.append(b"")
        elif char == b"?":
            pieces[-1] += b"."
        elif char == b"[":
            members, index = _char_class(pattern, index)
            pieces[-1] += members
        elif char == b"\\" and index < len(pattern):
            pieces[-1] += re.escape(pattern[index : index + 1])
            index += 1
        else:
            pieces[-1] += re.escape(char)
    if len(pieces) == 1:
        return re.compile(pieces[0], re.DOTALL)
    head, *middle, tail = pieces
    body = b"".join(b"(?>.*?" + piece + b")" for piece in middle)
    return re.compile(head + body + b".*" + tail, re.DOTALL)


def matches(pattern: bytes, key: bytes) -> bool:
    """Tell whether ``key`` matches the Redis glob ``pattern``."""
    return compile_glob(pattern).fullmatch(key) is not None


def fixed_part(pattern: bytes) -> bytes:
    """Return the literal bytes that every key of ``pattern`` begins with (empty for a leading wildcard)."""
    literal = bytearray()
    index = 0
    while index < len(pattern):
        char = pattern[index : index + 1]
        if char in (b"*", b"?", b"["):
            break
        if char == b"\\" and index + 1 < len(pattern):
            index += 1
            char = pattern[index : index + 1]
        literal += char
        index += 1
    return bytes(literal)


def _char_class(pattern: bytes, index: int) -> tuple[bytes, int]:
    """Read a character class whose ``[`` stands before ``index``; return its pattern and the next index."""
    negated = pattern[index : index + 1] == b"^"
    index += negated
    members = b""
    while index < len(pattern) and pattern[index : index + 1] != b"]":
        if pattern[index : index + 1] == b"\\" and index + 1 < len(pattern):
            index += 1
            members += re.escape(pattern[index : index + 1])
        elif pattern[index + 1 : index + 2] == b"-" and index + 2 < len(pattern):
            low, high = sorted((pattern[index : index + 1], pattern[index + 2 : index + 3]))
            members += re.escape(low) + b"-" + re.escape(high)
            index += 2
        else:
            members += re.escape(pattern[index : index + 1])
        index += 1
    index += 1
    if not members:
        return (b"." if negated else b"(?!)"), index
    return b"[" + (b"^" if negated else b"") + members + b"]", index

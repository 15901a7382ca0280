"""Keys as words of a command line: the exact bytes, or what another command printed of them."""

from __future__ import annotations

import re

from lockscope_exporter.text import shown_key

_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|([nrt]))")
_NAMED = {"n": "\n", "r": "\r", "t": "\t"}
_WIDEST = 200  # characters of a key in a message
_LAST = 0x10FFFF  # code point


def keys_of(text: str) -> tuple[bytes, ...]:
    r"""Return the keys that a word of the command line may mean: its own bytes, then with escapes resolved.

    Args:
        text: a key as typed, or copied from where ``\xNN`` stands for what cannot be shown.
    """
    raw = text.encode("utf-8", "surrogateescape")
    resolved = _ESCAPE.sub(_resolve, text).encode("utf-8", "surrogateescape")
    return (raw,) if resolved == raw else (raw, resolved)


def key_name(key: bytes) -> str:
    """Return what to call a key in a message; quotes for the empty key, which Redis allows."""
    return shown_key(key, _WIDEST) or '""'


def _resolve(found: re.Match[str]) -> str:
    byte, short, long, name = found.groups()
    if name is not None:
        return _NAMED[name]
    if byte is not None:
        return bytes([int(byte, 16)]).decode("utf-8", "surrogateescape")
    code = int(short or long, 16)
    return found[0] if code > _LAST or 0xD800 <= code <= 0xDFFF else chr(code)  # noqa: PLR2004 - surrogates

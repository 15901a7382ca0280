"""Words for people: keys that cannot trick a screen, durations, relative times. Pure functions."""

from __future__ import annotations

import hashlib
import math
import re
from datetime import UTC, datetime

from lockscope_exporter.text import shown

LONGEST_ID = 400
JUST_NOW = 0.05
_ASCII = 0x80  # first code point that is no ASCII
_BMP_END, _LAST = 0xFFFF, 0x10FFFF
_BAD_BYTE = 0xDC00  # ``surrogateescape`` keeps a byte that is not UTF-8 as this plus the byte (PEP 383)
_SURROGATES = range(0xD800, 0xE000)
_AMBIGUOUS = re.compile(r"\\(?=\\|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")
_PLAIN = re.compile(rb"[\x20-\x5b\x5d-\x7e]*")
_ESCAPE = re.compile(r"\\(?:\\|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")
_SHORT = ((0.0005, 0.0, ".0f"), (0.095, 1000.0, ".0f"), (9.95, 1.0, ".1f"), (59.5, 1.0, ".0f"))
_STEPS = ((86400.0, "d"), (3600.0, "h"), (60.0, "m"))


def show(raw: bytes) -> str:
    r"""Write bytes as text that looks like what it is, whatever it holds.

    Bytes that are not UTF-8 and ASCII controls become ``\xNN``; other control, formatting (bidi, zero-width),
    unassigned and odd space characters become ``\uNNNN``; a backslash is doubled only where it could be
    read as one of these, so that PHP class names stay as they are. ``unshow`` is the inverse.

    Args:
        raw: a Redis key or field.

    Returns:
        One line of printable text, different for different bytes.
    """
    if _PLAIN.fullmatch(raw):
        return raw.decode("ascii")
    words = raw.decode("utf-8", "surrogateescape")
    pieces: list[str] = []
    for index, char in enumerate(words):
        if char == "\\":
            doubled = _AMBIGUOUS.match(words, index) or not words[index + 1 : index + 2].isprintable()
            pieces.append("\\\\" if doubled else char)
        else:
            pieces.append(char if char.isprintable() else _escape(ord(char)))
    return "".join(pieces)


def unshow(text: str) -> bytes:
    """Return the bytes that ``show`` wrote as ``text``; text of another origin stands for its UTF-8 bytes."""
    clean = text.encode("utf-8", "replace").decode("utf-8")
    return _ESCAPE.sub(_unescape, clean).encode("utf-8", "surrogateescape")


def _unescape(found: re.Match[str]) -> str:
    byte, short, long = found.groups()
    if byte is not None:
        code = int(byte, 16)
        return chr(code if code < _ASCII else _BAD_BYTE + code)
    if short is None and long is None:
        return "\\"
    code = int(short or long, 16)
    return found.group() if code > _LAST or code in _SURROGATES else chr(code)


def _escape(code: int) -> str:
    if code in _SURROGATES:
        return f"\\x{code - _BAD_BYTE:02x}"
    if code < _ASCII:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= _BMP_END else f"\\U{code:08x}"


def safe(text: str | None) -> str:
    """Return foreign text (a host, a job, a prefix) with what could trick a screen escaped."""
    return shown(text) if text else ""


def identify(shown: str, raw: bytes) -> str:
    """Return what names a key in a URL: its text, or a digest where that text would be too long for one."""
    if len(shown) <= LONGEST_ID and not shown.startswith("sha256:"):
        return shown
    return "sha256:" + hashlib.sha256(raw).hexdigest()[:32]


def cut(text: str, limit: int) -> str:
    """Shorten text in its middle to ``limit`` characters, saying how many there are."""
    if len(text) <= limit:
        return text
    note = f" … ({len(text):,} characters) … "
    keep = max(limit - len(note), 8)
    return text[: keep - keep // 4] + note + text[-(keep // 4) :]


def duration(seconds: float | None) -> str:
    """Write a duration in seconds with at most two units: ``0.4 s``, ``12 s``, ``3m 20s``, ``2h 05m``."""
    if seconds is None or math.isnan(seconds):
        return ""
    sign, seconds = ("-", -seconds) if seconds < 0 else ("", seconds)
    for below, factor, form in _SHORT:
        if seconds < below:
            return f"{sign}{seconds * factor:{form}} {'ms' if factor > 1 else 's'}"
    whole = round(seconds)
    for size, unit in _STEPS:
        if whole >= size:
            left = whole % int(size)
            smaller = {"d": (3600, "h"), "h": (60, "m"), "m": (1, "s")}[unit]
            return f"{sign}{whole // int(size)}{unit} {left // smaller[0]:02d}{smaller[1]}"
    return f"{sign}{whole} s"


def ago(seconds: float) -> str:
    """Write how long ago something was."""
    return "just now" if seconds < JUST_NOW else f"{duration(seconds)} ago"


def absolute(at: float | None) -> str:
    """Write a unix time in seconds as UTC, for a hover text."""
    if at is None:
        return ""
    try:
        return datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, OSError, ValueError):
        return ""


def count(number: float, noun: str, plural: str = "") -> str:
    """Write a number with its noun, in the plural (with an s unless given) where it is not one."""
    return f"{number:,.0f} {noun if number == 1 else plural or noun + 's'}"

"""Hostile bytes and text as one safe line: keys for people, keys for JSON, messages for terminals."""

from __future__ import annotations

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def key_text(raw: bytes) -> str:
    r"""Return a key as JSON carries it: the exact text if it is UTF-8, else ``\xNN`` for its bad bytes."""
    return raw.decode("utf-8", "backslashreplace")


def shown_key(raw: bytes, width: int | None = None) -> str:
    r"""Return a key as a terminal may show it: one line, control and direction characters escaped.

    Args:
        raw: the exact bytes.
        width: characters at most; the middle of a longer key is left out, both ends tell keys apart.
    """
    if width is not None and len(raw) > 8 * width:
        raw = raw[: 4 * width] + raw[-4 * width :]  # a 64 KiB key need not be escaped to be cut
    return shown(key_text(raw), width)


def shown(text: str, width: int | None = None) -> str:
    r"""Return text as one line that no terminal, log or table misreads: ``\xNN`` for the unprintable.

    Args:
        text: any text, with lone surrogates too.
        width: characters at most, the middle is left out of longer text.
    """
    if not text.isprintable():
        text = "".join(char if char.isprintable() else _escaped(char) for char in text)
    if width is None or len(text) <= width:
        return text
    tail = (width - 1) // 3
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def label_text(text: str) -> str:
    r"""Return text that can be encoded as UTF-8: bytes that arrived as lone surrogates become ``\xNN``."""
    if text.isascii():
        return text
    return "".join(_escaped(char) if "\ud800" <= char <= "\udfff" else char for char in text)


def duration_text(seconds: float) -> str:
    """Return a duration in at most two units: ``0.4s``, ``12s``, ``4m05s``, ``2h03m``, ``3d04h``."""
    if seconds < 0:
        return f"-{duration_text(-seconds)}"
    if seconds < 9.95:  # noqa: PLR2004 - shown with one decimal
        return f"{seconds:.1f}s"
    whole = round(seconds)
    for unit, larger, smaller, rest in (("d", 86400, 3600, "h"), ("h", 3600, 60, "m"), ("m", 60, 1, "s")):
        if whole >= larger:
            return f"{whole // larger}{unit}{whole % larger // smaller:02d}{rest}"
    return f"{whole}s"


def _escaped(char: str) -> str:
    code = ord(char)
    if char in _NAMED:
        return _NAMED[char]
    if 0xDC80 <= code <= 0xDCFF:  # noqa: PLR2004 - a byte that os.fsdecode could not decode (PEP 383)
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x100:  # noqa: PLR2004
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"  # noqa: PLR2004

"""Hostile text for people and log files: bounded, on one line, nothing in it that acts."""

from __future__ import annotations

_MAX_TEXT = 512


def printable(text: bytes | str, limit: int = _MAX_TEXT) -> str:
    """Return bounded text on one line: what is no printable text becomes backslash escapes.

    Args:
        text: a key or anything else that others have written.
        limit: characters of the result, before the ellipsis that says that something is missing.
    """
    cut = text[: limit * 2]
    whole = cut if isinstance(cut, str) else cut.decode("utf-8", "backslashreplace")
    if not whole.isprintable():
        whole = "".join(char if char.isprintable() else _escaped(char) for char in whole)
    return whole if len(whole) <= limit and len(cut) == len(text) else whole[:limit] + "…"


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")

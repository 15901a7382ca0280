"""Times and durations as people and programs write them. Pure."""

from __future__ import annotations

import math
from datetime import UTC, datetime

_MIN_EPOCH = 1e9  # September 2001, the smallest epoch second believed
_MAX_EPOCH = 1e10  # November 2286
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def moment(value: object) -> float | None:
    """Read a point in time.

    Args:
        value: epoch seconds, milliseconds, microseconds or nanoseconds of the years 2001 to 2286, as a
            number or a decimal string, or an ISO 8601 date and time; one without offset counts as UTC.

    Returns:
        Unix time in seconds, or ``None`` if this is none of these.
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    if isinstance(value, str):
        text = value.strip()
        if len(text) > 40 or not text.isascii():  # noqa: PLR2004 - no timestamp is longer
            return None
        try:
            number = float(text) if text[:1].isdigit() and "-" not in text[1:] else None
        except ValueError:
            number = None
        if number is None:
            return _iso(text)
    else:
        number = _finite(value)
    return _epoch(number)


def span(seconds: float) -> str:
    """Write a duration for people: ``2.1 s``, ``41 s``, ``3 min 20 s``, ``2 h 5 min``, ``3 d 4 h``.

    Args:
        seconds: any length; a negative one counts as zero.
    """
    if not seconds > 0:
        return "0 s"
    if seconds < 9.95:  # noqa: PLR2004 - rounds to less than ten
        return f"{seconds:.1f} s" if seconds >= 0.095 else f"{math.ceil(seconds * 1000)} ms"  # noqa: PLR2004
    if not math.isfinite(seconds):
        return "for ever"
    whole = round(seconds)
    for unit, name, small, small_name in (
        (_DAY, "d", _HOUR, "h"),
        (_HOUR, "h", _MINUTE, "min"),
        (_MINUTE, "min", 1, "s"),
    ):
        if whole >= unit:
            rest = whole % unit // small
            return f"{whole // unit} {name} {rest} {small_name}" if rest else f"{whole // unit} {name}"
    return f"{whole} s"


def _iso(text: str) -> float | None:
    try:
        parsed = datetime.fromisoformat(text)
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _finite(number: float) -> float | None:
    try:
        return float(number)
    except OverflowError:
        return None


def _epoch(number: float | None) -> float | None:
    if number is None or not math.isfinite(number):
        return None
    for scale in (1.0, 1e3, 1e6, 1e9):
        if _MIN_EPOCH <= number / scale < _MAX_EPOCH:
            return number / scale
    return None

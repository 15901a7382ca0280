"""Durations as callers pass them, checked where they are written."""

from __future__ import annotations

import reprlib
from decimal import Decimal
from numbers import Real
from typing import Any

_MOST = (
    9_000_000_000  # 285 years: what Redis adds to its clock and what a thread can wait both end near there
)


def seconds(value: Any, name: str) -> float:
    """Return ``value`` as seconds above 0.

    Raises:
        ValueError: it is no number, not above 0, or more than any clock counts; the message has ``name``.
    """
    if not isinstance(value, bool) and isinstance(value, Real | Decimal):
        try:
            found = float(value)
        except (ValueError, OverflowError):  # a signalling NaN, an integer beyond all floats
            found = 0.0
        if 0 < found <= _MOST:
            return found
    raise ValueError(f"{name} takes seconds above 0 and up to {_MOST}, not {reprlib.repr(value)}")

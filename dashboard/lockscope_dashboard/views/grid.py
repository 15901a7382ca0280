"""A small table of facts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from lockscope_dashboard.components import load
from lockscope_dashboard.frames.locks import SEVERITY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def column(
    name: str, label: str, *, right: bool = False, long: bool = False, hint: str = ""
) -> dict[str, Any]:
    """Describe a column; numbers stand ``right`` and sort from the largest, ``long`` text gets room."""
    return {"name": name, "label": label, "right": right, "long": long, "help": hint}


def cell(words: str, **more: Any) -> dict[str, Any]:
    """Describe a cell, with ``note``, ``sort`` value, ``bar`` 0..1, ``mark`` good, warn or bad, ``mono``."""
    return {"text": words, **more}


def amount(value: float) -> dict[str, Any]:
    """Describe a cell with a whole number, which an estimate such as ``increase()`` may not quite be."""
    return {"text": f"{value:,.0f}", "sort": float(value)}


def known(value: float) -> float | None:
    """Return a number to sort by, ``None`` for NaN."""
    return None if math.isnan(value) else float(value)


def link(words: str, page: str, params: Mapping[str, str], **more: Any) -> dict[str, Any]:
    """Describe a cell that leads to a page of the explorer."""
    path = "" if page == "live" else page  # the default page answers at the root only
    return {
        "text": words,
        "href": f"./{path}?{urlencode(params)}",
        "params": {"page": page, **params},
        **more,
    }


def states(counts: Mapping[str, int]) -> dict[str, Any]:
    """Describe a cell with a badge for each state that occurs, worst first."""
    found = [(state, counts[state]) for state in SEVERITY if counts.get(state)]
    weights = {state: 1000 ** (len(SEVERITY) - index) for index, state in enumerate(SEVERITY)}
    return {"badges": found, "sort": sum(weights[state] * min(number, 999) for state, number in found)}


def draw(
    columns: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]], *, key: str, caption: str, empty: str
) -> None:
    """Draw a table; its links lead to other pages of the explorer.

    Args:
        columns: of ``column``.
        rows: ``{"name": unique name, "cells": {column name: text, number or cell}}``.
        key: unique name on the page.
        caption: what the table shows, for screen readers.
        empty: sentence to show where there is no row.
    """
    load("grid")(
        key=key, data={"columns": list(columns), "rows": list(rows), "caption": caption, "empty": empty}
    )

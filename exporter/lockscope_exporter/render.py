"""Locks as lines of text for a terminal or a pipe. Values in, rich text out; the console is the caller's."""

from __future__ import annotations

import operator
import os
import sys
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from lockscope_exporter.evidence import Evidence, beyond_columns
from lockscope_exporter.listing import STATES
from lockscope_exporter.text import duration_text, shown, shown_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.text import Text

    from lockscope_exporter.state import Holder, LockState

# Told apart by word and brightness too, not by hue alone.
STYLES = {
    "orphaned": "bold magenta",
    "no_ttl": "bold red",
    "stalled": "yellow",
    "overdue": "blue",
    "held": "green",
}

_LONGEST = 80  # characters of one cell in a pipe; --json has everything
_KEY_AT_LEAST = 24
_MEANINGFUL = 1.0  # seconds; a shorter lower bound of an age says nothing
_GAP = "  "


def on_terminal() -> bool:
    """Tell whether stdout is a terminal that can be drawn on."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def lock_lines(locks: Sequence[LockState], width: int) -> Iterator[Text]:
    """Yield a head and one line a lock for a terminal; evidence worth reading follows on a line of its own.

    Args:
        locks: in the order to show.
        width: columns of the terminal: the key gets what is left, and the least needed columns go if that is
            too little.
    """
    from rich.text import Text  # noqa: PLC0415 - a pipe does without

    for style, styled, rest in styled_lines(locks, width):
        yield Text(rest) if not styled else Text.assemble((styled, style), rest)


def styled_lines(locks: Sequence[LockState], width: int) -> Iterator[tuple[str, str, str]]:
    """Yield what ``lock_lines`` does: the style of a line's beginning, that beginning, and the plain rest."""
    columns = _columns(locks)
    rows = [[column.cell(lock) for column in columns] for lock in locks]
    widths = _fitted(columns, _widths(columns, rows), width)
    yield "bold", _line(columns, [column.head for column in columns], widths), ""
    for lock, line in zip(locks, _lines(columns, rows, widths), strict=True):
        state = lock.state
        yield STYLES[state], line[: len(state)], line[len(state) :]
        if state != "held":
            yield "dim", _cut(f"    {evidence_cell(lock)}", width).rstrip(), ""


def plain_lines(locks: Sequence[LockState]) -> Iterator[str]:
    """Yield a head and one line a lock for a pipe: nothing is left out, and evidence is the last column."""
    columns = [*_columns(locks), EVIDENCE]
    rows = [[column.cell(lock) for column in columns] for lock in locks]
    widths = _widths(columns, rows)
    yield _line(columns, [column.head for column in columns], widths)
    yield from _lines(columns, rows, widths)


def summary(locks: Sequence[LockState]) -> str:
    """Return one line with the number of locks by state."""
    counts = Counter(lock.state for lock in locks)
    parts = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    return f"{len(locks)} lock{'' if len(locks) == 1 else 's'}" + (f": {parts}" if parts else "")


class Column(NamedTuple):
    """One column.

    Attributes:
        head: its name.
        cell: what it shows of a lock.
        right: whether its cells stand at its right end, as numbers do.
        widest: its widest on a terminal, in columns.
    """

    head: str
    cell: Callable[[LockState], str]
    right: bool = False
    widest: int = _LONGEST


def key_cell(lock: LockState) -> str:
    """Return the key, with the hash field or member that is the lock."""
    if lock.field is None:
        return shown_key(lock.key, _LONGEST)
    return f"{shown_key(lock.key, _LONGEST // 2)} [{shown_key(lock.field, _LONGEST // 2)}]"


def age_cell(lock: LockState) -> str:
    """Return how long the lock has been held, ``>`` before a lower bound, ``?`` for unknown."""
    if lock.age_seconds is None or (lock.age_at_least and lock.age_seconds < _MEANINGFUL):
        return "?"
    return f"{'>' if lock.age_at_least else ''}{duration_text(lock.age_seconds)}"


def holder_cell(holders: Sequence[Holder]) -> str:
    """Return the first holder as host/pid, else as its token's fingerprint, and how many more there are."""
    if not holders:
        return "-"
    first = holders[0]
    name = shown(first.host, _LONGEST) if first.host else f"#{first.fingerprint}"
    pid = "" if first.pid is None else f"/{first.pid}"
    gone = " gone" if first.alive == "gone" else ""
    more = f" +{len(holders) - 1}" if len(holders) > 1 else ""
    return f"{name}{pid}{gone}{more}"


def job_cell(holder: Holder | None) -> str:
    """Return what the holder works on: job type and job id."""
    if holder is None or not (holder.job_type or holder.job_id):
        return "-"
    return shown(" ".join(part for part in (holder.job_type, holder.job_id) if part), _LONGEST)


def where_cell(lock: LockState) -> str:
    """Return target and database."""
    return f"{shown(lock.target, 20)}/{lock.db}"


def evidence_cell(lock: LockState) -> str:
    """Return why the lock is in its state, without what the other columns say."""
    evidence = lock.evidence
    said = evidence.beyond if isinstance(evidence, Evidence) else beyond_columns(lock.state, evidence)
    return shown("; ".join(said), 4 * _LONGEST) if said else ""


def ttl_cell(lock: LockState) -> str:
    """Return the remaining time to live, or that there is none."""
    return "none" if lock.ttl_seconds is None else duration_text(lock.ttl_seconds)


STATE = Column("STATE", lambda lock: lock.state)
KEY = Column("KEY", key_cell)
AGE = Column("AGE", age_cell, right=True)
TTL = Column("TTL", ttl_cell, right=True)
HOLDER = Column("HOLDER", lambda lock: holder_cell(lock.holders), widest=26)
JOB = Column("JOB", lambda lock: job_cell(lock.holder), widest=26)
DIALECT = Column("DIALECT", lambda lock: lock.dialect, widest=22)
WHERE = Column("WHERE", where_cell, widest=24)
EVIDENCE = Column("EVIDENCE", evidence_cell)


def _columns(locks: Sequence[LockState]) -> list[Column]:
    columns = [STATE, KEY, AGE, TTL, HOLDER, JOB, DIALECT]
    if len({(lock.target, lock.db) for lock in locks}) > 1:
        columns.append(WHERE)
    return columns


def _widths(columns: list[Column], rows: list[list[str]]) -> list[int]:
    """Return the natural width of each column."""
    cells = zip(*rows, strict=True) if rows else [()] * len(columns)
    return [
        max(map(len if "".join(found).isascii() else cells_of, (column.head, *found)))
        for column, found in zip(columns, cells, strict=True)
    ]


def _fitted(columns: list[Column], widths: list[int], width: int) -> list[int]:
    """Return the width of each column on a terminal; 0 leaves it out."""
    widths = [min(natural, column.widest) for natural, column in zip(widths, columns, strict=True)]
    key = columns.index(KEY)
    wanted = min(widths[key], _KEY_AT_LEAST)
    for spare in (DIALECT, JOB, HOLDER):
        if _total(widths) - widths[key] + wanted > width:
            widths[columns.index(spare)] = 0
    widths[key] = max(min(widths[key], width - _total(widths) + widths[key]), wanted)
    return widths


def _total(widths: list[int]) -> int:
    return sum(widths) + len(_GAP) * (sum(map(bool, widths)) - 1)


def _lines(columns: list[Column], rows: list[list[str]], widths: list[int]) -> Iterator[str]:
    """Yield what ``_line`` makes of each row; rows of ASCII that fit, nearly all, take less time."""
    places = [place for place, width in enumerate(widths) if width]
    sizes = [widths[place] for place in places]
    shape = _GAP.join(f"%{'' if columns[place].right else '-'}{widths[place]}s" for place in places)
    for row in rows:
        cells = row if len(places) == len(row) else [row[place] for place in places]
        if "".join(cells).isascii() and not any(map(operator.gt, map(len, cells), sizes)):
            yield (shape % tuple(cells)).rstrip()
        else:
            yield _line(columns, row, widths)


def _line(columns: list[Column], cells: Sequence[str], widths: list[int]) -> str:
    parts = []
    for column, cell, width in zip(columns, cells, widths, strict=True):
        if not width:
            continue
        taken = cells_of(cell)
        if taken > width:
            cell = _shortened(cell, width)  # noqa: PLW2901
            taken = cells_of(cell)
        padding = " " * (width - taken)
        parts.append(padding + cell if column.right else cell + padding)
    return _GAP.join(parts).rstrip()


def cells_of(text: str) -> int:
    """Return the columns that printable text takes on a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 - most keys are ASCII

    return cell_len(text)


def fit(cell: str, size: int) -> str:
    """Return a cell in exactly so many columns: padded at its end, or without its middle."""
    width = cells_of(cell)
    if width <= size:
        return cell + " " * (size - width)
    return _shortened(cell, size) if size > 1 else _cut(cell, size)


def _shortened(cell: str, width: int) -> str:
    """Leave out the middle: the ends tell keys, hosts and jobs apart."""
    tail = (width - 1) // 3
    end = cell[len(cell) - tail :] if tail else ""
    while cells_of(end) > tail:  # wide characters
        end = end[1:]
    return _cut(cell, width - 1 - cells_of(end)) + "…" + end


def _cut(text: str, width: int) -> str:
    """Return text in exactly so many columns, cut or padded."""
    if text.isascii():
        return text[:width].ljust(width)
    from rich.cells import set_cell_size  # noqa: PLC0415 - most text is ASCII

    return set_cell_size(text, width)

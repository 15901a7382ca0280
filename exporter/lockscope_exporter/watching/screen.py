"""A board as lines of text for a terminal of any size. Pure."""

from __future__ import annotations

import math
from datetime import datetime
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from lockscope_exporter.listing import node_name
from lockscope_exporter.render import STYLES, age_cell, fit, holder_cell, job_cell, key_cell, summary
from lockscope_exporter.text import duration_text, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockscope_exporter.state import LockState, NodeStatus
    from lockscope_exporter.watching.board import Board
    from lockscope_exporter.watching.happenings import Happening

KEYS = "q quit  p pause  s sort: {order}  f show: {shown}  e events: {events}  arrows scroll"
_GAP = "  "
_BAR = 8
_LEAST_KEY = 16
_FEW = 4  # lines of happenings at least
_NARROW = 60  # columns; below this happenings are not aligned
_LEAST_TEXT = 12  # columns
_AGE, _TTL, _HOLDER, _JOB = 15, 15, 24, 28
_BLOCKS = " ▏▎▍▌▋▊▉█"
_BAD, _WAITING = "bold red", "yellow"


def frame(board: Board, width: int, height: int) -> list[Text]:
    """Return exactly ``height`` lines of at most ``width`` columns."""
    room = max(height, 1)
    events = max(min(_FEW + (room - 12) // 3, room // 2), 0) if room > 2 * _FEW else 0
    head = [_title(board, width), *_troubles(board, width)]
    foot = [_foot(board, width)]
    rows = max(room - len(head) - len(foot) - events - (1 if events else 0), 0)
    body = table(board, width, rows)
    lines = [*head, *body, *([Text("")] * (rows - len(body)))]
    if events:
        lines.append(_heading("EVENTS", width))
        happened = [_event(one, width) for one in board.lines(events)]
        lines += happened + [Text("")] * (events - len(happened))
    lines = [*lines, *foot][:room]
    for line in lines:
        line.truncate(width)
    return lines


def table(board: Board, width: int, height: int) -> list[Text]:
    """Return the head and the rows of the table, in at most ``height`` lines."""
    if height < 2:  # noqa: PLR2004 - a head and one row
        return []
    rows = board.rows()
    widths = _widths(rows, width)
    names = ("STATE", "KEY", "AGE/EXPECTED", "TTL", "HOLDER", "JOB")
    lines = [Text(_line([(name, size) for name, size in zip(names, widths, strict=True)]), "bold")]
    room = height - 1
    board.top = max(min(board.top, len(rows) - room), 0)
    visible = rows[board.top : board.top + room]
    if len(rows) - board.top > room:
        visible = visible[:-1]
    lines += [_row(lock, widths) for lock in visible]
    hidden = len(rows) - board.top - len(visible)
    if hidden > 0:
        lines.append(Text(fit(f"and {hidden:,} more", width), "dim"))
    if not rows:
        lines.append(Text(fit(_nothing(board), width), "dim"))
    return lines


def bar(share: float, size: int) -> str:
    """Return a bar of so many columns, filled to a share between 0 and 1."""
    eighths = round(max(min(share, 1.0), 0.0) * size * 8)
    full, part = divmod(eighths, 8)
    text = "█" * full + (_BLOCKS[part] if part else "")
    return text.ljust(size)


def _row(lock: LockState, widths: Sequence[int]) -> Text:
    left = "none" if lock.ttl_seconds is None else duration_text(lock.ttl_seconds)
    share = None
    if lock.ttl_seconds is not None and lock.lease_seconds:
        share = lock.ttl_seconds / lock.lease_seconds
    ttl = f"{bar(share, _BAR) if share is not None else ' ' * _BAR} {left:>6}"
    age = age_cell(lock)
    if lock.expected_hold_seconds is not None and math.isfinite(lock.expected_hold_seconds):
        age = f"{age}/{duration_text(lock.expected_hold_seconds)}"
    cells = (lock.state, key_cell(lock), age, ttl, holder_cell(lock.holders), job_cell(lock.holder))
    line = Text(_line(list(zip(cells, widths, strict=True))))
    line.stylize(STYLES[lock.state], 0, len(lock.state))
    if share is not None and widths[3]:
        start = sum(widths[:3]) + len(_GAP) * sum(map(bool, widths[:3]))
        line.stylize("red" if share < 1 / 3 else "green", start, start + _BAR)  # late for a renewal, mostly
    return line


def _widths(rows: Sequence[LockState], width: int) -> list[int]:
    """Return the width of each column: the key gets what is left, others go if that is too little."""
    holder = min(max([cell_len(holder_cell(lock.holders)) for lock in rows[:200]] + [6]), _HOLDER)
    job = min(max([cell_len(job_cell(lock.holder)) for lock in rows[:200]] + [3]), _JOB)
    widths = [8, 0, _AGE, _TTL, holder, job]
    longest = max([cell_len(key_cell(lock)) for lock in rows[:200]] + [_LEAST_KEY])
    for gone in (5, 4, 2, 3):
        if width - _taken(widths) >= min(longest, 2 * _LEAST_KEY):
            break
        widths[gone] = 0
    widths[1] = max(width - _taken(widths), 1)
    return widths


def _taken(widths: Sequence[int]) -> int:
    others = [size for place, size in enumerate(widths) if place != 1 and size]
    return sum(others) + len(_GAP) * len(others)


def _title(board: Board, width: int) -> Text:
    clock = datetime.fromtimestamp(board.at).astimezone().strftime("%H:%M:%S") if board.at else ""
    modes = "/".join(sorted({node.mode for node in board.nodes if node.up})) or "not connected"
    paused = "  PAUSED" if board.paused else ""
    text = f"{shown(board.where, 60)}  {shown(modes, 40)}  {summary(board.locks)}{paused}"
    room = max(width - len(clock) - len(_GAP), 1)
    line = Text(set_cell_size(f"{fit(text, room)}{_GAP}{clock}", width))
    line.stylize("reverse")
    return line


def _troubles(board: Board, width: int) -> list[Text]:
    def named(node: NodeStatus) -> str:
        return shown(node_name(node, board.nodes), 150)

    down = [node for node in board.nodes if not node.up]
    lines = [Text(fit(f"{named(node)}: {shown(node.error, 300)}", width), _BAD) for node in down[:3]]
    lines += [
        Text(fit(f"{named(node)}: {node.unreadable:,} keys may not be read by this user", width), _WAITING)
        for node in board.nodes[:3]
        if node.up and node.unreadable
    ]
    return lines + [Text(fit(shown(note, 300), width), "dim") for note in board.notes[:2]]


def _foot(board: Board, width: int) -> Text:
    return Text(fit(KEYS.format(order=board.order, shown=board.shown, events=board.events), width), "dim")


def _heading(text: str, width: int) -> Text:
    return Text(fit(text, width), "bold")


def _event(one: Happening, width: int) -> Text:
    style = _BAD if one.bad else "" if one.routine else _WAITING
    clock, what, name, text = one.parts()
    head = f"{clock} {what} " if width < _NARROW else f"{clock}  {what:<14}  "
    room = width - len(head)
    if room < _LEAST_TEXT:
        return Text(fit(head, max(width, 1)), style)
    # The lock comes first: who and how long get a third where there is room for both.
    share = min(cell_len(text), room // 3)
    named = min(cell_len(name), room if share < min(_LEAST_TEXT, cell_len(text)) else room - share - 2)
    rest = room - named - 2
    told = f"  {fit(text, rest)}" if text and rest >= min(_LEAST_TEXT, cell_len(text)) else ""
    return Text(fit(f"{head}{fit(name, named)}{told}", width), style)


def _nothing(board: Board) -> str:
    if not board.locks:
        return "no lock is held now"
    return f"none of {len(board.locks)} locks is shown: f shows others"


def _line(cells: Sequence[tuple[str, int]]) -> str:
    return _GAP.join(fit(cell, size) for cell, size in cells if size).rstrip()

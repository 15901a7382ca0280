"""A sample of MONITOR as lines of text, 80 columns wide or as wide as there is room. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockscope_exporter.evidence import holder_name
from lockscope_exporter.moments import span
from lockscope_exporter.render import cells_of, fit
from lockscope_exporter.text import duration_text, shown, shown_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lockscope_exporter.contention.report import CallerCount, KeyCount, Report
    from lockscope_exporter.contention.sampler import Progress

_GAP = "  "
_LONGEST = 120  # characters of a key in a pipe
_NOTE = (
    "MONITOR shows commands without their answers. TAKEN and REFUSED are deduced from the order of the\n"
    "commands; UNKNOWN are tries whose outcome nothing told."
)


def warning(nodes: Sequence[str], seconds: float, max_bytes: int) -> str:
    """Return what to say before MONITOR begins."""
    where = nodes[0] if len(nodes) == 1 else f"{len(nodes)} servers"
    return (
        f"MONITOR for {span(seconds)} on {where}: meanwhile the server copies every command that anybody "
        f"sends to this connection, which costs a busy server a good part of its throughput. "
        f"Ends by itself, at {max_bytes // 1_000_000} MB at the latest; Ctrl-C ends it at once."
    )


def progress_line(progress: Mapping[str, Progress], seconds: float, now: float) -> str:
    """Return how far it is, for a terminal."""
    began = [one.began for one in progress.values() if one.began]
    left = max(seconds - (now - min(began)), 0.0) if began else seconds
    commands = sum(one.commands for one in progress.values())
    if all(one.ended for one in progress.values()):
        return f"MONITOR has ended; working up what it printed: {counted(commands)} so far"
    size = sum(one.bytes for one in progress.values())
    rates = [one.rate for one in progress.values() if one.rate is not None]
    load = f", server load before: {sum(rates):,.0f} commands/s" if rates else ""
    return f"{left:4.1f} s left, {counted(commands)}, {megabytes(size)} of MONITOR output{load}"


def lines(report: Report, width: int | None, top: int) -> Iterator[str]:
    """Yield the report.

    Args:
        report: what was heard.
        width: columns, ``None`` for no limit.
        top: rows of each table at most.
    """
    contended = [key for key in report.keys if key.attempts or key.looks]
    if contended:
        yield from _keys(contended[:top], width, several=_several(report))
        if len(contended) > top:
            yield f"and {len(contended) - top} more; --top shows more, --json all"
        yield ""
        pollers = [caller for caller in report.callers if caller.polls]
        if pollers:
            yield from _callers(pollers[:top], width)
            if len(pollers) > top:
                yield f"and {len(pollers) - top} more"
        else:
            yield "nobody asked for a lock again and again"
        yield ""
        yield from _NOTE.splitlines()
    else:
        yield "nobody tried to take a lock or looked at one"
    yield from costs(report)
    for note in report.notes:
        yield f"note: {note}"


def costs(report: Report) -> Iterator[str]:
    """Yield what it cost, and how it ended."""
    ended = {
        "time": "",
        "bytes": ", ended early at the cap on output: rates are of this time only",
        "interrupted": ", ended by Ctrl-C",
        "lost": ", ended early: a server was lost",
    }[report.stopped]
    yield (
        f"listened for {duration_text(report.seconds)}{ended}: {counted(report.commands)}, "
        f"{megabytes(report.output_bytes)} of output"
    )
    for node, cost in report.costs.items():
        yield (
            f"cost on {shown(node, 60)}: MONITOR was {cost.share:.0%} of what the server sent; it worked "
            f"{cost.cpu_during:.0%} of a core, {cost.cpu_before:.0%} just before"
        )
    if report.unreadable:
        yield f"{report.unreadable} lines could not be read"
    if report.beyond:
        yield f"{report.beyond} tries are left out: too many locks or clients at once"


def counted(commands: int) -> str:
    """Return a number of commands for people."""
    return "1 command" if commands == 1 else f"{commands:,} commands"


def megabytes(size: int) -> str:
    """Return a size for people."""
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size / 1e3:.1f} kB"  # noqa: PLR2004


def _keys(keys: Sequence[KeyCount], width: int | None, *, several: bool) -> Iterator[str]:
    head = ("LOCK", "TRIES/S", "TRIES", "TAKEN", "REFUSED", "UNKNOWN", "LOOKS", "CLIENTS")
    rows = [
        (
            _name(key, several=several), f"{key.tries_per_second:.1f}", f"{key.attempts}", f"{key.acquired}",
            f"{key.refused}", f"{key.unknown}", f"{key.looks}", f"{key.callers}",
        )
        for key in keys
    ]  # fmt: skip
    yield from _table(head, rows, width, left=1)


def _callers(callers: Sequence[CallerCount], width: int | None) -> Iterator[str]:
    head = ("WHO KEEPS ASKING", "LOCK", "TIMES/S", "EVERY", "TIMES", "TAKEN")
    rows = [
        (
            _who(caller), _name(caller, several=False), f"{caller.per_second:.1f}",
            "-" if caller.interval is None else span(caller.interval),
            f"{caller.attempts + caller.looks}", f"{caller.acquired}",
        )
        for caller in callers
    ]  # fmt: skip
    yield from _table(head, rows, width, left=2)


def _name(one: KeyCount | CallerCount, *, several: bool) -> str:
    name = shown_key(one.key, _LONGEST)
    if one.field is not None:
        name = f"{name} [{shown_key(one.field, _LONGEST // 2)}]"
    where = f" db{one.db}" if one.db else ""
    return f"{name}{where} @{shown(one.node, 40)}" if several else f"{name}{where}"


def _who(caller: CallerCount) -> str:
    """Name a caller by what its token says, what it calls itself, and its address."""
    address = shown(caller.address, _LONGEST)
    names = []
    if caller.holder is not None and (caller.holder.host or caller.holder.job_type or caller.holder.job_id):
        names.append(holder_name(caller.holder))
    elif caller.name:
        names.append(shown(caller.name, _LONGEST))
    return " ".join([address, *names])


def _several(report: Report) -> bool:
    return len(report.nodes) > 1


def _table(
    head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None, *, left: int
) -> Iterator[str]:
    """Yield a table; its first ``left`` columns are text and share what room the numbers leave."""
    widths = [max(map(cells_of, column)) for column in zip(head, *rows, strict=True)]
    if width is not None:
        room = width - sum(widths[left:]) - len(_GAP) * (len(widths) - 1)
        spread = _shares(widths[:left], max(room, 16 * left))
        widths[:left] = spread
    for row in (head, *rows):
        cells = [
            fit(cell, size) if place < left else " " * (size - cells_of(cell)) + cell
            for place, (cell, size) in enumerate(zip(row, widths, strict=True))
        ]
        yield _GAP.join(cells).rstrip()


def _shares(wanted: Sequence[int], room: int) -> list[int]:
    """Share out room: what one column does not need the others get."""
    given = [0] * len(wanted)
    rest = room
    order = sorted(range(len(wanted)), key=lambda place: wanted[place])
    for number, place in enumerate(order):
        given[place] = min(wanted[place], rest // (len(order) - number))
        rest -= given[place]
    return given

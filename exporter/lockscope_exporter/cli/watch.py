"""``lockscope watch``: the live locks on the terminal, and what happens to them."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from typing import TYPE_CHECKING

import click

from lockscope_exporter import configuration as conf
from lockscope_exporter.cli.errors import FAILED, OK, CommandError
from lockscope_exporter.cli.ls import print_json
from lockscope_exporter.cli.once import View
from lockscope_exporter.connect import verify
from lockscope_exporter.console import console
from lockscope_exporter.listing import STATES, Filter
from lockscope_exporter.options import DURATION, GLOB, TEXT, ListedChoice, option, redis_options
from lockscope_exporter.redis_url import parse_redis_url
from lockscope_exporter.render import lock_lines, plain_lines, summary
from lockscope_exporter.text import duration_text, shown
from lockscope_exporter.watching.board import Board
from lockscope_exporter.watching.screen import frame
from lockscope_exporter.watching.session import Session

if TYPE_CHECKING:
    from rich.console import Console

    from lockscope_exporter.configuration import Options

_KEY_WAIT = 0.1  # seconds between two looks at the size of the terminal
_GATHER = 1.0  # seconds; people need not see faster what changes hundreds of times a second
_FIRST = 60.0  # seconds that the first reading of all locks may take


@click.command(
    epilog="Keys: q quit, p pause, s sort, f filter by state, e choose events, arrows scroll. In a pipe: one "
    "line an event. Changes nothing; ends with status 0 at q or Ctrl-C."
)
@option("--once", is_flag=True, help="Show the locks once and end.")
@option(
    "--json",
    "as_json",
    is_flag=True,
    help="One JSON object an event, one a line; with --once a list, as ls --json.",
)
@option("--refresh", type=DURATION, default="0.5s", help="Time between two looks.")
@option("--duration", type=DURATION, default=None, help="End by itself after this time.")
@option("--journal/--no-journal", default=True, help="Show waiting and losses that the journal tells of.")
@option(
    "--state", "states", type=ListedChoice(STATES), multiple=True, help="Only this state; may be repeated."
)
@option("--key", type=GLOB, default=None, help="Only keys that match this Redis glob.")
@option("--prefix", "wanted_prefixes", type=TEXT, multiple=True, help="Only this prefix, repeatable.")
@redis_options
def command(
    *,
    options: Options,
    once: bool,
    as_json: bool,
    refresh: str,
    duration: str | None,
    journal: bool,
    states: tuple[str, ...],
    key: str | None,
    wanted_prefixes: tuple[str, ...],
) -> int:
    """Watch the locks that are held, and what happens to them, until q or Ctrl-C."""
    targets, sampling = options.targets(), dataclasses.replace(options.sampling(), gather=_GATHER)
    for target in targets:
        verify(target.url, timeout=sampling.timeout)
    wanted = Filter(
        key=conf.glob(key) if key else b"", prefixes=frozenset(wanted_prefixes), states=frozenset(states)
    )
    board = Board(wanted=wanted, where=", ".join(parse_redis_url(target.url).node for target in targets))
    out = console()
    try:
        with Session(
            targets, sampling, board, journal=journal and not once, refresh=conf.duration(refresh)
        ) as session:
            if not session.wait_ready(_FIRST):
                raise CommandError(
                    f"reading took longer than {duration_text(_FIRST)}; "
                    "visit more keys a second with --scan-budget"
                )
            until = time.monotonic() + conf.duration(duration) if duration else float("inf")
            if once:
                return show_once(session, out, as_json=as_json)
            if out.is_terminal and not as_json:
                watch(session, out, until)
            else:
                follow(session, until, as_json=as_json)
    except KeyboardInterrupt:
        pass
    return OK


def watch(session: Session, out: Console, until: float) -> None:
    """Show a screen until a key, Ctrl-C or the time ends it."""
    from lockscope_exporter.watching.terminal import Terminal  # noqa: PLC0415 - there is no termios on Windows

    with Terminal(out) as terminal:
        size = (0, 0)
        while time.monotonic() < until:
            changed = terminal.size != size
            if not session.until_due():
                session.look()
                changed = True
            if changed:
                size = terminal.size
                terminal.show(frame(session.board, *size))
            for key in terminal.keys(min(session.until_due(), _KEY_WAIT)):
                if session.board.press(key):
                    return
                size = (0, 0)


def follow(session: Session, until: float, *, as_json: bool) -> None:
    """Print a line an event until Ctrl-C or the time ends it."""
    board = session.board
    first = True
    while time.monotonic() < until:
        happened = session.look()
        if first and not as_json:
            emit(f"watching {shown(board.where, 200)}: {summary(board.locks)}")
        first = False
        for one in happened:
            emit(json.dumps(one.to_object(), allow_nan=False) if as_json else one.line())
        time.sleep(min(session.until_due(), max(until - time.monotonic(), 0.0)))


def emit(line: str) -> None:
    """Print a line at once: whoever reads the pipe waits for it."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def show_once(session: Session, out: Console, *, as_json: bool) -> int:
    """Print the locks once, as ``ls`` does."""
    session.look()
    board = session.board
    rows = board.rows()
    if as_json:
        print_json(rows)
    elif out.is_terminal:
        for line in lock_lines(rows, out.width):
            out.print(line)
    else:
        emit("\n".join(plain_lines(rows)))
    if not as_json:
        out.print(summary(rows), style="dim")
    faults = View(board.locks, board.nodes).faults()
    for fault in faults:
        click.echo(f"lockscope watch: incomplete, {fault}", err=True)
    return FAILED if faults else OK

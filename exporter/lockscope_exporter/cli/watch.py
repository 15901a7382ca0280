"""``lockscope watch``: the live locks on the terminal, and what happens to them."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from lockscope_exporter import configuration as conf
from lockscope_exporter.cli.errors import FAILED, OK, CommandError
from lockscope_exporter.cli.ls import print_json
from lockscope_exporter.cli.once import View
from lockscope_exporter.configuration import Options
from lockscope_exporter.connect import verify_any
from lockscope_exporter.console import console
from lockscope_exporter.listing import STATES, Filter
from lockscope_exporter.options import DURATION, GLOB, TEXT, Checked, ListedChoice, option, redis_options
from lockscope_exporter.redis_url import parse_redis_url
from lockscope_exporter.render import lock_lines, plain_lines, summary
from lockscope_exporter.text import duration_text, shown
from lockscope_exporter.watching.address import AnswerError, parse_address
from lockscope_exporter.watching.board import Board
from lockscope_exporter.watching.direct import Direct
from lockscope_exporter.watching.remote import Remote
from lockscope_exporter.watching.screen import frame
from lockscope_exporter.watching.session import Session

if TYPE_CHECKING:
    from rich.console import Console

    from lockscope_exporter.watching.watched import Watched

_KEY_WAIT = 0.1  # seconds between two looks at the size of the terminal
_ASK_EVERY = 0.5  # seconds between two questions to an exporter
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
    "--exporter",
    type=Checked("url", parse_address),
    default=None,
    help="Watch through this exporter, as in http://exporter:9963, instead of asking Redis: needs no access "
    "to Redis and costs it nothing.",
)
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
    exporter: str | None,
    states: tuple[str, ...],
    key: str | None,
    wanted_prefixes: tuple[str, ...],
) -> int:
    """Watch the locks that are held, and what happens to them, until q or Ctrl-C."""
    every = conf.duration(refresh)
    watched, where = through(exporter, every, journal=journal) or direct(
        options, journal=journal and not once
    )
    wanted = Filter(
        key=conf.glob(key) if key else b"", prefixes=frozenset(wanted_prefixes), states=frozenset(states)
    )
    board = Board(wanted=wanted, where=where)
    out = console()
    try:
        with Session(watched, board, refresh=every) as session:
            if not session.wait_ready(_FIRST):
                advice = "visit more keys a second with --scan-budget"
                if isinstance(watched, Remote):
                    advice = watched.trouble or f"{where} is still reading"
                raise CommandError(f"reading took longer than {duration_text(_FIRST)}; {advice}")
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


def direct(options: Options, *, journal: bool) -> tuple[Watched, str]:
    """Return what watches at Redis itself, and what to call it.

    Raises:
        UrlError, OptionError: an option cannot be used.
        ConnectError: no target can be reached; one that cannot, beside others, is shown as away.
    """
    targets, sampling = options.targets(), dataclasses.replace(options.sampling(), gather=_GATHER)
    verify_any((target.url for target in targets), timeout=sampling.timeout)
    where = ", ".join(parse_redis_url(target.url).node for target in targets)
    return Direct(targets, sampling, journal=journal), where


def through(exporter: str | None, every: float, *, journal: bool) -> tuple[Watched, str] | None:
    """Return what watches through an exporter, and what to call it; ``None`` if none is to be asked.

    Raises:
        CommandError: the exporter cannot be used, or Redis is named beside it.
    """
    if not exporter:
        return None
    origin = click.get_current_context().get_parameter_source
    given = [name for name in Options.__dataclass_fields__ if origin(name) is ParameterSource.COMMANDLINE]
    if given:
        if origin("exporter") is not ParameterSource.COMMANDLINE:
            return None  # what the command line says goes before the environment
        other = given[0].removesuffix("_file").replace("_", "-")
        raise CommandError(f"--exporter and --{other} exclude each other: the exporter has its own settings")
    address = parse_address(exporter)
    remote = Remote(address, every=max(every, _ASK_EVERY), journal=journal)
    try:
        remote.check()
    except AnswerError as error:
        raise CommandError(f"exporter {address.shown}: {error}") from error
    return remote, f"exporter {address.shown}"


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

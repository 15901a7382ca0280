"""``lockscope ls``: the locks that are held now, as a table or as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from lockscope_exporter import configuration as conf
from lockscope_exporter.cli.errors import FAILED, OK
from lockscope_exporter.cli.once import read_once
from lockscope_exporter.dialects import dialect
from lockscope_exporter.garbage import without_collections
from lockscope_exporter.listing import ORDERS, STATES, Filter, lock_object, select
from lockscope_exporter.options import (
    DURATION,
    GLOB,
    TEXT,
    Checked,
    ListedChoice,
    Whole,
    option,
    redis_options,
)
from lockscope_exporter.render import on_terminal, plain_lines, styled_lines, summary
from lockscope_exporter.text import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockscope_exporter.cli.once import View
    from lockscope_exporter.configuration import Options
    from lockscope_exporter.state import LockState


@click.command(
    epilog="Reads once and changes nothing. Ages are known where the owner's token tells when it was taken. "
    "Exit status: 0 whatever was found, also nothing; 2 a server could not be read, or not completely."
)
@option("--json", "as_json", is_flag=True, help="Print a JSON list, one object a lock.")
@option(
    "--state", "states", type=ListedChoice(STATES), multiple=True, help="Only this state; may be repeated."
)
@option("--key", type=GLOB, default=None, help="Only keys that match this Redis glob.")
@option("--prefix", "wanted_prefixes", type=TEXT, multiple=True, help="Only this prefix, repeatable.")
@option(
    "--dialect",
    "dialects",
    type=Checked("dialect", dialect),
    multiple=True,
    help="Only this dialect, repeatable.",
)
@option("--host", default="", help="Only locks that this host holds.")
@option("--job-type", default="", help="Only locks of this job type.")
@option("--sort", "order", type=click.Choice(tuple(ORDERS)), default="urgency", help="Order of the list.")
@option("--limit", type=Whole(1), default=None, help="Show at most so many.")
@option("--wait", type=DURATION, default="60s", help="Longest time that reading may take.")
@redis_options
def command(
    *,
    options: Options,
    as_json: bool,
    states: tuple[str, ...],
    key: str | None,
    wanted_prefixes: tuple[str, ...],
    dialects: tuple[str, ...],
    host: str,
    job_type: str,
    order: str,
    limit: int | None,
    wait: str,
) -> int:
    """List the locks that are held now, the most urgent first."""
    wanted = Filter(
        key=conf.glob(key) if key else b"",
        prefixes=frozenset(wanted_prefixes),
        states=frozenset(states),
        dialects=frozenset(dialect(name).name for name in dialects),
        host=host,
        job_type=job_type,
    )
    with without_collections():
        view = read_once(options, conf.duration(wait))
        found = select(view.locks, wanted, order)
        some = found if limit is None else found[:limit]
        if as_json:
            print_json(some)
        else:
            print_table(view, found, some, options.locks)
    faults = view.faults()
    for fault in faults:
        click.echo(f"lockscope ls: incomplete, {fault}", err=True)
    return FAILED if faults else OK


def print_json(locks: Sequence[LockState]) -> None:
    """Print a JSON list with one object a line, plain ASCII whatever the keys hold."""
    encode = json.JSONEncoder(check_circular=False, allow_nan=False).encode
    lines = ",\n ".join(encode(lock_object(lock)) for lock in locks)
    click.echo(f"[{lines}]")


def print_table(
    view: View, found: Sequence[LockState], some: Sequence[LockState], patterns: Sequence[str]
) -> None:
    """Print a table; on a terminal also how many there are, and what to do if there are none."""
    terminal = on_terminal()
    if terminal:
        _show(found, some)
    elif some:
        click.echo("\n".join(plain_lines(some)))
    if not view.locks and not view.faults():
        hint = "; name the keys to look at with --locks 'PATTERN'"
        if patterns:
            hint = f" under {shown(', '.join(patterns), 200)}; lockscope doctor tells what lies there"
        click.echo(f"no lock found{hint}", err=True)
    elif view.locks and not found:
        click.echo(f"no lock matches the filters; held are {summary(view.locks)}", err=True)


def _show(found: Sequence[LockState], some: Sequence[LockState]) -> None:
    """Print a table and the count on a terminal."""
    from lockscope_exporter.console import console, painted  # noqa: PLC0415 - a pipe does without

    out = console()
    if some:
        click.echo("\n".join(painted(out, styled_lines(some, out.width))))
    if found:
        more = f" ({len(found) - len(some)} not shown)" if len(found) > len(some) else ""
        out.print(f"\n{summary(found)}{more}", style="dim")

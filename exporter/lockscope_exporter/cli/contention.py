"""``lockscope contention``: who wants which lock, from a short look at MONITOR."""

from __future__ import annotations

import json
import shutil
import sys
import time
from typing import TYPE_CHECKING

import click

from lockscope.prefixes import Prefixes
from lockscope_exporter import configuration as conf
from lockscope_exporter.cli.errors import FAILED, INTERRUPTED, OK, CommandError
from lockscope_exporter.contention import present
from lockscope_exporter.contention.report import report_object
from lockscope_exporter.contention.run import run
from lockscope_exporter.contention.sampler import Plan
from lockscope_exporter.dialects import DEFAULT_PATTERNS, KNOWN_GLOBS
from lockscope_exporter.nodes import Server, servers
from lockscope_exporter.options import TEXT, Checked, Whole, option, redis_options
from lockscope_exporter.sampling.watch import Watch
from lockscope_exporter.targets import LockPattern
from lockscope_exporter.text import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockscope_exporter.configuration import Options
    from lockscope_exporter.contention.report import Report
    from lockscope_exporter.contention.sampler import Progress

LONGEST = 10.0  # seconds
_MEGABYTE = 1_000_000


def listening_time(text: str) -> float:
    """Read how long to listen.

    Raises:
        OptionError: it is no duration, or longer than is good for a server.
    """
    seconds = conf.duration(text)
    if seconds > LONGEST:
        raise conf.OptionError(
            f"{shown(text, 40)} is too long: MONITOR slows the server down; at most {LONGEST:.0f}s"
        )
    return seconds


@click.command(
    epilog="Changes nothing in Redis. Needs the permission to run MONITOR; PTTL, CLIENT LIST and INFO make "
    "the result better. Status 2 if a server could not be listened to."
)
@option(
    "--seconds", type=Checked("duration", listening_time), default="2s",
    help="How long to listen, at most 10s.",
)  # fmt: skip
@option(
    "--max-megabytes", type=Whole(1, 512), default=32,
    help="End when MONITOR has printed so much, of all servers together.",
)  # fmt: skip
@option(
    "--node", "wanted", type=TEXT, multiple=True, help="Only this node of a cluster, host:port, repeatable."
)
@option("--top", type=Whole(1), default=20, help="Locks and clients to show.")
@option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
@redis_options
def command(
    *, options: Options, seconds: str, max_megabytes: int, wanted: tuple[str, ...], top: int, as_json: bool
) -> int:
    """Show who tries to take which lock, how often and in vain, whatever library or language.

    Listens with MONITOR for a moment, so it sees every client. Without --locks: every key that looks like a
    lock of a known library, and every key that is set with NX and an expiry.
    """
    sampling = options.sampling()
    found = chosen(options, wanted, sampling.timeout)
    plan = Plan(
        seconds=listening_time(seconds),
        max_bytes=max_megabytes * _MEGABYTE,
        timeout=sampling.timeout,
        admits=admits(options),
        anywhere=not options.locks,
        prefix=Prefixes(sampling.prefix_patterns, sampling.max_prefixes).of,
        dbs=frozenset(options.db),
    )
    click.echo(present.warning([server.name for server in found], plan.seconds, plan.max_bytes), err=True)
    progress = _Line(plan.seconds)
    try:
        report, interrupted = run(found, plan, progress)
    finally:
        progress.clear()
    if report.errors and not report.commands:
        node, error = next(iter(report.errors.items()))
        raise CommandError(f"MONITOR on {shown(node, 80)}: {error}")
    show(report, top, as_json=as_json)
    for node, error in report.errors.items():
        click.echo(f"lockscope contention: incomplete, {shown(node, 80)}: {error}", err=True)
    return INTERRUPTED if interrupted else FAILED if report.errors else OK


def chosen(options: Options, wanted: tuple[str, ...], timeout: float) -> list[Server]:
    """Return the servers to listen to.

    Raises:
        UrlError, ConnectError: they cannot be found.
        CommandError: there is no node of a wanted name.
    """
    every = [server for target in options.targets() for server in servers(target.url, timeout)]
    found = list({server.name: server for server in every}.values())  # MONITOR shows all databases at once
    unknown = set(wanted) - {server.name for server in found}
    if unknown:
        names = ", ".join(server.name for server in found)
        raise CommandError(f"no node is called {shown(min(unknown), 80)}; there are {names}")
    return [server for server in found if not wanted or server.name in wanted]


def admits(options: Options) -> Watch:
    """Return what tells by its name whether a key may be a lock."""
    patterns = [pattern for target in options.targets() for pattern in target.patterns]
    if not patterns:
        patterns = [*DEFAULT_PATTERNS, *(LockPattern(glob) for glob in KNOWN_GLOBS)]
    return Watch(patterns)


def show(report: Report, top: int, *, as_json: bool) -> None:
    """Print a report."""
    if as_json:
        click.echo(json.dumps(report_object(report), allow_nan=False, indent=1))
        return
    width = shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else None
    for line in present.lines(report, width, top):
        click.echo(line)


class _Line:
    """A line on the terminal that says how far it is; nothing where stderr is no terminal."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._shown = False

    def __call__(self, progress: Mapping[str, Progress]) -> None:
        """Show it anew."""
        if sys.stderr.isatty():
            text = present.progress_line(progress, self._seconds, time.monotonic())
            room = shutil.get_terminal_size((80, 24)).columns - 1
            sys.stderr.write(f"\r{text[:room]:<{room}}")
            sys.stderr.flush()
            self._shown = True

    def clear(self) -> None:
        """Take it away."""
        if self._shown:
            room = shutil.get_terminal_size((80, 24)).columns - 1
            sys.stderr.write(f"\r{'':<{room}}\r")
            sys.stderr.flush()

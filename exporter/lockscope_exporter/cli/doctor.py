"""``lockscope doctor``: is this Redis fit to keep locks, and does lockscope see them all?"""

from __future__ import annotations

import json
import shutil
import sys
from typing import TYPE_CHECKING

import click

from lockscope_exporter import configuration as conf
from lockscope_exporter.cli.errors import FINDING, OK, CommandError
from lockscope_exporter.console import console
from lockscope_exporter.doctor import examine, present
from lockscope_exporter.doctor.finding import FINDINGS
from lockscope_exporter.doctor.gather import gather
from lockscope_exporter.options import DURATION, Checked, Whole, option, redis_options

if TYPE_CHECKING:
    from lockscope_exporter.configuration import Options
    from lockscope_exporter.doctor.finding import Finding

_FILE_WIDTH = 100  # columns where no terminal says how wide it is


def visibility(text: str) -> tuple[str, float]:
    """Read ``PREFIX=DURATION``; a duration alone is for every prefix.

    Raises:
        OptionError: there is no duration.
    """
    name, _, value = text.strip().rpartition("=")
    return name or "*", conf.duration(value)


def moment(text: str) -> float:
    """Read a duration that may be 0.

    Raises:
        OptionError: it is none.
    """
    return 0.0 if text.strip() == "0" else conf.duration(text)


@click.command(
    epilog="Changes nothing. Exit status: 0 all is fine, or not known; 1 something wants to be done; 2 no "
    "server can be asked."
)
@option(
    "--observe", type=Checked("duration", moment), default="3s", help="Watch locks for so long; 0 looks once."
)
@option(
    "--scan-keys", type=Whole(1), default=100_000,
    help="Keys of each database to look at, in search of locks that no pattern watches.",
)  # fmt: skip
@option(
    "--visibility-timeout", "timeouts", type=Checked("prefix=duration", visibility), multiple=True,
    help="Time after which the queue delivers a job again, as in lock:order:*=1h or 1h for all, repeatable.",
)  # fmt: skip
@option("--wait", type=DURATION, default="60s", help="Longest time that reading all locks may take.")
@option("--quiet", is_flag=True, help="Leave out what is fine.")
@option("--json", "as_json", is_flag=True, help="Print a JSON list, one object a finding.")
@redis_options
def command(
    *,
    options: Options,
    observe: str,
    scan_keys: int,
    timeouts: tuple[str, ...],
    wait: str,
    quiet: bool,
    as_json: bool,
) -> int:
    """Check servers, permissions, patterns, locks and TTLs, and say what to do.

    TTL advice rests on past holds: give the exporter's --state-file, or turn the journal on.
    """
    try:
        evidence = gather(
            options.targets(),
            options.sampling(),
            observe=moment(observe),
            wait=conf.duration(wait),
            scan_keys=scan_keys,
            visibility=dict(map(visibility, timeouts)),
            say=_say,
        )
    finally:
        _say("")
    if evidence.servers and all(server.error for server in evidence.servers):
        first = evidence.servers[0]
        raise CommandError(f"Redis {first.name}: {first.error}")
    findings = [one for one in examine(evidence) if not (quiet and one.severity == "ok")]
    show(findings, as_json=as_json)
    return FINDING if any(one.severity in FINDINGS for one in findings) else OK


def show(findings: list[Finding], *, as_json: bool) -> None:
    """Print the findings."""
    if as_json:
        rows = ",\n ".join(json.dumps(finding.to_object(), allow_nan=False) for finding in findings)
        click.echo(f"[{rows}]")
        return
    out = console()
    for line in present.lines(findings, out.width if out.is_terminal else _FILE_WIDTH):
        if out.is_terminal:
            out.print(line)
        else:
            click.echo(line.plain)


def _say(what: str) -> None:
    """Say on a terminal what is being done; an empty text takes it away."""
    if sys.stderr.isatty():
        room = shutil.get_terminal_size((80, 24)).columns - 1
        sys.stderr.write(f"\r{what[:room]:<{room}}\r")  # in spaces: not every terminal knows escapes
        sys.stderr.flush()

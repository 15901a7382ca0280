"""``lockscope dashboards``: write the Grafana dashboards."""

from __future__ import annotations

from pathlib import Path

import click

from lockscope_exporter.alerts.options import RUNBOOK_BASE_URL
from lockscope_exporter.cli.errors import CommandError
from lockscope_exporter.options import TEXT, option
from lockscope_exporter.shipped import DashboardOptions, ShippedFileError, write_dashboards


@click.command()
@option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("lockscope-dashboards"),
    help="Folder to write into; made if need be.",
)  # fmt: skip
@option("--runbook-base-url", default=RUNBOOK_BASE_URL, help="URL of the folder that holds AlertName.md.")
@option("--only", type=TEXT, multiple=True, help="Dashboard to write, such as overview, repeatable.")
def command(*, out: Path, runbook_base_url: str, only: tuple[str, ...]) -> None:
    """Write the Grafana dashboards, as JSON files to import or to provision."""
    try:
        written = write_dashboards(out, DashboardOptions(runbook_base_url, only))
    except ShippedFileError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        where = error.filename or out
        raise CommandError(f"cannot write to {where}: {error.strerror}; choose another --out") from error
    for path in written:
        click.echo(path)

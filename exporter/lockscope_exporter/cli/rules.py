"""``lockscope rules``: write the recording and alerting rules, with one's own numbers."""

from __future__ import annotations

from pathlib import Path

import click

from lockscope_exporter import configuration as conf
from lockscope_exporter.alerts import RuleOptions
from lockscope_exporter.alerts.options import DASHBOARD_BASE_URL, RUNBOOK_BASE_URL, RuleOptionError
from lockscope_exporter.alerts.thresholds import THRESHOLDS
from lockscope_exporter.cli.errors import CommandError
from lockscope_exporter.options import TEXT, Checked, Real, option
from lockscope_exporter.shipped import RuleFormat, ShippedFileError, write_rules


def number(text: str) -> tuple[str, float]:
    """Read ``NAME=NUMBER``; a number alone is for ``*``.

    Raises:
        OptionError: there is no number.
    """
    name, _, value = text.strip().rpartition("=")
    try:
        return name or "*", float(value)
    except ValueError:
        raise conf.OptionError(f'"{text}" is not NAME=NUMBER') from None


def seconds(text: str) -> tuple[str, float]:
    """Read ``PREFIX=DURATION``; a duration alone is for ``*``.

    Raises:
        OptionError: there is no duration.
    """
    name, _, value = text.strip().rpartition("=")
    return name or "*", conf.duration(value)


@click.command()
@option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("lockscope-rules"),
    help="Folder to write into; made if need be.",
)  # fmt: skip
@option(
    "--format", "form", type=click.Choice(["prometheus", "operator", "grafana"]), default="prometheus",
    help="Rule files for Prometheus, one PrometheusRule manifest for the operator, or alerts for Grafana.",
)  # fmt: skip
@option("--runbook-base-url", default=RUNBOOK_BASE_URL, help="URL of the folder that holds AlertName.md.")
@option("--dashboard-base-url", default=DASHBOARD_BASE_URL, help="URL of Grafana, for links in alerts.")
@option("--only", type=TEXT, multiple=True, help="Alert to write, with or without RedisLock, repeatable.")
@option("--skip", type=TEXT, multiple=True, help="Alert to leave out, repeatable.")
@option("--threshold", type=Checked("name=number", number), multiple=True, help="Another number, repeatable.")
@option(
    "--objective", type=Checked("prefix=share", number), multiple=True,
    help="Share of acquires of a prefix that must succeed, as in lock:order:*=0.999, repeatable.",
)  # fmt: skip
@option(
    "--visibility-timeout", type=Checked("prefix=duration", seconds), multiple=True,
    help="Time after which the queue delivers a job again, as in lock:order:*=1h, repeatable.",
)  # fmt: skip
@option("--label", type=TEXT, multiple=True, help="Label to keep in alerts, such as cluster, repeatable.")
@option(
    "--window-scale", type=Real(), default=1.0, help="Factor on every window; below 1 only for rehearsals."
)
@option("--list-thresholds", is_flag=True, help="List the numbers that --threshold can change, and end.")
def command(
    *,
    out: Path,
    form: RuleFormat,
    runbook_base_url: str,
    dashboard_base_url: str,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    threshold: tuple[str, ...],
    objective: tuple[str, ...],
    visibility_timeout: tuple[str, ...],
    label: tuple[str, ...],
    window_scale: float,
    list_thresholds: bool,
) -> None:
    """Write the Prometheus recording and alerting rules."""
    if list_thresholds:
        width = max(map(len, THRESHOLDS))
        for name, entry in THRESHOLDS.items():
            click.echo(f"{name:{width}}  {entry.default:<6g}  {entry.help}")
        return
    try:
        options = RuleOptions(
            runbook_base_url=runbook_base_url,
            dashboard_base_url=dashboard_base_url,
            only=only,
            skip=skip,
            thresholds=dict(map(number, threshold)),
            objectives=dict(map(number, objective)),
            visibility_timeouts=dict(map(seconds, visibility_timeout)),
            labels=label,
            window_scale=window_scale,
        )
        written = write_rules(out, options, form)
    except (RuleOptionError, ShippedFileError) as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        where = error.filename or out
        raise CommandError(f"cannot write to {where}: {error.strerror}; choose another --out") from error
    for path in written:
        click.echo(path)

"""The files shipped for Prometheus, Grafana and Alertmanager: where they are, and how to write them out.

An installed wheel carries them as package data; an editable checkout reads the repository's own folders.
Rules are written from the table, so that options take effect; dashboards are copied.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lockscope_exporter.alerts import RuleOptions, compile_rules
from lockscope_exporter.alerts.grafana import alert_rule_file
from lockscope_exporter.alerts.options import RUNBOOK_BASE_URL
from lockscope_exporter.alerts.writer import dump, prometheus_rule

Kind = Literal["dashboards", "rules", "alertmanager", "provisioning", "runbooks"]
RuleFormat = Literal["prometheus", "operator", "grafana"]

_PACKAGED = Path(__file__).parent / "_shipped"
_CHECKOUT = Path(__file__).parents[2]
_FOLDERS: dict[Kind, str] = {
    "dashboards": "grafana/dashboards",
    "rules": "grafana/rules",
    "alertmanager": "grafana/alertmanager",
    "provisioning": "grafana/provisioning",
    "runbooks": "docs/runbooks",
}


_EDIT_THE_TABLE = "Written by `lockscope rules`: change it with the options of that command, not by hand."


class ShippedFileError(Exception):
    """A shipped file is missing or a name does not exist; the message says which and what to do."""


@dataclass(frozen=True, slots=True)
class DashboardOptions:
    """How to write the dashboards.

    Attributes:
        runbook_base_url: URL of the folder that holds ``<AlertName>.md``, for their links.
        only: names to write, such as ``overview``; empty means all.
    """

    runbook_base_url: str = RUNBOOK_BASE_URL
    only: tuple[str, ...] = ()


def folder(kind: Kind) -> Path:
    """Return the folder of the shipped files of one kind.

    Raises:
        ShippedFileError: the installation lacks it.
    """
    for candidate in (_PACKAGED / kind, _CHECKOUT / _FOLDERS[kind]):
        if candidate.is_dir():
            return candidate
    raise ShippedFileError(
        f"this installation has no {kind}; install lockscope from its wheel or a full checkout"
    )


def write_rules(
    out: Path, options: RuleOptions | None = None, form: RuleFormat = "prometheus"
) -> tuple[Path, ...]:
    """Write the recording and alerting rules into a folder, which is made if need be.

    Args:
        out: folder; what this function wrote there before is replaced, other files are left alone.
        options: what to write and with which numbers.
        form: ``prometheus`` for one rule file a group, ``operator`` for one PrometheusRule manifest,
            ``grafana`` for recording rules as Prometheus reads them and alerts as Grafana provisions them.

    Returns:
        The files written, in the order they should be loaded.

    Raises:
        RuleOptionError: an option cannot be used.
        OSError: the folder or a file cannot be written.
    """
    files = rule_files(options or RuleOptions(), form)
    written = _write(out, files)
    # A group that is no longer wanted must not go on being loaded.
    for name in sorted({path.name for path in out.glob("lockscope-*.yml")} - files.keys()):
        if (out / name).read_text(encoding="utf-8", errors="replace").startswith(f"# {_EDIT_THE_TABLE}"):
            (out / name).unlink()
    return written


def rule_files(options: RuleOptions, form: RuleFormat = "prometheus") -> dict[str, str]:
    """Return the text of each rule file by file name."""
    recording, alerting = compile_rules(options)
    if form == "operator":
        manifest = prometheus_rule([*recording, *alerting])
        return {"lockscope-prometheusrule.yml": dump(manifest, _EDIT_THE_TABLE)}
    groups = recording if form == "grafana" else [*recording, *alerting]
    files = {rule_file_name(group["name"]): dump({"groups": [group]}, _EDIT_THE_TABLE) for group in groups}
    if form == "grafana":
        files["lockscope-grafana-alerts.yml"] = dump(alert_rule_file(alerting), _EDIT_THE_TABLE)
    return files


def rule_file_name(group: str) -> str:
    """Return the name of the file that holds a group; one group a file, so that each can be loaded alone."""
    return f"{group.replace('.', '-')}.yml"


def write_dashboards(out: Path, options: DashboardOptions | None = None) -> tuple[Path, ...]:
    """Write the Grafana dashboards into a folder, which is made if need be.

    Args:
        out: folder; files of the same names are replaced, others are left alone.
        options: which dashboards, and where their runbook links lead.

    Returns:
        The files written.

    Raises:
        ShippedFileError: ``only`` names a dashboard that does not exist, or the installation has none.
        OSError: the folder or a file cannot be written.
    """
    options = options or DashboardOptions()
    shipped = {
        path.stem.removeprefix("lockscope-"): path for path in sorted(folder("dashboards").glob("*.json"))
    }
    unknown = [name for name in options.only if name.removeprefix("lockscope-") not in shipped]
    if unknown:
        raise ShippedFileError(f"unknown dashboard {unknown[0]!r}; known: {', '.join(shipped)}")
    chosen = [name.removeprefix("lockscope-") for name in options.only] or list(shipped)
    # Inside JSON: a base URL with a quote or a backslash must not break the file.
    base_url = json.dumps(options.runbook_base_url.rstrip("/"))[1:-1]
    return _write(
        out,
        {
            shipped[name].name: shipped[name].read_text(encoding="utf-8").replace(RUNBOOK_BASE_URL, base_url)
            for name in chosen
        },
    )


def _write(out: Path, files: dict[str, str]) -> tuple[Path, ...]:
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in files.items():
        path = out / name
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return tuple(written)

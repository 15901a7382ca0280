"""Prometheus for the demo: its configuration, and the file that names the workers as they come and go."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import yaml

from lockscope_exporter.demo.scrape import WORKER_METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


# The demo's workers are scraped themselves, so what the exporter says of them from the journal is left out.
_FROM_JOURNAL = f"({'|'.join(sorted(WORKER_METRICS))})(_total|_bucket|_count|_sum)?"


def command(folder: Path, listen: str, exporter: str, rules: Path) -> list[str] | None:
    """Write the configuration and return the command that runs Prometheus.

    Args:
        folder: where configuration and data go.
        listen: ``host:port`` to serve on.
        exporter: ``host:port`` of the exporter.
        rules: folder of the shipped rule files.

    Returns:
        The command, or ``None`` where no ``prometheus`` binary is found.
    """
    binary = shutil.which("prometheus")
    if binary is None:
        return None
    write_workers(folder, {})
    configuration = {
        "global": {"scrape_interval": "2s", "evaluation_interval": "2s"},
        "rule_files": [str(rules / "*.yml")],
        "scrape_configs": [
            {
                "job_name": "lockscope",
                "static_configs": [{"targets": [exporter]}],
                "metric_relabel_configs": [
                    {"source_labels": ["__name__"], "regex": _FROM_JOURNAL, "action": "drop"}
                ],
            },
            {
                "job_name": "workers",
                "file_sd_configs": [{"files": [str(folder / "workers.json")], "refresh_interval": "2s"}],
            },
        ],
    }
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(configuration))
    return [
        binary,
        f"--config.file={path}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address={listen}",
        "--log.level=warn",
    ]


def write_workers(folder: Path, ports: Mapping[str, int]) -> None:
    """Write the workers' ports where Prometheus looks for them; it follows changes by itself."""
    groups = [
        {"targets": [f"127.0.0.1:{port}"], "labels": {"worker": name}} for name, port in sorted(ports.items())
    ]
    part = folder / "workers.json.part"
    part.write_text(json.dumps(groups))
    part.rename(folder / "workers.json")

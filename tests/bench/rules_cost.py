"""Cost of the shipped rules: evaluation time by group, with a day of history behind 200 prefixes.

The history is written into Prometheus' storage beforehand, so that windows of hours and of a day read what they
read in production. Bar: all groups together under 100 ms.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lockscope.catalog import CATALOG, Metric
from lockscope_exporter.alerts import RuleOptions
from lockscope_exporter.alerts.build import compile_rules
from lockscope_exporter.shipped import write_rules
from monitoring import PrometheusServer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PREFIXES = 200
SCRAPE = 15  # seconds between two samples
LONG, SHORT = 6 * 3600, 900  # seconds of raw series behind the longest windows and behind those of minutes
LONG_WINDOWS = ("_ttl_used_ratio", "_hold_seconds_sum", "_renew_headroom_ratio", "_renew_total")
DAY = 26 * 3600  # seconds of recorded series: a day, offset by up to two hours
RECORDED_EVERY = 120  # seconds, the interval of the history groups
BLOCK = 2 * 3600  # seconds of a block of Prometheus' storage


def series(metric: Metric, prefixes: int) -> Iterator[str]:
    """Yield the sample names, with labels, of a metric for one process and some prefixes."""
    exporter = metric.origin == "exporter"
    origin = 'job="lockscope",instance="ls:9963"' if exporter else 'job="workers",instance="web:9100"'
    fixed = {"job_type": "invoice", "db": "0", "target": "default", "node": "r:6379", "dialect": "redis-py"}
    variants: list[list[str]] = [[origin]]
    for label in metric.labels:
        if label == "prefix":
            values: tuple[str, ...] = tuple(f"lock:family{number}:*" for number in range(prefixes))
        else:
            values = metric.values.get(label, (fixed.get(label, "x"),))
        variants = [[*variant, f'{label}="{value}"'] for variant in variants for value in values]
    histogram = metric.kind in ("histogram", "gaugehistogram")
    for variant in variants:
        labels = ",".join(variant)
        if not histogram:
            yield f"{metric.name}{{{labels}}}"
            continue
        for bound in (*metric.buckets, "+Inf"):
            yield f'{metric.name}_bucket{{{labels},le="{bound}"}}'
        yield f"{metric.name}_sum{{{labels}}}"
        yield f"{metric.name}_count{{{labels}}}"


def long(name: str) -> bool:
    """Tell whether a window of hours reads a series."""
    of_a_window = any(part in name for part in LONG_WINDOWS)
    return of_a_window and ("_bucket" not in name or re.search(r'le="0\.[128]"', name) is not None)


def openmetrics(names: Iterable[str], start: int, end: int, step: int) -> Iterator[str]:
    """Yield samples of growing series in OpenMetrics, as promtool's backfill reads them."""
    for number, name in enumerate(names):
        for at in range(start - start % -step, end, step):
            yield f"{name} {at * (1 + number % 5) // step} {at}\n"


def recorded() -> Iterator[str]:
    """Yield the recorded series that windows of hours and of a day read."""
    for record in (rule["record"] for group in compile_rules()[0] for rule in group["rules"]):
        if not record.endswith(("increase5m", "min30m")):
            continue
        by_exporter = "observed" in record or "keys" in record
        home = 'job="lockscope",target="default",db="0"' if by_exporter else 'job="workers"'
        level = record.split(":")[0]
        extra = {"prefix_how": ',how="released"', "prefix_outcome": ',outcome="first"'}.get(level, "")
        for number in range(PREFIXES):
            yield f'{record}{{{home},prefix="lock:family{number}:*"{extra}}}'


def backfill(folder: Path, now: int) -> int:
    """Write the history into Prometheus' data folder; return the number of scraped series."""
    raw = [name for metric in CATALOG for name in series(metric, PREFIXES)]
    raw += ['up{job="lockscope",instance="ls:9963"}', 'up{job="workers",instance="web:9100"}']
    promtool = shutil.which("promtool") or "promtool"
    path = folder / "history.om"
    # One block a call: promtool reads its whole input once for each block.
    for block in range((now - DAY) // BLOCK * BLOCK, now, BLOCK):
        end = min(block + BLOCK, now)
        with path.open("w") as out:
            out.writelines(openmetrics(recorded(), max(block, now - DAY), end, RECORDED_EVERY))
            out.writelines(openmetrics(filter(long, raw), max(block, now - LONG), end, SCRAPE))
            short = (name for name in raw if not long(name))
            out.writelines(openmetrics(short, max(block, now - SHORT), end, SCRAPE))
            out.write("# EOF\n")
        command = [promtool, "tsdb", "create-blocks-from", "openmetrics", str(path)]
        subprocess.run([*command, str(folder / "prometheus" / "data")], check=True, capture_output=True)
    path.unlink()
    return len(raw)


def main() -> None:
    """Print the evaluation time of each group."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "prometheus").mkdir()
        count = backfill(folder, int(time.time()))
        write_rules(folder / "rules", RuleOptions())
        server = PrometheusServer(
            folder / "prometheus", [], rules=str(folder / "rules" / "*.yml"), interval="5s"
        )
        try:
            time.sleep(130)
            groups = server.rule_groups()
        finally:
            server.close()
    print(f"{PREFIXES} prefixes, {count} series scraped, one worker process and one exporter")
    for group in groups:
        print(
            f"  {group['name']:28} every {group['interval']:>4g} s  {group['evaluationTime'] * 1000:7.1f} ms"
        )
    print(f"  {'all':28}             {sum(g['evaluationTime'] for g in groups) * 1000:7.1f} ms")

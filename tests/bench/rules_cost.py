"""Cost of the shipped rules: evaluation time by group, with a day of history behind 200 prefixes.

The history is written into Prometheus' storage beforehand, so that windows of hours and of a day read what
they read in production. Bar: all groups together under 100 ms.
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
SHORT = 1800  # seconds of scraped series: their longest window is 10 minutes
DAY = 26 * 3600  # seconds of recorded series: a day, offset by up to two hours
RECORDED_EVERY = {"2m": 120, "4m": 240}  # seconds, by interval of a group
EVERY = 5  # seconds between two evaluations here
WARM_UP, MEASURED = 15, 45  # seconds
# A service where all goes well: successes and times grow, failures stay at 0, every server is there.
GROWS = re.compile(r'outcome="(acquired|released|renewed|first)"|how="released"|_(sum|count|bucket)\{')
STANDS = re.compile(r'^up|_up\{|eviction_safe|state="held"|:increase')
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


def openmetrics(names: Iterable[str], start: int, end: int, step: int) -> Iterator[str]:
    """Yield samples of growing series in OpenMetrics, as promtool's backfill reads them."""
    for number, name in enumerate(names):
        slope, level = (1 + number % 5, 0) if GROWS.search(name) else (0, 1 if STANDS.search(name) else 0)
        for at in range(start - start % -step, end, step):
            yield f"{name} {level + at * slope // step} {at}\n"


def recorded(interval: str) -> Iterator[str]:
    """Yield what a slower group of an interval records: what windows of hours and of a day read."""
    more = {"prefix_outcome": ',outcome="first"', "prefix_job_type": ',job_type="invoice"'}
    for group in compile_rules()[0]:
        for record in (rule["record"] for rule in group["rules"]):
            level = record.split(":")[0]
            if (
                group.get("interval") != interval
                or level.startswith("instance")
                or record.endswith("ratio1d")
            ):
                continue
            if re.search("failed|expired|late|tight|loose", record):
                continue  # what is 0 is not recorded
            by_exporter = "observed" in record or "keys" in record
            home = 'job="lockscope",target="default",db="0"' if by_exporter else 'job="workers"'
            for number in range(PREFIXES):
                yield f'{record}{{{home},prefix="lock:family{number}:*"{more.get(level, "")}}}'


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
            for interval, step in RECORDED_EVERY.items():
                out.writelines(openmetrics(recorded(interval), max(block, now - DAY), end, step))
            out.writelines(openmetrics(raw, max(block, now - SHORT), end, SCRAPE))
            out.write("# EOF\n")
        command = [promtool, "tsdb", "create-blocks-from", "openmetrics", str(path)]
        subprocess.run([*command, str(folder / "prometheus" / "data")], check=True, capture_output=True)
    path.unlink()
    return len(raw)


def cost(server: PrometheusServer) -> dict[str, float]:
    """Let every group be evaluated several times; return the best time of each in seconds."""
    best: dict[str, float] = {}
    time.sleep(WARM_UP)  # loading, the first compaction
    until = time.monotonic() + MEASURED
    while time.monotonic() < until:
        time.sleep(EVERY)
        for group in server.rule_groups():
            best[group["name"]] = min(
                best.get(group["name"], group["evaluationTime"]), group["evaluationTime"]
            )
    return best


def main() -> None:
    """Print the evaluation time of each group."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "prometheus").mkdir()
        count = backfill(folder, int(time.time()))
        write_rules(folder / "rules", RuleOptions())
        for path in (folder / "rules").glob("*.yml"):
            # Every group as often as the fast ones: each shall be measured.
            path.write_text(re.sub(r"^  interval: .*\n", "", path.read_text(), flags=re.MULTILINE))
        glob = str(folder / "rules" / "*.yml")
        server = PrometheusServer(folder / "prometheus", [], rules=glob, interval=f"{EVERY}s")
        try:
            best = cost(server)
        finally:
            server.close()
    print(f"{PREFIXES} prefixes, {count} series scraped, one worker process and one exporter")
    for group, seconds in best.items():
        print(f"  {group:28} {seconds * 1000:7.1f} ms")
    print(f"  {'all (bar: 100 ms)':28} {sum(best.values()) * 1000:7.1f} ms")

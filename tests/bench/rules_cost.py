"""Cost of the shipped rules: evaluation time by group, with a day of history behind 200 prefixes.

The history is there as in production: what was recorded for three days in blocks, the last of it and what
was scraped in memory, so that every window reads what it reads there. A tenth of the prefixes has failures.
Bar: under 100 ms, for all groups that happen to be due at one moment; beside it stands an average evaluation,
where each slower group counts by how often it is due. A rule's time is the one that Prometheus tells of it.
"""

from __future__ import annotations

import itertools
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from lockscope.catalog import CATALOG, Metric
from lockscope_exporter.alerts import RuleOptions
from lockscope_exporter.alerts.build import compile_rules
from lockscope_exporter.alerts.promql import duration_seconds
from lockscope_exporter.alerts.recording import (
    ACQUIRES_INTERVAL,
    HALF_HOURS_INTERVAL,
    HISTORY_INTERVAL,
)
from lockscope_exporter.shipped import write_rules
from monitoring import PrometheusServer
from servers import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PREFIXES = 200
SHIPPED_INTERVAL = 15  # seconds between evaluations in the shipped prometheus.yml
SCRAPE = 15  # seconds between two samples
STEPS = 12  # samples of a series in one answer, while the target tells what was
SCRAPED = 900  # seconds of scraped series: their longest window is 10 minutes
IN_MEMORY = 3000  # seconds of recorded series that are in no block yet; Prometheus takes up to an hour
HOUR = 3600
# Seconds between samples and seconds of history, by interval of a group: the longest windows reach that far.
RECORDED = {
    ACQUIRES_INTERVAL: (120, 26 * HOUR),
    HISTORY_INTERVAL: (240, 26 * HOUR),
    HALF_HOURS_INTERVAL: (1800, 74 * HOUR),
}
WARM_UP, MEASURED = 20, 90  # seconds
EVERY, LATER = 5.0, 0.37  # seconds between two evaluations of the first group here; more for each further one
# A service where nearly all goes well. By pattern, first match wins: growth between two samples, and level.
BEHAVIOUR = tuple(
    (re.compile(pattern), growth, level)
    for pattern, growth, level in (
        (r"^\w+:\w*failed:", 0, 0.25),  # what is recorded is growth already
        (r"^\w+:", 0, 100),
        (r'_ratio_bucket.*le="0\.[0-4]', 0, 0),
        (r'family\d*0:.*outcome="timeout"', 0.01, 0),
        (r'wait_seconds.*outcome="(contended|timeout|error)"', 0, 0),
        (r"wait_seconds_sum", 0.2, 0),
        (r"_ratio_sum", 2, 0),
        (r'outcome="(acquired|released|renewed|first)"|how="released"|_(sum|count|bucket)\{', 4, 0),
        (r'^up|_up\{|eviction_safe|state="held"', 0, 1),
        (r"", 0, 0),
    )
)
DEAREST = 30  # rules to print
BLOCK = "18h"  # what Prometheus makes of older blocks of 2 hours


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


def samples(names: Iterable[str], times: Iterable[int], unit: int = 1) -> Iterator[str]:
    """Yield a line for each series and time; ``unit`` is how many of the format's units a second has."""
    times = list(times)
    for name in names:
        growth, level = next((g, v) for pattern, g, v in BEHAVIOUR if pattern.search(name))
        for at in times:
            yield f"{name} {level + int(at * growth / SCRAPE)} {at * unit}\n"


def recorded(interval: str) -> Iterator[str]:
    """Yield what a slower group of an interval records: what windows of hours and of days read."""
    more = {
        "prefix_outcome": ',outcome="first"',
        "prefix_job_type": ',job_type="invoice"',
        "prefix_job_type_outcome": ',job_type="invoice",outcome="first"',
        "prefix_how": ',how="released"',
    }
    for group in compile_rules()[0]:
        for record in (rule["record"] for rule in group["rules"]):
            level = record.split(":")[0]
            if group.get("interval") != interval or level.startswith("instance") or "ratio" in record:
                continue
            # What is 0 is not recorded.
            if re.search("expired|late|tight|loose|of_long|rising", record):
                continue
            by_exporter = "observed" in record or "keys" in record
            home = 'job="lockscope",target="default",db="0"' if by_exporter else 'job="workers"'
            for number in range(0, PREFIXES, 10 if "failed" in record else 1):
                yield f'{record}{{{home},prefix="lock:family{number}:*"{more.get(level, "")}}}'


def ticks(start: int, end: int, step: int) -> range:
    """Return the multiples of a step in a span."""
    return range(start + -start % step, end, step)


def scraped() -> list[str]:
    """Return the series of one worker and one exporter, and those of every scrape."""
    names = [name for metric in CATALOG for name in series(metric, PREFIXES)]
    for origin in ('job="lockscope",instance="ls:9963"', 'job="workers",instance="web:9100"'):
        names += [f"up{{{origin}}}", f"process_start_time_seconds{{{origin}}}"]
    return names


def write_blocks(folder: Path, until: int) -> None:
    """Write what was recorded into Prometheus' data folder, up to a time."""
    path = folder / "history.om"
    with path.open("w") as out:
        for interval, (step, past) in RECORDED.items():
            out.writelines(samples(recorded(interval), ticks(until - past, until, step)))
        out.write("# EOF\n")
    promtool = shutil.which("promtool") or "promtool"
    command = [promtool, "tsdb", "create-blocks-from", "openmetrics", f"--max-block-duration={BLOCK}"]
    data = folder / "prometheus" / "data"
    subprocess.run([*command, str(path), str(data)], check=True, capture_output=True)
    path.unlink()


class Target:
    """A target that first tells the last minutes, several steps a scrape, and then what is now."""

    def __init__(self, now: int) -> None:
        self.names = scraped()
        self.caught_up = threading.Event()
        self._answers = self._tell(now)
        self._one_at_a_time = threading.Lock()
        target = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = target.answer()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.address = f"127.0.0.1:{self._server.server_address[1]}"

    def answer(self) -> bytes:
        """Return the next answer to a scrape."""
        with self._one_at_a_time:
            return next(self._answers).encode()

    def _tell(self, now: int) -> Iterator[str]:
        yield "".join(
            line
            for interval, (step, _) in RECORDED.items()
            for line in samples(recorded(interval), ticks(now - IN_MEMORY, now - 240, step), 1000)
        )
        for at in itertools.count(now - SCRAPED, STEPS * SCRAPE):
            if at > time.time():
                break
            yield "".join(samples(self.names, range(at, at + STEPS * SCRAPE, SCRAPE), 1000))
        self.caught_up.set()
        while True:
            yield "".join(samples(self.names, [int(time.time())], 1000))

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()


def cost(server: PrometheusServer) -> dict[tuple[str, int, str], float]:
    """Let every group be evaluated several times; return the best time of each rule in seconds.

    By group, place in it and name. The intervals differ, so that no two groups meet every time. A rule is
    short enough to be left alone at times, on a machine where others work too.
    """
    best: dict[tuple[str, int, str], float] = {}
    time.sleep(WARM_UP)  # loading, the first compaction
    until = time.monotonic() + MEASURED
    while time.monotonic() < until:
        time.sleep(EVERY / 2)
        for group in server.rule_groups():
            for number, rule in enumerate(group["rules"]):
                name = (group["name"], number, rule["name"])
                best[name] = min(best.get(name, rule["evaluationTime"]), rule["evaluationTime"])
    return best


def write_frequent_rules(folder: Path) -> None:
    """Write the rules with intervals so short that each group is evaluated several times."""
    write_rules(folder, RuleOptions())
    for number, path in enumerate(sorted(folder.glob("*.yml"))):
        text = re.sub(r"^  interval: .*\n", "", path.read_text(), flags=re.MULTILINE)
        interval = rf"\1  interval: {round((EVERY + LATER * number) * 1000)}ms\n"
        path.write_text(re.sub(r"^(- name: .*\n)", interval, text, flags=re.MULTILINE))


def main() -> None:
    """Print the evaluation time of each group, and the dearest rules."""
    every = {group["name"]: group.get("interval", "") for half in compile_rules() for group in half}

    def share(group: str, seconds: float) -> float:
        """Return what a group costs at each evaluation, on average, with the interval that is shipped."""
        interval = every[group]
        return seconds * SHIPPED_INTERVAL / duration_seconds(interval) if interval else seconds

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "prometheus").mkdir()
        now = int(time.time()) // SCRAPE * SCRAPE
        write_blocks(folder, now - IN_MEMORY)
        write_frequent_rules(folder / "rules")
        target = Target(now)
        job = {
            "job_name": "bench",
            "honor_labels": True,
            "static_configs": [{"targets": [target.address]}],
            # What is recorded has no instance.
            "metric_relabel_configs": [
                {
                    "source_labels": ["__name__"],
                    "regex": ".*:.*",
                    "target_label": "instance",
                    "replacement": "",
                }
            ],
        }
        server = PrometheusServer(folder / "prometheus", [job], interval="10s")
        try:
            wait_until(target.caught_up.is_set, timeout=300, every=0.5, what="Prometheus to take the history")
            path = folder / "prometheus" / "prometheus.yml"
            configuration = yaml.safe_load(path.read_text())
            configuration["global"]["scrape_interval"] = f"{SCRAPE}s"
            configuration["rule_files"] = [str(folder / "rules" / "*.yml")]
            path.write_text(yaml.safe_dump(configuration))
            server.process.popen.send_signal(signal.SIGHUP)
            best = cost(server)
        finally:
            server.close()
            target.close()
    groups: dict[str, float] = {}
    for (group, _, _), seconds in best.items():
        groups[group] = groups.get(group, 0) + seconds
    print(f"{PREFIXES} prefixes, {len(target.names)} series scraped, one worker process and one exporter")
    for group, seconds in groups.items():
        print(f"  {group:28} {seconds * 1000:7.1f} ms")
    seldom = {group for group, interval in every.items() if interval == HALF_HOURS_INTERVAL}
    often = sum(seconds for group, seconds in groups.items() if group not in seldom)
    print(f"  {'all at one moment (bar: 100)':28} {sum(groups.values()) * 1000:7.1f} ms")
    print(f"  {'all but the half hours':28} {often * 1000:7.1f} ms")
    print(f"  {'an evaluation on average':28} {sum(map(share, groups, groups.values())) * 1000:7.1f} ms")
    print("  the dearest rules:")
    for seconds, (group, number, rule) in sorted(((v, k) for k, v in best.items()), reverse=True)[:DEAREST]:
        print(f"  {seconds * 1000:7.1f} ms  {group} {number}: {rule}")

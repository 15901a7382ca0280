"""Documentation pages that the catalogue and the table of rules write."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockscope.catalog import BY_NAME, CATALOG, Metric
from lockscope_exporter.alerts import GROUPS, THRESHOLDS, Alert, RuleOptions, compile_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

_MADE = "<!-- Written by `python -m grafana.generate`: edit the catalogue or the table of rules instead. -->"
_METRICS_INTRODUCTION = """\
Workers expose the first group through `lockscope.instrument()`, the exporter the second. Labels are bounded:
a key, an owner, a token or a host is never one. `prefix` is the family of a key, written as a Redis glob, at
most `LOCKSCOPE_MAX_PREFIXES` (200) of them in a process."""
_SERIES_INTRODUCTION = """\
The most that N prefixes can cost; what never happens has no series. A histogram of waiting has series only
for the outcomes that a lock really has."""
_RECORDED_INTRODUCTION = """\
The recording rules add these. The first part of a name lists the labels kept beside `job`; what comes from an
exporter keeps `target` and `db` too."""
_RUNBOOKS_INTRODUCTION = """\
One page an alert. `lockscope rules` writes the rules with other thresholds, only some alerts, or links to
runbooks of your own; `lockscope rules --help` lists the options."""


def metrics_page() -> str:
    """Return the page that lists every metric and what the series cost."""
    lines = ["# Metrics", "", _MADE, "", _METRICS_INTRODUCTION, ""]
    for title, chosen in (("Workers", ("shim", "both")), ("Exporter", ("exporter",))):
        lines += [f"## {title}", "", "| metric | type | labels | meaning |", "|---|---|---|---|"]
        lines += [_row(metric) for metric in CATALOG if metric.origin in chosen]
        lines.append("")
    lines += _cardinality()
    lines += ["## Recorded series", "", _RECORDED_INTRODUCTION, "", *(f"- `{name}`" for name in _records())]
    return "\n".join(lines) + "\n"


def _row(metric: Metric) -> str:
    labels = ", ".join(
        f"`{label}`" + (f" ({', '.join(metric.values[label])})" if label in metric.values else "")
        for label in metric.labels
    )
    return f"| `{metric.name}` | {metric.kind} | {labels or '(none)'} | {metric.help} |"


def series_of(metric: Metric) -> int:
    """Return the series that one prefix (or one process or node) costs, with one value of each open label.

    Open labels are those that a deployment decides: job type, dialect, reason.
    """
    count = 1
    for label in metric.labels:
        count *= len(metric.values.get(label, (label,)))
    if metric.kind in ("histogram", "gaugehistogram"):
        count *= len(metric.buckets) + 3  # +Inf, _sum, _count
    return count


def _cardinality() -> list[str]:
    by_prefix = [metric for metric in CATALOG if "prefix" in metric.labels]
    worker = sum(series_of(metric) for metric in by_prefix if metric.origin == "shim")
    family = sum(series_of(metric) for metric in by_prefix if metric.origin == "exporter")
    node = sum(series_of(metric) for metric in CATALOG if "node" in metric.labels)
    rows = (
        ("one worker process", f"{worker} for each prefix and job type of it", worker, 0),
        ("one exporter", f"{family} for each prefix (one dialect), {node} for each node", family, node),
        (
            "recording rules",
            f"{_recorded_count()} for each prefix (one job type, one process)",
            _recorded_count(),
            0,
        ),
    )
    table = [
        f"| {where} | {each} | {factor * 10 + fixed:,} | {factor * 200 + fixed:,} |"
        for where, each, factor, fixed in rows
    ]
    head = ["| where | series | with 10 prefixes | with 200 |", "|---|---|---|---|"]
    return ["## How many series", "", _SERIES_INTRODUCTION, "", *head, *table, ""]


_COUNTER = re.compile(r'(redis_lock_\w+_total)(?:\{\w+(!?=)~?"([^"]*)"\})?')


def _recorded_count() -> int:
    """Return the recorded series for one prefix of one job type, taken by one worker: at most so many."""
    return sum(
        recorded_series_of(rule["record"], rule["expr"])
        for group in compile_rules()[0]
        for rule in group["rules"]
        if not rule["record"].startswith("instance:")
    )


def recorded_series_of(name: str, expr: str) -> int:
    """Return the series that a recording rule makes for one prefix of one job type, at most.

    Args:
        name: its name, whose level may end with a label that tells kinds of events apart.
        expr: its PromQL, which may choose some values of that label.
    """
    level, metric, _ = name.split(":")
    label = level.rpartition("_")[2]
    found = _COUNTER.search(expr)
    counter, operator, chosen = found.groups() if found else (f"{metric}_total", None, None)
    values = BY_NAME[counter].values.get(label) if counter in BY_NAME else None
    if values is None or operator is None:
        return len(values or "1")
    return sum((value in chosen.split("|")) == (operator == "=") for value in values)


def _records() -> Iterator[str]:
    for group in compile_rules()[0]:
        for rule in group["rules"]:
            yield rule["record"]


def runbook_index() -> str:
    """Return the page that lists the alerts with their severity, and the thresholds that can be changed."""
    lines = ["# Runbooks", "", _MADE, "", _RUNBOOKS_INTRODUCTION, ""]
    lines += ["| alert | severity | says |", "|---|---|---|"]
    seen: dict[str, list[Alert]] = {}
    for group in GROUPS:
        for rule in group.rules:
            if isinstance(rule, Alert):
                seen.setdefault(rule.name, []).append(rule)
    for name, rules in seen.items():
        severities = ", ".join(dict.fromkeys(rule.severity for rule in rules))
        lines.append(f"| [{name}]({name}.md) | {severities} | {_plain(rules[0].summary)} |")
    lines += ["", "## Thresholds", "", "| name | default | bounds |", "|---|---|---|"]
    lines += [f"| `{t.name}` | {t.default:g} | {t.help} |" for t in THRESHOLDS.values()]
    defaults = RuleOptions()
    objective, timeout = defaults.default_objective, defaults.default_visibility_timeout
    lines += [
        "",
        f"The objective of acquiring is {objective:.0%}, the visibility timeout {timeout:g} s, unless",
    ]
    lines += ["`--objective` and `--visibility-timeout` say otherwise, for all prefixes or for some."]
    return "\n".join(lines) + "\n"


def _plain(template: str) -> str:
    """Return a summary with words in place of the template's fields."""
    words = {"$labels.prefix": "lock:order:*", "$labels.job_type": "invoice", "$labels.job": "workers"}
    words |= {"$labels.node": "10.0.0.5:6379", "$labels.target": "default"}
    text = template
    for field, word in words.items():
        text = text.replace("{{ " + field + " }}", word)
    for function, example in (
        ("humanizePercentage", "25%"),
        ("humanizeDuration", "8m 0s"),
        ("humanize", "3"),
        ("count", "3"),
    ):
        text = text.replace("{{ $value | " + function + " }}", example)
    return text.replace("{{ $value }}", "1")

"""From the table and the options to plain Prometheus rule groups."""

from __future__ import annotations

import re
from typing import Any

from lockscope_exporter.alerts.limits import limits
from lockscope_exporter.alerts.model import ALERT_PREFIX, Alert, Group, Record
from lockscope_exporter.alerts.options import RuleOptionError, RuleOptions
from lockscope_exporter.alerts.promql import fill, scale_duration, translate
from lockscope_exporter.alerts.table import ALERT_NAMES, ALERTING, RECORDING
from lockscope_exporter.alerts.thresholds import THRESHOLDS

RuleGroup = dict[str, Any]
_RECORDED = re.compile(r"\b[a-z_]+:redis_lock_\w+:\w+")


def compile_rules(options: RuleOptions | None = None) -> tuple[list[RuleGroup], list[RuleGroup]]:
    """Return the recording and the alerting groups as Prometheus reads them.

    Recording rules that no chosen alert uses are left out, except ``instance_prefix``: for dashboards.

    Raises:
        RuleOptionError: ``only`` or ``skip`` names an alert that does not exist, or nothing is left.
    """
    options = options or RuleOptions()
    chosen = _chosen(options)
    alerting = [compiled for group in ALERTING if (compiled := _compile(group, options, chosen))["rules"]]
    recording = [_compile(group, options, chosen) for group in (*RECORDING, limits(options))]
    used = _used(recording, alerting)
    for group in recording:
        group["rules"] = [rule for rule in group["rules"] if rule["record"] in used]
    return [group for group in recording if group["rules"]], alerting


def _chosen(options: RuleOptions) -> frozenset[str]:
    only, skip = (tuple(map(_full_name, names)) for names in (options.only, options.skip))
    chosen = frozenset(only or ALERT_NAMES) - frozenset(skip)
    if not chosen:
        raise RuleOptionError("no alert is left: everything that was asked for is also skipped")
    return chosen


def _full_name(name: str) -> str:
    full = name if name.startswith(ALERT_PREFIX) else ALERT_PREFIX + name
    if full not in ALERT_NAMES:
        short = ", ".join(known.removeprefix(ALERT_PREFIX) for known in ALERT_NAMES)
        raise RuleOptionError(f"unknown alert {name!r}; known: {short}")
    return full


def _compile(group: Group, options: RuleOptions, chosen: frozenset[str]) -> RuleGroup:
    compiled: RuleGroup = {"name": group.name}
    if group.interval:
        compiled["interval"] = scale_duration(group.interval, options.window_scale)
    compiled["rules"] = [
        _record(rule, options) if isinstance(rule, Record) else _alert(rule, options)
        for rule in group.rules
        if isinstance(rule, Record) or rule.name in chosen
    ]
    return compiled


def _expr(expr: str, options: RuleOptions) -> str:
    return translate(expr, labels=options.labels, thresholds=_thresholds(options), scale=options.window_scale)


def _thresholds(options: RuleOptions) -> dict[str, float]:
    return {name: options.thresholds.get(name, each.default) for name, each in THRESHOLDS.items()}


def _record(rule: Record, options: RuleOptions) -> dict[str, Any]:
    return {"record": rule.name, "expr": _expr(rule.expr, options)}


def _alert(rule: Alert, options: RuleOptions) -> dict[str, Any]:
    compiled: dict[str, Any] = {"alert": rule.name, "expr": _expr(rule.expr, options)}
    if rule.pending:
        compiled["for"] = scale_duration(rule.pending, options.window_scale)
    if rule.keep:
        compiled["keep_firing_for"] = scale_duration(rule.keep, options.window_scale)
    about = {"about": rule.about} if rule.about else {}
    compiled["labels"] = {"severity": rule.severity, **about, **rule.labels}
    texts = _thresholds(options)
    compiled["annotations"] = {
        "summary": fill(rule.summary, texts),
        "description": fill(rule.description, texts),
        "runbook_url": f"{options.runbook_base_url.rstrip('/')}/{rule.name}.md",
        "dashboard_url": _dashboard_url(rule, options),
    }
    return compiled


def _dashboard_url(rule: Alert, options: RuleOptions) -> str:
    """Return the link with the alert's labels as variables, percent-encoded by ``urlquery``."""
    variables = "".join(f"&var-{name}={{{{ $labels.{name} | urlquery }}}}" for name in rule.variables)
    return f"{options.dashboard_base_url.rstrip('/')}/d/{rule.dashboard}?from=now-3h&to=now{variables}"


def _used(recording: list[RuleGroup], alerting: list[RuleGroup]) -> set[str]:
    """Return the names of the recording rules that the alerts need, directly or through each other."""
    expressions = {rule["record"]: rule["expr"] for group in recording for rule in group["rules"]}
    pending = [rule["expr"] for group in alerting for rule in group["rules"]]
    used = {name for name in expressions if name.startswith("instance_prefix:")}
    pending += [expressions[name] for name in used]
    while pending:
        expr = pending.pop()
        named = set(_RECORDED.findall(expr))
        named |= {name for name in expressions if _matched_by_name_regex(name, expr)}
        for name in (named & expressions.keys()) - used:
            used.add(name)
            pending.append(expressions[name])
    return used


def _matched_by_name_regex(name: str, expr: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in re.findall(r'__name__=~"([^"]+)"', expr))

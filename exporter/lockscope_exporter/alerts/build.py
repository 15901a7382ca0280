"""From the table and the options to plain Prometheus rule groups."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lockscope_exporter.alerts.limits import limits
from lockscope_exporter.alerts.model import ALERT_PREFIX, Alert, Group, Record
from lockscope_exporter.alerts.options import RuleOptionError, RuleOptions
from lockscope_exporter.alerts.promql import scale_duration, translate, words
from lockscope_exporter.alerts.table import ALERT_NAMES, ALERTING, RECORDING
from lockscope_exporter.alerts.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from collections.abc import Iterable

RuleGroup = dict[str, Any]
FOR_DASHBOARDS = "instance_prefix"  # the level that dashboards read: they select by instance
_RECORDED = re.compile(r"\b[a-z_]+:redis_lock_\w+:\w+")


def compile_rules(options: RuleOptions | None = None) -> tuple[list[RuleGroup], list[RuleGroup]]:
    """Return the recording and the alerting groups as Prometheus reads them.

    Recording rules that neither a chosen alert nor a dashboard uses are left out.

    Raises:
        RuleOptionError: ``only`` or ``skip`` names an alert that does not exist, or nothing is left.
    """
    options = options or RuleOptions()
    chosen = _chosen(options)
    alerting = [compiled for group in ALERTING if (compiled := _compile(group, options, chosen))["rules"]]
    recording = [_compile(group, options, chosen) for group in (*RECORDING, limits(options))]
    dashboards = {name for group in recording for name in _records(group) if name.startswith(FOR_DASHBOARDS)}
    used = recorded_for(alerting, recording, dashboards)
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
        "summary": words(rule.summary, texts),
        "description": words(rule.description, texts),
        "runbook_url": f"{options.runbook_base_url.rstrip('/')}/{rule.name}.md",
        "dashboard_url": _dashboard_url(rule, options),
    }
    return compiled


def _dashboard_url(rule: Alert, options: RuleOptions) -> str:
    """Return the link with the alert's labels as variables, percent-encoded by ``urlquery``."""
    variables = "".join(f"&var-{name}={{{{ $labels.{name} | urlquery }}}}" for name in rule.variables)
    return f"{options.dashboard_base_url.rstrip('/')}/d/{rule.dashboard}?from=now-3h&to=now{variables}"


def recorded_for(alerting: list[RuleGroup], recording: list[RuleGroup], also: Iterable[str] = ()) -> set[str]:
    """Return the names of the recording rules that the alerts need, directly or through each other.

    Args:
        alerting: compiled groups of alerts.
        recording: compiled groups of recording rules.
        also: names that are needed anyway.
    """
    expressions = {rule["record"]: rule["expr"] for group in recording for rule in group["rules"]}
    used = set(also)
    pending = [rule["expr"] for group in alerting for rule in group["rules"]]
    pending += [expressions[name] for name in used]
    while pending:
        expr = pending.pop()
        named = set(_RECORDED.findall(expr))
        named |= {name for name in expressions if _matched_by_name_regex(name, expr)}
        for name in (named & expressions.keys()) - used:
            used.add(name)
            pending.append(expressions[name])
    return used


def _records(group: RuleGroup) -> list[str]:
    return [rule["record"] for rule in group["rules"]]


def _matched_by_name_regex(name: str, expr: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in re.findall(r'__name__=~"([^"]+)"', expr))

"""The alerts as Grafana provisions them from a file: the same expressions, evaluated by Grafana itself.

Grafana evaluates a query, then a condition on its result. Here every sample that the expression returns
fires, as in Prometheus; the query's empty result is the healthy state, so ``noDataState`` is ``OK``. A series
that is no longer returned while others are has no such state: it fires on for a number of evaluations.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lockscope_exporter.alerts.model import ALERT_PREFIX
from lockscope_exporter.alerts.promql import duration_seconds

if TYPE_CHECKING:
    from lockscope_exporter.alerts.build import RuleGroup

DATASOURCE_UID = "prometheus"
_LOOK_BACK_SECONDS = 600
_DEFAULT_INTERVAL = "1m"


def alert_rule_file(groups: list[RuleGroup], datasource_uid: str = DATASOURCE_UID) -> dict[str, Any]:
    """Return Grafana's alerting provisioning document for alerting groups.

    Args:
        groups: compiled groups with alerting rules only.
        datasource_uid: uid of the Prometheus data source that also evaluates the recording rules.
    """
    return {
        "apiVersion": 1,
        "groups": [
            {
                "orgId": 1,
                "name": group["name"],
                "folder": "lockscope",
                "interval": (interval := group.get("interval", _DEFAULT_INTERVAL)),
                "rules": [_rule(rule, interval, datasource_uid) for rule in group["rules"]],
            }
            for group in groups
        ],
    }


def _rule(rule: dict[str, Any], interval: str, datasource_uid: str) -> dict[str, Any]:
    qualifiers = [value for name, value in rule["labels"].items() if name not in ("severity", "about")]
    title = " ".join([rule["alert"], *qualifiers])  # unique in its folder, and the alertname in Grafana
    compiled: dict[str, Any] = {
        "uid": "-".join(["lockscope", rule["alert"].removeprefix(ALERT_PREFIX), *qualifiers]),
        "title": title,
        "condition": "fires",
        "data": [
            {
                "refId": "A",
                "relativeTimeRange": {"from": _LOOK_BACK_SECONDS, "to": 0},
                "datasourceUid": datasource_uid,
                "model": {"refId": "A", "expr": rule["expr"], "instant": True, "range": False},
            },
            {
                "refId": "fires",
                "datasourceUid": "__expr__",
                "model": {
                    "refId": "fires",
                    "type": "threshold",
                    "expression": "A",
                    # Every value of these alerts is 0 or more: what the expression returns, fires.
                    "conditions": [{"evaluator": {"type": "gt", "params": [-1]}}],
                },
            },
        ],
        "noDataState": "OK",
        "execErrState": "Error",
        "for": rule.get("for", "0s"),
    }
    if "keep_firing_for" in rule:
        compiled["keepFiringFor"] = rule["keep_firing_for"]
        evaluations = duration_seconds(rule["keep_firing_for"]) / duration_seconds(interval)
        compiled["missing_series_evals_to_resolve"] = max(math.ceil(evaluations), 1)
    compiled["labels"] = dict(rule["labels"])
    compiled["annotations"] = {name: _template(text) for name, text in rule["annotations"].items()}
    return compiled


def _template(text: str) -> str:
    """Translate a template: Grafana's ``$value`` is a text of all values, ``$values.A`` the number."""
    return text.replace("$value ", "$values.A.Value ").replace("$value}", "$values.A.Value}")

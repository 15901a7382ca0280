"""Every generated file by its path in the repository."""

from __future__ import annotations

from grafana.generate.boards import BOARDS
from grafana.generate.cases import CASES
from grafana.generate.cases.kit import render as render_cases
from grafana.generate.kit import render
from grafana.generate.pages import metrics_page, runbook_index

from lockscope_exporter.alerts import ALERT_NAMES, RuleOptions
from lockscope_exporter.dialects.manual import manual
from lockscope_exporter.shipped import rule_files


def generated_files() -> dict[str, str]:
    """Return the text of each generated file by path relative to the repository."""
    files = {f"grafana/dashboards/{board.uid}.json": render(board) for board in BOARDS}
    files |= {f"grafana/rules/{name}": text for name, text in rule_files(RuleOptions()).items()}
    files["grafana/kubernetes/lockscope-prometheusrule.yml"] = rule_files(RuleOptions(), "operator")[
        "lockscope-prometheusrule.yml"
    ]
    files["grafana/provisioning/alerting/lockscope.yml"] = rule_files(
        RuleOptions(dashboard_base_url=""), "grafana"
    )["lockscope-grafana-alerts.yml"]
    files["docs/dialects.md"] = manual()
    files["docs/metrics.md"] = metrics_page()
    files["docs/runbooks/README.md"] = runbook_index()
    for alert in ALERT_NAMES:
        cases = [case for case in CASES if case.alert == alert]
        files[f"grafana/rules/tests/{alert}.yml"] = render_cases(cases)
    return files

"""The Grafana dashboards: generated as committed, and every rule of Grafana's dashboard linter holds."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.models import units

from lockscope.catalog import BY_NAME
from lockscope_exporter.alerts.options import RUNBOOK_BASE_URL
from lockscope_exporter.shipped import DashboardOptions, ShippedFileError, write_dashboards

ROOT = Path(__file__).parents[1]
PATHS = sorted((ROOT / "grafana" / "dashboards").glob("*.json"))
BOARDS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in PATHS}
QUERIED = ("stat", "table", "timeseries", "heatmap", "state-timeline", "gauge")
UNITS = {value for name, value in vars(units).items() if isinstance(value, str) and name[0].isupper()}

# What Grafana puts in for variables, chosen to be valid wherever a variable stands.
VARIABLES = {
    "__rate_interval": "1m",
    "__range": "1h",
    "datasource": "prometheus",
    "job": ".+",
    "instance": ".+",
    "prefix": ".+",
    "job_type": ".+",
    "visibility_timeout": "3600",
    "target": ".+",
    "node": ".+",
}


def panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the panels of a board, those inside collapsed rows too, without the rows."""
    found = []
    for panel in board["panels"]:
        found += [panel, *panel.get("panels", [])]
    return [panel for panel in found if panel["type"] != "row"]


def targets(board: dict[str, Any]) -> list[tuple[str, str]]:
    """Return title and PromQL of each query of a board."""
    return [
        (panel["title"], target["expr"])
        for panel in panels(board)
        if panel["type"] in QUERIED
        for target in panel["targets"]
    ]


def filled(text: str) -> str:
    """Return a text with Grafana's variables filled in."""
    return re.sub(r"\$\{?(\w+)\}?", lambda match: VARIABLES[match[1]], text)


def selectors(expr: str) -> list[str]:
    """Return the label matchers of each selector of an expression."""
    without_strings_of_functions = re.sub(r"\b(?:by|without|on|ignoring|group_left)\s*\([^)]*\)", "", expr)
    return re.findall(r"\{([^}]*)\}", without_strings_of_functions)


def variables(board: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the variables of a board by name."""
    return {variable["name"]: variable for variable in board["templating"]["list"]}


@pytest.fixture(params=BOARDS, scope="module")
def board(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Give each shipped dashboard."""
    board: dict[str, Any] = BOARDS[request.param]
    return board


def test_five_boards_have_stable_uids() -> None:
    """The five dashboards are there, and each file is named by the uid that links use."""
    assert set(BOARDS) == {
        "lockscope-overview",
        "lockscope-prefix",
        "lockscope-queues",
        "lockscope-slo",
        "lockscope-exporter",
    }
    assert all(board["uid"] == name for name, board in BOARDS.items())


def test_generated_files_are_current() -> None:
    """Regenerating changes no committed file: dashboards, rules, their tests, provisioning, documentation."""
    result = subprocess.run(
        [sys.executable, "-m", "grafana.generate", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_template_datasource_rule(board: dict[str, Any]) -> None:
    """The one data source variable has the name and the label that Grafana's linter asks for."""
    sources = [variable for variable in board["templating"]["list"] if variable["type"] == "datasource"]
    assert [(one["name"], one["label"], one["query"]) for one in sources] == [
        ("datasource", "Data source", "prometheus")
    ]


@pytest.mark.parametrize("name", ["job", "instance", "prefix", "job_type"])
def test_template_job_and_instance_rules(board: dict[str, Any], name: str) -> None:
    """Job, instance, prefix and job type are multi-select queries with the linter's label and All."""
    variable = variables(board)[name]
    assert variable["type"] == "query"
    assert variable["label"] == name.replace("_", " ").capitalize()
    assert variable["datasource"]["uid"] == "${datasource}"
    assert variable["multi"] is True
    assert variable["includeAll"] is True
    assert variable["allValue"] == ".+"


def test_template_on_time_change_reload_rule(board: dict[str, Any]) -> None:
    """Query variables are refreshed when the time range changes."""
    assert {v["refresh"] for v in variables(board).values() if v["type"] == "query"} == {2}


def test_template_unused_rule(board: dict[str, Any]) -> None:
    """Each variable is used by a query of the board."""
    text = json.dumps(board["panels"])
    for name in variables(board):
        assert re.search(rf"\${{?{name}\b", text), name


def test_panel_datasource_rule(board: dict[str, Any]) -> None:
    """Each panel and query uses the variable data source; the log panel uses the one for logs."""
    for panel in panels(board):
        wanted = "${loki}" if panel["type"] == "logs" else "${datasource}"
        assert panel["datasource"]["uid"] == wanted, panel["title"]
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {wanted}, panel["title"]


def test_panel_title_description_rule(board: dict[str, Any]) -> None:
    """Each panel has a title of its own, a description that ends as a sentence, and a text for no data."""
    titles = [panel["title"] for panel in panels(board)]
    assert len(titles) == len(set(titles))
    for panel in panels(board):
        assert panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["noValue"], panel["title"]


def test_panel_units_rule(board: dict[str, Any]) -> None:
    """Each panel that shows numbers has a unit that Grafana knows."""
    for panel in panels(board):
        if panel["type"] in QUERIED:
            assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]


def test_panel_no_targets_rule(board: dict[str, Any]) -> None:
    """Each panel has a query."""
    assert all(panel["targets"] for panel in panels(board))


def test_target_promql_and_template_label_promql_rules(tmp_path: Path) -> None:
    """Each query, each variable's selector and the annotation are valid PromQL, as promtool reads them."""
    expressions = [expr for board in BOARDS.values() for _, expr in targets(board)]
    for board in BOARDS.values():
        expressions += [one["expr"] for one in board["annotations"]["list"]]
        for variable in variables(board).values():
            if variable["type"] == "query":
                call = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
                assert call, variable["query"]
                expressions.append(call[1])
    # Alerting rules, for promtool would refuse two recording rules of one name and expression.
    rules = [{"alert": f"E{index}", "expr": filled(expr)} for index, expr in enumerate(expressions)]
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    promtool = shutil.which("promtool") or "promtool"
    result = subprocess.run(
        [promtool, "check", "rules", str(path)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{len(expressions)} rules found" in result.stdout


def test_target_logql_and_logql_auto_rules(board: dict[str, Any]) -> None:
    """Each log query selects streams by a matcher, then filters; a range would be Grafana's own."""
    matcher = r'\w+(=|!=|=~|!~)"[^"]*"'
    query = re.compile(rf"\{{{matcher}(, {matcher})*\}}( \| (json|logfmt|{matcher}))*")
    for panel in panels(board):
        for target in panel["targets"] if panel["type"] == "logs" else []:
            assert query.fullmatch(target["expr"]), target["expr"]
            assert set(re.findall(r"\[([^\]]+)\]", re.sub(r'"[^"]*"', "", target["expr"]))) <= {"$__auto"}


def test_target_rate_interval_rule(board: dict[str, Any]) -> None:
    """Each rate is taken over Grafana's rate interval."""
    for title, expr in targets(board):
        assert set(re.findall(r"\bi?rate\([^[]*\[([^\]]+)\]", expr)) <= {"$__rate_interval"}, title


def test_target_job_and_instance_rules(board: dict[str, Any]) -> None:
    """Each selector of each query has the job and the instance variable as matchers."""
    for title, expr in targets(board):
        assert selectors(expr), title
        for matchers in selectors(expr):
            assert 'job=~"$job"' in matchers, (title, expr)
            assert 'instance=~"$instance"' in matchers, (title, expr)


def test_target_counter_agg_rule(board: dict[str, Any]) -> None:
    """Each counter is read through rate or increase."""
    for title, expr in targets(board):
        counters = re.findall(r"(\w+\()?(\w+_total)\b", expr)
        assert all(function in ("rate(", "increase(") for function, _ in counters), (title, expr)


def test_uneditable_dashboard_rule(board: dict[str, Any]) -> None:
    """A provisioned board cannot be edited in place, and has no number of some Grafana's own."""
    assert board["editable"] is False
    assert "id" not in board


def test_queries_name_catalogued_metrics(board: dict[str, Any]) -> None:
    """Each metric of lockscope that a query names is in the catalogue, with the labels it filters by."""
    for title, expr in targets(board):
        for name, matchers in re.findall(r"\b(redis_lock_\w+)\{([^}]*)\}", expr):
            metric = BY_NAME.get(name) or BY_NAME[re.sub(r"_(bucket|sum|count)$", "", name)]
            labels = {part.split("=")[0].strip().rstrip("!") for part in matchers.split(", ")}
            assert labels - {"job", "instance", "le"} <= set(metric.labels), (title, expr)


def test_histogram_queries_show_exemplars(board: dict[str, Any]) -> None:
    """Each query of a worker's histogram over time asks for exemplars."""
    for panel in panels(board):
        for target in panel["targets"]:
            if "_bucket" in target.get("expr", "") and not target.get("instant"):
                assert target["exemplar"] is True, panel["title"]


def test_boards_link_to_each_other_and_show_alerts(board: dict[str, Any]) -> None:
    """Each board links to all of them with variables and time kept, and marks firing alerts in its graphs."""
    assert "lockscope" in board["tags"]
    link, runbooks = board["links"]
    assert runbooks["url"] == RUNBOOK_BASE_URL
    assert link["type"] == "dashboards"
    assert link["tags"] == ["lockscope"]
    assert link["includeVars"] is True
    assert link["keepTime"] is True
    [alerts] = board["annotations"]["list"]
    assert alerts["enable"] is True
    assert 'alertname=~"RedisLock' in alerts["expr"]


def test_tables_of_prefixes_link_to_one_prefix() -> None:
    """Each table's prefix column leads to the board of one prefix, with data source and time kept."""
    tables = [panel for board in BOARDS.values() for panel in panels(board) if panel["type"] == "table"]
    assert tables
    for panel in tables:
        overrides = panel["fieldConfig"]["overrides"]
        [links] = [prop["value"] for one in overrides for prop in one["properties"] if prop["id"] == "links"]
        assert links[0]["url"].startswith("/d/lockscope-prefix?var-prefix=${__value.text:percentencode}")
        assert "${datasource:queryparam}" in links[0]["url"]
        assert "${__url_time_range}" in links[0]["url"]


def test_panels_do_not_overlap(board: dict[str, Any]) -> None:
    """No two panels share a place of the grid, and none is wider than it."""
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


def test_dashboards_are_written_out(tmp_path: Path) -> None:
    """Chosen dashboards are written, as they are shipped, into a folder that is made."""
    written = write_dashboards(tmp_path / "new", DashboardOptions(only=("overview", "lockscope-slo")))
    assert [path.name for path in written] == ["lockscope-overview.json", "lockscope-slo.json"]
    assert json.loads(written[0].read_text(encoding="utf-8")) == BOARDS["lockscope-overview"]
    assert len(write_dashboards(tmp_path / "all")) == len(BOARDS)


def test_runbook_base_url_of_dashboards_is_replaced(tmp_path: Path) -> None:
    """A URL that holds JSON's own characters leaves a valid dashboard without the default URL."""
    url = 'https://wiki.example/a"b\\c/'
    for path in write_dashboards(tmp_path, DashboardOptions(runbook_base_url=url)):
        text = path.read_text(encoding="utf-8")
        assert json.loads(text)["links"][1]["url"] == url.rstrip("/")
        assert RUNBOOK_BASE_URL not in text


def test_unknown_dashboard_is_refused(tmp_path: Path) -> None:
    """An unknown name says which are known and writes nothing."""
    with pytest.raises(ShippedFileError, match="unknown dashboard 'nope'; known: exporter, overview"):
        write_dashboards(tmp_path / "none", DashboardOptions(only=("nope",)))
    assert not (tmp_path / "none").exists()

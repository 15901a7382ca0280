"""The Prometheus rules: complete, clean, as committed; and what their options do."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana.generate.cases import CASES
from grafana.generate.cases.kit import KINDS
from grafana.generate.pages import recorded_series_of

from lockscope.catalog import BY_NAME
from lockscope_exporter.alerts import (
    ALERT_NAMES,
    THRESHOLDS,
    RuleOptionError,
    RuleOptions,
    compile_rules,
)
from lockscope_exporter.alerts.promql import duration_seconds, scale_duration
from lockscope_exporter.shipped import write_rules

ROOT = Path(__file__).parents[1]
RULES = ROOT / "grafana" / "rules"
SHIPPED = [
    rule
    for path in sorted(RULES.glob("*.yml"))
    for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
ALERTS = [rule for rule in SHIPPED if "alert" in rule]
RECORDS = [rule for rule in SHIPPED if "record" in rule]
RECORDED_AT_MOST = 59  # series for each prefix
NAMES = (
    "AcquireFailureSpike",
    "BackendErrors",
    "RenewFailing",
    "HeldTooLong",
    "KeysGrowing",
    "OwnershipLost",
    "Overlap",
    "NoTTL",
    "Orphaned",
    "OrphanedBlocking",
    "Stalled",
    "TTLHeadroomLow",
    "TTLTooShort",
    "TTLTooLong",
    "ReleaseFailing",
    "EndedByExpiry",
    "ContentionHigh",
    "WaitersGrowing",
    "Starved",
    "RetryStorm",
    "DuplicatesSurge",
    "IdempotencyStarving",
    "AcquireSLOBurn",
    "HoldNearVisibilityTimeout",
    "EvictionUnsafe",
    "Evicted",
    "WeakOwner",
    "ProgressStale",
    "ExporterDown",
    "ExporterAbsent",
    "MirrorStale",
    "PrefixOverflow",
    "JournalDropping",
)


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run promtool."""
    command = [shutil.which("promtool") or "promtool", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def check(folder: Path) -> str:
    """Return what promtool's strictest check says of a folder's rule files; fail if it finds anything."""
    result = promtool("check", "rules", "--lint=all", "--lint-fatal", *sorted(folder.glob("*.yml")))
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def unit_test(folder: Path, options: RuleOptions, series: dict[str, str], expected: dict[str, Any]) -> None:
    """Write rules with options and let promtool compare an expression's value at half an hour."""
    write_rules(folder, options)
    recording, alerting = compile_rules(options)
    test = {
        "rule_files": sorted(str(path) for path in folder.glob("*.yml")),
        "evaluation_interval": "1m",
        "group_eval_order": [group["name"] for group in (*recording, *alerting)],
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": [
                    {
                        "expr": expr,
                        "eval_time": "30m",
                        "exp_samples": [
                            {"labels": labels, "value": value} for labels, value in samples.items()
                        ],
                    }
                    for expr, samples in expected.items()
                ],
            }
        ],
    }
    path = folder / "test.yaml"
    path.write_text(yaml.safe_dump(test))
    result = promtool("test", "rules", path)
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_alert_is_shipped() -> None:
    """The alerts of the specification are there, by these names, and no others."""
    assert {rule["alert"] for rule in ALERTS} == {f"RedisLock{name}" for name in NAMES} == set(ALERT_NAMES)


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_alert_is_complete(rule: dict[str, Any]) -> None:
    """Each alert has a severity, texts that name its number and prefix, a runbook and a dashboard link."""
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    notes = rule["annotations"]
    assert notes.keys() == {"summary", "description", "runbook_url", "dashboard_url"}
    keeps_prefix = "prefix" in notes["dashboard_url"]
    for text in (notes["summary"], notes["description"]):
        assert ("{{ $labels.prefix }}" in text) == keeps_prefix, text
    if rule["labels"].get("long_window") is None:
        assert "$value" in notes["description"]
    assert "$value" in notes["summary"] + notes["description"]
    assert "${" not in json.dumps(notes)
    assert notes["runbook_url"].endswith(f"/docs/runbooks/{rule['alert']}.md")
    link = re.fullmatch(r"http://localhost:3000/d/([\w-]+)\?from=now-3h&to=now(.*)", notes["dashboard_url"])
    assert link
    board = json.loads((ROOT / "grafana" / "dashboards" / f"{link[1]}.json").read_text(encoding="utf-8"))
    known = {variable["name"] for variable in board["templating"]["list"]}
    for name, label in re.findall(r"&var-(\w+)=\{\{ \$labels\.(\w+) \| urlquery \}\}", link[2]):
        assert name == label
        assert name in known


@pytest.mark.parametrize("alert", ALERT_NAMES)
def test_alert_has_unit_tests_of_each_kind(alert: str) -> None:
    """Each alert has promtool cases for firing, silence, boundary, restart, absent series and flapping."""
    assert {case.kind for case in CASES if case.alert == alert} == set(KINDS)
    fires = [case for case in CASES if case.alert == alert and case.kind == "fires"]
    assert any(any(names) for case in fires for names in case.firing.values())
    assert any(case.text for case in fires)
    committed = yaml.safe_load((RULES / "tests" / f"{alert}.yml").read_text(encoding="utf-8"))
    names = " ".join(test["name"] for test in committed["tests"])
    assert all(re.search(rf"{alert}: {kind}[/:]", names) for kind in KINDS)


def test_absent_alerts_are_patient() -> None:
    """Each alert that asks for an absent series waits before it fires."""
    absent = [rule for rule in ALERTS if "absent(" in rule["expr"]]
    assert absent
    assert all(rule.get("for") for rule in absent)


def test_ratios_have_a_minimum_volume() -> None:
    """Each alert on a share of events also asks for a number of them, itself or in what it builds on."""
    for rule in ALERTS:
        if "humanizePercentage" in rule["annotations"]["summary"]:
            assert re.search(r">=? [\d.]+", rule["expr"]), rule["alert"]
            assert len(re.findall(r">=? [\d.(]+", rule["expr"])) > 1, rule["alert"]


def test_promtool_finds_nothing() -> None:
    """The committed rules pass promtool's strictest check."""
    found = re.findall(r"(\d+) rules found", check(RULES))
    assert sum(map(int, found)) == len(SHIPPED)


def test_rules_name_catalogued_metrics_labels_and_values() -> None:
    """Each metric, label and bounded value that an expression names is in the catalogue."""
    named = set()
    for rule in SHIPPED:
        for name, matchers in re.findall(
            r"\b(redis_lock_\w+)(?:\{([^}]*)\})?", re.sub(r":\w+:\w+", "", rule["expr"])
        ):
            metric = BY_NAME.get(name) or BY_NAME[re.sub(r"_(bucket|sum|count)$", "", name)]
            named.add(metric.name)
            for label, values in re.findall(r'(\w+)[!=]=?~?"([^"]*)"', matchers):
                assert label in (*metric.labels, "le"), (name, label)
                for value in values.split("|"):
                    assert value in metric.values.get(label, (value,)), (name, label, value)
    assert len(named) > 20


def test_recorded_series_are_defined_and_used() -> None:
    """Each recorded series that a rule reads is recorded, and each is read by a rule or a dashboard."""
    recorded = {rule["record"] for rule in RECORDS}
    expressions = "\n".join(rule["expr"] for rule in SHIPPED)
    read = set(re.findall(r"\b[a-z_]+:redis_lock_\w+:\w+", expressions))
    patterns = re.findall(r'__name__=~"(\w+:[^"]+)"', expressions)
    read |= {name for name in recorded if any(re.fullmatch(pattern, name) for pattern in patterns)}
    boards = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "grafana/dashboards").glob("*.json")
    )
    assert {name for name in read if "(" not in name} - {"prefix_job_type_outcome:redis_lock_"} <= recorded
    assert recorded <= read | set(re.findall(r"\b[a-z_]+:redis_lock_\w+:\w+", boards))


def test_recorded_series_of_a_prefix_are_as_few_as_documented() -> None:
    """One prefix of one job type and one process makes at most the recorded series that the page says."""
    of = {rule["record"]: recorded_series_of(rule["record"], rule["expr"]) for rule in RECORDS}
    outcomes = "prefix_job_type_outcome:redis_lock"
    assert of[f"{outcomes}_acquire:increase10m"] == 4
    assert (of[f"{outcomes}_renew:increase10m"], of[f"{outcomes}_renew_failed:increase10m"]) == (1, 2)
    assert of["instance_prefix_outcome:redis_lock_acquire:increase5m"] == 3
    assert of["prefix_how:redis_lock_observed_ended:increase10m"] == 2
    assert of["prefix_outcome:redis_lock_idempotency:increase30m"] == 4
    assert of["prefix:redis_lock_waiters:sum"] == 1
    total = sum(count for name, count in of.items() if not name.startswith("instance:"))
    assert total <= RECORDED_AT_MOST
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert f"| recording rules | {total} for each prefix (one job type, one process) |" in page


def test_shares_of_half_hours_add_up_as_many_as_their_windows_hold() -> None:
    """A share over 2 hours adds up four half hours, on Prometheus 2 and 3: none lies on the window's edge."""
    half_hour = duration_seconds("30m")
    shares = [rule for rule in RECORDS if re.search("acquire_failed:ratio(?!10m)", rule["record"])]
    assert len(shares) == 4
    for rule in shares:
        named = duration_seconds(rule["record"].rpartition("ratio")[2])
        for inside in re.findall(r"increase30m\[(\w+)\]", rule["expr"]):
            assert duration_seconds(inside) % half_hour != 0
            assert duration_seconds(inside) // half_hour + 1 == named / half_hour


def test_rules_run_on_prometheus_2_and_3() -> None:
    """No removed function, no bucket bound that version 3 writes differently, no quoted names."""
    for rule in SHIPPED:
        assert not re.search(r"holt_winters|native_histogram|@ (start|end)|limitk|info\(", rule["expr"])
        assert not re.search(r'\{\s*"', rule["expr"])
        for bound in re.findall(r'le=~?"([^"]+)"', rule["expr"]):
            assert not float(bound).is_integer(), rule["alert"]


def test_only_and_skip(tmp_path: Path) -> None:
    """Chosen alerts are written with the recording rules that they need, without the others."""
    write_rules(tmp_path, RuleOptions(only=("NoTTL", "RedisLockBackendErrors", "Evicted"), skip=("Evicted",)))
    rules = [
        rule
        for path in tmp_path.glob("*.yml")
        for group in yaml.safe_load(path.read_text())["groups"]
        for rule in group["rules"]
    ]
    assert {rule["alert"] for rule in rules if "alert" in rule} == {
        "RedisLockNoTTL",
        "RedisLockBackendErrors",
    }
    records = {rule["record"] for rule in rules if "record" in rule}
    assert "prefix_job_type_outcome:redis_lock_renew:increase10m" in records
    assert "prefix_how:redis_lock_observed_ended:increase10m" not in records
    check(tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_each_alert_alone_has_what_it_needs(tmp_path: Path, name: str) -> None:
    """An alert written alone reads no recorded series that is not written with it."""
    recording, alerting = compile_rules(RuleOptions(only=(name,)))
    records = {rule["record"] for group in recording for rule in group["rules"]}
    for group in (*recording, *alerting):
        for rule in group["rules"]:
            assert set(re.findall(r"\b[a-z_]+:redis_lock_\w+:\w+", rule["expr"])) <= records
    write_rules(tmp_path, RuleOptions(only=(name,)))
    assert list(tmp_path.glob("*.yml"))


def test_rewriting_removes_groups_no_longer_wanted(tmp_path: Path) -> None:
    """Writing fewer alerts into the same folder leaves none of the former ones and touches no other file."""
    write_rules(tmp_path)
    (tmp_path / "lockscope-own.yml").write_text("groups: []\n")
    (tmp_path / "other.yml").write_text("groups: []\n")
    written = write_rules(tmp_path, RuleOptions(only=("NoTTL",)))
    assert set(tmp_path.iterdir()) == {*written, tmp_path / "lockscope-own.yml", tmp_path / "other.yml"}


def test_thresholds_change_expressions_and_texts(tmp_path: Path) -> None:
    """A changed threshold is in the expression and in the text that names it, and the rules stay valid."""
    options = RuleOptions(thresholds={"overdue_factor": 7, "acquire_failure_ratio": 0.125})
    rules = {rule["alert"]: rule for group in compile_rules(options)[1] for rule in group["rules"]}
    assert "> 7 *" in rules["RedisLockHeldTooLong"]["expr"]
    assert "over 7 times" in rules["RedisLockHeldTooLong"]["annotations"]["description"]
    assert "> 0.125" in rules["RedisLockAcquireFailureSpike"]["expr"]
    write_rules(tmp_path, options)
    check(tmp_path)


def test_every_threshold_is_used() -> None:
    """Each threshold that can be set changes some expression."""
    before = json.dumps(compile_rules())
    for name, threshold in THRESHOLDS.items():
        changed = compile_rules(RuleOptions(thresholds={name: threshold.default * 3 + 1}))
        assert json.dumps(changed) != before, name


def test_urls_are_replaced() -> None:
    """Runbook and dashboard links begin with the URLs given; an empty one gives links within Grafana."""
    options = RuleOptions(runbook_base_url="https://wiki/locks/", dashboard_base_url="")
    for group in compile_rules(options)[1]:
        for rule in group["rules"]:
            assert rule["annotations"]["runbook_url"] == f"https://wiki/locks/{rule['alert']}.md"
            assert rule["annotations"]["dashboard_url"].startswith("/d/lockscope-")


def quoted(text: str) -> str:
    """Return a text as a PromQL string."""
    return json.dumps(text, ensure_ascii=False)


def test_objective_of_a_prefix(tmp_path: Path) -> None:
    """A prefix with an objective is judged by it, others by the default; a hostile prefix is quoted."""
    hostile = 'lock:"a\\b $by 10m ${errors} 🔒:*'
    series = {
        f'redis_lock_acquire_total{{job="w", instance="i", prefix={quoted(prefix)}, '
        'outcome="timeout"}': "0+1x40"
        for prefix in (hostile, "lock:b:*")
    }
    unit_test(
        tmp_path,
        RuleOptions(objectives={hostile: 0.5, "*": 0.75}, window_scale=0.5),
        series,
        {
            "prefix:redis_lock_acquire_objective:ratio": {
                f'prefix:redis_lock_acquire_objective:ratio{{job="w", prefix={quoted(hostile)}}}': 0.5,
                'prefix:redis_lock_acquire_objective:ratio{job="w", prefix="lock:b:*"}': 0.75,
            }
        },
    )


def test_visibility_timeout_of_a_prefix(tmp_path: Path) -> None:
    """A prefix given by name has its timeout without a worker that reports; jobs have the default."""
    unit_test(
        tmp_path,
        RuleOptions(visibility_timeouts={"lock:php:*": 60, "*": 1800}),
        {
            'redis_lock_keys{job="l", instance="i", target="t", db="0", prefix="lock:php:*", '
            'dialect="laravel", state="held"}': "1x40",
            'redis_lock_acquire_total{job="w", instance="j", prefix="lock:job:*", job_type="a", '
            'outcome="acquired"}': "1x40",
        },
        {
            "prefix:redis_lock_visibility_timeout:seconds": {
                'prefix:redis_lock_visibility_timeout:seconds{prefix="lock:php:*"}': 60,
                'prefix:redis_lock_visibility_timeout:seconds{prefix="lock:job:*"}': 1800,
            }
        },
    )


def test_kept_labels_tell_clusters_apart(tmp_path: Path) -> None:
    """With a kept label, a waiter in one cluster does not make an orphan of another cluster block."""
    series = {
        f'redis_lock_keys{{cluster="{cluster}", job="l", instance="i", target="t", db="0", '
        'prefix="lock:a:*", dialect="redis-py", state="orphaned"}': "1x40"
        for cluster in ("east", "west")
    }
    series['redis_lock_waiters{cluster="west", job="w", instance="j", prefix="lock:a:*", job_type="a"}'] = (
        "1x40"
    )
    unit_test(
        tmp_path,
        RuleOptions(labels=("cluster",)),
        series,
        {
            'count by (cluster) (ALERTS{alertname="RedisLockOrphanedBlocking", alertstate="firing"})': {
                '{cluster="west"}': 1
            },
            'count by (cluster) (ALERTS{alertname="RedisLockOrphaned", alertstate="firing"})': {
                '{cluster="east"}': 1,
                '{cluster="west"}': 1,
            },
        },
    )


@pytest.mark.parametrize(
    ("text", "scale", "expected"),
    [
        ("10m", 1, "10m"),
        ("60m", 1, "1h"),
        ("10m", 1 / 60, "10s"),
        ("5m", 1 / 600, "500ms"),
        ("1d", 0.5, "12h"),
        ("1s", 1e-9, "1ms"),
    ],
)
def test_durations_scale(text: str, scale: float, expected: str) -> None:
    """A duration is scaled exactly, in the largest unit that divides it, and never to nothing."""
    assert scale_duration(text, scale) == expected


def test_window_scale_reaches_every_duration(tmp_path: Path) -> None:
    """At a sixtieth, each window, offset, pending time and interval is a sixtieth; the rules stay valid."""
    options = RuleOptions(window_scale=1 / 60)
    duration = re.compile(r"(?<![\w.:])\d+(?:ms|s|m|h|d)(?![\w:])")
    pairs = zip(compile_rules(), compile_rules(options), strict=True)
    for plain, scaled in pairs:
        for one, other in zip(plain, scaled, strict=True):
            texts = [
                json.dumps(
                    [rule.get(k) for rule in group["rules"] for k in ("expr", "for", "keep_firing_for")]
                )
                for group in (one, other)
            ]
            before, after = (duration.findall(text) for text in texts)
            assert [scale_duration(text, 1 / 60) for text in before] == after
            if "interval" in one:
                assert scale_duration(one["interval"], 1 / 60) == other["interval"]
    write_rules(tmp_path, options)
    check(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"only": ("Nope",)}, "unknown alert 'Nope'; known: AcquireFailureSpike"),
        ({"skip": ("RedisLockNope",)}, "unknown alert 'RedisLockNope'"),
        ({"only": ("NoTTL",), "skip": ("NoTTL",)}, "no alert is left"),
        ({"thresholds": {"nope": 1}}, "unknown threshold 'nope'; known: acquire_failure_ratio"),
        ({"thresholds": {"errors": float("nan")}}, "threshold errors must be a number of 0 or more, not nan"),
        ({"thresholds": {"errors": -1}}, "threshold errors must be a number of 0 or more, not -1"),
        ({"objectives": {"lock:a": 1}}, "objective of 'lock:a' must lie between 0 and 1, not 1"),
        ({"visibility_timeouts": {"lock:a": 0}}, "visibility timeout of 'lock:a' must be above 0 seconds"),
        ({"labels": ("a-b",)}, "'a-b' is no label name"),
        ({"labels": ("instance",)}, "'instance' is no label name that can be kept beside job"),
        ({"labels": ("target",)}, "'target' is no label name that can be kept beside job"),
        ({"labels": ("cluster", "severity")}, "'severity' is no label name that can be kept beside job"),
        ({"window_scale": 0}, "window scale must be above 0, not 0"),
        ({"window_scale": float("inf")}, "window scale must be above 0, not inf"),
    ],
)
def test_unusable_options_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    """An option that cannot be used is refused with the reason, and nothing is written."""
    with pytest.raises(RuleOptionError, match=re.escape(message)):
        write_rules(tmp_path / "out", RuleOptions(**options))
    assert not (tmp_path / "out").exists()


def test_operator_manifest_holds_the_same_rules(tmp_path: Path) -> None:
    """The PrometheusRule manifest has the shipped groups, and promtool accepts them."""
    [path] = write_rules(tmp_path, form="operator")
    manifest = yaml.safe_load(path.read_text())
    assert manifest["apiVersion"] == "monitoring.coreos.com/v1"
    assert manifest["kind"] == "PrometheusRule"
    recording, alerting = compile_rules()
    assert manifest["spec"]["groups"] == [*recording, *alerting]
    # What the custom resource's schema allows.
    assert manifest.keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", manifest["metadata"]["name"])
    assert manifest["spec"].keys() == {"groups"}
    names = [group["name"] for group in manifest["spec"]["groups"]]
    assert len(names) == len(set(names))
    duration = re.compile(r"([0-9]+(ms|[smhdwy]))+")
    for group in manifest["spec"]["groups"]:
        assert group.keys() <= {"name", "interval", "rules"}
        assert duration.fullmatch(group.get("interval", "1m"))
        for rule in group["rules"]:
            kind = {"record"} if "record" in rule else {"alert", "for", "keep_firing_for", "annotations"}
            assert rule.keys() <= {"expr", "labels", *kind}
            assert all(duration.fullmatch(rule.get(name, "1m")) for name in ("for", "keep_firing_for"))
            texts = {**rule.get("labels", {}), **rule.get("annotations", {})}
            assert all(isinstance(text, str) for text in (rule["expr"], *texts.values()))
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "rules.yml").write_text(yaml.safe_dump({"groups": manifest["spec"]["groups"]}))
    check(plain)


def test_grafana_alerts_hold_the_same_rules(tmp_path: Path) -> None:
    """Grafana's alerts have Prometheus' expressions, labels and times, and fire on every sample."""
    paths = write_rules(tmp_path, RuleOptions(dashboard_base_url=""), form="grafana")
    document = yaml.safe_load(paths[-1].read_text())
    assert document["apiVersion"] == 1
    provisioned = [rule for group in document["groups"] for rule in group["rules"]]
    assert len({rule["uid"] for rule in provisioned}) == len({rule["title"] for rule in provisioned})
    compiled = [rule for group in compile_rules()[1] for rule in group["rules"]]
    # The fields that Grafana's reader of these files knows; it passes over others without a word.
    known = {"uid", "title", "condition", "data", "noDataState", "execErrState", "for", "keepFiringFor"}
    known |= {"missing_series_evals_to_resolve", "labels", "annotations"}
    for group in document["groups"]:
        assert group.keys() == {"orgId", "name", "folder", "interval", "rules"}
        assert duration_seconds(group["interval"]) % 10 == 0  # Grafana's scheduler ticks every 10 seconds
        for rule in group["rules"]:
            assert rule.keys() <= known
            assert all(isinstance(text, str) for text in (rule["labels"] | rule["annotations"]).values())
            # A series that is gone goes on firing as long as one that is still there and well.
            kept = duration_seconds(rule.get("keepFiringFor", "0s"))
            lasts = rule.get("missing_series_evals_to_resolve", 0) * duration_seconds(group["interval"])
            assert kept <= lasts < kept + duration_seconds(group["interval"])
            # Grafana puts environment variables into ${NAME} of an annotation.
            assert "${" not in json.dumps(rule["annotations"])
    for rule, original in zip(provisioned, compiled, strict=True):
        query, condition = rule["data"]
        assert re.fullmatch(r"[\w-]{1,40}", rule["uid"])
        assert rule["title"].startswith(original["alert"])
        assert query["model"]["expr"] == original["expr"]
        assert query["model"]["instant"] is True
        assert condition["datasourceUid"] == "__expr__"
        assert condition["model"]["expression"] == query["refId"]
        assert condition["model"]["conditions"] == [{"evaluator": {"type": "gt", "params": [-1]}}]
        assert rule["condition"] == condition["refId"]
        assert rule["noDataState"] == "OK"
        assert rule["labels"] == original["labels"]
        assert rule["for"] == original.get("for", "0s")
        assert rule.get("keepFiringFor") == original.get("keep_firing_for")
        assert "$value" not in json.dumps(rule["annotations"]).replace("$values.A.Value", "")
        assert rule["annotations"]["dashboard_url"].startswith("/d/")
    assert all("alert" not in json.dumps(yaml.safe_load(path.read_text())) for path in paths[:-1])

"""The Alertmanager example: valid, names that exist, and what it mutes in a real Alertmanager."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from lockscope_exporter.alerts import ALERT_NAMES, compile_rules
from monitoring import AlertmanagerServer, WebhookReceiver
from servers import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFIGURATION = Path(__file__).parents[1] / "grafana" / "alertmanager" / "alertmanager.yml"
ALERTS = [rule for group in compile_rules()[1] for rule in group["rules"]]


def labels_of(alert: str, **more: str) -> dict[str, str]:
    """Return the labels that an alert has, those of the rule and those given."""
    rule = next(
        rule
        for rule in ALERTS
        if rule["alert"] == alert
        and all(rule["labels"].get(name, value) == value for name, value in more.items())
    )
    return {"alertname": alert, **rule["labels"], **more}


def test_amtool_accepts_it() -> None:
    """The configuration is valid for amtool."""
    amtool = shutil.which("amtool") or "amtool"
    result = subprocess.run(
        [amtool, "check-config", str(CONFIGURATION)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "SUCCESS" in result.stdout


def test_it_names_alerts_and_labels_that_exist() -> None:
    """Each alert, severity and label that a matcher or an ``equal`` names is one that the rules have."""
    document = yaml.safe_load(CONFIGURATION.read_text(encoding="utf-8"))
    text = CONFIGURATION.read_text(encoding="utf-8")
    for quoted in re.findall(r'alertname=~?"([^"]+)"', text):
        assert any(re.fullmatch(quoted, name) for name in ALERT_NAMES), quoted
    severities = {rule["labels"]["severity"] for rule in ALERTS}
    assert set(re.findall(r'severity="(\w+)"', text)) <= severities
    fixed = {name for rule in ALERTS for name in rule["labels"]} | {
        "cluster",
        "job",
        "target",
        "db",
        "prefix",
    }
    assert all(set(one["equal"]) <= fixed for one in document["inhibit_rules"])


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        (labels_of("RedisLockOrphanedBlocking", job="lockscope", prefix="lock:a:*"), "on-call"),
        (labels_of("RedisLockNoTTL", job="lockscope", prefix="lock:a:*"), "working-hours"),
        (labels_of("RedisLockTTLTooLong", job="workers", prefix="lock:a:*"), "advice"),
        (labels_of("RedisLockExporterAbsent"), "on-call"),
    ],
)
def test_alerts_are_routed_by_severity(labels: dict[str, str], receiver: str) -> None:
    """Critical alerts wake someone, warnings wait for working hours, advice is collected."""
    amtool = shutil.which("amtool") or "amtool"
    pairs = [f"{name}={value}" for name, value in labels.items()]
    command = [amtool, "config", "routes", "test", f"--config.file={CONFIGURATION}", *pairs]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.stdout.strip() == receiver, result.stdout + result.stderr


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AlertmanagerServer]:
    """Give a running Alertmanager with the shipped configuration."""
    server = AlertmanagerServer(tmp_path_factory.mktemp("alertmanager"), CONFIGURATION)
    yield server
    server.close()


def send(alertmanager: AlertmanagerServer, alerts: list[dict[str, Any]]) -> None:
    """Send alerts as Prometheus does."""
    request = urllib.request.Request(
        f"http://{alertmanager.address}/api/v2/alerts",
        json.dumps(alerts).encode(),
        {"Content-Type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=5).close()


LOCK = {"job": "lockscope", "target": "default", "db": "0"}
WORK = {"job": "workers"}


@pytest.mark.parametrize(
    ("cause", "muted", "apart"),
    [
        (
            labels_of("RedisLockExporterDown", reason="redis", job="lockscope", target="default", node="r:1"),
            labels_of("RedisLockNoTTL", **LOCK),
            labels_of("RedisLockNoTTL", **{**LOCK, "target": "other"}),
        ),
        (
            labels_of("RedisLockExporterDown", reason="scrape", job="lockscope", target="default"),
            labels_of("RedisLockProgressStale", **LOCK),
            labels_of("RedisLockBackendErrors", **WORK),
        ),
        (
            labels_of("RedisLockExporterAbsent"),
            labels_of("RedisLockOrphaned", **LOCK),
            labels_of("RedisLockStarved", **WORK),
        ),
        (
            labels_of("RedisLockOrphanedBlocking", **LOCK),
            labels_of("RedisLockOrphaned", **LOCK),
            labels_of("RedisLockOrphaned", **{**LOCK, "db": "1"}),
        ),
        (
            labels_of("RedisLockNoTTL", **LOCK),
            labels_of("RedisLockHeldTooLong", **LOCK),
            labels_of("RedisLockHeldTooLong", **{**LOCK, "target": "other"}),
        ),
        (
            labels_of("RedisLockBackendErrors", **WORK),
            labels_of("RedisLockReleaseFailing", **WORK, job_type="a"),
            labels_of("RedisLockRenewFailing", **WORK, job_type="a"),
        ),
        (
            labels_of("RedisLockStarved", **WORK),
            labels_of("RedisLockContentionHigh", **WORK),
            labels_of("RedisLockContentionHigh", job="others"),
        ),
        (
            labels_of("RedisLockAcquireSLOBurn", long_window="1h", **WORK),
            labels_of("RedisLockAcquireSLOBurn", long_window="3d", **WORK),
            labels_of("RedisLockAcquireSLOBurn", long_window="6h", **WORK),
        ),
    ],
    ids=lambda labels: labels["alertname"].removeprefix("RedisLock"),
)
def test_consequences_are_muted(
    alertmanager: AlertmanagerServer, cause: dict[str, str], muted: dict[str, str], apart: dict[str, str]
) -> None:
    """While the cause fires its consequence is muted, and what lies elsewhere or says more is not."""
    # A cluster and a prefix of its own keep each case from muting another's alerts.
    mark = f"c{abs(hash(json.dumps([cause, muted])))}"
    sent = [{**labels, "cluster": mark, "prefix": f"lock:{mark}:*"} for labels in (cause, muted, apart)]
    send(alertmanager, [{"labels": labels} for labels in sent])

    def state(labels: dict[str, str]) -> Any:
        found = [alert for alert in alertmanager.alerts() if alert["labels"] == labels]
        return found[0]["status"]["state"] if found else None

    wait_until(lambda: state(sent[1]) == "suppressed", what=f"{muted['alertname']} muted")
    wait_until(lambda: state(sent[0]) == "active")
    wait_until(lambda: state(sent[2]) == "active")


def test_what_ends_while_it_is_muted_is_not_told_as_resolved(tmp_path: Path) -> None:
    """As the example and a runbook say: a page stays open whose alert ended while its exporter was down."""
    receiver = WebhookReceiver()
    document = yaml.safe_load(CONFIGURATION.read_text(encoding="utf-8"))
    document["route"] |= {"group_wait": "100ms", "group_interval": "200ms"}
    for each in document["receivers"]:
        each["webhook_configs"] = [{"url": receiver.url, "send_resolved": True}]
    path = tmp_path / "alertmanager.yml"
    path.write_text(yaml.safe_dump(document))
    server = AlertmanagerServer(tmp_path / "alertmanager", path)

    def told() -> dict[str, str]:
        return {name.removeprefix("RedisLock"): status for (name, _), status in receiver.statuses.items()}

    try:
        page = labels_of("RedisLockOrphanedBlocking", **LOCK)
        other, later = labels_of("RedisLockBackendErrors", **WORK), labels_of("RedisLockNoTTL", **LOCK)
        down = labels_of("RedisLockExporterDown", reason="scrape", job="lockscope", target="default")
        send(server, [{"labels": page}])
        wait_until(lambda: told() == {"OrphanedBlocking": "firing"})
        send(server, [{"labels": down}])
        wait_until(lambda: told().get("ExporterDown") == "firing")
        send(server, [{"labels": page, "endsAt": datetime.now(UTC).isoformat()}, {"labels": other}])
        # Two notifications of another alert lie as far apart as two of each, so the page's was due by then.
        wait_until(lambda: told().get("BackendErrors") == "firing")
        send(server, [{"labels": other, "endsAt": datetime.now(UTC).isoformat()}])
        wait_until(lambda: told()["BackendErrors"] == "resolved")
        send(server, [{"labels": down, "endsAt": datetime.now(UTC).isoformat()}, {"labels": later}])
        wait_until(lambda: told()["ExporterDown"] == "resolved")
        wait_until(lambda: told().get("NoTTL") == "firing")  # nothing is muted any more
        assert told()["OrphanedBlocking"] == "firing"
    finally:
        server.close()
        receiver.close()

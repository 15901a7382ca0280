"""The compose file: each of its command lines runs here, natively, on the files that it mounts."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from lockscope.catalog import CATALOG
from monitoring import get_json, ready
from servers import Process, free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
COMPOSE = ROOT / "deploy" / "docker-compose.yml"
SERVICES: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]
# What an image runs when its command is only options.
ENTRYPOINTS = {"prom/prometheus": "prometheus", "prom/alertmanager": "prometheus-alertmanager"}
WORKERS = ("invoice", "report", "transcode", "stock", "backup")


class Stack:
    """Every service of the compose file that has a command, as a process of this machine.

    Names of services become loopback addresses, ports become free ones, and mounted files become copies in a
    folder of the test.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports: dict[str, int] = {}
        self.processes: dict[str, Process] = {}
        for name in SERVICES:
            (folder / name).mkdir()
        for name, service in SERVICES.items():
            if "command" in service:
                self.start(name, service)

    def port(self, service: str) -> int:
        """Return the port that stands for a service's."""
        return self.ports.setdefault(service, free_port())

    def local(self, service: str, text: str) -> str:
        """Return a text of the compose file, or of a file it mounts, for this machine."""
        text = re.sub(r"0\.0\.0\.0:\d+", lambda _: f"127.0.0.1:{self.port(service)}", text)
        text = re.sub(r"localhost:9090", lambda _: f"127.0.0.1:{self.port('prometheus')}", text)
        for other in SERVICES:
            text = re.sub(rf"\b{other}:\d+", lambda _, other=other: f"127.0.0.1:{self.port(other)}", text)
        own = self.folder / service
        paths = {target: own / source for source, target in self.mounts(service).items()}
        paths |= {"/tmp/port": own / "port", "/alertmanager": own / "data"}
        longest_first = "|".join(map(re.escape, sorted(paths, key=len, reverse=True)))
        return re.sub(longest_first, lambda match: str(paths[match[0]]), text)

    def mounts(self, service: str) -> dict[str, str]:
        """Return name in the test's folder and path in the container of each mount."""
        found = {}
        for volume in SERVICES[service].get("volumes", []):
            source, target = volume.split(":")[:2]
            found[Path(source).name] = target
        return found

    def copy_files(self, service: str) -> None:
        """Copy the files that a service mounts, with addresses of this machine."""
        for volume in SERVICES[service].get("volumes", []):
            source = (COMPOSE.parent / volume.split(":")[0]).resolve()
            target = self.folder / service / source.name
            if source.is_dir():
                shutil.copytree(source, target)
            elif source.is_file():
                document = yaml.safe_load(source.read_text(encoding="utf-8"))
                for job in document.get("scrape_configs", []):
                    for found in job.pop("dns_sd_configs", []):
                        # No name service here: the same names, one address each.
                        targets = [f"127.0.0.1:{self.port(name)}" for name in found["names"]]
                        job["static_configs"] = [{"targets": targets}]
                target.write_text(self.local(service, yaml.safe_dump(document)))

    def start(self, name: str, service: dict[str, Any]) -> None:
        """Start a service by its command line."""
        self.copy_files(name)
        words = [self.local(name, word) for word in service["command"]]
        if words[0].startswith("-"):
            binary = ENTRYPOINTS[service["image"].split(":")[0]]
            words = [shutil.which(binary) or binary, *words]
        elif words[0] == "redis-server":
            words += ["--port", str(self.port("redis")), "--bind", "127.0.0.1"]
        elif words[0] == "python":
            words[0] = sys.executable
        elif words[0] == "lockscope":
            words = [sys.executable, "-m", "lockscope_exporter", *words[1:]]
        self.processes[name] = Process(words, self.folder / name / "log")

    def close(self) -> None:
        """Stop everything, the last started first."""
        for process in reversed(self.processes.values()):
            process.stop()


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Give the running services."""
    stack = Stack(tmp_path_factory.mktemp("compose"))
    yield stack
    stack.close()


def test_every_service_runs(stack: Stack) -> None:
    """Each command line starts and goes on running; exporter, Prometheus and Alertmanager are ready."""
    for name in ("exporter", "prometheus", "alertmanager"):
        url = f"http://127.0.0.1:{stack.port(name)}/-/ready"
        wait_until(lambda url=url: ready(url), timeout=40, what=stack.processes[name].output())
    for name, process in stack.processes.items():
        assert process.popen.poll() is None, f"{name}: {process.output()}"
    assert stack.processes.keys() == SERVICES.keys() - {"grafana"}


def test_prometheus_scrapes_all_and_loads_the_rules(stack: Stack) -> None:
    """Prometheus finds exporter and workers, loads every rule, and knows Alertmanager."""
    url = f"http://127.0.0.1:{stack.port('prometheus')}"
    wait_until(lambda: ready(f"{url}/-/ready"), timeout=40)

    def healthy() -> set[str]:
        targets = get_json(f"{url}/api/v1/targets?state=active")["data"]["activeTargets"]
        return {target["labels"]["instance"] for target in targets if target["health"] == "up"}

    wanted = {f"127.0.0.1:{stack.port(name)}" for name in ("prometheus", "exporter", *WORKERS)}
    wait_until(lambda: healthy() == wanted, timeout=60, every=0.5, what=f"{wanted}, not {healthy()}")
    groups = get_json(f"{url}/api/v1/rules")["data"]["groups"]
    assert len(groups) == len(list((ROOT / "grafana" / "rules").glob("*.yml")))
    known = get_json(f"{url}/api/v1/alertmanagers")["data"]["activeAlertmanagers"]
    assert known == [{"url": f"http://127.0.0.1:{stack.port('alertmanager')}/api/v2/alerts"}]


def test_workers_and_exporter_see_the_same_locks(stack: Stack) -> None:
    """A prefix that a worker counts is one that the exporter watches."""
    url = f"http://127.0.0.1:{stack.port('prometheus')}/api/v1/series"
    wait_until(lambda: ready(url.replace("/api/v1/series", "/-/ready")), timeout=40)

    def prefixes(metric: str) -> set[str]:
        found = get_json(f"{url}?match[]={metric}")["data"]
        return {series["prefix"] for series in found}

    wait_until(
        lambda: prefixes("redis_lock_acquire_total") & prefixes("redis_lock_keys"), timeout=60, every=0.5
    )


def test_worker_metrics_are_counted_once() -> None:
    """What the exporter says of workers from the journal is dropped, and nothing else of the catalogue."""
    path = ROOT / "grafana" / "provisioning" / "prometheus" / "prometheus.yml"
    jobs = {job["job_name"]: job for job in yaml.safe_load(path.read_text())["scrape_configs"]}
    [relabel] = jobs["lockscope"]["metric_relabel_configs"]
    for metric in CATALOG:
        dropped = re.fullmatch(relabel["regex"], metric.name) is not None
        assert dropped == (metric.origin == "shim" and "prefix" in metric.labels), metric.name


def test_mounted_files_exist() -> None:
    """Each file or folder that a service mounts is in the repository, and each image has a fixed version."""
    for name, service in SERVICES.items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert not source.startswith(".") or (COMPOSE.parent / source).exists(), f"{name}: {source}"
        assert service["image"] == "lockscope" or re.search(r":v?\d+\.\d+", service["image"]), name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name


def test_grafana_provisioning_fits_the_dashboards() -> None:
    """The provider reads the folder that compose mounts; data sources have the uids that are named."""
    folder = ROOT / "grafana" / "provisioning"
    provider = yaml.safe_load((folder / "dashboards" / "lockscope.yml").read_text())["providers"][0]
    targets = [volume.split(":")[1] for volume in SERVICES["grafana"]["volumes"]]
    assert provider["options"]["path"] in targets
    sources = yaml.safe_load((folder / "datasources" / "lockscope.yml").read_text())["datasources"]
    assert {source["type"]: source["uid"] for source in sources}["prometheus"] == "prometheus"
    alerts = yaml.safe_load((folder / "alerting" / "lockscope.yml").read_text())
    rules = [rule for group in alerts["groups"] for rule in group["rules"]]
    uids = {query["datasourceUid"] for rule in rules for query in rule["data"]}
    assert uids == {"prometheus", "__expr__"}
    assert "alerting" not in json.dumps(SERVICES["grafana"])

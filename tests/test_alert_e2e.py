"""Real faults, from Redis to the webhook: each raises its alert, its repair resolves it, health raises none.

The windows of the rules are a hundredth of what is shipped; the expressions are the same.
"""

from __future__ import annotations

import json
import signal
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from lockscope_exporter.alerts import RuleOptions
from lockscope_exporter.shipped import folder, write_rules
from monitoring import AlertmanagerServer, PrometheusServer, WebhookReceiver, ready
from servers import Process, RedisServer, free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SCALE = 1 / 100
TEN_MINUTES = 600 * SCALE
ROLES = ("healthy", "hold", "want", "renew", "duplicate", "hot")

# What each fault must raise: alert and prefix, or job where the alert has no prefix.
EXPECTED = {
    ("RedisLockOrphanedBlocking", "lock:kill:*"): "killed with -9 while somebody waits",
    ("RedisLockOrphaned", "lock:gone:*"): "killed with -9, nobody waits",
    ("RedisLockNoTTL", "lock:forever:*"): "expiry taken away",
    ("RedisLockHeldTooLong", "lock:slow:*"): "a job far slower than expected",
    ("RedisLockRenewFailing", "lock:renew:*"): "Redis paused while locks are renewed",
    ("RedisLockEvicted", "lock:evict:*"): "Redis out of memory",
    ("RedisLockEvictionUnsafe", "lockscope-evict"): "a policy that may drop locks",
    ("RedisLockDuplicatesSurge", "charge:*"): "the same jobs delivered again",
    ("RedisLockExporterDown", "lockscope-spare"): "exporter stopped",
    ("RedisLockContentionHigh", "lock:hot:*"): "six workers want one lock",
}


class World:
    """Three Redis servers, exporters, workers, Prometheus, Alertmanager and a receiver."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.main, self.paused, self.small = (RedisServer(port=None) for _ in range(3))
        self.ports = {name: free_port() for name in (*ROLES, "main", "pause", "evict", "spare")}
        self.processes: dict[str, Process] = {}
        self.client = self.main.client()
        for name, server in (
            ("main", self.main),
            ("spare", self.main),
            ("pause", self.paused),
            ("evict", self.small),
        ):
            self.start_exporter(name, server)
        self.receiver = WebhookReceiver()
        self.alertmanager = AlertmanagerServer(path / "alertmanager", self._routing())
        write_rules(path / "rules", RuleOptions(window_scale=SCALE))
        exporters = [
            {"job_name": f"lockscope-{name}", "static_configs": [{"targets": [self.address(name)]}]}
            for name in ("main", "spare", "pause", "evict")
        ]
        workers = {"job_name": "workers", "file_sd_configs": [{"files": [str(path / "workers.json")]}]}
        workers["file_sd_configs"][0]["refresh_interval"] = "1s"
        self.prometheus = PrometheusServer(
            path / "prometheus",
            [*exporters, workers],
            rules=str(path / "rules" / "*.yml"),
            interval="500ms",
            alertmanager=self.alertmanager.address,
        )
        for name in ("main", "spare", "pause", "evict"):
            wait_until(lambda name=name: ready(f"http://{self.address(name)}/-/ready"), timeout=60)

    def address(self, name: str) -> str:
        """Return where an exporter or a worker serves its metrics."""
        return f"127.0.0.1:{self.ports[name]}"

    def start_exporter(self, name: str, server: RedisServer) -> None:
        """Start an exporter, for locks whose hold is known to be short in one family."""
        command = [sys.executable, "-m", "lockscope_exporter", "export", "--redis-url", server.url]
        command += [
            "--listen",
            self.address(name),
            "--expected-hold",
            "lock:slow:*=500ms",
            "--timeout",
            "500ms",
        ]
        self.processes[name] = Process(command, self.path / f"{name}.log")

    def start_workers(self, roles: dict[str, RedisServer]) -> None:
        """Start worker processes and let Prometheus find them once they work."""
        script = Path(__file__).with_name("alert_workers.py")
        for role, server in roles.items():
            command = [sys.executable, str(script), role, server.url, str(self.ports[role])]
            self.processes[role] = Process(command, self.path / f"{role}.log")
        for role in roles:
            wait_until(lambda role=role: ready(f"http://{self.address(role)}/metrics"), timeout=60)
        self._name_workers()

    def stop(self, name: str, sig: int = signal.SIGTERM) -> None:
        """Stop an exporter or a worker."""
        self.processes.pop(name).stop(sig)
        self._name_workers()

    def _name_workers(self) -> None:
        running = [self.address(role) for role in ROLES if role in self.processes]
        part = self.path / "workers.part"
        part.write_text(json.dumps([{"targets": running}]))
        part.rename(self.path / "workers.json")

    def _routing(self) -> Path:
        """Return the shipped Alertmanager configuration with short times and the receiver's address."""
        shipped = folder("alertmanager") / "alertmanager.yml"
        document = yaml.safe_load(shipped.read_text(encoding="utf-8"))
        document["route"] |= {"group_wait": "100ms", "group_interval": "1s"}
        for receiver in document["receivers"]:
            receiver["webhook_configs"] = [{"url": self.receiver.url, "send_resolved": True}]
        path = self.path / "alertmanager.yml"
        path.write_text(yaml.safe_dump(document))
        return path

    def statuses(self) -> dict[tuple[str, str], str]:
        """Return the last status that the receiver got, by alert and prefix (or job)."""
        found = {}
        for alert in self.receiver.received:
            labels = alert["labels"]
            found[labels["alertname"], labels.get("prefix", labels.get("job", ""))] = alert["status"]
        return found

    def close(self) -> None:
        """Stop everything."""
        for process in self.processes.values():
            process.stop(signal.SIGTERM)
        self.prometheus.close()
        self.alertmanager.close()
        self.receiver.close()
        self.client.close()
        for server in (self.main, self.paused, self.small):
            server.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Give everything, running."""
    world = World(tmp_path)
    yield world
    world.close()


def break_everything(world: World) -> None:
    """Inject each fault."""
    world.start_workers(
        dict.fromkeys(("hold", "want", "duplicate", "hot"), world.main) | {"renew": world.paused}
    )
    wait_until(lambda: world.client.exists("holding"), timeout=20)
    world.client.persist("lock:forever:1")
    world.stop("spare")
    small = world.small.client()
    small.config_set("maxmemory-policy", "allkeys-random")
    small.config_set("maxmemory", "100mb")
    for number in range(200):
        small.set(f"lock:evict:{number}", uuid.uuid4().hex, px=600_000)
    watched = 'sum(redis_lock_keys{prefix="lock:evict:*"}) == 200'
    wait_until(
        lambda: world.prometheus.query(watched), timeout=20, every=0.2, what="the exporter sees the locks"
    )
    slow = 'redis_lock_oldest_age_seconds{prefix="lock:slow:*"} > 1.5'
    wait_until(lambda: world.prometheus.query(slow), timeout=20, every=0.2)
    world.stop("hold", signal.SIGKILL)
    unsafe = 'redis_lock_server_eviction_safe{job="lockscope-evict"} == 0'
    wait_until(lambda: world.prometheus.query(unsafe), timeout=30, every=0.2)
    small.config_set("maxmemory", small.info("memory")["used_memory"] + 200_000)
    for number in range(400):
        small.set(f"filler:{number}", "x" * 4000)
    small.close()
    # Long enough for renewals to fail, short enough for the exporter to find Redis again.
    world.paused.signal(signal.SIGSTOP)
    wait_until(
        lambda: ("RedisLockRenewFailing", "lock:renew:*") in world.prometheus.firing(), timeout=20, every=0.2
    )
    world.paused.signal(signal.SIGCONT)


def repair_everything(world: World) -> None:
    """Repair each fault, as an operator would."""
    for role in ("want", "duplicate", "hot", "renew"):
        world.stop(role)
    world.client.delete("lock:kill:1", "lock:gone:1", "lock:slow:1", "lock:forever:1")
    small = world.small.client()
    small.config_set("maxmemory-policy", "noeviction")
    small.config_set("maxmemory", 0)
    small.flushdb()
    small.close()
    world.start_exporter("spare", world.main)


def await_webhook(world: World, lacking: Callable[[], list[tuple[str, str]]], timeout: float) -> None:
    """Wait until nothing is lacking; else say what is, and what fires instead."""
    deadline = time.monotonic() + timeout
    wait_until(lambda: not lacking() or time.monotonic() > deadline, timeout=timeout + 10, every=0.2)
    assert not lacking(), (lacking(), world.prometheus.firing())


def test_faults_raise_their_alerts_and_repairs_resolve_them(world: World) -> None:
    """No alert while all is well; each fault's alert reaches the webhook, and each repair resolves it."""
    world.start_workers({"healthy": world.main})
    working = 'sum(increase(redis_lock_acquire_total{outcome="acquired"}[5s])) > 10'
    wait_until(lambda: world.prometheus.query(working), timeout=30, every=0.2, what="healthy load")
    healthy_until = time.monotonic() + TEN_MINUTES * 1.2
    wait_until(lambda: time.monotonic() > healthy_until, timeout=30, every=0.2)
    raised = world.prometheus.query(
        'count by (alertname, prefix) (count_over_time(ALERTS{alertstate="firing"}[1h]))'
    )
    assert raised == []
    assert world.receiver.received == []

    break_everything(world)

    def missing() -> list[tuple[str, str]]:
        known = world.statuses()
        return [alert for alert in EXPECTED if alert not in known]

    await_webhook(world, missing, 60)
    muted = {
        (alert["labels"]["alertname"], alert["labels"].get("prefix"))
        for alert in world.alertmanager.alerts()
        if alert["status"]["state"] == "suppressed"
    }
    assert ("RedisLockOrphaned", "lock:kill:*") in muted

    repair_everything(world)

    def unresolved() -> list[tuple[str, str]]:
        known = world.statuses()
        return [alert for alert in EXPECTED if known[alert] != "resolved"]

    await_webhook(world, unresolved, 90)
    assert world.processes["healthy"].popen.poll() is None

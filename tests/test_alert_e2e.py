"""Real faults, from Redis to the webhook: each raises its alert, its repair resolves it, health raises none.

The windows of the rules are a hundredth of what is shipped; the expressions are the same. Only what says that
an exporter is down waits for as many scrapes as shipped: see ``scrapes_to_wait``.
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

from lockscope_exporter.alerts import RuleOptions, compile_rules
from lockscope_exporter.alerts.promql import duration_seconds
from lockscope_exporter.shipped import folder, write_rules
from monitoring import AlertmanagerServer, PrometheusServer, WebhookReceiver, ready
from servers import Process, RedisServer, free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SCALE = 1 / 100
TEN_MINUTES = 600 * SCALE
SCRAPE, SHIPPED_SCRAPE = 0.5, 15  # seconds between two scrapes
SCRAPED = (
    "healthy",
    "hold",
    "want",
    "renew",
    "duplicate",
    "hot",
    "misfit",
    "crowd",
    "families",
    "stall",
    "flood",
)
# Two processes of one role, known by their journal only.
UNSCRAPED = ("clash", "clash-too")
EXPORTERS = ("main", "spare", "pause", "evict")

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
    ("RedisLockAcquireFailureSpike", "lock:kill:*"): "everybody who waits for it gives up",
    ("RedisLockAcquireSLOBurn", "lock:kill:*"): "everybody who waits for it gives up",
    ("RedisLockBackendErrors", "lock:renew:*"): "Redis paused while locks are renewed",
    ("RedisLockJournalDropping", "workers"): "more events than the paused Redis takes",
    ("RedisLockOwnershipLost", "lock:lost:*"): "jobs that outlive their TTL",
    ("RedisLockReleaseFailing", "lock:lost:*"): "jobs that outlive their TTL",
    ("RedisLockEndedByExpiry", "lock:lost:*"): "jobs that outlive their TTL",
    ("RedisLockTTLTooShort", "lock:tight:*"): "jobs that nearly outlive their TTL",
    ("RedisLockTTLHeadroomLow", "lock:late:*"): "renewals just before the TTL is over",
    ("RedisLockOverlap", "lock:clash:*"): "two processes work under one lock",
    ("RedisLockWeakOwner", "lock:weak:*"): "constant owner values",
    ("RedisLockStalled", "lock:stall:*"): "a renewing process stopped with SIGSTOP",
    ("RedisLockRetryStorm", "lock:storm:*"): "a job retried ten times a second",
    ("RedisLockStarved", "lock:starved:*"): "nobody gets a lock that is held for too long",
    ("RedisLockWaitersGrowing", "lock:crowd:*"): "one more waits again and again",
    ("RedisLockIdempotencyStarving", "stuck:*"): "a first run that never ends",
    ("RedisLockHoldNearVisibilityTimeout", "lock:queue:*"): "held until the job is delivered again",
    ("RedisLockProgressStale", "job:*:progress"): "a running job that falls silent",
    ("RedisLockPrefixOverflow", "workers"): "more families than a process may tell apart",
}


def scrapes_to_wait(rules: Path) -> None:
    """Let the alert that an exporter is down wait for as many scrapes as shipped.

    Scrapes are not a hundred times as frequent, so a hundredth of its two minutes is two late scrapes of a
    busy machine. While it fires, Alertmanager mutes what is said of locks, and never tells that one of those
    alerts is resolved if it ends meanwhile.
    """
    name = "RedisLockExporterDown"
    waits = [
        duration_seconds(rule["for"]) / SHIPPED_SCRAPE * SCRAPE
        for group in compile_rules()[1]
        for rule in group["rules"]
        if rule["alert"] == name
    ]
    assert waits
    for path in rules.glob("*.yml"):
        document = yaml.safe_load(path.read_text())
        for rule in (rule for group in document["groups"] for rule in group["rules"]):
            if rule.get("alert") == name:
                rule["for"] = f"{waits.pop(0) * 1000:.0f}ms"
        path.write_text(yaml.safe_dump(document))
    assert not waits


class World:
    """Three Redis servers, exporters, workers, Prometheus, Alertmanager and a receiver."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.main, self.paused, self.small = (RedisServer(port=None) for _ in range(3))
        self.ports = {name: free_port() for name in (*SCRAPED, *UNSCRAPED, *EXPORTERS)}
        self.processes: dict[str, Process] = {}
        self.client = self.main.client()
        self.start_exporters()
        self.receiver = WebhookReceiver()
        self.alertmanager = AlertmanagerServer(path / "alertmanager", self._routing())
        options = RuleOptions(window_scale=SCALE, visibility_timeouts={"lock:queue:*": 2})
        write_rules(path / "rules", options)
        scrapes_to_wait(path / "rules")
        exporters = [
            {"job_name": f"lockscope-{name}", "static_configs": [{"targets": [self.address(name)]}]}
            for name in EXPORTERS
        ]
        workers = {"job_name": "workers", "file_sd_configs": [{"files": [str(path / "workers.json")]}]}
        workers["file_sd_configs"][0]["refresh_interval"] = "1s"
        self.prometheus = PrometheusServer(
            path / "prometheus",
            [*exporters, workers],
            rules=str(path / "rules" / "*.yml"),
            interval=f"{round(SCRAPE * 1000)}ms",
            alertmanager=self.alertmanager.address,
        )
        for name in EXPORTERS:
            wait_until(lambda name=name: ready(f"http://{self.address(name)}/-/ready"), timeout=60)

    def address(self, name: str) -> str:
        """Return where an exporter or a worker serves its metrics."""
        return f"127.0.0.1:{self.ports[name]}"

    def start_exporters(self) -> None:
        """Start the exporters that do not run."""
        servers = {"main": self.main, "spare": self.main, "pause": self.paused, "evict": self.small}
        for name in servers.keys() - self.processes.keys():
            self.start_exporter(name, servers[name])

    def start_exporter(self, name: str, server: RedisServer) -> None:
        """Start an exporter, for locks whose hold is known to be short in two families."""
        options = {
            "--redis-url": server.url,
            "--listen": self.address(name),
            "--timeout": "500ms",
            "--progress": "job:*:progress",
            "--progress-stale-after": "2s",
        }
        command = [sys.executable, "-m", "lockscope_exporter", "export"]
        command += [word for pair in options.items() for word in pair]
        for family in ("slow", "starved"):
            command += ["--expected-hold", f"lock:{family}:*=500ms"]
        if name == "main":
            command.append("--journal")
        self.processes[name] = Process(command, self.path / f"{name}.log")

    def start_workers(self, roles: dict[str, RedisServer]) -> None:
        """Start worker processes and let Prometheus find them once they work."""
        script = Path(__file__).with_name("alert_workers.py")
        journals = dict.fromkeys(UNSCRAPED, self.main.url) | {"flood": self.paused.url}
        for role, server in roles.items():
            command = [sys.executable, str(script), role.partition("-")[0], server.url, str(self.ports[role])]
            command += [journals[role]] if role in journals else []
            env = {"LOCKSCOPE_MAX_PREFIXES": "3"} if role == "families" else {}
            self.processes[role] = Process(command, self.path / f"{role}.log", env)
        for role in roles:
            wait_until(lambda role=role: ready(f"http://{self.address(role)}/metrics"), timeout=60)
        self._name_workers()

    def stop(self, name: str, sig: int = signal.SIGTERM) -> None:
        """Stop an exporter or a worker."""
        self.processes.pop(name).stop(sig)
        self._name_workers()

    def _name_workers(self) -> None:
        running = [self.address(role) for role in SCRAPED if role in self.processes]
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


HELD = ("kill", "gone", "slow", "forever", "queue", "storm", "starved", "crowd")


def break_everything(world: World) -> None:
    """Inject each fault."""
    on_paused = dict.fromkeys(("renew", "flood"), world.paused)
    world.start_workers({"hold": world.main})  # before anybody can take one of its locks
    wait_until(lambda: world.client.exists("holding"), timeout=60)
    others = ("want", "duplicate", "hot", "misfit", "crowd", "families", "stall", *UNSCRAPED)
    world.start_workers(dict.fromkeys(others, world.main) | on_paused)
    world.client.persist("lock:forever:1")
    world.client.mset({f"lock:weak:{number}": "1" for number in range(3)})
    for number in range(3):
        world.client.expire(f"lock:weak:{number}", 600)
    world.client.hset("job:2:progress", mapping={"status": "running", "updated_at": time.time()})
    world.stop("spare")
    fill_memory(world)
    # What is said of a living holder, before it is killed.
    alive = {
        ("RedisLockHeldTooLong", "lock:slow:*"),
        ("RedisLockHoldNearVisibilityTimeout", "lock:queue:*"),
        ("RedisLockNoTTL", "lock:forever:*"),
        ("RedisLockRetryStorm", "lock:storm:*"),
        ("RedisLockStarved", "lock:starved:*"),
        ("RedisLockWaitersGrowing", "lock:crowd:*"),
    }
    await_webhook(world, lambda: sorted(alive - world.statuses().keys()), 90)
    world.stop("hold", signal.SIGKILL)
    world.processes["stall"].popen.send_signal(signal.SIGSTOP)
    # Long enough for renewals to fail, short enough for the exporter to find Redis again.
    world.paused.signal(signal.SIGSTOP)
    world.processes["flood"].popen.send_signal(signal.SIGUSR1)
    unanswered = {
        ("RedisLockRenewFailing", "lock:renew:*"),
        ("RedisLockBackendErrors", "lock:renew:*"),
        ("RedisLockJournalDropping", ""),
    }
    wait_until(lambda: unanswered <= world.prometheus.firing(), timeout=30, every=0.2)
    world.paused.signal(signal.SIGCONT)


def fill_memory(world: World) -> None:
    """Let Redis evict locks that the exporter knows."""
    small = world.small.client()
    small.config_set("maxmemory-policy", "allkeys-random")
    small.config_set("maxmemory", "100mb")
    for number in range(200):
        small.set(f"lock:evict:{number}", uuid.uuid4().hex, px=600_000)
    watched = 'sum(redis_lock_keys{prefix="lock:evict:*"}) == 200'
    wait_until(
        lambda: world.prometheus.query(watched), timeout=20, every=0.2, what="the exporter sees the locks"
    )
    unsafe = 'redis_lock_server_eviction_safe{job="lockscope-evict"} == 0'
    wait_until(lambda: world.prometheus.query(unsafe), timeout=30, every=0.2)
    small.config_set("maxmemory", small.info("memory")["used_memory"] + 200_000)
    for number in range(400):
        small.set(f"filler:{number}", "x" * 4000)
    small.close()


def repair_everything(world: World) -> None:
    """Repair each fault, as an operator would."""
    world.processes["stall"].popen.send_signal(signal.SIGCONT)
    for role in ("want", "duplicate", "hot", "renew", "misfit", "crowd", "families", "flood", *UNSCRAPED):
        world.stop(role)
    world.client.delete(*(f"lock:{family}:1" for family in HELD))
    world.client.delete(*(f"lock:weak:{number}" for number in range(3)))
    world.client.hset("job:2:progress", "status", "completed")
    small = world.small.client()
    small.config_set("maxmemory-policy", "noeviction")
    small.config_set("maxmemory", 0)
    small.flushdb()
    small.close()
    world.start_exporters()


def await_webhook(world: World, lacking: Callable[[], list[tuple[str, str]]], timeout: float) -> None:
    """Wait until nothing is lacking; else say what is, and what fires instead."""
    deadline = time.monotonic() + timeout
    wait_until(lambda: not lacking() or time.monotonic() > deadline, timeout=timeout + 10, every=0.2)
    told = [alert for alert in world.receiver.received if alert["labels"]["alertname"] in dict(lacking())]
    assert not lacking(), (lacking(), world.prometheus.firing(), told, world.alertmanager.alerts())


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

    await_webhook(world, missing, 120)
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

    await_webhook(world, unresolved, 120)

    absent = ("RedisLockExporterAbsent", "")
    for name in EXPORTERS:
        world.stop(name)
    await_webhook(world, lambda: [] if absent in world.statuses() else [absent], 60)
    world.start_exporters()
    await_webhook(world, lambda: [] if world.statuses()[absent] == "resolved" else [absent], 60)
    assert world.processes["healthy"].popen.poll() is None

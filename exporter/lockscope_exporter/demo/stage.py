"""The demo's stage: server, workers, exporter, Prometheus, explorer, and the accidents that happen."""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import redis

from lockscope_exporter.demo import prometheus
from lockscope_exporter.demo.children import Child, ChildError, Children
from lockscope_exporter.demo.outside import LOCKS, Outside
from lockscope_exporter.demo.roles import FEED_TTL, NAMESPACE
from lockscope_exporter.demo.scrape import WORKER_METRICS, Seen, fetch
from lockscope_exporter.redis_url import hide_passwords
from lockscope_exporter.serve import listen, parse_listen
from lockscope_exporter.shipped import ShippedFileError, folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sized

# Worker processes by job type. Those of one type compete with each other.
CREW = (
    ("invoice.generate", 3),
    ("report.nightly", 2),
    ("video.transcode", 1),
    ("stock.sync", 2),
    ("feed.import", 1),
    ("backup.run", 1),
    ("payment.capture", 2),
)
VICTIM = "feed.import"
WORTH_A_LOOK = (
    "ls                     # every few seconds a holder is killed: its lock turns orphaned",
    f"why {NAMESPACE}:lock:backup:db-1    # a lock that somebody forgot to give an expiry",
    "watch                  # waiting, giving up, renewals, locks that are lost while their holders work",
    "contention             # who asks for which lock in vain",
    "doctor                 # what is wrong with this Redis, and which TTLs are too short",
)
_HEALTHY_WITHIN = 20.0  # seconds for a child to come up, on a busy machine
_DELIVER_EVERY = 0.7


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run.

    Attributes:
        redis_url: server to use; ``None`` starts an embedded Valkey.
        listen: ``host:port`` of the exporter.
        explorer_port: port of the explorer, ``None`` to leave it out.
        prometheus_port: port of Prometheus, ``None`` to leave it out.
    """

    redis_url: str | None
    listen: str
    explorer_port: int | None
    prometheus_port: int | None


class EndedError(Exception):
    """A person or a supervisor wants the demo to end."""


class Stage:
    """Starts everything, lets accidents happen, and watches it through the exposed metrics alone.

    Args:
        plan: what to run.
        folder: an empty folder for logs, ports and Prometheus data.
        say: prints a line for the person who watches.
        endings: no longer empty once the demo shall end.
    """

    def __init__(self, plan: Plan, folder: Path, say: Callable[[str], None], endings: Sized = ()) -> None:
        self._endings = endings
        self.plan = plan
        self.folder = folder
        self.say = say
        self.children = Children(folder)
        self.seen = Seen()
        self.redis_url = plan.redis_url or ""
        self._outside: Outside | None = None
        self.prometheus_url: str | None = None
        self._workers: dict[str, Child] = {}
        self._ports: dict[str, int] = {}
        self._deliver_at = 0.0
        self._hires = 0

    def start(self) -> None:
        """Start everything in order and wait until the exporter is ready.

        Raises:
            ChildError: something did not come up.
            EndedError: the demo shall end.
            OSError: a port is in use.
        """
        for address in self._addresses():
            listen(*parse_listen(address)).close()  # in use: say so before anything runs
        if not self.redis_url:
            self._start_valkey()
        client = redis.Redis.from_url(self.redis_url, socket_timeout=3, socket_connect_timeout=3)
        try:
            client.ping()
        except redis.RedisError as error:
            raise ChildError(f"cannot use {self.redis_url}: {error}") from error
        self._start_exporter()
        for job_type, count in CREW:
            for _ in range(count):
                self._hire(job_type)
        self._outside = Outside(client)
        self._start_prometheus()
        if self.plan.explorer_port is not None:
            self._start_explorer(self.plan.explorer_port)
        self._wait(lambda: fetch(f"http://{self.plan.listen}/-/ready") is not None, "exporter")
        self._wait(lambda: self._find_ports() == len(self._workers), "workers")

    def run(self, duration: float | None, pause: float) -> None:
        """Let things happen for ``duration`` seconds, ``None`` for ever, with a pause between two looks.

        Raises:
            ChildError: something that should run ended by itself.
            EndedError: the demo shall end.
        """
        until = None if duration is None else time.monotonic() + duration
        while until is None or time.monotonic() < until:
            self.step()
            self._rest(pause)

    def step(self) -> None:
        """Let a little happen: deliver payments, kill the victim, scrape. Call it a few times a second.

        Raises:
            ChildError: something that should run ended by itself.
        """
        for child in self.children.dead():
            raise ChildError(f"{child.name} ended by itself; it printed: {child.last_words()}")
        now = time.monotonic()
        if self._outside is not None:
            if now >= self._deliver_at:
                self._deliver_at = now + _DELIVER_EVERY
                self._outside.deliver()
                self._outside.take_foreign_locks()
            if self._outside.time_to_kill(now):
                self._kill_victim()
        self._find_ports()
        self._scrape()

    def stop(self) -> None:
        """Stop all that was started and remove the demo's keys from a server that is not ours."""
        self.children.stop()
        if self.plan.redis_url and self._outside is not None:
            try:
                self._outside.clean_up()
            except redis.RedisError as error:
                self.say(f"could not remove the demo's keys: {error}")

    def _addresses(self) -> list[str]:
        ports = (self.plan.explorer_port, self.plan.prometheus_port)
        return [self.plan.listen, *(f"127.0.0.1:{port}" for port in ports if port is not None)]

    def _start_valkey(self) -> None:
        child = self.children.python("valkey", "lockscope_exporter.demo.valkey")
        self._wait(lambda: child.log.read_text().strip().isdecimal(), "valkey")
        self.redis_url = f"redis://127.0.0.1:{int(child.log.read_text())}/0"

    def _start_exporter(self) -> None:
        arguments = ["export", "--redis-url", self.redis_url, "--listen", self.plan.listen, "--journal", "1"]
        for pattern in LOCKS:
            arguments += ["--locks", pattern]
        self.children.python("exporter", "lockscope_exporter", *arguments)

    def _start_prometheus(self) -> None:
        if self.plan.prometheus_port is None:
            return
        address = f"127.0.0.1:{self.plan.prometheus_port}"
        try:
            rules = folder("rules")
        except ShippedFileError as error:
            raise ChildError(str(error)) from error
        command = prometheus.command(self.folder, address, self.plan.listen, rules)
        if command is None:
            self.say("Prometheus: no binary found, so no rules run (Debian: apt-get install prometheus)")
            return
        self.children.start("prometheus", command)
        self.prometheus_url = f"http://{address}"

    def _start_explorer(self, port: int) -> None:
        arguments = ["explore", "--redis-url", self.redis_url, "--port", str(port)]
        for pattern in LOCKS:
            arguments += ["--locks", pattern]
        env = {"LOCKSCOPE_ALLOW_RELEASE": "1"}
        if self.prometheus_url:
            env["LOCKSCOPE_PROMETHEUS_URL"] = self.prometheus_url
        self.children.python("explorer", "lockscope_exporter", *arguments, env=env)

    def _hire(self, job_type: str) -> None:
        self._hires += 1
        name = f"{job_type}-{self._hires}"
        self._workers[name] = self.children.python(
            name, "lockscope_exporter.demo.worker", job_type, self.redis_url, str(self._port_file(name))
        )

    def _kill_victim(self) -> None:
        """Kill the victim with SIGKILL and hire the next one."""
        name = next(name for name in self._workers if name.startswith(VICTIM))
        child = self._workers.pop(name)
        self._ports.pop(name, None)
        self.children.kill(child)
        self.say(f"killed {name} (pid {child.popen.pid}); its lock stays for up to {FEED_TTL:.0f} s")
        self._hire(VICTIM)

    def _find_ports(self) -> int:
        """Read the ports of workers that came up; return how many are known."""
        for name in self._workers:
            if name not in self._ports and self._port_file(name).exists():
                self._ports[name] = int(self._port_file(name).read_text())
                prometheus.write_workers(self.folder, self._ports)
        return len(self._ports)

    def _port_file(self, name: str) -> Path:
        return self.folder / f"{name}.port"

    def _scrape(self) -> None:
        for name, port in self._ports.items():
            self._take(name, f"http://127.0.0.1:{port}/metrics")
        self._take("exporter", f"http://{self.plan.listen}/metrics")

    def _take(self, instance: str, url: str) -> None:
        text = fetch(url)
        if text is not None:
            self.seen.take(instance, text, without=WORKER_METRICS if instance == "exporter" else frozenset())

    def _rest(self, seconds: float) -> None:
        time.sleep(seconds)
        if self._endings:
            raise EndedError

    def _wait(self, check: Callable[[], bool], name: str) -> None:
        deadline = time.monotonic() + _HEALTHY_WITHIN
        while not check():
            for child in self.children.dead():
                raise ChildError(f"{child.name} did not start; it printed: {child.last_words()}")
            if time.monotonic() > deadline:
                raise ChildError(f"{name} did not come up within {_HEALTHY_WITHIN:.0f} s; see {self.folder}")
            self._rest(0.05)


def describe(plan: Plan, stage: Stage) -> list[str]:
    """Return the lines that say where to look and at what."""
    lines = [f"metrics    http://{plan.listen}/metrics   (locks as JSON: /api/v1/locks)"]
    if plan.explorer_port is not None:
        lines.append(f"explorer   http://127.0.0.1:{plan.explorer_port}/")
    if stage.prometheus_url:
        lines.append(
            f"Prometheus {stage.prometheus_url}/alerts   (try: sum by (prefix, state) (redis_lock_keys))"
        )
    where = hide_passwords(stage.redis_url)
    lines += [f"Redis      {where}", f"logs       {stage.folder}"]
    script = Path(sys.executable).with_name("lockscope")
    locks = shlex.quote(" ".join(LOCKS))
    return [
        *lines,
        "",
        f"in another terminal: export LOCKSCOPE_REDIS_URL={shlex.quote(where)} LOCKSCOPE_LOCKS={locks}",
        *(f"  {shlex.quote(str(script))} {line}" for line in WORTH_A_LOOK),
        "",
    ]

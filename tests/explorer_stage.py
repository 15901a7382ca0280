"""What explorer tests need around them: a worker that contends for locks, Prometheus, the explorer itself."""

from __future__ import annotations

import shutil
import sys
import tempfile
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import sync_playwright

from servers import Process, free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from playwright.sync_api import Browser

_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
]

WORKER = '''
"""Threads that fight for locks through the shim, as a worker would; argv: redis URL, metrics port."""
import sys, threading, time
import redis, lockscope
from prometheus_client import start_http_server

lockscope.instrument()
start_http_server(int(sys.argv[2]), addr="127.0.0.1")

def work(job, name, hold, wait):
    client = redis.Redis.from_url(sys.argv[1])
    while True:
        lock = client.lock(name, timeout=2, blocking_timeout=wait)
        with lockscope.job(job_type=job, job_id="j1"):
            if lock.acquire():
                time.sleep(hold)
                lock.release()
        time.sleep(0.01)

for job, name, hold, wait in (
    ("order.sync", "lock:order:1", 0.05, 1.0),
    ("order.sync", "lock:order:1", 0.05, 1.0),
    ("order.sync", "lock:order:1", 0.05, 0.01),
    ("mail.digest", "lock:mail:7", 0.02, 1.0),
):
    threading.Thread(target=work, args=(job, name, hold, wait), daemon=True).start()
print("ready", flush=True)
threading.Event().wait()
'''

HOLDER = '''
"""Hold a lock through the shim until killed; argv: redis URL, key, job type."""
import sys, threading
import redis, lockscope

lockscope.instrument()
with lockscope.job(job_type=sys.argv[3], job_id="8812"):
    assert redis.Redis.from_url(sys.argv[1]).lock(sys.argv[2], timeout=600).acquire(blocking_timeout=20)
print("holding", flush=True)
threading.Event().wait()
'''

WAITER = '''
"""Want a lock again and again; argv: redis URL, key, job type."""
import sys, time
import redis, lockscope

lockscope.instrument()
client = redis.Redis.from_url(sys.argv[1])
number = 0
while True:
    number += 1
    with lockscope.job(job_type=sys.argv[3], job_id=str(number)):
        lock = client.lock(sys.argv[2], timeout=5, blocking_timeout=1.5)
        if lock.acquire():
            time.sleep(0.4)
            lock.release()
            print("released", flush=True)
    time.sleep(0.3)
'''

SCENE = r'''
"""Keep a lively scene of locks as several hosts would hold them; argv: redis URL, seconds to keep it up."""
import random, sys, time
import redis
from urllib.parse import quote

client = redis.Redis.from_url(sys.argv[1])
present = client.pubsub()  # speaks for all the processes of this scene: they live as long as it does
draw = random.Random(11)
HOSTS = ("web-1", "web-2", "worker-3", "worker-4", "batch-1")
JOBS = {
    "invoice.generate": ("lock:invoice:%d", 60),
    "payment.settle": ("lock:payment:%d", 30),
    "mail.digest": ("lock:customer:%d:mail", 20),
    "stock.import": ("lock:warehouse:%d", 300),
}

def token(job):
    host, pid = draw.choice(HOSTS), draw.randint(900, 9000)
    worker = f"{draw.getrandbits(48):012x}"
    present.subscribe(f"lockscope:alive:{worker}")
    return (f"ls1;host={host};pid={pid};worker={worker};type={quote(job)};id={draw.randint(10000, 99999)}"
            f";at={time.time():.3f};n={draw.getrandbits(128):032x}")

def take(number):
    job = draw.choice(list(JOBS))
    key, ttl = JOBS[job]
    client.set(key % draw.randint(1000, 9999), token(job), px=int(ttl * 1000 * draw.uniform(0.3, 1)))

for number in range(26):
    take(number)
client.set("lock:backup:db-1", token("backup.run"))
client.set("lock:order:4711", token("order.sync"), px=120_000)
laravel = r"laravel_cache:laravel_unique_job:App\Jobs\ImportPodcast:42"
client.set(laravel, 's:16:"kR2o1Qm9wZx4Tb7V";', px=3_600_000)
client.hset("stocktake", "8743c9c0-0795-4907-87fd-6c719a6b4586:1", 1)
client.pexpire("stocktake", 30_000)
report = token("report.nightly")
client.set("lock:report:nightly", report, px=15_000)
print("ready", flush=True)
until = time.time() + float(sys.argv[2])
while time.time() < until:
    take(0)
    while present.get_message():
        pass
    client.pexpire("lock:report:nightly", 15_000)
    client.pexpire("stocktake", 30_000)
    time.sleep(1)
'''


class Folder:
    """A private folder for what one test starts; ``close`` stops it all, last started first."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="ls-explorer-"))
        self.processes: list[Process] = []

    def start(self, name: str, command: Sequence[str], env: Mapping[str, str] | None = None) -> Process:
        """Start a process with its output in the folder."""
        process = Process(command, self.path / f"{name}-{len(self.processes)}.log", env=env, cwd=self.path)
        self.processes.append(process)
        return process

    def script(self, name: str, text: str, *arguments: str, env: Mapping[str, str] | None = None) -> Process:
        """Start a Python script."""
        file = self.path / f"{name}.py"
        file.write_text(text)
        return self.start(name, [sys.executable, str(file), *arguments], env)

    def close(self) -> None:
        """Stop everything and remove the folder."""
        for process in reversed(self.processes):
            process.stop()
        shutil.rmtree(self.path, ignore_errors=True)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Give a browser that asks for nothing but the pages of the test."""
    path = shutil.which("chromium")
    if path is None:
        pytest.fail("chromium is not installed; run tests/system-packages.sh")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=_ARGUMENTS)
        yield started
        started.close()


def answers(url: str) -> bool:
    """Tell whether a URL answers with success."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return response.status == 200
    except (urllib.error.URLError, OSError):
        return False


def start_prometheus(folder: Folder, *targets: int) -> str:
    """Start a Prometheus that scrapes these ports four times a second; return its URL."""
    binary = shutil.which("prometheus")
    if binary is None:
        pytest.fail("prometheus is not installed; run tests/system-packages.sh")
    port = free_port()
    addresses = ", ".join(f'"127.0.0.1:{target}"' for target in targets)
    (folder.path / "prometheus.yml").write_text(
        "global: {scrape_interval: 250ms, scrape_timeout: 250ms}\n"
        f"scrape_configs: [{{job_name: workers, static_configs: [{{targets: [{addresses}]}}]}}]\n"
    )
    folder.start(
        "prometheus",
        [
            binary,
            f"--config.file={folder.path}/prometheus.yml",
            f"--storage.tsdb.path={folder.path}/tsdb",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
    )
    url = f"http://127.0.0.1:{port}"
    wait_until(lambda: answers(f"{url}/-/ready"), timeout=20, what="prometheus ready")
    return url


def start_explorer(
    folder: Folder,
    redis_url: str,
    *options: str,
    env: Mapping[str, str] | None = None,
    port: int | None = None,
) -> str:
    """Start ``lockscope explore`` as a user would; return its URL."""
    port = port or free_port()
    command = [sys.executable, "-m", "lockscope_exporter", "explore", "--redis-url", redis_url]
    process = folder.start("explorer", [*command, "--port", str(port), *options], env=env)
    url = f"http://127.0.0.1:{port}"

    def up() -> bool:
        assert process.popen.poll() is None, process.output()
        return answers(f"{url}/_stcore/health")

    wait_until(up, timeout=30, what="explorer serving")
    return url

"""What explorer tests need around them: a worker that contends for locks, Prometheus, the explorer itself."""

from __future__ import annotations

import shutil
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from servers import Process, free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    assert redis.Redis.from_url(sys.argv[1]).lock(sys.argv[2], timeout=600).acquire(blocking=False)
print("holding", flush=True)
threading.Event().wait()
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

    def script(self, name: str, text: str, *arguments: str) -> Process:
        """Start a Python script."""
        file = self.path / f"{name}.py"
        file.write_text(text)
        return self.start(name, [sys.executable, str(file), *arguments])

    def close(self) -> None:
        """Stop everything and remove the folder."""
        for process in reversed(self.processes):
            process.stop()
        shutil.rmtree(self.path, ignore_errors=True)


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
    folder: Folder, redis_url: str, *options: str, env: Mapping[str, str] | None = None
) -> str:
    """Start ``lockscope explore`` as a user would; return its URL."""
    port = free_port()
    command = [sys.executable, "-m", "lockscope_exporter", "explore", "--redis-url", redis_url]
    process = folder.start("explorer", [*command, "--port", str(port), *options], env=env)
    url = f"http://127.0.0.1:{port}"

    def up() -> bool:
        assert process.popen.poll() is None, process.output()
        return answers(f"{url}/_stcore/health")

    wait_until(up, timeout=30, what="explorer serving")
    return url

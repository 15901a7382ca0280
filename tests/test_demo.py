"""The demo, run as a user runs it: situations seen in scraped metrics, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
import pytest

from servers import Process, RedisServer, free_port, wait_until

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = [sys.executable, "-m", "lockscope_exporter", "demo"]


def ports() -> tuple[list[str], list[int]]:
    """Return options that move the demo to free ports, and the ports."""
    chosen = [free_port(), free_port(), free_port()]
    exporter, explorer, prometheus = chosen
    options = ["--listen", f"127.0.0.1:{exporter}", "--explorer-port", str(explorer)]
    return [*options, "--prometheus-port", str(prometheus)], chosen


def members(pid: int) -> list[psutil.Process]:
    """Return a process and all its descendants."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def left_over(processes: list[psutil.Process], chosen: list[int]) -> list[object]:
    """Return processes that still run and ports that still listen."""
    listening = {
        connection.laddr.port for connection in psutil.net_connections("tcp") if connection.status == "LISTEN"
    }
    running = [process for process in processes if process.is_running() and process.status() != "zombie"]
    return [*running, *(port for port in chosen if port in listening)]


def as_printed(output: str, command: str) -> str:
    """Run one of the lines that the demo says are worth a look; return what it prints."""
    lines = output.splitlines()
    export = next(line.partition(": ")[2] for line in lines if line.startswith("in another terminal: "))
    line = next(line for line in lines if f"/lockscope {command} " in line)
    done = subprocess.run(
        ["/bin/sh", "-c", f"{export}\n{line}"], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_headless_demo_shows_every_situation(tmp_path: Path) -> None:
    """Thirty seconds of the headless demo show every situation in scraped metrics and exit with 0."""
    options, chosen = ports()
    demo = Process([*COMMAND, "--headless", "--duration", "30", *options], tmp_path / "demo.log")
    wait_until(lambda: "runs for 30 s" in demo.output(), timeout=60, what=demo.output())
    processes = members(demo.pid)
    workers = [process for process in processes if "lockscope_exporter.demo.worker" in process.cmdline()]
    job_types = {process.cmdline()[process.cmdline().index("-m") + 2] for process in workers}
    assert len(workers) >= 6
    assert len(job_types) >= 4
    demo.wait(90)
    output = demo.output()
    assert demo.popen.returncode == 0, output
    assert "NO " not in output
    assert "locks by prefix and state" in output
    assert "lockdemo:lock:backup:db-*" in output
    assert not left_over(processes, chosen)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_demo_leaves_nothing(tmp_path: Path, ending: signal.Signals) -> None:
    """Ctrl-C, SIGTERM or SIGHUP ends every process, frees every port, spares a real server's other keys."""
    options, chosen = ports()
    server = RedisServer(port=None)
    try:
        client = server.client()
        client.set("lock:order:1", "somebody-else")
        options += ["--redis-url", server.url]
        demo = Process([*COMMAND, "--headless", *options], tmp_path / "demo.log")
        wait_until(lambda: "Ctrl-C ends everything" in demo.output(), timeout=60, what=demo.output())
        wait_until(lambda: client.exists("lockdemo:lock:backup:db-1"))
        processes = members(demo.pid)
        assert len(processes) > 8
        assert "no_ttl" in as_printed(demo.output(), "ls"), demo.output()
        os.kill(demo.pid, ending)
        demo.wait(30)
        assert demo.popen.returncode in {0, 1}
        assert "Traceback" not in demo.output()
        assert not left_over(processes, chosen)
        assert client.keys("*") == [b"lock:order:1"]
        client.close()
    finally:
        server.close()


@pytest.mark.timeout(120)
def test_settings_of_others_are_not_the_demos(tmp_path: Path, server: RedisServer) -> None:
    """What the environment says of production reaches neither the demo's exporter nor its workers."""
    options, chosen = ports()
    env = {
        "LOCKSCOPE_TARGETS": str(tmp_path / "none.yml"), "LOCKSCOPE_TARGET": "none", "LOCKSCOPE_DB": "5",
        "LOCKSCOPE_EXPORTER": "http://127.0.0.1:1", "LOCKSCOPE_WEB_CONFIG_FILE": str(tmp_path / "none"),
        "LOCKSCOPE_REDIS_URL": server.url, "LOCKSCOPE_STATE_FILE": str(tmp_path / "learned.json"),
        "LOCKSCOPE_JOURNAL": server.url, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path / "none"),
    }  # fmt: skip
    demo = Process([*COMMAND, "--headless", *options], tmp_path / "demo.log", env)
    wait_until(lambda: "Ctrl-C ends everything" in demo.output(), timeout=60, what=demo.output())
    wait_until(lambda: "lockdemo:lock:" in as_printed(demo.output(), "ls"), timeout=30, every=0.2)
    assert demo.stop(signal.SIGINT, 30) in {0, 1}
    assert "could not" not in demo.output()
    assert not left_over([], chosen)
    assert not (tmp_path / "learned.json").exists()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_demo_that_is_ended_while_it_starts_leaves_nothing(tmp_path: Path, ending: signal.Signals) -> None:
    """Twice the same signal as soon as the first child is there: all end, with no traceback."""
    options, chosen = ports()
    demo = Process([*COMMAND, "--headless", *options], tmp_path / "demo.log")
    wait_until(lambda: len(members(demo.pid)) > 2, timeout=60)
    processes = members(demo.pid)
    os.kill(demo.pid, ending)
    os.kill(demo.pid, ending)
    assert demo.wait(30) in {0, 1}
    assert "Traceback" not in demo.output()
    assert not left_over(processes, chosen)


def test_port_in_use_is_one_line(tmp_path: Path, server: RedisServer) -> None:
    """A port that somebody listens on already ends the demo with one line that names it, exit 2."""
    options, _ = ports()
    options[1] = f"127.0.0.1:{server.port}"
    demo = Process([*COMMAND, "--headless", *options], tmp_path / "demo.log")
    assert demo.wait(30) == 2
    lines = [line for line in demo.output().splitlines() if "starting" not in line]
    assert len(lines) == 1
    assert str(server.port) in lines[0]


def test_unreachable_server_is_one_line(tmp_path: Path) -> None:
    """A server that does not answer ends the demo with one line that names it, exit 2."""
    options, _ = ports()
    url = f"redis://127.0.0.1:{free_port()}/0"
    demo = Process([*COMMAND, "--headless", *options, "--redis-url", url], tmp_path / "demo.log")
    assert demo.wait(30) == 2
    lines = [line for line in demo.output().splitlines() if "starting" not in line]
    assert len(lines) == 1
    assert url in lines[0]

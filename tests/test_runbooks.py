"""The runbooks: one for each alert, with its sections, valid queries, and commands that exist."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
import yaml

from commands import SCRIPT, Exporter
from lockscope.catalog import BY_NAME
from lockscope_exporter.alerts import ALERT_NAMES, THRESHOLDS, compile_rules
from lockscope_exporter.cli.group import LazyGroup
from servers import Process, wait_until

if TYPE_CHECKING:
    import redis

    from servers import RedisServer

FOLDER = Path(__file__).parents[1] / "docs" / "runbooks"
SECTIONS = ["Meaning", "Impact", "Diagnosis", "Mitigation", "False positives"]
RECORDED = {rule["record"] for recording in compile_rules()[0] for rule in recording["rules"]}
# Commands that are not lockscope's, as an operator has them.
FOREIGN = ("redis-cli", "curl")


def text(alert: str) -> str:
    """Return the runbook of an alert."""
    return (FOLDER / f"{alert}.md").read_text(encoding="utf-8")


def queries(alert: str) -> list[str]:
    """Return the PromQL of a runbook."""
    return re.findall(r"```promql\n(.*?)\n```", text(alert), re.DOTALL)


def commands(alert: str) -> list[str]:
    """Return the command lines of a runbook."""
    blocks = re.findall(r"```console\n(.*?)\n```", text(alert), re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]


def test_each_alert_has_a_runbook_and_no_other_is_there() -> None:
    """The files are the alerts, and the index lists them all with the thresholds that can be set."""
    assert {path.stem for path in FOLDER.glob("*.md")} - {"README"} == set(ALERT_NAMES)
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f"({name}.md)" in index for name in ALERT_NAMES)
    assert all(f"`{name}`" in index for name in THRESHOLDS)


@pytest.mark.parametrize("alert", ALERT_NAMES)
def test_runbook_has_its_sections(alert: str) -> None:
    """Title, when it fires, then the five sections in order, none of them empty."""
    body = text(alert)
    assert body.startswith(f"# {alert}\n\n")
    parts = re.split(r"^## (.+)$", body, flags=re.MULTILINE)
    assert parts[1::2] == SECTIONS
    assert all(len(part.strip()) > 12 for part in parts[2::2])
    assert queries(alert)
    assert commands(alert)


def test_queries_are_valid_and_name_what_exists(tmp_path: Path) -> None:
    """Each query is PromQL that promtool accepts, on metrics of the catalogue or of the recording rules."""
    expressions = [query for alert in ALERT_NAMES for query in queries(alert)]
    rules = [{"alert": f"Q{index}", "expr": expr} for index, expr in enumerate(expressions)]
    path = tmp_path / "queries.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    promtool = shutil.which("promtool") or "promtool"
    result = subprocess.run(
        [promtool, "check", "rules", str(path)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout
    for expr in expressions:
        recorded = set(re.findall(r"\b\w+:redis_lock_\w+:\w+", expr))
        assert recorded <= RECORDED
        plain = re.sub(r"\b\w+:redis_lock_\w+:\w+", "", expr)
        scraped = {
            re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"\bredis_lock_\w+", plain)
        }
        assert scraped <= BY_NAME.keys(), expr
        for name, matchers in re.findall(r"\b(redis_lock_\w+)\{([^}]*)\}", plain):
            metric = BY_NAME[re.sub(r"_(bucket|sum|count)$", "", name)]
            labels = set(re.findall(r"(\w+)[=!]", matchers))
            assert labels <= set(metric.labels), expr


@pytest.mark.parametrize("alert", ALERT_NAMES)
def test_commands_exist(alert: str) -> None:
    """Each command line is one of lockscope's commands with its options, or an operator's own tool."""
    for line in commands(alert):
        program, *arguments = re.sub(r"^LOCKSCOPE_\w+=\S+ ", "", line).replace("'", "").split()
        if program in FOREIGN:
            continue
        assert program == "lockscope", line
        group = LazyGroup()
        command = group.get_command(click.Context(group), arguments[0])
        assert command is not None, f"no such command: {line}"
        known = {name for parameter in command.params for name in parameter.opts}
        given = {argument for argument in arguments if argument.startswith("--")}
        assert given <= known, line


ENDLESS = ("lockscope watch",)  # what goes on until it is stopped
COMMANDS = sorted({line for alert in ALERT_NAMES for line in commands(alert)})


@pytest.mark.parametrize("line", [line for line in COMMANDS if not line.startswith("curl")])
def test_commands_run_as_they_are_written(
    line: str, server: RedisServer, client: redis.Redis, tmp_path: Path
) -> None:
    """Each command line runs in a shell on a Redis with locks; it ends well or with a finding."""
    client.set("lock:order:4711", "5f1e63b8-4d5a-11ef-9b1c-0242ac120002", px=600_000)
    client.set("lock:order:4712", "6f1e63b8-4d5a-11ef-9b1c-0242ac120002")
    # The same words, on this machine's Redis.
    words = line.replace("redis-cli", f"redis-cli -s {shlex.quote(server.socket)}")
    path = f"{Path(SCRIPT).parent}{os.pathsep}{os.environ['PATH']}"
    process = Process(
        ["bash", "-c", words], tmp_path / "log", {"PATH": path, "LOCKSCOPE_REDIS_URL": server.url}
    )
    try:
        if line in ENDLESS:
            # Without a terminal, watch says what happens.
            happened = iter(range(10_000))
            wait_until(
                lambda: client.set(f"lock:order:{next(happened)}", "t", px=200) and process.output().strip(),
                timeout=60,
                every=0.2,
                what=line,
            )
            assert process.popen.poll() is None, process.output()
            process.stop(signal.SIGINT)
        else:
            assert process.wait(120) in (0, 1), process.output()
            assert process.output().strip(), line
    finally:
        process.stop()
    assert "Traceback" not in process.output()
    assert "ERR" not in process.output()


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("curl")])
def test_exporter_answers_as_the_runbooks_ask(line: str, server: RedisServer) -> None:
    """Each curl line gets an answer of an exporter, whose default port it names."""
    assert "http://localhost:9963/" in line
    with Exporter(server.url) as exporter:
        exporter.wait_ready()
        words = shlex.split(line.replace("http://localhost:9963", exporter.url))
        result = subprocess.run([*words, "--fail"], capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()


@pytest.mark.parametrize("alert", ALERT_NAMES)
def test_links_lead_somewhere(alert: str) -> None:
    """Each link of a runbook leads to a page that exists, and none to itself."""
    targets = re.findall(r"\]\(([^)]+)\)", text(alert))
    assert all((FOLDER / target.partition("#")[0]).is_file() for target in targets)
    assert f"{alert}.md" not in targets

"""The command ``lockscope``: results, exit statuses and the one line for everything that goes wrong."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from commands import SCRIPT
from lockscope import tokens
from lockscope.jobs import Job
from lockscope_exporter.cli import explore, main
from lockscope_exporter.cli.group import COMMANDS
from lockscope_exporter.serve import listen
from servers import Process, free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def cli(capsys, monkeypatch) -> Callable[..., tuple[int, str, str]]:
    """Give a function that runs a command in this process: exit status, stdout, stderr."""
    for name in [name for name in os.environ if name.startswith("LOCKSCOPE_")]:
        monkeypatch.delenv(name)

    def run(*words: str, **env: str) -> tuple[int, str, str]:
        with monkeypatch.context() as patch:
            for name, value in env.items():
                patch.setenv(name, value)
            status = main(words)
        out, err = capsys.readouterr()
        return status, out, err

    return run


@pytest.fixture
def locks(server, client) -> str:
    """Fill the server with locks of several kinds and give its URL."""
    token = tokens.describe(Job("invoice.generate", "8812"), time.time() - 30)
    client.set("lock:order:1", token, px=60_000)
    client.set("lock:order:2", "abc")
    client.set(b"lock:bytes:\xff\n\x1b[31m", "abc", px=60_000)
    client.set("other:1", "9f86d081884c7d659a2feaa0c55ad015", px=60_000)
    return server.url


def the_line(err: str) -> str:
    """Return the only line on stderr."""
    [line] = err.splitlines()
    assert "Traceback" not in line
    return line


def test_ls_as_json(cli, locks):
    """``ls --json`` prints a list with every lock, its state, evidence, times and holder."""
    status, out, err = cli("ls", "--json", "--redis-url", locks, "--locks", "lock:*")
    assert (status, err) == (0, "")
    found = {lock["key"]: lock for lock in json.loads(out)}
    assert set(found) == {"lock:order:1", "lock:order:2", "lock:bytes:\\xff\n\x1b[31m"}
    order = found["lock:order:1"]
    assert (order["prefix"], order["state"], order["dialect"]) == ("lock:order:*", "held", "redis-py")
    assert 0 < order["ttl_seconds"] <= 60
    assert 30 <= order["age_seconds"] < 60
    assert order["holder"]["host"] == tokens.process.host
    assert order["holder"]["pid"] == os.getpid()
    assert (order["holder"]["job_type"], order["holder"]["job_id"]) == ("invoice.generate", "8812")
    assert found["lock:order:2"]["state"] == "no_ttl"
    assert found["lock:order:2"]["evidence"]
    assert out.isascii()


def test_ls_as_a_table(cli, locks):
    """``ls`` prints a head and one line a lock, the most urgent first, with nothing a terminal could obey."""
    status, out, err = cli("ls", "--redis-url", locks, "--locks", "lock:*")
    assert (status, err) == (0, "")
    head, *rows = out.splitlines()
    assert head.startswith("STATE")
    assert rows[0].startswith("no_ttl  lock:order:2 ")
    assert len(rows) == 3
    assert "lock:bytes:\\xff\\n\\x1b[31m" in out
    assert "\x1b" not in out


def test_ls_filters(cli, locks):
    """Filters, order and limit pick from the list."""
    base = ("ls", "--json", "--redis-url", locks, "--locks", "lock:*")

    def keys(*words: str, **env: str) -> list[str]:
        return [lock["key"] for lock in json.loads(cli(*base, *words, **env)[1])]

    assert keys("--state", "no_ttl") == ["lock:order:2"]
    assert keys("--key", "lock:order:*", "--sort", "key") == ["lock:order:1", "lock:order:2"]
    assert keys("--prefix", "lock:order:*", "--limit", "1") == ["lock:order:2"]
    assert keys("--host", tokens.process.host) == ["lock:order:1"]
    assert keys("--job-type", "nothing") == []
    assert keys(LOCKSCOPE_STATE="no_ttl,orphaned") == ["lock:order:2"]
    assert "no lock matches the filters; held are 3 locks: " in cli(*base[:1], *base[2:], "--host", "x")[2]


def test_options_come_from_the_environment_too(cli, locks):
    """Server and patterns in variables do the same as on the command line, which wins."""
    env = {"LOCKSCOPE_REDIS_URL": locks, "LOCKSCOPE_LOCKS": "lock:order:*, other:*"}
    assert len(json.loads(cli("ls", "--json", **env)[1])) == 3
    assert len(json.loads(cli("ls", "--json", "--locks", "other:*", **env)[1])) == 1


def test_a_forced_dialect_is_used(cli, locks):
    """``--locks PATTERN=DIALECT`` reads the keys as that dialect."""
    out = cli("ls", "--json", "--redis-url", locks, "--locks", "other:*=laravel")[1]
    assert [lock["dialect"] for lock in json.loads(out)] == ["laravel"]


def test_what_a_pattern_names_is_shown(cli, server, client):
    """Under a pattern of the user's own a plain word without expiry is shown, and not called a fault."""
    client.set("other:1", "abc")
    status, out, _ = cli("ls", "--json", "--redis-url", server.url, "--locks", "other:*")
    [lock] = json.loads(out)
    assert (status, lock["key"], lock["dialect"], lock["state"]) == (0, "other:1", "generic", "held")
    assert "it never expires, and whether it ought to is not known" in " ".join(lock["evidence"])
    assert cli("ls", "--json", "--redis-url", server.url)[1] == "[]\n"
    status, out, _ = cli("why", "other:1", "--redis-url", server.url, "--locks", "other:*")
    assert status == 0
    assert re.search(r"^  expires +never$", out, re.MULTILINE)


def test_ls_without_locks_says_what_to_do(cli, server):
    """An empty server is no error: an empty list, and a hint how to name one's keys."""
    assert cli("ls", "--json", "--redis-url", server.url) == (0, "[]\n", "")
    status, out, err = cli("ls", "--redis-url", server.url)
    assert (status, out) == (0, "")
    assert "--locks" in the_line(err)
    _, _, err = cli("ls", "--redis-url", server.url, "--locks", "nothing:*")
    assert the_line(err) == "no lock found under nothing:*; lockscope doctor tells what lies there"


def test_ls_of_another_database(cli, server):
    """``--db`` reads other databases than the URL's."""
    server.client(db=5).set("lock:five", "abc", px=60_000)
    out = cli("ls", "--json", "--redis-url", server.url, "--locks", "lock:*", "--db", "0", "--db", "5")[1]
    assert [(lock["key"], lock["db"]) for lock in json.loads(out)] == [("lock:five", 5)]


def test_ls_leaves_no_trace_on_the_server(cli, own_server):
    """Listing locks writes nothing and causes no error on the server."""
    client = own_server.client()
    client.set("lock:order:1", "abc", px=60_000)
    client.rpush("lock:list", "x")
    client.config_resetstat()
    assert cli("ls", "--redis-url", own_server.url, "--locks", "lock:*")[0] == 0
    assert client.info("errorstats") == {}
    assert client.info("persistence")["rdb_changes_since_last_save"] == 2
    client.close()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--redis-url", "http://h"], 'scheme "http" is not known'),
        (["--redis-url", "redis://:hunter2@h:x"], 'port "x" is not a number'),
        (["--locks", ""], "the pattern is empty"),
        (["--locks", "lock:["], "has a [ without ]"),
        (["--locks", "lock:*=larravel"], "did you mean laravel?"),
        (["--timeout", "soon"], "is no duration"),
        (["--db", "-1"], '--db: "-1" is not a whole number from 0 to 65535'),
        (["--limit", "x"], '--limit: "x" is not a whole number from 1 on'),
        (["--sort", "x"], "--sort: 'x' is not one of 'urgency'"),
        (["--expected-hold", "x"], "PATTERN=DURATION"),
        (["--dialect", "larravel"], "did you mean laravel?"),
        (["--nonsense"], "No such option '--nonsense'"),
        (["extra"], "unexpected extra argument"),
        (["--redis-url"], "requires an argument"),
    ],
)
def test_usage_errors_are_one_line(cli, words, says):
    """Every wrong option is one line on stderr with what, which input and where to read more; status 2."""
    status, out, err = cli("ls", *words)
    assert (status, out) == (2, "")
    assert says in the_line(err)
    assert "see lockscope ls --help" in err
    assert "hunter2" not in err


def test_a_bad_variable_is_named(cli):
    """A wrong value from the environment names its variable."""
    status, _, err = cli("ls", LOCKSCOPE_SCAN_BUDGET="many")
    assert status == 2
    expected = 'LOCKSCOPE_SCAN_BUDGET: "many" is not a whole number from 100 to 10000000'
    assert expected in the_line(err)
    assert "--scan-budget" not in err
    _, _, err = cli("ls", "--scan-budget", "5", LOCKSCOPE_LIMIT="2")
    assert the_line(err).startswith("lockscope ls: --scan-budget: ")
    assert "LOCKSCOPE" not in err


def test_connection_errors_are_one_line(cli, own_server):
    """A server that refuses, does not exist, wants a password or stays silent is one line; status 2."""
    port = free_port()
    for url, says in (
        (f"redis://127.0.0.1:{port}", f"Redis redis://127.0.0.1:{port}: connection refused"),
        ("redis://no-such-host.invalid", "the host name is not known"),
        (f"redis://:hunter2@127.0.0.1:{port}", "redis://:***@127.0.0.1"),
        (f"cluster://127.0.0.1:{own_server.port}", "this server is no cluster"),
    ):
        status, out, err = cli("ls", "--redis-url", url)
        assert (status, out) == (2, "")
        assert says in the_line(err)
        assert "hunter2" not in err
    own_server.client().config_set("requirepass", "sesame")
    status, _, err = cli("ls", "--redis-url", own_server.url)
    assert status == 2
    assert "the server wants a password" in the_line(err)
    own_server.signal(signal.SIGSTOP)
    status, _, err = cli("ls", "--redis-url", own_server.url, "--timeout", "200ms")
    assert status == 2
    assert "no answer in time" in the_line(err)


def test_missing_permission_is_one_line(cli, own_server):
    """A user who may not scan gets the missing command named, not an empty list."""
    client = own_server.client()
    client.acl_setuser(
        "poor", enabled=True, passwords=["+pw"], keys=["*"], commands=["+ping", "+hello", "+get"]
    )
    url = own_server.url.replace("redis://", "redis://poor:pw@")
    status, out, err = cli("ls", "--json", "--redis-url", url)
    assert status == 2
    assert json.loads(out or "[]") == []
    assert "may not" in the_line(err)
    client.close()


def test_unknown_commands_and_none(cli):
    """An unknown command is one line; no command shows the help; both are usage errors."""
    status, _, err = cli("nonsense")
    assert status == 2
    assert "No such command 'nonsense'" in the_line(err)
    status, _, err = cli()
    assert status == 2
    assert "Commands:" in err


def test_a_hostile_argument_cannot_reach_the_terminal(cli):
    """Escape sequences in an argument are shown escaped."""
    assert "\x1b" not in cli("ls", "--locks", "\x1b[31m[")[2]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(cli, name):
    """Each command explains itself, and each of its options names its environment variable.

    What makes a release happen has none, and the demo's server has one of its own: neither may come from an
    environment that was set for something else.
    """
    status, out, err = cli(name, "--help")
    assert (status, err) == (0, "")
    assert out.startswith(f"Usage: lockscope {name}")
    options = re.findall(r"^  (?:-h, )?(--[a-z-]+)", out, re.MULTILINE)
    flat = " ".join(out.split()).replace("- ", "-")
    for option in options:
        variable = "LOCKSCOPE_" + option[2:].replace("-", "_").upper()
        if name == "release" and option in {"--yes", "--execute", "--force", "--confirm"}:
            assert variable not in flat
        elif name == "demo" and option == "--redis-url":
            assert "LOCKSCOPE_DEMO_REDIS_URL" in flat
            assert variable not in flat
        elif option != "--help":
            assert variable in flat, option


def test_a_variable_of_kubernetes_is_no_port(monkeypatch):
    """``LOCKSCOPE_PORT=tcp://…``, which Kubernetes sets for a service named lockscope, is passed over."""
    monkeypatch.setenv("LOCKSCOPE_PORT", "tcp://10.0.0.1:9963")
    with explore.command.make_context("explore", []) as context:
        assert context.params["port"] == 8501
    monkeypatch.setenv("LOCKSCOPE_PORT", "8600")
    with explore.command.make_context("explore", []) as context:
        assert context.params["port"] == 8600


def test_version(cli):
    """``--version`` prints the package's version."""
    assert re.fullmatch(r"lockscope, version \d+\.\d+\.\d+\n", cli("--version")[1])


def test_rules_and_dashboards_are_written(cli, tmp_path):
    """``rules`` and ``dashboards`` write files with the runbook URL asked for, and print their names."""
    status, out, err = cli("rules", "--out", str(tmp_path / "r"), "--runbook-base-url", "https://wiki/run")
    assert (status, err) == (0, "")
    files = [Path(line) for line in out.splitlines()]
    assert all(file.is_file() and file.parent == tmp_path / "r" for file in files)
    assert "https://wiki/run/" in "".join(file.read_text() for file in files)
    subprocess.run(["promtool", "check", "rules", *files], check=True, capture_output=True)
    status, out, err = cli("dashboards", "--out", str(tmp_path / "d"))
    assert (status, err) == (0, "")
    assert all(json.loads(Path(line).read_text())["panels"] for line in out.splitlines())


def test_rules_with_other_numbers(cli, tmp_path):
    """Alerts can be picked and thresholds changed; an unknown one is one line with the known ones."""
    out = cli("rules", "--out", str(tmp_path), "--only", "NoTTL", "--threshold", "growth_keys=7")[1]
    assert "RedisLockNoTTL" in "".join(Path(line).read_text() for line in out.splitlines())
    for words in (["--only", "Nonsense"], ["--threshold", "nonsense=1"], ["--threshold", "growth_keys=x"]):
        status, out, err = cli("rules", "--out", str(tmp_path), *words)
        assert (status, out) == (2, "")
        assert "onsense" in the_line(err) or "NAME=NUMBER" in err
    assert "growth_keys" in cli("rules", "--list-thresholds")[1]


def test_a_folder_that_cannot_be_written_is_one_line(cli, tmp_path):
    """A file in the way of the folder is one line with what to do."""
    (tmp_path / "file").write_text("")
    for name in ("rules", "dashboards"):
        status, _, err = cli(name, "--out", str(tmp_path / "file" / "sub"))
        assert status == 2
        assert "cannot write to" in the_line(err)


def test_export_needs_its_port_and_its_files(cli, server, tmp_path):
    """A port in use, a bad address and a bad web configuration end the exporter with one line."""
    with listen("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        status, _, err = cli("export", "--redis-url", server.url, "--listen", f"127.0.0.1:{port}")
        assert status == 2
        assert "the port is in use" in the_line(err)
    assert "is not HOST:PORT" in the_line(cli("export", "--listen", "nowhere")[2])
    (tmp_path / "web.yml").write_text("nonsense: 1")
    status, _, err = cli("export", "--listen", "127.0.0.1:0", "--web-config-file", str(tmp_path / "web.yml"))
    assert status == 2
    assert 'field "nonsense" is not supported' in the_line(err)
    status, _, err = cli("export", "--redis-url", f"rediss://localhost?ssl_ca_certs={tmp_path}/none.pem")
    assert status == 2
    assert "ssl_ca_certs names no file" in the_line(err)
    status, _, err = cli("export", "--web-config-file", str(tmp_path / "none.yml"))
    assert status == 2
    assert "none.yml" in the_line(err)


def test_explore_needs_its_port(cli):
    """A port in use is one line, before Streamlit starts."""
    with listen("127.0.0.1", 0) as sock:
        status, _, err = cli("explore", "--port", str(sock.getsockname()[1]))
    assert status == 2
    assert "the port is in use; stop what listens there or choose another with --port" in the_line(err)


def test_explore_serves_the_explorer(locks, tmp_path):
    """``explore`` serves the page with the options it was given, and Ctrl-C ends it with its port free."""
    port = free_port()
    words = [SCRIPT, "explore", "--port", str(port), "--redis-url", locks, "--locks", "lock:order:*"]
    explorer = Process(words, tmp_path / "log")
    health = f"http://127.0.0.1:{port}/_stcore/health"

    def answers() -> bool:
        assert explorer.popen.poll() is None, explorer.output()
        try:
            return httpx.get(health).text == "ok"
        except httpx.TransportError:
            return False

    try:
        wait_until(answers, timeout=30)
        environment = Path(f"/proc/{explorer.pid}/environ").read_bytes().split(b"\0")
        assert b"LOCKSCOPE_LOCKS=lock:order:*" in environment
        assert f"LOCKSCOPE_REDIS_URL={locks}".encode() in environment
    finally:
        status = explorer.stop(signal.SIGINT)
    assert status == 0
    assert "Traceback" not in explorer.output()
    with pytest.raises(httpx.ConnectError):
        httpx.get(health)


def test_ctrl_c_is_one_line(own_server, tmp_path):
    """Ctrl-C while a command waits for Redis ends it with status 130 and one line."""
    own_server.signal(signal.SIGSTOP)
    command = Process([SCRIPT, "ls", "--redis-url", own_server.url, "--timeout", "1h"], tmp_path / "log")
    waiting = Path(f"/proc/{command.pid}/net/tcp")
    remote = f"0100007F:{own_server.port:04X}"
    wait_until(lambda: re.search(rf"{remote} 01 ", waiting.read_text()), what="a connection to Redis")
    assert command.stop(signal.SIGINT) == 130
    assert the_line(command.output()) == "lockscope ls: interrupted"


WRITERS = [
    ["--help"],
    ["ls"],
    ["why", "lock:order:1"],
    ["doctor", "--observe", "0"],
    ["contention", "--seconds", "100ms"],
    ["watch", "--duration", "100ms"],
    ["rules", "--list-thresholds"],
]


@pytest.mark.parametrize("words", WRITERS, ids=" ".join)
def test_output_that_cannot_be_written(locks, tmp_path, words):
    """A full disk or a closed stdout is one line and status 2; a reader that stops reading ends it quietly.

    The status is then that of a program which SIGPIPE ended: whatever it found, it could not say it.
    """
    line = f"{SCRIPT} {shlex.join(words)}"
    env = {"PATH": os.environ["PATH"], "LOCKSCOPE_REDIS_URL": locks, "LOCKSCOPE_LOCKS": "lock:*"}
    for sink, status, says in (
        (">/dev/full", 2, "the output cannot be written: No space left on device"),
        (">&-", 2, "the output cannot be written: Bad file descriptor"),
        ("| true", 141, ""),
    ):
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {line} {sink}"],
            capture_output=True, text=True, check=False, env=env, cwd=tmp_path,
        )  # fmt: skip
        said = [one for one in done.stderr.splitlines() if not one.startswith("MONITOR for")]
        assert (done.returncode, len(said)) == (status, bool(says)), done.stderr
        assert says in "".join(said)


def test_output_is_whole_or_a_failure_without_a_buffer_too(server, client, tmp_path):
    """With PYTHONUNBUFFERED, as in containers, a write that is cut short does not pass for a success."""
    token = tokens.describe(Job("invoice.generate", "8812"), time.time())
    client.mset({f"lock:order:{number}": token for number in range(2_000)})
    env = {"PATH": os.environ["PATH"], "LOCKSCOPE_REDIS_URL": server.url, "PYTHONUNBUFFERED": "1"}
    listed = f"{SCRIPT} ls --json --locks 'lock:*'"

    def bash(line: str) -> subprocess.CompletedProcess[str]:
        words = ["bash", "-c", f"set -o pipefail; {line}"]
        return subprocess.run(words, capture_output=True, text=True, check=False, env=env)

    whole = bash(listed)
    assert (whole.returncode, len(json.loads(whole.stdout))) == (0, 2_000)
    short = bash(f"ulimit -f 100; {listed} > {tmp_path}/list.json")
    assert short.returncode == 2
    assert the_line(short.stderr) == "lockscope ls: the output cannot be written: File too large"
    cut = bash(f"{listed} | head -1")
    assert (cut.returncode, cut.stderr) == (141, "")


def test_without_any_stream(locks):
    """A command that is started with all three standard streams closed still tells by its status."""
    line = f"{SCRIPT} why no-such-lock --redis-url {locks} <&- >&- 2>&-"
    assert subprocess.run(["bash", "-c", line], check=False).returncode == 1


def test_why_only_reads_a_state_file(cli, locks, tmp_path):
    """``why`` leaves a state file that it cannot read where it is, and says that it was left out."""
    path = tmp_path / "notes.txt"
    path.write_text("[" * 10_000)
    status, out, err = cli("why", "lock:order:1", "--redis-url", locks, "--state-file", str(path))
    assert (status, "lock:order:1" in out) == (0, True)
    assert "is left out: an exporter did not write it" in the_line(err)
    assert path.exists()


def test_without_the_extra_one_line_says_what_to_install():
    """Where click is not installed, the console script prints how to install it."""
    code = (
        "import sys; sys.modules['click'] = None\n"
        "from lockscope_exporter.cli import main; sys.exit(main(['ls']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "click is not installed" in the_line(done.stderr)
    assert "pip install '.[exporter]' in a checkout" in done.stderr


def test_without_the_dashboard_one_line_says_what_to_install():
    """Where Streamlit is not installed, ``explore`` says how to install it."""
    code = (
        "import sys; from importlib.abc import MetaPathFinder\n"
        "import importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'streamlit' else real(name, *a)\n"
        "from lockscope_exporter.cli import main; sys.exit(main(['explore']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "streamlit is not installed" in the_line(done.stderr)


def test_completion(cli):
    """The shell scripts are printed, and the completion that they ask for knows commands and dialects."""
    for shell in ("bash", "zsh", "fish"):
        status, out, _ = cli("completion", shell)
        assert status == 0
        assert "_LOCKSCOPE_COMPLETE" in out
    words = "lockscope ls --locks lock:*=lara"
    env = {
        "_LOCKSCOPE_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": "3",
        "PATH": os.environ["PATH"],
    }
    done = subprocess.run([SCRIPT], env=env, capture_output=True, text=True, check=True)
    assert "lock:*=laravel" in done.stdout


def test_unexpected_errors_are_one_line_too(cli, monkeypatch):
    """A defect is one line that says so; LOCKSCOPE_DEBUG=1 shows where."""
    monkeypatch.setattr("lockscope_exporter.configuration.Options.targets", lambda _: 1 / 0)
    status, _, err = cli("ls")
    assert status == 2
    assert "unexpected ZeroDivisionError" in the_line(err)
    with pytest.raises(ZeroDivisionError):
        cli("ls", LOCKSCOPE_DEBUG="1")

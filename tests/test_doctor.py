"""The doctor: each question asked of real servers, the unknown said to be unknown, nothing changed."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from commands import SCRIPT
from lockscope import events
from lockscope.events import LockEvent
from lockscope.globs import compile_glob, matches
from lockscope.journal import KEY, Entry, Recorded, Writer, encode
from lockscope.journal.model import VERSION
from lockscope_exporter import configuration
from lockscope_exporter.cli import main
from lockscope_exporter.configuration import OptionError, lock_pattern
from lockscope_exporter.doctor import Evidence, Finding, examine
from lockscope_exporter.doctor.census import family
from lockscope_exporter.doctor.checks.patterns import missing
from lockscope_exporter.doctor.evidence import Holds, Keyspace, ServerEvidence, Unwatched
from lockscope_exporter.doctor.finding import SEVERITIES
from lockscope_exporter.doctor.past import from_state_file, summed_up, together
from lockscope_exporter.doctor.present import lines, summary
from lockscope_exporter.doctor.probe import sample_key
from lockscope_exporter.holds import HoldLearner
from lockscope_exporter.state import LockState, NodeStatus, ServerFacts
from servers import RedisServer, free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Doctor = Callable[..., tuple[int, list[dict[str, Any]], str]]


@pytest.fixture
def doctor(capsys, monkeypatch) -> Doctor:
    """Give a function that runs ``lockscope doctor --json``: exit status, findings, stderr."""
    for name in [name for name in os.environ if name.startswith("LOCKSCOPE_")]:
        monkeypatch.delenv(name)

    def run(url: str, *words: str) -> tuple[int, list[dict[str, Any]], str]:
        status = main(("doctor", "--json", "--observe", "0", "--redis-url", url, *words))
        out, err = capsys.readouterr()
        return status, json.loads(out) if out else [], err

    return run


def token() -> str:
    """Return an owner token as redis-py draws it."""
    return uuid.uuid1().hex


def of(findings: list[dict[str, Any]], check: str, *severities: str) -> list[dict[str, Any]]:
    """Return the findings of one check, of these severities or of any."""
    return [
        one for one in findings if one["check"] == check and (not severities or one["severity"] in severities)
    ]


def the(findings: list[dict[str, Any]], check: str, *severities: str) -> dict[str, Any]:
    """Return the only such finding."""
    [found] = of(findings, check, *severities)
    return found


@pytest.fixture(scope="module")
def safe_server() -> Iterator[RedisServer]:
    """Give a server that keeps locks as well as one server can."""
    server = RedisServer(port=None, appendonly="yes", appendfsync="always")
    yield server
    server.close()


@pytest.fixture
def safe(safe_server) -> RedisServer:
    """Give that server with three proper locks in it and nothing else."""
    client = safe_server.client()
    client.flushall()
    for number in range(3):
        client.set(f"lock:order:{number}", token(), px=60_000)
    return safe_server


# --- servers ---


def test_a_sound_server_has_no_findings(safe, doctor):
    """Everything is looked at and fine: status 0, and the feed in use is named."""
    status, found, err = doctor(safe.url, "--locks", "lock:*")
    assert (status, err) == (0, "")
    assert {one["severity"] for one in found} <= {"ok", "unknown"}
    assert [one["check"] for one in found if one["severity"] == "unknown"] == ["ttl"]
    assert the(found, "version")["data"]["version"] == safe.client().info()["redis_version"]
    assert the(found, "feed")["data"]["mode"] == "tracking"
    assert the(found, "persistence")["data"]["appendfsync"] == "always"
    assert the(found, "patterns")["text"] == "3 keys match and are locks"
    assert abs(the(found, "clock")["data"]["ahead_seconds"]) < 0.2


@pytest.mark.parametrize("interrupt", [False, True])
def test_progress_leaves_a_plain_terminal_clean(server, interrupt):
    """What it is doing is said without escapes, and what ends it stands on a line of its own."""
    ours, theirs = pty.openpty()
    url = server.url if interrupt else f"redis://127.0.0.1:{free_port()}"
    env = {**os.environ, "TERM": "dumb", "LOCKSCOPE_REDIS_URL": url, "LOCKSCOPE_OBSERVE": "60s"}
    process = subprocess.Popen([SCRIPT, "doctor"], stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    said = b""
    with contextlib.suppress(OSError):  # EIO: the other side is closed
        while more := os.read(ours, 4096):
            said += more
            if interrupt and b"watching locks" in said and process.poll() is None:
                process.send_signal(signal.SIGINT)
                interrupt = False
    os.close(ours)
    assert process.wait(20) in (2, 130)
    assert b"\x1b" not in said
    *_, last = re.split(rb"[\r\n]+", said.strip())
    assert last.startswith(b"lockscope doctor: ")


def test_the_same_thing_to_do_is_told_once():
    """Findings that one long line of advice mends do not repeat it."""
    found = [Finding("a", "warning", text, fix="grant it all") for text in ("one", "two", "three")]
    shown = [line.plain.strip() for line in lines(found, 80)]
    assert [line for line in shown if line.startswith("do:")] == ["do: grant it all", *["do: the same"] * 2]


def test_nothing_is_written(safe, doctor):
    """Of all commands that reach the server none writes, and the data are the same to the byte."""
    client = safe.client()
    keys = {key: client.dump(key) for key in client.scan_iter()}
    client.config_resetstat()
    doctor(safe.url, "--locks", "lock:*", "--observe", "0.3s")
    ran = [name.removeprefix("cmdstat_").partition("|")[0] for name in client.info("commandstats")]
    assert len(ran) > 10
    writing = set(client.execute_command("COMMAND LIST FILTERBY ACLCAT write"))
    assert writing.isdisjoint(name.encode() for name in ran)
    assert {key: client.dump(key) for key in client.scan_iter()} == keys


def test_eviction_is_judged_by_policy_limit_and_what_was_evicted(own_server, doctor):
    """A policy without a limit is worth knowing, with one a warning, after evictions worse."""
    client = own_server.client()

    def eviction() -> dict[str, Any]:
        return the(doctor(own_server.url)[1], "eviction")

    assert eviction()["severity"] == "ok"
    client.config_set("maxmemory-policy", "allkeys-lru")
    assert eviction()["severity"] == "note"
    client.config_set("maxmemory", client.info()["used_memory"] + 3_000_000)
    assert eviction()["severity"] == "warning"
    for number in range(60):
        client.set(f"cache:{number}", "x" * 100_000)
    found = eviction()
    assert found["severity"] == "critical"
    assert found["data"]["evicted_keys"] == client.info()["evicted_keys"] > 0


def test_persistence_and_replication(own_server, doctor):
    """No file and no replica is a warning; what a failover can lose is told; a replica is no master."""
    assert the(doctor(own_server.url)[1], "persistence")["severity"] == "warning"
    own_server.client().config_set("repl-diskless-sync-delay", 0)
    replica = RedisServer(port=None)
    try:
        replica.client().replicaof("127.0.0.1", own_server.port)
        wait_until(lambda: replica.client().info()["master_link_status"] == "up")
        wait_until(lambda: "online" in str(own_server.client().info().get("slave0")))
        status, found, _ = doctor(own_server.url)
        assert of(found, "persistence") == []
        told = the(found, "replication")
        assert (told["severity"], told["data"]["replicas"]) == ("note", 1)
        assert "min-replicas-to-write is 0" in told["text"]
        status, found, _ = doctor(replica.url)
        assert status == 1
        assert "replica" in the(found, "topology", "warning")["text"]
    finally:
        replica.close()


def test_a_node_of_a_cluster_is_not_the_cluster(cluster_server, doctor):
    """Asked by redis://, a cluster's node is a warning with the URL to write; by cluster:// it is fine."""
    cluster_server.client().flushall()
    found = the(doctor(cluster_server.url)[1], "topology")
    assert found["severity"] == "warning"
    url = found["fix"].removeprefix("write ")
    assert url.startswith("cluster://")
    assert the(doctor(url)[1], "topology")["severity"] == "ok"


def test_servers_that_cannot_be_asked(own_server, doctor):
    """Nothing there, a wrong password, a mute server: status 2, one line, soon."""
    status, found, err = doctor(f"redis://127.0.0.1:{free_port()}")
    assert (status, found, len(err.splitlines())) == (2, [], 1)
    assert "connection refused" in err
    own_server.client().config_set("requirepass", "sesame")
    status, found, err = doctor(f"redis://:wrong@127.0.0.1:{own_server.port}")
    assert (status, found, len(err.splitlines())) == (2, [], 1)
    own_server.signal(signal.SIGSTOP)
    began = time.monotonic()
    status, _, err = doctor(own_server.url, "--timeout", "300ms")
    own_server.signal(signal.SIGCONT)
    assert (status, len(err.splitlines())) == (2, 1)
    assert time.monotonic() - began < 5


def test_the_same_server_in_several_targets_is_told_apart(safe, tmp_path, capsys):
    """Where there are several targets, each finding about a server names the target too."""
    file = tmp_path / "targets.yml"
    file.write_text(
        f"""targets:
  - {{name: orders, url: '{safe.url}', locks: ['lock:order:*']}}
  - {{name: stock, url: '{safe.url}', locks: ['lock:order:*'], dbs: [3]}}
"""
    )
    main(("doctor", "--json", "--observe", "0", "--targets", str(file)))
    found = json.loads(capsys.readouterr().out)
    node = f"127.0.0.1:{safe.port}"
    for check in ("version", "topology", "clock", "eviction", "permissions", "persistence", "feed"):
        assert [one["where"] for one in of(found, check)] == [f"orders {node}", f"stock {node}"], check
    assert [one["where"] for one in of(found, "unwatched")] == [f"orders {node}", f"stock {node} db3"]


def evidence_of(**facts: Any) -> Evidence:
    """Return evidence of one server."""
    return Evidence(servers=[ServerEvidence("s:1", **facts)])


def found_in(evidence: Evidence, check: str) -> list[tuple[str, str]]:
    """Return severity and text of the findings of a check."""
    return [(one.severity, one.text) for one in examine(evidence) if one.check == check]


@pytest.mark.parametrize(
    ("version", "severity"), [("5.0.14", "warning"), ("6.0.20", "note"), ("6.2.0", "ok"), ("8.2.1", "ok")]
)
def test_versions(version, severity):
    """Before 6.0 nothing can be tracked, before 6.2 that cannot be checked."""
    [(found, text)] = found_in(evidence_of(info={"redis_version": version}), "version")
    assert found == severity
    assert version in text


def test_valkey_is_called_by_its_name():
    """Valkey tells a version of its own beside the Redis version that it is compatible with."""
    info = {"redis_version": "7.2.4", "valkey_version": "9.0.1"}
    assert found_in(evidence_of(info=info), "version") == [("ok", "Valkey 9.0.1")]


@pytest.mark.parametrize(
    ("ahead", "severity"), [(None, "unknown"), (0.01, "ok"), (-3.0, "warning"), (90.0, "warning")]
)
def test_clocks(ahead, severity):
    """More than half a second between the clocks is a warning that says in which direction."""
    [(found, text)] = found_in(evidence_of(info={}, clock_ahead=ahead), "clock")
    assert found == severity
    if severity == "warning":
        assert ("behind" in text) == (ahead < 0)


def test_replicas_that_lag_and_failed_files():
    """A replica far behind and a failed append-only file are warnings."""
    facts = ServerFacts(replicas=1, replica_behind_bytes=5_000_000, replica_lag_seconds=9)
    [(severity, text)] = found_in(evidence_of(info={}, facts=facts), "replication")
    assert severity == "warning"
    assert "5,000,000 bytes and 9 s behind" in text
    info = {"aof_last_write_status": "err"}
    evidence = evidence_of(info=info, facts=ServerFacts(persistence="aof"))
    assert found_in(evidence, "persistence")[0][0] == "warning"


def test_connections_that_run_out():
    """More than nine tenths of maxclients in use is a warning."""
    for connected, severity in ((900, "ok"), (901, "warning")):
        info = {"connected_clients": str(connected), "maxclients": "1000"}
        assert found_in(evidence_of(info=info), "clients")[0][0] == severity


def test_the_feed_says_why_it_is_no_better():
    """A feed with reasons shows them once; what other checks say with a remedy is not repeated."""
    status = NodeStatus(
        "default", "s:1", up=True, mode="scan", age_seconds=0.0,
        warnings=("CLIENT TRACKING is not granted", "maxmemory-policy allkeys-lru can evict locks"),
    )  # fmt: skip
    [(severity, text)] = found_in(Evidence(statuses=[status]), "feed")
    assert severity == "warning"
    assert text == "changes are found by scanning: CLIENT TRACKING is not granted"


# --- permissions ---


def test_following_the_advice_grants_what_is_missing(safe, doctor):
    """A user who lacks commands and keys is told which and what for; the rule given makes it good."""
    client = safe.client()
    client.acl_setuser(
        "eve", reset=True, enabled=True, passwords=["+sesame"], keys=["lock:order:*"],
        commands=["+@read", "+@connection", "+@scripting", "-mget", "-client|tracking", "-memory|usage",
            "+time"],
    )  # fmt: skip
    url = f"redis://eve:sesame@127.0.0.1:{safe.port}/0"
    words = ("--locks", "lock:*", "--locks", "jobs:*:guard")
    status, found, _ = doctor(url, *words)
    assert status == 1
    missing = {one["data"].get("command"): one for one in of(found, "permissions", "warning", "critical")}
    assert {"mget", "client|tracking", "memory|usage", "info", "pubsub|numsub"} <= set(missing)
    assert missing["mget"]["severity"] == "critical"
    assert "read locks that are strings" in missing["mget"]["text"]
    keys = [one for one in of(found, "permissions") if "keys of" in one["text"]]
    assert [one["data"]["pattern"] for one in keys] == ["lock:*", "jobs:*:guard"]
    for check in ("version", "eviction", "persistence"):
        assert the(found, check)["severity"] == "unknown"
    rule = missing["mget"]["fix"].removeprefix("as an administrator: ").replace(">PASSWORD", ">sesame on")
    client.execute_command(*rule.split())
    status, found, _ = doctor(url, *words)
    assert of(found, "permissions", "warning", "critical", "unknown") == []
    assert of(found, "eviction")[0]["severity"] == "ok"
    assert status == 0, [one for one in found if one["severity"] in ("warning", "critical")]


def test_forbidden_settings_stay_unknown(safe, doctor):
    """Without CONFIG and INFO nothing is said of what only they tell, and that is no finding."""
    safe.client().acl_setuser(
        "eve", reset=True, enabled=True, passwords=["+sesame"], keys=["*"], channels=["*"],
        commands=["+@all", "-config", "-info"],
    )  # fmt: skip
    _, found, _ = doctor(f"redis://eve:sesame@127.0.0.1:{safe.port}/0", "--locks", "lock:*")
    unknown = {one["check"] for one in found if one["severity"] == "unknown"}
    assert {"version", "eviction", "persistence"} <= unknown
    assert of(found, "eviction", "ok", "warning", "critical") == []
    for one in of(found, "permissions"):
        assert one["data"].get("command") in ("info", "config|get")


@given(st.text(alphabet="ab:*?[]^-\\", min_size=1, max_size=12))
@example("[:-\\]]")
def test_a_sample_key_fits_its_pattern(text):
    """The key that a pattern's permission is tried on matches the pattern, whatever it is."""
    glob = text.encode()
    try:
        configuration.glob(text)
    except OptionError:
        assume(False)  # the command line does not let it through
    assume(
        not re.search(r"\[\^?\]|-\]", text)
    )  # classes that are empty, or end in a dash, which Redis misreads
    assert matches(glob, sample_key(glob, b"nonce")), sample_key(glob, b"nonce")


# --- keys and locks ---


def test_patterns_that_match_no_locks_and_locks_that_no_pattern_watches(safe, doctor):
    """Foreign keys under a pattern, a pattern without keys, and locks elsewhere, with the pattern to add."""
    client = safe.client()
    for number in range(20):
        client.lpush(f"lock:queue:{number}", "x")
        client.set(f"orders:{number}:lock", token(), px=60_000)
        client.set(f"session:{number}", token(), px=60_000)
        client.set(f":1:page:{number}", "<html>", px=60_000)
    client.set("qo_tasks.mail_a-1", token(), px=60_000)
    client.set("lock-signal:x", "1")
    status, found, _ = doctor(safe.url, "--locks", "lock:*", "--locks", "nothing:*")
    assert status == 1
    assert the(found, "patterns", "warning")["data"] == {
        "pattern": "lock:*", "locks": 3, "others": 20, "beside": 0, "not_read": 0, "complete": True,
    }  # fmt: skip
    assert the(found, "patterns", "note")["text"] == "no key matches nothing:* now"
    missing = {one["data"]["pattern"]: one for one in of(found, "unwatched")}
    assert set(missing) == {"orders:*:lock", "qo_*"}
    assert missing["orders:*:lock"]["data"]["locks"] == 20
    assert missing["orders:*:lock"]["data"]["dialects"] == ["redis-py"]
    added = [word for one in missing.values() for word in re.findall(r"--locks '([^']*)'", one["fix"])]
    words = [part for pattern in ("lock:order:*", *added) for part in ("--locks", pattern)]
    assert the(doctor(safe.url, *words)[1], "unwatched")["severity"] == "ok"


@pytest.mark.parametrize(
    ("key", "pattern"),
    [
        (b"app:lock:nightly", "app:lock:*"),
        (b"app:nightly:lock", "app:*:lock"),
        (b"nightly:lock", "*:lock"),
        (b"app/mutex/report", "app/mutex/*"),
        (b"app:lock:4711", "app:lock:*"),
        (b"app:lock:[x]", "app:lock:*"),
        (b"app:lock[1]:nightly:run", r"app:lock\[*\]:nightly:run"),
        (b"mutex", "mutex"),
        (b"resource:nightly", "resource:nightly"),
        (b"app:\xff:lock", "app:*:lock"),
    ],
)
def test_a_family_is_suggested_and_not_a_key(key, pattern):
    """The suggested pattern is one of a family that the key is of, written as ``--locks`` reads it."""
    assert family(key) == pattern
    assert compile_glob(lock_pattern(pattern).glob).fullmatch(key)


@pytest.mark.parametrize("key", [b"it's:lock:a", b"a=b:lock:c", b"a b:lock:c", b"app:lock=redis"])
def test_a_suggested_pattern_can_be_pasted(key):
    """Quotes, blanks and ``=`` in a key survive the shell and the option."""
    one = Unwatched(family(key), "generic", 1, key)
    [found] = missing(Evidence(keyspaces=[Keyspace("n", visited=1, total=1, unwatched=(one,))]))
    words = shlex.split(found.fix.removeprefix("add ").partition(", and")[0])
    assert words[0] == "--locks"
    assert compile_glob(lock_pattern(words[1]).glob).fullmatch(key)


def test_looking_at_few_keys_only_is_said(safe, doctor):
    """With --scan-keys the look is bounded, and the result says how much it was of."""
    pipe = safe.client().pipeline()
    for number in range(5000):
        pipe.set(f"cache:{number}", "x")
    pipe.execute()
    _, found, _ = doctor(safe.url, "--locks", "lock:*", "--scan-keys", "1000")
    assert re.search(r"as far as 1,\d+ of 5,003 keys were looked at", the(found, "unwatched")["text"])


def test_locks_without_expiry_and_with_weak_owners(safe, doctor):
    """A fault for a dialect that wants an expiry, normal for one that has none; constants are weak."""
    client = safe.client()
    client.set("lock:stuck", token())
    client.hset(
        "huey.results.app", "app.lock.nightly", b"\x80\x05\x95\x05\x00\x00\x00\x00\x00\x00\x00\x8c\x011\x94."
    )
    client.set("lock:flag", "1", px=60_000)
    status, found, _ = doctor(safe.url, "--locks", "lock:*", "--locks", "huey.results.*")
    assert status == 1
    fault = the(found, "no_ttl", "warning")
    assert (fault["where"], fault["data"]["dialect"]) == ("lock:stuck", "redis-py")
    assert the(found, "no_ttl", "note")["data"]["dialect"] == "huey"
    weak = of(found, "weak_owner", "warning")
    assert {one["where"] for one in weak} >= {"lock:flag"}


def test_orphaned_and_stalled_locks_are_told():
    """A lock whose holder is gone is a warning with its evidence."""
    lock = LockState(b"lock:a", "lock:*", "redis-py", "orphaned", ("holder web-3/7 left 2 s ago",), 41.0, 0.0)
    [found] = [one for one in examine(Evidence(locks=[lock])) if one.check == "states"]
    assert found.severity == "warning"
    assert "holder web-3/7 left 2 s ago" in found.text


# --- TTLs ---


def state_file(path: Path, **holds: float) -> str:
    """Write the state file of an exporter that has seen thirty holds of each prefix."""
    learner = HoldLearner()
    for prefix, seconds in holds.items():
        for _ in range(30):
            learner.observe(prefix, seconds, time.time())
    path.write_text(learner.dumps(time.time()))
    return str(path)


def test_ttl_advice_from_the_exporters_state_file(safe, doctor, tmp_path):
    """Learned holds make advice with its sum, and the exporter's file stays as it is."""
    path = tmp_path / "state.json"
    words = ["--state-file", state_file(path, **{"lock:order:*": 55.0}), "--locks", "lock:*"]
    before = path.read_bytes()
    _, found, _ = doctor(safe.url, *words)
    told = the(found, "ttl")
    assert told["severity"] == "note"
    assert told["data"]["longest_seconds"] == pytest.approx(55.0, rel=0.11)
    assert told["data"]["recommended_seconds"] == 120.0
    assert "2 times the p99 of" in told["text"]
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_state_file_that_is_none(safe, doctor, tmp_path):
    """A file of another format is said to be unreadable, and everything else goes on."""
    path = tmp_path / "state.json"
    path.write_text("[]")
    status, found, _ = doctor(safe.url, "--state-file", str(path), "--locks", "lock:*")
    assert status == 0
    assert any("cannot be read" in one["text"] for one in of(found, "ttl", "unknown"))


def journal_entry(*happened: LockEvent) -> Entry:
    """Return an entry of the journal."""
    writer = Writer("web-1", 7, "abcdef", 0)
    return Entry(writer, 1, time.time(), tuple(Recorded(event, "", writer) for event in happened))


def test_ttl_advice_from_the_journal(safe, doctor):
    """Holds and TTLs of the journal make a verdict: too short at 90 %, with the numbers for programs."""
    happened = [
        LockEvent(events.RELEASED, b"lock:order:1", "lock:order:*", time.time(), ttl=10.0, hold_seconds=9.0)
        for _ in range(40)
    ]
    safe.client().xadd(KEY, {"v": VERSION, "b": "".join(encode(journal_entry(*happened)))})
    safe.client().xadd(KEY, {"v": "9", "b": "of another format"})
    status, found, _ = doctor(safe.url, "--locks", "lock:*")
    assert status == 1
    told = the(found, "ttl", "warning")
    assert told["fix"] == "use a TTL of 20 s"
    assert "p99 is 90% of the TTL of 10 s" in told["text"]
    assert (told["data"]["holds"], told["data"]["source"]) == (40, "from the journal")


def test_a_journal_that_is_something_else_is_said(safe, doctor):
    """A key of another type in the journal's place makes the advice incomplete, not the doctor fail."""
    safe.client().set(KEY, "x")
    status, found, _ = doctor(safe.url, "--locks", "lock:*")
    assert status == 0
    assert any("journal cannot be read" in one["text"] for one in of(found, "ttl", "unknown"))


def test_losses_and_renewals_of_the_journal():
    """Holds that ended in a loss count with their full length; renewals give the headroom of the worst."""
    at = time.time()
    renewed = [
        LockEvent(events.RENEWED, b"k", "r:*", at, ttl=10.0, ttl_remaining=left)
        for left in [5.0] * 30 + [0.5] * 3
    ]
    lost = LockEvent(events.RELEASE_LOST, b"k", "r:*", at, ttl=10.0, hold_seconds=70.0)
    found = summed_up([journal_entry(*renewed, lost)])["r:*"]
    assert (found.headroom, found.longest, found.ttl, found.expired) == (0.05, 70.0, 10.0, 1)
    assert found.p99 is None
    [(severity, text)] = found_in(Evidence(holds={"r:*": found}), "ttl")
    assert severity == "warning"
    assert "renew at a third of it, or use 20 s" in text


def test_the_best_source_of_each_fact_wins():
    """Sources complete each other: the first that knows each fact, and the longest hold of all."""
    first = {"a": Holds("a", "journal", 5, None, 30.0, 10.0)}
    second = {"a": Holds("a", "file", 50, 9.0, 80.0), "b": Holds("b", "file", 1, None, 1.0)}
    third = {"a": Holds("a", "now", ttl=99.0, interval=3.0, ended=7, expired=2)}
    merged = together(first, second, third)
    assert merged["a"] == Holds("a", "file", 50, 9.0, 80.0, 10.0, None, 3.0, 7, 2)
    assert merged["b"].longest == 1.0


def test_what_the_state_file_says(tmp_path):
    """Both the p99 and the longest hold come from the file, at most a tenth above the truth."""
    learner = HoldLearner()
    now = time.time()
    for seconds in [1.0] * 500 + [60.0]:
        learner.observe("a:*", seconds, now)
    learner.observe("b:*", 5.0, now)
    path = tmp_path / "state.json"
    path.write_text(learner.dumps(now))
    found = from_state_file(path, now)
    assert found["a:*"].p99 == pytest.approx(1.0, rel=0.11)
    assert found["a:*"].longest == pytest.approx(60.0, rel=0.11)
    assert (found["b:*"].p99, found["b:*"].count) == (None, 1)


# --- queues ---


def test_holds_longer_than_the_visibility_timeout(safe, doctor, tmp_path):
    """A hold beyond the time after which the queue delivers again is a warning, by family."""
    path = state_file(tmp_path / "s.json", **{"lock:order:*": 3000.0, "lock:mail:*": 5.0})
    words = ("--locks", "lock:*", "--state-file", path)
    assert of(doctor(safe.url, *words)[1], "visibility") == []
    status, found, _ = doctor(safe.url, *words, "--visibility-timeout", "30m")
    told = the(found, "visibility", "warning")
    assert status == 1
    assert told["where"] == "lock:order:*"
    assert "visibility timeout of 30 min (as told)" in told["text"]
    _, found, _ = doctor(
        safe.url, *words, "--visibility-timeout", "30m", "--visibility-timeout", "lock:order:*=2h"
    )
    assert the(found, "visibility")["severity"] == "ok"


def test_a_celery_broker_is_found_and_its_default_assumed_openly(safe, doctor, tmp_path):
    """Deliveries of kombu show the broker and a lower bound of its timeout; the default is named as such."""
    client = safe.client()
    client.zadd("unacked_index", {"tag-1": time.time() - 7200, "tag-2": time.time()})
    client.zadd("shop-unacked_index", {"tag-3": time.time() - 5})
    path = state_file(tmp_path / "s.json", **{"lock:order:*": 3700.0})
    _, found, _ = doctor(safe.url, "--locks", "lock:*", "--state-file", path)
    notes = {one["where"].split()[-1]: one for one in of(found, "visibility", "note")}
    assert set(notes) == {"unacked_index", "shop-unacked_index"}
    assert notes["unacked_index"]["data"] == {
        "unacknowledged": 2, "oldest_seconds": pytest.approx(7200, abs=30),
    }  # fmt: skip
    assert "longer than the default of 1 h" in notes["unacked_index"]["text"]
    assert "Celery's default" in the(found, "visibility", "warning")["text"]


def test_a_broker_without_known_holds_stays_unknown(safe, doctor):
    """With nothing but the locks of this moment nobody says that the visibility timeout is fine."""
    safe.client().zadd("unacked_index", {"tag-1": time.time()})
    _, found, _ = doctor(safe.url, "--locks", "lock:*")
    assert the(found, "visibility", "unknown")["fix"]
    assert of(found, "visibility", "ok", "warning") == []


def test_a_broker_that_may_not_be_read_stays_unknown(safe, doctor):
    """Without permission for kombu's keys the doctor says so."""
    safe.client().zadd("unacked_index", {"tag-1": time.time()})
    safe.client().acl_setuser(
        "eve",
        reset=True,
        enabled=True,
        passwords=["+sesame"],
        keys=["lock:*"],
        channels=["*"],
        commands=["+@all"],
    )
    _, found, _ = doctor(f"redis://eve:sesame@127.0.0.1:{safe.port}/0", "--locks", "lock:*")
    assert of(found, "visibility", "ok") == []


# --- as people see it ---


def test_text_fits_eighty_columns_and_says_what_to_do(capsys, safe):
    """Plain lines in a pipe, hostile names harmless, a sum at the end; --quiet leaves out the fine."""
    safe.client().set(b"lock:\x1b[31m\n\xff", token())
    status = main(("doctor", "--observe", "0", "--redis-url", safe.url, "--locks", "lock:*", "--quiet"))
    out = capsys.readouterr().out
    assert status == 1
    assert "\x1b" not in out
    assert re.search(
        r"^warning   no_ttl \(lock:.*31m.*\): 1 lock of redis-py without expiry", out, re.MULTILINE
    )
    assert "do: take them with an expiry" in out
    assert not re.search(r"^ok ", out, re.MULTILINE)
    assert "1 warning" in out.splitlines()[-1]
    findings = [
        Finding("a", "critical", "word " * 60, "fix " * 60, "where" * 10),
        Finding("b", "ok", "x" * 300),
    ]
    shown = [line.plain for line in lines(findings, 80)]
    assert all(len(line) <= 80 for line in shown)
    assert shown[0].startswith("critical  a (where")
    assert summary(findings) == "1 critical, 1 ok"
    many = [Finding("a", severity, "") for severity in SEVERITIES for _ in range(2)]
    assert summary(many) == "2 critical, 2 warnings, 2 unknown, 2 notes, 2 ok"


@pytest.mark.parametrize(
    "words", [("--observe", "x"), ("--visibility-timeout", "soon"), ("--scan-keys", "0")]
)
def test_wrong_options(doctor, words):
    """An option that cannot be read is a usage error with one line."""
    status, found, err = doctor("redis://127.0.0.1:1", *words)
    assert (status, found, len(err.splitlines())) == (2, [], 1)

"""``lockscope why``: what a person on call reads about one lock, and its parts."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
import redis

from lockscope import events, tokens
from lockscope.events import LockEvent
from lockscope.jobs import Job
from lockscope.journal import KEY as JOURNAL
from lockscope.journal import Entry, Recorded, Writer, encode
from lockscope.journal.model import VERSION
from lockscope_exporter import release, runbook, story
from lockscope_exporter.cli import main
from lockscope_exporter.cli.keytext import keys_of
from lockscope_exporter.journal import JournalFeed
from lockscope_exporter.journal.where import journal_targets
from lockscope_exporter.listing import STATES
from lockscope_exporter.redis_cli import inspect
from lockscope_exporter.redis_url import parse_redis_url
from lockscope_exporter.targets import Target
from releasing import see, string_lock
from servers import free_port, wait_until
from topologies import Cluster, SentinelGroup

TOKEN = "3df60a44ec1111f1a07202fc00000001"
WORKER = """
import sys, redis, lockscope
from lockscope.jobs import job
lockscope.instrument(prometheus=False, journal=True)
client = redis.Redis(unix_socket_path=sys.argv[1])
with job("invoice.generate", job_id=sys.argv[2]):
    lock = client.lock("lock:order:1", timeout=60)
    for line in sys.stdin:
        command = line.strip()
        if command == "take":
            while lock.acquire() and b";p=1" not in lock.local.token:  # until it knows itself to be present
                lock.release()
        elif command == "try":
            lock.acquire(blocking=False)
        elif command == "renew":
            lock.extend(60, replace_ttl=True)
        elif command == "release":
            lock.release()
        print("done", flush=True)
"""


@pytest.fixture
def cli(capsys, monkeypatch, server):
    """Give a function that runs a command on the server: exit status, stdout, stderr."""
    for name in [name for name in os.environ if name.startswith("LOCKSCOPE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LOCKSCOPE_REDIS_URL", server.url)

    def run(*words: str) -> tuple[int, str, str]:
        status = main(words)
        out, err = capsys.readouterr()
        return status, out, err

    return run


class Worker:
    """A process that takes the lock and writes the journal, on command."""

    def __init__(self, server, job_id: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, server.socket, job_id],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def do(self, command: str) -> None:
        """Have it do something, and wait until that is done."""
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def end(self, *, kill: bool = False) -> None:
        """Let it end, or kill it."""
        if kill:
            self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=20)


def fact(out: str, label: str) -> list[str]:
    """Return the lines under a label."""
    found: list[str] = []
    inside = False
    for line in out.splitlines()[1:]:
        name, text = line[2:12].strip(), line[13:]
        inside = name == label or (inside and not name)
        if inside:
            found.append(text)
    return found


def journalled(client) -> int:
    """Return how many entries the journal has."""
    return client.xlen(JOURNAL) if client.exists(JOURNAL) else 0


@pytest.mark.timeout(60)
def test_the_whole_story_of_a_killed_worker(cli, server, client):
    """Who held it, since when it is gone, what happened, who is refused, what to do, and how to free it."""
    first, second = Worker(server, "8812"), Worker(server, "8813")
    first.do("take")
    first.do("renew")
    second.do("try")
    second.do("try")
    wait_until(lambda: journalled(client) >= 2, what="both wrote their journals")
    status, out, err = cli("why", "lock:order:1")
    assert (status, err) == (0, "")
    assert fact(out, "state") == ["held"]
    assert "its holder lives" in fact(out, "evidence")
    assert re.fullmatch(
        r"\S+/\d+ of invoice.generate \(job 8812\), token \w{8}; lives", fact(out, "holder")[0]
    )
    first.end(kill=True)
    status, out, err = cli("why", "lock:order:1")
    assert (status, err) == (1, "")
    assert fact(out, "state") == ["orphaned"]
    assert re.match(r"holder \S+ of invoice.generate \(job 8812\) (is gone|left)", fact(out, "evidence")[0])
    assert re.search(r"in \d+ s$", fact(out, "expires")[0])
    [waiter] = fact(out, "blocks")
    assert re.match(r"\S+/\d+ of invoice.generate \(job 8813\) was refused 2 times", waiter)
    history = [re.sub(r".*ago\) ", "", line) for line in fact(out, "history")]
    assert [re.split("[ :]", line)[0] for line in history][-3:] == ["acquired", "renewed", "refused"]
    assert re.search(r"refused 2 times since \S+ UTC: \S+/\d+ of invoice.generate \(job 8813\)$", history[-1])
    assert fact(out, "to do") == list(runbook.advice("orphaned").steps)
    assert fact(out, "runbook") == [runbook.advice("orphaned").url]
    assert fact(out, "look")[-1] == f"lockscope release --redis-url {server.url} lock:order:1"
    status, out, _ = cli("why", "lock:order:1", "--json", "--runbook-base-url", "https://wiki/run/")
    [found] = json.loads(out)
    assert found["state"] == "orphaned"
    assert found["blocked"][0]["refusals"] == 2
    assert found["runbook"] == "https://wiki/run/RedisLockOrphaned.md"
    assert [one["what"] for one in found["history"]][-3:] == ["acquired", "renewed", "refused"]
    second.end()


def test_a_lock_without_journal_and_presence(cli, server, client):
    """What the bytes do not tell is said not to be known, with the line that switches the past on."""
    client.set("lock:a", "abc")
    status, out, err = cli("why", "lock:a")
    assert (status, err) == (1, "")
    assert fact(out, "state") == ["no_ttl"]
    assert "whether it lives is not known" in fact(out, "holder")[0]
    assert fact(out, "since")[0].startswith("not known")
    assert fact(out, "expires") == ["never"]
    assert "LOCKSCOPE_JOURNAL=1" in fact(out, "history")[0]
    base = f"redis-cli -p {server.port}"
    assert fact(out, "look")[:2] == [f"{base} PTTL lock:a", f"{base} GET lock:a"]


def test_a_renewal_that_happens_meanwhile_is_seen(cli, server, client):
    """While presence is looked at, a renewal shows."""
    client.set(
        "lock:a", f"ls1;host=h;pid=1;worker=0123456789ab;p=1;at={time.time():.3f};n={'0' * 32}", px=60_000
    )
    done = threading.Event()

    def renew():
        with server.client() as other:
            while not done.is_set():
                other.pexpire("lock:a", 60_000)

    thread = threading.Thread(target=renew)
    thread.start()
    try:
        _, out, _ = cli("why", "lock:a")
    finally:
        done.set()
        thread.join()
    assert fact(out, "renewed")


@pytest.mark.parametrize(
    ("put", "says"),
    [
        (lambda client: client.ping(), "does not exist"),
        (lambda client: client.rpush("lock:a", "x"), "is a list, which is never read"),
        (lambda client: client.xadd("lock:a", {"x": "y"}), "is a stream, which is never read"),
        (lambda client: client.set("lock:a", "x" * 5_000), "is a string"),
        (lambda client: client.hset("lock:a", "x", "y"), "is a hash that no known lock looks like; name"),
    ],
)
def test_what_is_no_lock_is_one_line(cli, client, put, says):
    """An unknown key and a key of another kind are one clear line and status 1, as JSON too."""
    put(client)
    status, out, err = cli("why", "lock:a")
    [line] = err.splitlines()
    assert (status, out) == (1, "")
    assert line.startswith("lockscope why: lock:a ")
    assert says in line
    assert cli("why", "lock:a", "--json")[:2] == (1, "[]\n")


def test_a_lock_that_is_gone_leaves_its_past(cli, client):
    """A key that does not exist any more still has its history, and who freed it."""
    client.set("lock:a", TOKEN, px=60_000)
    lock = string_lock(b"lock:a", TOKEN.encode(), client.pexpiretime("lock:a") / 1000)
    assert release.execute(client, release.plan(lock), allow=True, user="eve", settle=0).freed
    status, out, err = cli("why", "lock:a")
    assert status == 1
    assert "does not exist" in err
    assert re.search(r"release: released by eve$", fact(out, "history")[0])


def test_every_place_of_a_key_is_told(cli, server, client):
    """A key in two databases and a hash with two locks are told one after the other; --field picks one."""
    for db in (0, 3):
        server.client(db=db).set("lock:a", TOKEN, px=60_000)
    status, out, _ = cli("why", "lock:a", "--db", "0", "--db", "3")
    assert status == 0
    assert re.findall(r"^  where +database (\d)", out, re.MULTILINE) == ["0", "3"]
    client.hset("huey.results.app", mapping={"app.lock.a": "x", "app.lock.b": "x"})
    assert len(json.loads(cli("why", "huey.results.app", "--json")[1])) == 2
    [found] = json.loads(cli("why", "huey.results.app", "--json", "--field", "app.lock.b")[1])
    assert found["field"] == "app.lock.b"
    status, _, err = cli("why", "huey.results.app", "--field", "no")
    assert (status, "no such field" in err) == (1, True)


def test_hostile_bytes_cannot_act(cli, client):
    """Key, token, host and job with control and bidirectional characters are shown escaped, and cut."""
    evil = "\x1b]0;x\x07\u202e\n" + "A" * 400
    token = b"ls1;host=%1B%5B31m%0A;pid=1;type=%E2%80%AE%07;id=%00;at=1;n=1;" + b"x" * 400
    client.set(f"lock:{evil}", token[:512], px=60_000)
    status, out, err = cli("why", f"lock:{evil}")
    assert (status, err) == (0, "")
    assert all(line.isprintable() for line in out.splitlines())
    assert json.loads(cli("why", f"lock:{evil}", "--json")[1])[0]["key"] == f"lock:{evil}"


def test_a_journal_of_another_format_is_said(cli, client):
    """A journal that is no stream, or holds other things, is a remark in the history, nothing more."""
    client.set("lock:a", TOKEN, px=60_000)
    client.set(JOURNAL, "x")
    status, out, err = cli("why", "lock:a")
    assert (status, err) == (0, "")
    assert "the journal cannot be read: its key holds something else" in fact(out, "history")[-1]
    client.delete(JOURNAL)
    client.xadd(JOURNAL, {"v": VERSION, "b": "{"})
    client.set(release.STREAM, "x")
    [line] = fact(cli("why", "lock:a")[1], "history")
    assert "1 entry of the journal cannot be read" in line
    assert "the audit trail cannot be read" in line


def test_without_permission_it_is_one_line(cli, server, client):
    """A user who may not read the key, and a server that is not there, are one line and status 2."""
    client.set("lock:a", TOKEN, px=60_000)
    client.acl_setuser("op", enabled=True, passwords="+pw", keys=["other:*"], commands=["+@all"])
    try:
        status, out, err = cli(
            "why", "lock:a", "--redis-url", server.url.replace("redis://", "redis://op:pw@")
        )
    finally:
        client.acl_deluser("op")
    [line] = err.splitlines()
    assert (status, out) == (2, "")
    assert "may not read lock:a" in line
    status, _, err = cli("why", "lock:a", "--redis-url", f"redis://127.0.0.1:{free_port()}")
    [line] = err.splitlines()
    assert (status, "connection refused" in line) == (2, True)


@pytest.fixture
def partly(server, tmp_path) -> str:
    """Give a targets file: where nobody listens, with a user that is none, and the clean server."""
    file = tmp_path / "targets.yml"
    file.write_text(
        f"""targets:
  - {{name: down, url: 'redis://127.0.0.1:{free_port()}/0'}}
  - {{name: locked, url: '{server.url.replace("redis://", "redis://nobody:secret@")}'}}
  - {{name: main, url: '{server.url}'}}
"""
    )
    return str(file)


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_targets_that_answer_are_told_beside_those_that_do_not(cli, client, monkeypatch, partly, words):
    """What the others have is told, each that could not be asked is named with the reason; status 2."""
    monkeypatch.delenv("LOCKSCOPE_REDIS_URL")
    client.set("lock:a", TOKEN, px=60_000)
    status, out, err = cli("why", "lock:a", "--targets", partly, *words)
    assert status == 2
    assert '"target": "main"' in out if words else "database 0 of main" in out
    down, locked, hint = err.splitlines()
    assert re.match(r"lockscope why: incomplete, down cannot be asked: .*: connection refused; ", down)
    assert re.match(r"lockscope why: incomplete, locked cannot be asked: .* password", locked)
    assert "secret" not in locked
    assert "--target NAME" in hint


def test_a_key_that_some_targets_cannot_tell_of_is_not_simply_absent(cli, monkeypatch, partly):
    """Not found where somebody answers is status 2, not 1; without any answer it is one line, as ever."""
    monkeypatch.delenv("LOCKSCOPE_REDIS_URL")
    status, out, err = cli("why", "lock:a", "--targets", partly)
    assert (status, out) == (2, "")
    assert "lock:a does not exist" in err.splitlines()[0]
    assert "down cannot be asked" in err
    status, out, err = cli("why", "lock:a", "--targets", partly, "--target", "down", "--target", "locked")
    [line] = err.splitlines()
    assert (status, out) == (2, "")
    assert "connection refused" in line


def test_nothing_is_released_while_a_target_cannot_be_asked(cli, client, monkeypatch, partly):
    """That target may hold the lock that is meant: --target has to say which one is."""
    monkeypatch.delenv("LOCKSCOPE_REDIS_URL")
    monkeypatch.setenv(release.VARIABLE, "1")
    client.set("lock:a", TOKEN, px=60_000)
    words = ("release", "lock:a", "--targets", partly, "--yes", "--force", "--confirm", "lock:a")
    status, out, err = cli(*words)
    [line] = err.splitlines()
    assert (status, out) == (2, "")
    assert "down cannot be asked" in line
    assert "--target" in line
    assert client.exists("lock:a")
    assert cli(*words, "--target", "main")[0] == 0
    assert not client.exists("lock:a")


def test_behind_sentinels(cli, monkeypatch):
    """The master that Sentinels name is read, and a release goes there."""
    group = SentinelGroup()
    try:
        group.servers[0].client().set("lock:a", TOKEN, px=60_000)
        status, out, err = cli("why", "lock:a", "--redis-url", group.url)
        assert (status, err) == (0, "")
        assert f"127.0.0.1:{group.servers[0].port}" in fact(out, "where")[0]
        words = ("--redis-url", group.url, "--yes", "--force", "--confirm", "lock:a")
        monkeypatch.setenv(release.VARIABLE, "1")
        assert cli("release", "lock:a", *words)[0] == 0
        assert not group.servers[0].client().exists("lock:a")
    finally:
        group.close()


def test_in_a_cluster_while_its_slot_moves(cli, monkeypatch):
    """The node that has the key is found and named, also while the slot is on its way to another."""
    cluster = Cluster()
    try:
        client = redis.RedisCluster(host="127.0.0.1", port=cluster.servers[0].port)
        slot = client.keyslot("lock:a")
        owner = cluster.owner(slot)
        for moving in (False, True):
            client.set("lock:a", TOKEN, px=60_000)
            if moving:
                cluster.begin_move(slot, 1 - owner)
                cluster.move_keys(slot, 1 - owner)
            status, out, err = cli("why", "lock:a", "--redis-url", cluster.url)
            assert (status, err) == (0, "")
            assert f":{cluster.servers[owner].port}" in fact(out, "where")[0]
            monkeypatch.setenv(release.VARIABLE, "1")
            words = ("--redis-url", cluster.url, "--yes", "--force", "--confirm", "lock:a")
            assert cli("release", "lock:a", *words)[0] == 0
            assert not client.exists("lock:a")
        client.close()
    finally:
        cluster.close()


# --- the past, as values ---

A, B = Writer("web-1", 11, "a" * 12), Writer("web-2", 22, "b" * 12)


def recorded(writer: Writer, name: str, at: float, **fields) -> Recorded:
    """Return an event of the journal."""
    return Recorded(LockEvent(name, b"lock:a", "lock:*", at, **{"job": Job("report"), **fields}), "", writer)


def test_the_same_thing_in_a_row_is_told_once():
    """Renewals in a row fold into one moment, another owner's do not; attempts to free it are among them."""
    past = [
        recorded(A, events.ACQUIRED, 100, wait_seconds=2.0),
        *(recorded(A, events.RENEWED, 110 + at) for at in range(3)),
        recorded(B, events.RENEWED, 114),
        recorded(A, events.RENEWED, 115),
        recorded(A, events.RELEASE_LOST, 130, unprotected_seconds=7.0),
    ]
    audit = release.AuditEntry("1-0", 120.0, "x", "refused", b"lock:a", user="eve")
    told = story.moments(past, [audit])
    assert [(one.at, one.what, one.times) for one in told] == [
        (102.0, "acquired", 1),
        (112, "renewed", 3),
        (114, "renewed", 1),
        (115, "renewed", 1),
        (120.0, "release: refused", 1),
        (130, "found it lost when releasing, after 7.0 s of work without it", 1),
    ]
    assert told[1].since == 110
    assert told[1].who == "web-1/11 of report"


def test_who_waits_and_who_has_got_it():
    """A caller counts as blocked from its first refusal until it gets the lock or falls silent."""
    refusals = [recorded(B, events.CONTENDED, at) for at in (100, 101, 105)]
    [waiter] = story.waiters(refusals, 110)
    assert (waiter.since, waiter.last, waiter.refusals, waiter.waiting) == (100, 105, 3, False)
    assert story.waiter_line(waiter, 110) == "web-2/22 of report was refused 3 times in 10 s, last 5.0 s ago"
    assert story.waiters([*refusals, recorded(B, events.ACQUIRED, 106)], 110) == []
    assert story.waiters(refusals, 105 + story.RECENT + 1) == []
    [waiter] = story.waiters([recorded(B, events.WAITING, 100)], 112)
    assert story.waiter_line(waiter, 112) == "web-2/22 of report waits for 12 s"
    waiting = [recorded(B, events.WAITING, 100)]
    assert story.waiters(waiting, 200, {B.worker: 115}) == [], "it was killed while it waited"
    assert len(story.waiters(waiting, 1000, {B.worker: 990})) == 1, "it waits for a quarter of an hour"
    others = [*refusals, recorded(A, events.ACQUIRED, 106), recorded(A, events.WAITING, 50)]
    assert [one.who for one in story.waiters(others, 110)] == ["web-1/11 of report", "web-2/22 of report"]


def test_the_journal_is_found_from_every_database(cli, server, client):
    """A lock in another database has its past: the journal is in the first, whatever the URL names."""
    elsewhere = server.url.replace("/0", "/3")
    code = (
        "import redis, sys, lockscope\n"
        "lockscope.instrument(journal=sys.argv[1])\n"
        "redis.Redis.from_url(sys.argv[1]).lock('lock:order:1', timeout=600).acquire()\n"
    )
    subprocess.run([sys.executable, "-c", code, elsewhere], check=True, timeout=60)
    wait_until(lambda: journalled(client))
    _, out, _ = cli("why", "lock:order:1", "--redis-url", elsewhere)
    assert "acquired: " in fact(out, "history")[0]
    reader = JournalFeed(journal_targets("1", [Target(elsewhere)]))
    reader.start()
    try:
        assert reader.wait_ready(10)
        assert reader.timeline(b"lock:order:1", 3)[0].event.event == events.ACQUIRED
    finally:
        reader.stop()


def test_those_who_wait_now_come_first_and_the_rest_is_counted(cli, server, client):
    """Among many who were refused, who waits inside a call and who was refused last are never cut off."""
    first = Worker(server, "0")
    first.do("take")
    second = Worker(server, "1")
    second.do("try")
    wait_until(lambda: journalled(client) >= 2, what="both wrote their journals")
    now = time.time()
    for number in range(12):
        told = {"e": "contended", "t": number - 60, "key": "lock:order:1", "prefix": "lock:order:*"}
        body = {"host": f"old-{number}", "pid": 1, "worker": f"{number:012x}", "db": 0, "seq": 1, "at": now}
        client.xadd(JOURNAL, {"v": "1", "b": json.dumps({**body, "events": [told]})})
    told = {"e": "waiting", "t": -1, "key": "lock:order:1", "prefix": "lock:order:*"}
    body = {"host": "waits", "pid": 1, "worker": "abcabcabcabc", "db": 0, "seq": 1, "at": now}
    client.xadd(JOURNAL, {"v": "1", "b": json.dumps({**body, "events": [told]})})
    _, out, _ = cli("why", "lock:order:1")
    blocked = fact(out, "blocks")
    assert blocked[0].startswith("waits/1 waits for ")
    assert "(job 1) was refused once" in blocked[1]
    assert blocked[2].startswith("old-11/1 ")
    assert blocked[10] == "4 more; --json has them"
    assert "of default" not in out
    first.end()
    second.end()


def test_two_holders_at_once_are_told(cli, client):
    """An overlap in the journal is told with both processes and how long."""
    now = time.time()
    entries = [
        (
            A,
            [
                recorded(A, events.ACQUIRED, now - 30),
                recorded(A, events.RENEW_LOST, now - 10, ends_lease=True),
            ],
        ),
        (B, [recorded(B, events.ACQUIRED, now - 14)]),
    ]
    for number, (writer, told) in enumerate(entries):
        told = [one._replace(event=one.event._replace(token=b"token-%d" % number)) for one in told]  # noqa: PLW2901
        told = [one._replace(owner=tokens.fingerprint(one.event.token)) for one in told]  # noqa: PLW2901
        put_entry(client, Entry(writer, 1, now, tuple(told)))
    client.set("lock:a", TOKEN, px=60_000)
    _, out, _ = cli("why", "lock:a")
    [line] = fact(out, "overlaps")
    assert re.search(r"two held it at once for 4.0 s: web-1/11 and web-2/22$", line)
    [found] = json.loads(cli("why", "lock:a", "--json")[1])
    assert found["overlaps"][0]["seconds"] == pytest.approx(4.0, abs=0.01)


def put_entry(client, entry: Entry) -> None:
    """Write an entry of the journal as a worker does."""
    client.xadd(JOURNAL, {"v": VERSION, "b": "".join(encode(entry))})


def test_a_time_far_away_has_its_date():
    """A time of day alone would mislead half a day away; a time that is none does not raise."""
    assert story.clock(0.0, 60.0) == "00:00:00 UTC"
    assert story.clock(0.0, 90_000.0) == "1970-01-01 00:00:00 UTC"
    assert story.clock(1e300) == "at an unknown time"


# --- lines to copy, and the runbooks ---


@pytest.mark.parametrize(
    "key",
    [
        b"lock:plain",
        b'lock:it\'s $HOME `x` "q" \\n',
        b"lock:\xff\x00\n\xe2\x80\xae",
        "lock:ключ".encode(),
        b" lock",
    ],
)
def test_lines_to_copy_read_the_very_key(server, client, key):
    """Pasted into a shell, each line asks for exactly that key and nothing else happens."""
    client.set(key, TOKEN, px=60_000)
    lock = string_lock(key, TOKEN.encode())._replace(node=f"127.0.0.1:{server.port}")
    ttl, value = (
        subprocess.run(
            line, shell=True, capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()
        for line in inspect(lock)
    )
    assert 0 < int(ttl) <= 60_000
    assert value.strip('"') == TOKEN


@pytest.mark.parametrize(
    ("type_", "field", "words"),
    [
        ("hash", None, "HGETALL lock:a"),
        ("hash", b"f", "HGET lock:a f"),
        ("zset", None, "ZRANGE lock:a 0 -1 WITHSCORES"),
        ("set", None, "SMEMBERS lock:a"),
    ],
)
def test_lines_to_copy_fit_the_type(type_, field, words):
    """Each type is read by its own command, at the server, database and as the user of the URL."""
    lock = string_lock(b"lock:a", b"t")._replace(type=type_, field=field, db=3, node="[::1]:6380")
    url = parse_redis_url("rediss://eve:secret@[::1]:6380/3")
    assert inspect(lock, url)[1] == f"redis-cli -h ::1 -p 6380 -n 3 --tls --user eve {words}"
    assert inspect(lock._replace(node="/run/r.sock", db=0))[1] == f"redis-cli -s /run/r.sock {words}"


@pytest.mark.parametrize("state", STATES)
def test_every_state_has_advice(state):
    """Each state that is a finding has steps from its shipped runbook, and its address."""
    steps, url = runbook.advice(state, "https://wiki/run/")
    assert steps
    assert all(step.isprintable() and "](" not in step and "`" not in step for step in steps)
    assert url == ("" if state == "held" else f"https://wiki/run/{runbook.ALERTS[state]}.md")


def test_an_orphan_without_expiry_is_not_waited_for(cli, server, client):
    """Nobody is told to wait for a TTL that there is not, nor to shorten it: it has to be freed."""
    worker = Worker(server, "8812")
    worker.do("take")
    client.persist("lock:order:1")
    worker.end(kill=True)
    status, out, err = cli("why", "lock:order:1")
    assert (status, err, fact(out, "state")) == (1, "", ["orphaned"])
    first, second, third = fact(out, "to do")
    assert first.startswith("It never frees itself: release it; ")
    assert "give it a TTL" in second
    assert not re.search(r"\bwait\b|shorten", " ".join(fact(out, "to do")).lower())
    assert fact(out, "runbook") == [runbook.advice("orphaned").url]
    [found] = json.loads(cli("why", "lock:order:1", "--json")[1])
    assert found["to_do"] == [first, second, third]


def test_mitigation_is_read_from_markdown():
    """Items are joined over lines, links and code lose their marks; a page without the section has none."""
    text = (
        "# X\n\n## Mitigation\n\n- See [this](that.md) and\n  `that`.\n- Second.\n\n## Other\n\n- Not this.\n"
    )
    assert runbook.mitigation(text) == ("See this and that.", "Second.")
    assert runbook.mitigation("# X\n") == ()


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("lock:a", (b"lock:a",)),
        ("lock:\\xff\\n", (b"lock:\\xff\\n", b"lock:\xff\n")),
        ("App\\Jobs\\Send", (b"App\\Jobs\\Send",)),
        ("lock:\\u202e\\U0001f600", (b"lock:\\u202e\\U0001f600", "lock:\u202e\U0001f600".encode())),
        ("\\ud800\\Uffffffff", (b"\\ud800\\Uffffffff",)),
        ("lock:\udcff", (b"lock:\xff",)),
    ],
)
def test_keys_that_a_word_may_mean(text, keys):
    """A word stands for its own bytes first, then for those that its escapes stand for."""
    assert keys_of(text) == keys


def test_an_exact_key_wins_over_its_escaped_reading(server, client):
    """A key that really has a backslash in it is found before one that the escapes would mean."""
    client.set("lock:\\x41", "a" * 32, px=60_000)
    client.set("lock:A", TOKEN, px=60_000)
    assert see(server.url, "lock:\\x41").key == b"lock:\\x41"

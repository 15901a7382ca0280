"""The journal on a real server: written by real processes however they end, read by several readers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
import redis
from prometheus_client import CollectorRegistry

import lockscope
from lockscope import events, runtime, tokens
from lockscope.journal import KEY, Entry, decode
from lockscope.sinks import journal as journal_module
from lockscope.sinks.journal import JournalSink
from lockscope_exporter.journal import JournalFeed, read_past
from lockscope_exporter.journal.where import journal_targets
from lockscope_exporter.targets import Target
from servers import RedisServer, wait_until
from topologies import cluster

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def observed(server: RedisServer) -> Iterator[CollectorRegistry]:
    registry = CollectorRegistry()
    lockscope.instrument(registry=registry, journal=server.url, presence=False)
    yield registry
    lockscope.uninstrument()


def entries(client: redis.Redis) -> list[Entry]:
    return [decode(fields) for _, fields in client.xrange(KEY)]


def names(client: redis.Redis) -> list[str]:
    return [each.event.event for entry in entries(client) for each in entry.events]


def sink() -> JournalSink:
    return next(each for each in runtime.recorder.emit.sinks if isinstance(each, JournalSink))


def cycle(client: redis.Redis, name: str = "lock:a") -> None:
    with client.lock(name, timeout=9):
        pass


def feed(*targets: Target) -> JournalFeed:
    reader = JournalFeed(targets)
    reader.start()
    assert reader.wait_ready(10)
    return reader


def count(reader: JournalFeed, name: str, **labels: str) -> float:
    return sum(
        sample.value
        for family in reader.collect()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


# --- writing ---


@pytest.mark.usefixtures("observed")
def test_many_events_make_few_entries(client: redis.Redis) -> None:
    """A burst of 300 locks is a handful of entries, in the order in which it happened."""
    for number in range(300):
        cycle(client, f"lock:{number}")
    wait_until(lambda: len(names(client)) == 600)
    assert names(client) == [events.ACQUIRED, events.RELEASED] * 300
    assert client.xlen(KEY) < 25
    assert [entry.sequence for entry in entries(client)] == list(range(1, client.xlen(KEY) + 1))


@pytest.mark.usefixtures("observed")
def test_times_are_those_of_the_server(client: redis.Redis) -> None:
    """Events are timed by the server's clock, to the millisecond on loopback."""
    before = client.time()
    cycle(client)
    after = client.time()
    wait_until(lambda: client.exists(KEY))
    (acquired, released) = entries(client)[0].events
    low, high = (seconds + micros / 1e6 for seconds, micros in (before, after))
    assert low - 0.005 <= acquired.event.at <= released.event.at <= high + 0.005


@pytest.mark.usefixtures("observed")
def test_step_of_the_hosts_clock_does_no_harm(client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host whose clock is an hour off, or jumps, still tells the server's time."""
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 3600)
    cycle(client)
    wait_until(lambda: client.exists(KEY))
    assert abs(entries(client)[0].events[0].event.at - real()) < 0.5


@pytest.mark.usefixtures("observed")
def test_uninstrument_writes_what_waits_and_says_goodbye(client: redis.Redis) -> None:
    """Nothing is lost when observation ends, the last entry says so, and os._exit is put back."""
    before = journal_module.exits._original
    assert os._exit is not before
    cycle(client)
    lockscope.uninstrument()
    assert names(client) == [events.ACQUIRED, events.RELEASED]
    assert entries(client)[-1].last
    assert os._exit is before


ENDS = {
    "return": "",
    "exit": "sys.exit(3)",
    "exception": "raise RuntimeError",
    "os._exit": "os._exit(0)",
    "fork": "child = os.fork()\nif child: os.waitpid(child, 0)\n"
    "cycle(f'lock:{bool(child)}')\nif not child: os._exit(0)",
    "multiprocessing": "import multiprocessing\n"
    "child = multiprocessing.get_context('fork').Process(target=cycle, args=('lock:child',))\n"
    "child.start(); child.join()",
    "signal": "import signal\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
    "os.kill(os.getpid(), 15)",
}
PROGRAM = """
import os, redis, sys, lockscope
lockscope.instrument(journal=True, prometheus=False, logs=False)
client = redis.Redis(unix_socket_path=sys.argv[1])
def cycle(name):
    with client.lock(name, timeout=9):
        pass
cycle("lock:a")
"""


@pytest.mark.parametrize("how", ENDS)
def test_nothing_is_lost_however_a_process_ends(how: str, server: RedisServer, client: redis.Redis) -> None:
    """Return, exit, exception, os._exit, forks, multiprocessing: every event is in the journal."""
    subprocess.run(
        [sys.executable, "-c", PROGRAM + ENDS[how], server.socket],
        check=False,
        timeout=30,
        stderr=subprocess.DEVNULL,
    )
    cycles = {"fork": 3, "multiprocessing": 2}.get(how, 1)
    assert sorted(names(client)) == sorted([events.ACQUIRED, events.RELEASED] * cycles)
    writers = {entry.writer for entry in entries(client)}
    assert len(writers) == (2 if cycles > 1 else 1)
    assert all(any(entry.last for entry in entries(client) if entry.writer == writer) for writer in writers)


def test_child_without_locks_of_its_own_writes_nothing(server: RedisServer, client: redis.Redis) -> None:
    """A forked child leaves what waited to its parent and has nothing to say at its own end."""
    ends = "child = os.fork()\nif not child: os._exit(0)\nos.waitpid(child, 0)"
    subprocess.run([sys.executable, "-c", PROGRAM + ends, server.socket], check=True, timeout=30)
    assert len({entry.writer for entry in entries(client)}) == 1
    assert names(client) == [events.ACQUIRED, events.RELEASED]


def test_killed_process_loses_at_most_the_last_moment(server: RedisServer, client: redis.Redis) -> None:
    """Of a process that is killed, all is there but what happened within the flush interval."""
    program = (
        PROGRAM
        + "import time\nwhile True:\n    cycle('lock:a'); print(time.time(), flush=True); time.sleep(0.02)"
    )
    worker = subprocess.Popen(
        [sys.executable, "-c", program, server.socket], stdout=subprocess.PIPE, text=True
    )
    wait_until(lambda: client.xlen(KEY) >= 4, timeout=20)
    worker.kill()
    worker.wait()
    done = [float(line) for line in worker.stdout.read().split()]
    worker.stdout.close()
    released = names(client).count(events.RELEASED) - 1
    missing = done[released:]
    assert not missing or done[-1] - missing[0] < 0.6


@pytest.mark.usefixtures("observed")
def test_process_that_holds_gives_signs_of_life(client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """While nothing happens, a process that holds a lock says so now and then, and only then."""
    monkeypatch.setattr(journal_module, "_HEARTBEAT", 0.2)
    lock = client.lock("lock:held", timeout=60)
    lock.acquire()
    wait_until(lambda: client.xlen(KEY) >= 3)
    sign = entries(client)[-1]
    assert (sign.events, sign.gauges) == ((), {("lock:held", "none"): (1, 0)})
    lock.release()
    wait_until(lambda: names(client)[-1] == events.RELEASED)
    length = client.xlen(KEY)
    quiet = time.monotonic() + 0.7
    wait_until(lambda: time.monotonic() > quiet)
    assert client.xlen(KEY) == length


@pytest.mark.usefixtures("observed")
def test_dropped_lock_object_is_told_though_nothing_else_happens(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock that is left to run out by dropping its object counts as held no longer."""
    monkeypatch.setattr(journal_module, "_HEARTBEAT", 0.2)
    client.lock("lock:dropped", timeout=60).acquire()
    wait_until(lambda: names(client) == [events.ACQUIRED, events.ABANDONED])


def test_server_that_is_away_costs_nothing_but_what_does_not_fit(
    own_server: RedisServer, server: RedisServer
) -> None:
    """While the journal's server is away locks go on, events wait, and come once each when it is back."""
    lockscope.instrument(registry=CollectorRegistry(), journal=own_server.url, presence=False)
    client = server.client()
    try:
        cycle(client)
        with own_server.client() as journal:
            wait_until(lambda: journal.exists(KEY))
        own_server.stop()
        started = time.monotonic()
        for _ in range(200):
            cycle(client)
        assert time.monotonic() - started < 5
        wait_until(lambda: sink()._unsent)
        own_server.start()
        with own_server.client() as journal:
            wait_until(lambda: names(journal).count(events.RELEASED) == 200)
            assert names(journal).count(events.ACQUIRED) == 200
        assert sink().journal_dropped == 0
    finally:
        lockscope.uninstrument()
        client.close()


def test_full_queue_drops_and_counts(
    server: RedisServer, own_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What neither queue nor waiting entries can take is dropped, counted, served and told to readers."""
    monkeypatch.setattr(journal_module, "_KEPT", 2)
    registry = CollectorRegistry()
    lockscope.instrument(registry=registry, journal=own_server.url, presence=False)
    client = server.client()
    try:
        own_server.stop()
        for _ in range(300):
            cycle(client)
        wait_until(lambda: sink().journal_dropped >= 300, what="drops")
        dropped = sink().journal_dropped
        assert registry.get_sample_value("redis_lock_journal_dropped_total") == dropped
        assert registry.get_sample_value("redis_lock_sink_errors_total", {"sink": "journal"}) is None
        own_server.start()
        with own_server.client() as journal:
            wait_until(lambda: journal.exists(KEY))
            wait_until(lambda: len(names(journal)) + sink().journal_dropped == 600)
            cycle(client)
            wait_until(lambda: entries(journal)[-1].losses.dropped == sink().journal_dropped)
    finally:
        lockscope.uninstrument()
        client.close()


@pytest.mark.usefixtures("observed")
def test_key_of_another_type_is_left_alone(client: redis.Redis, caplog: pytest.LogCaptureFixture) -> None:
    """Where the key is something else nothing is written, events count as dropped, and it is said once."""
    client.set(KEY, "mine")
    with caplog.at_level("WARNING", "lockscope.journal"):
        for expected in (2, 4):
            cycle(client)
            wait_until(lambda expected=expected: sink().journal_dropped == expected)
    assert client.get(KEY) == b"mine"
    assert [record.message for record in caplog.records if "WRONGTYPE" in record.message] == [
        caplog.records[0].message
    ]


@pytest.mark.usefixtures("observed")
def test_stream_stays_capped(client: redis.Redis) -> None:
    """The stream is trimmed while it is written, to about as many entries as asked for."""
    sink()._max_entries = 200
    for _ in range(500):
        sink()._keep([], last=False)
        sink()._send(sink()._connect())
    assert client.xlen(KEY) < 400


def test_journal_of_the_first_locks_server(own_server: RedisServer) -> None:
    """``journal=True`` writes where the first lock is taken, in whatever database, with its credentials."""
    with own_server.client() as admin:
        admin.config_set("requirepass", "pw")
    client = redis.Redis(port=own_server.port, password="pw", db=3)
    lockscope.instrument(registry=CollectorRegistry(), journal=True, presence=False)
    try:
        cycle(client)
        with own_server.client(password="pw") as admin:
            wait_until(lambda: admin.exists(KEY))
            assert entries(admin)[0].writer == (tokens.process.host, os.getpid(), tokens.process.worker, 3)
    finally:
        lockscope.uninstrument()
        client.close()


def test_journal_in_a_cluster_finds_its_node() -> None:
    """In a cluster the stream is written at the node that has its slot, also after the slot has moved."""
    with cluster() as group:
        client = redis.RedisCluster(host="127.0.0.1", port=group.servers[0].port)
        lockscope.instrument(registry=CollectorRegistry(), journal=True, presence=False)
        try:
            cycle(client)
            wait_until(lambda: client.exists(KEY))
            slot = client.keyslot(KEY)
            group.move(slot, 1 - group.owner(slot))
            cycle(client)
            wait_until(lambda: len(names(client)) == 4)
        finally:
            lockscope.uninstrument()
            client.close()


@pytest.mark.parametrize("target", ["nonsense", "http://x", object()])
def test_journal_that_cannot_be_is_refused_at_the_start(target: object) -> None:
    """A target that is no URL and no client is a ValueError that says so, and nothing was changed."""
    with pytest.raises(ValueError, match=r"^journal: "):
        lockscope.instrument(registry=CollectorRegistry(), journal=target)
    assert runtime.recorder is None


# --- reading ---


@pytest.mark.usefixtures("observed")
def test_several_readers_each_read_everything(server: RedisServer, client: redis.Redis) -> None:
    """Two readers, one of which comes later, tell the same: the journal is nobody's queue."""
    first = feed(Target(server.url))
    for _ in range(20):
        cycle(client)
    wait_until(lambda: count(first, "redis_lock_release_total") == 20)
    second = feed(Target(server.url))
    cycle(client)
    for reader in (first, second):
        wait_until(lambda reader=reader: count(reader, "redis_lock_release_total") == 21)
        reader.stop()


@pytest.mark.usefixtures("observed")
def test_reader_of_a_trimmed_journal_counts_from_now(server: RedisServer, client: redis.Redis) -> None:
    """Where the beginning is gone, what is left is history: known, but not counted as news."""
    cycle(client, "lock:old")
    wait_until(lambda: client.exists(KEY))
    cycle(client, "lock:old")
    wait_until(lambda: client.xlen(KEY) == 2)
    client.xtrim(KEY, maxlen=1, approximate=False)
    reader = feed(Target(server.url))
    try:
        assert [each.event.event for each in reader.timeline(b"lock:old")] == [
            events.ACQUIRED,
            events.RELEASED,
        ]
        assert count(reader, "redis_lock_release_total") == 0
        cycle(client)
        wait_until(lambda: count(reader, "redis_lock_release_total") == 1)
    finally:
        reader.stop()


@pytest.mark.usefixtures("observed")
def test_foreign_and_truncated_entries_are_skipped_and_counted(
    server: RedisServer, client: redis.Redis
) -> None:
    """Entries of others between ours do no harm, and show in a metric."""
    client.xadd(KEY, {"hello": "world"})
    client.xadd(KEY, {"v": "1", "b": '{"host":'})
    client.xadd(KEY, {"v": "77", "b": "{}"})
    cycle(client)
    reader = feed(Target(server.url))
    try:
        wait_until(lambda: count(reader, "redis_lock_release_total") == 1)
        assert count(reader, "redis_lock_journal_entries_total", result="malformed") == 3
        assert count(reader, "redis_lock_journal_entries_total", result="read") == 1
    finally:
        reader.stop()


def test_reader_says_why_it_cannot_read_and_goes_on(server: RedisServer, client: redis.Redis) -> None:
    """A key of another type is one line of text; once it is gone reading goes on by itself."""
    client.set(KEY, "x")
    reader = feed(Target(server.url))
    try:
        assert len(reader.errors()) == 1
        assert "\n" not in reader.errors()[0]
        client.delete(KEY)
        wait_until(lambda: not reader.errors())
    finally:
        reader.stop()


def test_reader_goes_on_with_a_stream_that_numbers_lower(own_server: RedisServer) -> None:
    """A stream that takes the old one's place on a clock that is behind is read from its beginning."""
    client = own_server.client()
    reader = feed(Target(own_server.url))

    def write(worker: str, number: str) -> None:
        told = {"e": "released", "t": 0, "key": "lock:a", "prefix": "lock:*", "hold": 1}
        body = {
            "host": "h",
            "pid": 1,
            "worker": worker,
            "db": 0,
            "seq": 1,
            "at": time.time(),
            "events": [told],
        }
        client.xadd(KEY, {"v": "1", "b": json.dumps(body)}, id=number)

    try:
        write("aaaaaaaaaaaa", "*")
        wait_until(lambda: count(reader, "redis_lock_release_total") == 1)
        client.delete(KEY)
        write("bbbbbbbbbbbb", "5-1")
        client.client_kill_filter(_type="normal", skipme=True)  # as a failover does
        wait_until(lambda: count(reader, "redis_lock_release_total") == 2)
        write("cccccccccccc", "5-2")
        wait_until(lambda: count(reader, "redis_lock_release_total") == 3)
    finally:
        reader.stop()
        client.close()


def test_reader_survives_a_restart_of_the_server(own_server: RedisServer) -> None:
    """After the server was away the reader goes on where it was, and counts nothing twice."""
    own_server.options["appendonly"] = "yes"
    own_server.stop()
    own_server.start()
    lockscope.instrument(registry=CollectorRegistry(), journal=own_server.url, presence=False)
    client = own_server.client()
    reader = feed(Target(own_server.url))
    try:
        cycle(client)
        wait_until(lambda: count(reader, "redis_lock_release_total") == 1)
        own_server.stop()
        own_server.start()
        cycle(client)
        wait_until(lambda: count(reader, "redis_lock_release_total") == 2)
    finally:
        reader.stop()
        lockscope.uninstrument()
        client.close()


OVERLAPPING = """
import redis, sys, time, lockscope
lockscope.instrument(journal=sys.argv[1], prometheus=False, logs=False)
client = redis.Redis.from_url(sys.argv[1])
lock = client.lock("lock:shared", timeout=float(sys.argv[2]))
with lockscope.job(sys.argv[3], job_id=sys.argv[3]):
    lock.acquire()
print("held", flush=True)
sys.stdin.readline()
try:
    lock.release()
except redis.exceptions.LockError:
    pass
"""


def test_two_holders_at_once_are_found(
    server: RedisServer, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """Two real processes at once in one lock: who, when and for how long, as metric, log and timeline."""
    reader = feed(Target(server.url))

    def holder(ttl: float, name: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", OVERLAPPING, server.url, str(ttl), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout.readline() == "held\n"
        return process

    def end(process: subprocess.Popen[str]) -> None:
        process.communicate("\n", timeout=20)

    late = holder(0.2, "late")
    wait_until(lambda: not client.exists("lock:shared"))
    second = holder(30, "second")
    together = time.monotonic()
    wait_until(lambda: time.monotonic() > together + 0.5)
    end(late)
    apart = time.monotonic()
    end(second)
    try:
        with caplog.at_level("WARNING", "lockscope.journal"):
            (overlap,) = wait_until(reader.overlaps, timeout=15)
        assert (overlap.first.job_id, overlap.second.job_id) == ("late", "second")
        assert (overlap.first.writer.pid, overlap.second.writer.pid) == (late.pid, second.pid)
        assert 0.5 <= overlap.seconds <= apart - together + 0.5
        assert count(reader, "redis_lock_overlap_total", prefix="lock:shared") == 1
        assert count(reader, "redis_lock_overlap_seconds_total") == pytest.approx(overlap.seconds)
        assert count(reader, "redis_lock_unprotected_seconds_total") > 0.5
        assert "two holders of lock:shared at once" in caplog.text
        assert [each.event.event for each in reader.timeline(b"lock:shared")] == [
            events.ACQUIRED, events.ACQUIRED, events.RELEASE_LOST, events.RELEASED,
        ]  # fmt: skip
        (takeover,) = reader.takeovers()
        assert (takeover.before.job_id, takeover.after.job_id) == ("late", "second")
        past = read_past(client)
        assert [found.seconds for found in past.found] == [pytest.approx(overlap.seconds)]
        assert len(past.history.of(b"lock:shared")) == 4
    finally:
        reader.stop()


@pytest.mark.parametrize(
    ("setting", "expected"),
    [("0", []), ("", []), ("1", ["redis://a", "redis://b"]), ("redis://c/1", ["redis://c/1"])],
)
def test_option_says_where_the_journal_is(setting: str, expected: list[str]) -> None:
    """Off, on for every target, or one server of its own."""
    targets = [Target("redis://a"), Target("redis://b", name="b")]
    assert [target.url for target in journal_targets(setting, targets)] == expected


@pytest.mark.parametrize("setting", ["yes please", "ftp://x"])
def test_option_that_means_nothing_is_refused(setting: str) -> None:
    """A word or URL that cannot be used is one line."""
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        journal_targets(setting, [])


def test_reader_stops_soon_and_twice(server: RedisServer) -> None:
    """Stopping takes no longer than one wait for news."""
    reader = feed(Target(server.url))
    started = time.monotonic()
    reader.stop()
    reader.stop()
    assert time.monotonic() - started < 3.0


def test_documented_permissions_suffice(own_server: RedisServer) -> None:
    """A writer and a reader with exactly the documented rights write and read."""
    with own_server.client() as admin:
        admin.execute_command(
            "ACL SETUSER writer on >pw resetkeys resetchannels -@all +xadd +time ~lockscope:journal"
        )
        admin.execute_command(
            "ACL SETUSER reader on >pw resetkeys resetchannels -@all +xread +xrange +xrevrange +xinfo|stream "
            "+time %R~lockscope:journal"
        )
        admin.execute_command("ACL SETUSER app on >pw ~lock:* +@all -@dangerous")
    at = f"127.0.0.1:{own_server.port}/0"
    lockscope.instrument(registry=CollectorRegistry(), journal=f"redis://writer:pw@{at}", presence=False)
    client = redis.Redis(port=own_server.port, username="app", password="pw")
    reader = feed(Target(f"redis://reader:pw@{at}"))
    try:
        assert reader.errors() == []
        cycle(client)
        wait_until(lambda: count(reader, "redis_lock_release_total") == 1)
        assert sink().journal_dropped == 0
    finally:
        reader.stop()
        lockscope.uninstrument()
        client.close()

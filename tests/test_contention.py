"""What MONITOR tells of contention: lines read back, outcomes deduced, and a command that always stops."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis
import trustme
from hypothesis import given
from hypothesis import strategies as st

from commands import SCRIPT
from lockscope import tokens
from lockscope.jobs import Job
from lockscope_exporter.cli import main
from lockscope_exporter.contention import sampler
from lockscope_exporter.contention.counts import MAX_CALLERS
from lockscope_exporter.contention.effects import NEVER
from lockscope_exporter.contention.feed import MonitorFeed
from lockscope_exporter.contention.monitor import LONGEST, Lines, parse
from lockscope_exporter.contention.present import lines as text_of
from lockscope_exporter.contention.replay import Lock, Replay
from lockscope_exporter.contention.report import KeyCount, Report, merge
from lockscope_exporter.contention.sampler import Plan, Progress
from lockscope_exporter.contention.tally import Tally
from lockscope_exporter.dialects import DEFAULT_PATTERNS
from lockscope_exporter.nodes import servers
from lockscope_exporter.sampling.watch import Watch
from lockscope_exporter.targets import LockPattern
from servers import Process, RedisServer, free_port, wait_until
from test_mirror_storm import BINARIES
from topologies import cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


RECORDED = json.loads((Path(__file__).parent / "data" / "dialects-observed.json").read_text())
REDISSON = """
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil
end
return redis.call('pttl', KEYS[1])
"""
NODE_REDLOCK = """
if redis.call('exists', KEYS[1]) == 1 then return 0 end
redis.call('set', KEYS[1], ARGV[2], 'PX', ARGV[1]); return 1
"""
COMPARE_AND_RENEW = """
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0
"""
COMPARE_AND_DELETE = (
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
)


def binary_of(name: str) -> str | None:
    """Return the path of a server version, or skip the test without it."""
    binary = BINARIES[name]
    if binary is not None and not Path(binary).is_file():
        pytest.skip(f"{name} is not installed")
    return binary


@pytest.fixture(scope="module", params=list(BINARIES))
def any_server(request) -> Iterator[RedisServer]:
    """Give a server of each version."""
    server = RedisServer(port=None, binary=binary_of(request.param))
    yield server
    server.close()


def plan(**changes: Any) -> Plan:
    """Return how to listen: for keys under ``lock:`` unless told otherwise."""
    given = {
        "seconds": 60.0, "max_bytes": 50_000_000, "timeout": 2.0, "admits": watching(b"lock:*"),
        "anywhere": True, "prefix": repr,
    }  # fmt: skip
    return Plan(**{**given, **changes})


def listen(url: str, how: Plan, meanwhile: Callable[[], object]) -> Report:
    """Listen while something goes on in another thread, until that is done and heard."""
    found = servers(url, how.timeout)
    progress = {server.name: Progress() for server in found}
    done = threading.Event()
    heard: list[int] = []

    def quiet() -> bool:
        heard.append(sum(one.bytes for one in progress.values()))
        return len(heard) > 2 and heard[-3] == heard[-1]

    def work() -> None:
        try:
            wait_until(lambda: all(one.began for one in progress.values()))
            meanwhile()
            wait_until(quiet, every=0.05)
        finally:
            done.set()

    thread = threading.Thread(target=work)
    thread.start()
    with ThreadPoolExecutor(len(found)) as pool:
        report = merge(pool.map(lambda one: sampler.listen(one, how, done, progress[one.name]), found))
    thread.join()
    assert report.errors == {}
    assert report.stopped == "interrupted"
    return report


def counts(report: Report, key: bytes) -> tuple[int, int, int, int]:
    """Return attempts, acquired, refused and unknown of one lock."""
    [found] = [one for one in report.keys if one.key == key]
    return found.attempts, found.acquired, found.refused, found.unknown


@pytest.fixture
def cli(capsys, monkeypatch) -> Callable[..., tuple[int, str, str]]:
    """Give a function that runs ``lockscope contention`` in this process: status, stdout, stderr."""
    for name in [name for name in os.environ if name.startswith("LOCKSCOPE_")]:
        monkeypatch.delenv(name)

    def run(*words: str) -> tuple[int, str, str]:
        status = main(("contention", *words))
        return (status, *capsys.readouterr())

    return run


# --- lines ---


def test_every_byte_comes_back_as_it_was_sent(any_server):
    """Arguments of any bytes are read back exactly, from the format of each server version."""
    chance = random.Random(7)
    sent = [bytes(range(256)), b"", b'"', b"\\", b'\\"] "x" ', b"\r\n+OK\r\n", "ключ 锁".encode()]
    sent += [chance.randbytes(chance.randrange(60)) for _ in range(50)]
    feed = MonitorFeed(any_server.client(protocol=2).connection_pool.get_connection(), 2.0)
    client = redis.Redis(port=any_server.port, db=3)
    for one in sent:
        client.execute_command("SeT", b"k" + one, one, "NX")
    client.execute_command("ECHO", "end")
    cut = Lines()
    found = []
    while not found or found[-1].arguments != [b"end"]:
        found += [parse(line) for line in cut.feed(feed.receive(1.0))]
    feed.close()
    ours = [one for one in found if one.name == b"set"]
    assert [one.arguments for one in ours] == [[b"k" + one, one, b"NX"] for one in sent]
    assert [one.first for one in ours] == [b"k" + one for one in sent]
    assert {(one.db, one.sent, one.client.partition(":")[0]) for one in ours} == {(3, b"SeT", "127.0.0.1")}
    assert abs(ours[0].at - time.time()) < 30


@given(st.lists(st.binary(max_size=30).map(lambda one: one.replace(b"\n", b""))), st.integers(1, 40))
def test_lines_are_the_same_however_the_stream_is_cut(wanted, size):
    """Pieces of any size give the lines of the whole stream."""
    stream = b"".join(one + b"\n" for one in wanted)
    cut = Lines()
    pieces = (stream[at : at + size] for at in range(0, len(stream), size))
    found = [line for piece in pieces for line in cut.feed(piece)]
    assert found == [one.removesuffix(b"\r") for one in wanted]


def test_a_line_without_end_is_dropped_and_counted():
    """What is longer than any lock command takes no memory, and the line after it is read again."""
    cut = Lines()
    found = [line for _ in range(5) for line in cut.feed(b"x" * (LONGEST // 2))]
    found += list(cut.feed(b"y\nnext\n"))
    assert (found, cut.skipped) == ([b"next"], 1)


@pytest.mark.parametrize(
    "line", [b"", b"+OK", b"+1.5 [0 a] SET", b'+x [0 a] "SET"', b'+1.5 [0 a "SET"', b"\xff\x00" * 50]
)
def test_what_is_no_line_of_monitor_is_none(line):
    """Anything else is told apart, not misread."""
    assert parse(line) is None


# --- deduction ---


def test_outcomes_are_what_the_server_answered(any_server):
    """In a storm of tries, releases, renewals and expiries, no deduced outcome contradicts a real answer."""
    client = redis.Redis(port=any_server.port)
    client.flushall()
    answers: dict[bytes, Counter[str]] = {}
    renew, release, redisson, redlock = map(
        client.register_script, (COMPARE_AND_RENEW, COMPARE_AND_DELETE, REDISSON, NODE_REDLOCK)
    )
    client.set("lock:3", "somebody", px=400)
    client.set("lock:4", "somebody")

    def acts(key: bytes, other: bytes, token: bytes, px: int) -> list[Callable[[], object]]:
        return [
            *[lambda: tried(key, client.set(key, token, nx=True, px=px))] * 5,
            lambda: tried(key, client.setnx(key, token)),
            lambda: renew(keys=[key], args=[client.get(key) or b"x", 20]),
            lambda: client.delete(key),
            lambda: release(keys=[key], args=[client.get(key) or b"x"]),
            lambda: client.pexpire(key, px - 2),
            lambda: client.persist(key),
            lambda: client.rename("lock:7", "lock:6"),
            lambda: tried(b"lock:h" + other, redisson(keys=[b"lock:h" + other], args=[px, token]) is None),
            lambda: tried(b"lock:s" + other, redlock(keys=[b"lock:s" + other], args=[px, token]) == 1),
        ]

    def storm() -> None:
        chance = random.Random(3)
        for number in range(3000):
            key, other = b"lock:%d" % chance.randrange(8), b"%d" % chance.randrange(2)
            act = chance.choice(acts(key, other, b"t%d" % number, chance.choice((1, 5, 30, 5000))))
            with contextlib.suppress(redis.ResponseError):  # RENAME of what is not there
                act()

    def tried(key: bytes, answer: object) -> None:
        answers.setdefault(key, Counter())["acquired" if answer else "refused"] += 1

    report = listen(any_server.url, plan(), storm)
    deduced = 0
    for key, real in answers.items():
        tries, acquired, refused, unknown = counts(report, key)
        assert tries == acquired + refused + unknown == sum(real.values()), (key, real)
        assert 0 <= real["acquired"] - acquired <= unknown, (key, real)
        assert 0 <= real["refused"] - refused <= unknown, (key, real)
        deduced += acquired + refused
    assert deduced > 0.6 * sum(sum(real.values()) for real in answers.values())


def feed(tally: Tally, *wire: str, client: str = "10.0.0.1:1", at: float = 1.8e9) -> None:
    """Feed commands as MONITOR prints them; ``lua`` before those of scripts."""
    for number, text in enumerate(wire):
        who, command = ("lua", text[4:]) if text.startswith("lua ") else (client, text)
        parsed = parse(f"+{at + number / 1000:.6f} [0 {who}] {command}".encode())
        assert parsed is not None, text
        tally.feed(parsed)


def one_lock(tally: Tally) -> tuple[int, int, int, int, int, int, int]:
    """Return attempts, acquired, refused, unknown, looks, renewals, releases of the only lock."""
    tally.finish()
    [one] = tally.counts.keys("n", 1.0, lambda key: key.decode())
    return one.attempts, one.acquired, one.refused, one.unknown, one.looks, one.renewals, one.releases


def watching(*globs: bytes) -> Watch:
    """Return a watch of these globs."""
    return Watch([LockPattern(glob) for glob in globs])


@pytest.mark.parametrize(
    "record",
    [
        one
        for one in RECORDED
        if any(key["is_lock"] for key in one["keys"]) and "redbeat" not in one["dialect"]
    ],
    ids=lambda record: f"{record['dialect']}-{record['command_or_call'][:30]}",
)
def test_every_recorded_library_is_seen_to_take_its_lock(record):
    """The commands that each real library was recorded to send count as an attempt on its lock."""
    keys = {key["key"].encode("latin-1", "backslashreplace") for key in record["keys"] if key["is_lock"]}
    tally = Tally(Watch([LockPattern(glob_of(key)) for key in keys]), anywhere=False)
    feed(tally, *record["wire"])
    tally.finish()
    seen = {one.key: one for one in tally.counts.keys("n", 1.0, lambda key: key.decode())}
    assert keys <= set(seen), (keys, set(seen), record["wire"])
    assert all(seen[key].attempts for key in keys), seen


def glob_of(key: bytes) -> bytes:
    """Return the glob that matches this key alone."""
    return re.sub(rb"([*?\[\]\\])", rb"\\\1", key)


def test_a_sampler_is_no_poller():
    """Who asks for one key again and again polls it; who asks for several at once samples them."""
    for command, looks in (('"EXISTS" "lock:a"', [20]), ('"EXISTS" "lock:a" "lock:b"', [])):
        tally = Tally(watching(b"lock:*"), anywhere=False)
        feed(tally, *[command] * 20)
        tally.finish()
        assert [one.looks for one in tally.counts.keys("n", 1.0, lambda key: key.decode())] == looks


def test_a_script_that_took_the_lock_before_was_refused_when_it_only_looks():
    """Runs of one script that change nothing are refusals once another run of it has made the key."""
    run_ = '"EVALSHA" "aa" "1" "lock:a" "t"'
    tally = Tally(watching(b"lock:*"), anywhere=False)
    feed(tally, run_, 'lua "exists" "lock:a"', client="b:2")
    feed(tally, '"DEL" "lock:a"', run_, 'lua "exists" "lock:a"', 'lua "set" "lock:a" "t" "PX" "9000"')
    feed(tally, run_, 'lua "exists" "lock:a"', client="b:2")
    assert one_lock(tally) == (3, 1, 2, 0, 0, 0, 1)


def test_a_script_that_never_took_a_lock_only_looked():
    """A script that reads and writes nothing is no attempt."""
    tally = Tally(watching(b"lock:*"), anywhere=False)
    feed(tally, '"EVALSHA" "bb" "1" "lock:a"', 'lua "get" "lock:a"')
    assert one_lock(tally) == (0, 0, 0, 0, 1, 0, 0)


def test_a_script_that_the_server_did_not_know_is_no_attempt():
    """EVALSHA answered NOSCRIPT and EVAL of the same text after it are one attempt."""
    tally = Tally(watching(b"lock:*"), anywhere=False)
    take = ('lua "exists" "lock:a"', 'lua "set" "lock:a" "t" "PX" "9000"')
    feed(tally, '"UNLINK" "lock:a"', '"evalsha" "AB" "1" "lock:a"', '"eval" "text" "1" "lock:a"', *take)
    assert one_lock(tally) == (1, 1, 0, 0, 0, 0, 1)


def test_redisson_is_refused_by_being_told_the_remaining_time():
    """A script that ends by reading PTTL of a held lock was refused; release and re-entry are told apart."""
    sha = '"EVALSHA" "cc" "1" "lock:a" "30000" "me:1"'
    enter = ('lua "hincrby" "lock:a" "me:1" "1"', 'lua "pexpire" "lock:a" "30000"')
    tally = Tally(watching(b"lock:*"), anywhere=False)
    feed(tally, '"DEL" "lock:a"', sha, 'lua "exists" "lock:a"', *enter)
    feed(tally, sha, 'lua "exists" "lock:a"', 'lua "hexists" "lock:a" "x"', 'lua "pttl" "lock:a"')
    feed(tally, sha, 'lua "exists" "lock:a"', 'lua "hexists" "lock:a" "me:1"', *enter)
    feed(tally, '"EVALSHA" "dd" "1" "lock:a"', 'lua "hincrby" "lock:a" "me:1" "-1"', 'lua "del" "lock:a"')
    assert one_lock(tally) == (2, 1, 1, 0, 0, 1, 2)


def test_fields_of_a_hash_are_locks_of_their_own():
    """Huey's HSETNX: the second taker of a field is refused, of another field not."""
    tally = Tally(watching(b"huey.results.*"), anywhere=False)
    feed(
        tally, '"HDEL" "huey.results.app" "app.lock.a"', '"HSETNX" "huey.results.app" "app.lock.a" "1"',
        '"HSET" "huey.results.app" "r" "x"', '"HSETNX" "huey.results.app" "app.lock.a" "1"',
        '"HDEL" "huey.results.app" "app.lock.a"', '"HSETNX" "huey.results.app" "app.lock.a" "1"',
        '"HSETNX" "huey.results.app" "app.lock.b" "1"',
    )  # fmt: skip
    tally.finish()
    found = {one.field: one for one in tally.counts.keys("n", 1.0, lambda key: key.decode()) if one.field}
    a, b = found[b"app.lock.a"], found[b"app.lock.b"]
    assert (a.attempts, a.acquired, a.refused, a.unknown) == (3, 1, 1, 1)
    assert (b.attempts, b.unknown) == (1, 1)


def test_an_answer_settles_the_tries_before_it():
    """Of tries on a key of unknown state, the one whose expiry the key has took it, others were refused."""
    tally = Tally(watching(b"lock:*"), anywhere=False)
    for number, client in enumerate(("a:1", "b:2", "c:3")):
        feed(tally, '"SET" "lock:a" "t" "NX" "PX" "9000"', client=client, at=1.8e9 + number)
    [lock] = tally.replay.questions
    tally.answer(lock, 1.8e9 + 1 + 9.0005, 1.8e9 + 3)
    tally.finish()
    outcomes = {one.address: (one.acquired, one.refused) for one in tally.counts.callers("n", 1.0, {})}
    assert outcomes == {"a:1": (0, 1), "b:2": (1, 0), "c:3": (0, 1)}
    assert one_lock(tally)[:4] == (3, 1, 2, 0)


def test_a_try_at_the_very_deadline_stays_unknown():
    """Where the clocks of the server's parts may disagree nothing is claimed."""
    replay = Replay()
    lock = Lock(0, b"lock:a")
    replay.follow(lock)
    replay.answer(lock, 100.0, 99.0)
    assert replay.held(lock, 99.99) is True
    assert replay.held(lock, 100.001) is None
    replay.answer(lock, 100.0, 99.0)
    assert replay.held(lock, 100.1) is False
    replay.answer(lock, NEVER, 101.0)
    assert replay.held(lock, 1e12) is True


def test_emptied_databases_free_their_locks():
    """FLUSHDB frees the locks of one database, FLUSHALL all, SWAPDB leaves nothing known."""
    taken = '"SET" "lock:a" "t" "NX"'
    for flush, outcome in (('"FLUSHALL"', (2, 2, 0, 0)), ('"flushdb" "ASYNC"', (2, 2, 0, 0))):
        tally = Tally(watching(b"lock:*"), anywhere=False)
        feed(tally, '"DEL" "lock:a"', taken, flush, taken)
        assert one_lock(tally)[:4] == outcome
    tally = Tally(watching(b"lock:*"), anywhere=False)
    feed(tally, '"DEL" "lock:a"', taken, '"SWAPDB" "0" "1"', taken)
    assert one_lock(tally)[:4] == (2, 1, 0, 1)


def test_memory_is_bounded_whatever_comes():
    """Beyond so many callers tries are counted as left out, not kept."""
    tally = Tally(watching(b"lock:*"), anywhere=False)
    for number in range(MAX_CALLERS + 5):
        feed(tally, '"SETNX" "lock:a" "t"', client=f"c:{number}")
    tally.finish()
    assert tally.counts.beyond == 5
    assert len(tally.counts.callers("n", 1.0, {})) == MAX_CALLERS
    assert one_lock(tally)[0] == MAX_CALLERS + 5


# --- the command ---


@pytest.fixture
def contended(own_server) -> Iterator[RedisServer]:
    """Give a server with a lock that one job holds and another polls for, each under a name of its own."""
    stop = threading.Event()
    token = tokens.describe(Job("invoice.generate", "8812"), time.time())
    own_server.client().set("lock:order:42", "somebody", px=600_000)

    def poll() -> None:
        client = redis.Redis(port=own_server.port, client_name="worker-7")
        while not stop.wait(0.02):
            client.set("lock:order:42", token, nx=True, px=5000)
        client.close()

    thread = threading.Thread(target=poll)
    thread.start()
    yield own_server
    stop.set()
    thread.join()


def test_the_command_names_lock_and_poller(contended, cli):
    """The tables show the contended lock, and who polls it by address and token; the warning goes first."""
    status, out, err = cli("--redis-url", contended.url, "--seconds", "0.8")
    assert status == 0, err
    assert "MONITOR for 0.8 s" in err
    assert "Ctrl-C ends it" in err
    rows = out.splitlines()
    assert re.match(r"LOCK +TRIES/S +TRIES +TAKEN +REFUSED +UNKNOWN +LOOKS +CLIENTS", rows[0])
    assert re.match(r"lock:order:42 +\d+\.\d +\d+ +0 +\d+ +0 +0 +1$", rows[1])
    assert "of invoice.generate (job 8812)" in out
    assert "deduced" in out
    assert "of what the server sent" in out


def test_tries_count_for_more_than_looks():
    """Who tries in vain comes before what is only looked at, and TRIES/S are tries alone."""

    def lock(key: bytes, **counts: int) -> KeyCount:
        given = {
            name: counts.get(name, 0) for name in ("attempts", "acquired", "refused", "unknown", "looks")
        }
        asked = given["attempts"] + given["looks"]
        return KeyCount(
            key, None, 0, "s:1", "lock:*", **given, renewals=0, releases=0, callers=1, per_second=asked / 2.0
        )

    report = merge(
        [
            Report(
                nodes=("s:1",), seconds=2.0, keys=(lock(b"lock:watched", attempts=4, acquired=4, looks=400),)
            ),
            Report(
                nodes=("s:2",), seconds=2.0, keys=(lock(b"lock:wanted", attempts=20, refused=20, looks=20),)
            ),
            Report(nodes=("s:2",), seconds=2.0, keys=(lock(b"lock:busy", attempts=90, acquired=90),)),
        ]
    )
    rows = [re.split(" +", line) for line in text_of(report, None, 20)]
    head = rows[0]
    found = {row[0].partition(" ")[0]: row for row in rows[1:4]}
    assert [row[0] for row in rows[1:4]] == ["lock:wanted", "lock:busy", "lock:watched"]
    assert {name: row[head.index("TRIES/S") - len(head)] for name, row in found.items()} == {
        "lock:wanted": "10.0", "lock:busy": "45.0", "lock:watched": "2.0",
    }  # fmt: skip
    assert [one.per_second for one in report.keys] == [20.0, 45.0, 202.0]


def test_a_server_that_loads_its_data_says_so(cli):
    """What it answers until it is done is no cut connection."""
    server = RedisServer(
        port=None,
        enable_debug_command="yes",
        key_load_delay=20_000,  # microseconds a key: longer than any test
        loading_process_events_interval_bytes=1024,
    )
    try:
        client = server.client(retry=None)
        client.execute_command("DEBUG", "POPULATE", 20_000, "lock:x", 32)
        client.connection_pool.get_connection().send_command("DEBUG", "RELOAD")

        def loads() -> bool:
            try:
                return not client.ping()
            except redis.exceptions.BusyLoadingError:
                return True

        wait_until(loads)
        status, out, err = cli("--redis-url", server.url, "--seconds", "1")
    finally:
        server.close()
    assert status == 2
    assert "the server is loading its data; wait until it is done" in err
    assert "cut the connection" not in err + out


def test_json_has_everything(contended, cli):
    """``--json`` prints one object: locks, callers with names, costs, how long and why it ended."""
    _, out, _ = cli("--redis-url", contended.url, "--seconds", "0.8", "--json", "--top", "1")
    report = json.loads(out)
    [lock], [caller] = report["locks"], report["callers"]
    assert (lock["key"], lock["prefix"], lock["callers"]) == ("lock:order:42", "lock:order:*", 1)
    assert lock["refused_deduced"] == lock["attempts"] > 10
    assert (lock["acquired"], lock["outcome_unknown"]) == (0, 0)
    assert caller["name"] == "worker-7"
    assert caller["address"].startswith("127.0.0.1:")
    assert (caller["holder"]["job_type"], caller["holder"]["job_id"]) == ("invoice.generate", "8812")
    assert caller["polls"] is True
    assert 0.015 < caller["interval_seconds"] < 0.2
    assert lock["per_second"] == pytest.approx(lock["attempts"] / report["seconds"], rel=0.01)
    assert (report["stopped"], report["errors"]) == ("time", {})
    [cost] = report["cost"].values()
    assert 0 < cost["share_of_output"] <= 1
    assert cost["monitor_bytes"] == report["output_bytes"] > 1000
    assert 0 <= cost["cpu_during"] < 2


def wait_listening(client: redis.Redis) -> None:
    """Wait until somebody runs MONITOR and the server was given fifty commands since."""
    wait_until(lambda: any(one["cmd"] == "monitor" for one in client.client_list()))
    before = client.info()["total_commands_processed"]
    wait_until(lambda: client.info()["total_commands_processed"] > before + 50)


def test_interrupting_prints_what_was_heard(contended, tmp_path):
    """Ctrl-C ends at once with the result so far and status 130, and leaves no listener behind."""
    process = Process(
        [SCRIPT, "contention", "--redis-url", contended.url, "--seconds", "10"], tmp_path / "log"
    )
    client = contended.client()
    wait_listening(client)
    began = time.monotonic()
    assert process.stop(signal.SIGINT) == 130
    assert time.monotonic() - began < 5
    assert "ended by Ctrl-C" in process.output()
    assert "lock:order:42" in process.output()
    wait_until(lambda: not any(one["cmd"] == "monitor" for one in client.client_list()))


def test_a_mute_server_ends_it(contended, tmp_path):
    """A server that stops answering ends the command within its timeout, with status 2 and what was heard."""
    words = ["contention", "--redis-url", contended.url, "--seconds", "10", "--timeout", "0.5s"]
    process = Process([SCRIPT, *words], tmp_path / "log")
    client = contended.client()
    wait_listening(client)
    contended.signal(signal.SIGSTOP)
    try:
        assert process.wait(6) == 2
    finally:
        contended.signal(signal.SIGCONT)
    assert "incomplete" in process.output()
    assert "no answer in time" in process.output()
    assert "ended early: a server was lost" in process.output()


def test_a_dead_connection_ends_it(own_server, tmp_path):
    """A server that dies ends the command at once with status 2 and one line, no traceback."""
    process = Process(
        [SCRIPT, "contention", "--redis-url", own_server.url, "--seconds", "10"], tmp_path / "log"
    )
    client = own_server.client()
    wait_until(lambda: any(one["cmd"] == "monitor" for one in client.client_list()))
    own_server.stop(signal.SIGKILL)
    assert process.wait(6) == 2
    assert "Traceback" not in process.output()
    assert re.search(
        r"^lockscope contention: .*(closed|cut) the connection", process.output(), re.MULTILINE
    )  # cut once listening had begun


def test_a_cut_while_listening_is_no_wrong_address(own_server, tmp_path):
    """Where somebody cuts the connection that listens, the line says so, not that the URL may be wrong."""
    words = ["contention", "--redis-url", own_server.url, "--seconds", "10"]
    process = Process([SCRIPT, *words], tmp_path / "log")
    client = own_server.client()
    wait_listening(client)
    assert client.client_kill_filter(_type="normal", skipme=True) > 0
    assert process.wait(6) == 2
    assert "the server cut the connection while it listened" in process.output()
    assert "TLS" not in process.output()


def test_rates_are_of_the_time_of_listening_alone(own_server):
    """Working up a burst after MONITOR has ended is no listening: rates would be too low."""
    progress = Progress()
    [server] = servers(own_server.url, 2.0)
    with ThreadPoolExecutor(1) as pool:
        heard = pool.submit(sampler.listen, server, plan(max_bytes=2_000_000), threading.Event(), progress)
        wait_until(lambda: progress.began)
        burst = "for i = 1, 60000 do redis.call('set', 'lock:x', i) end"
        own_server.client().eval(burst, 0)
        wait_until(lambda: progress.ended, every=0.001)
        worked_up = progress.commands
        report = heard.result(60)
    assert report.stopped == "bytes"
    assert worked_up < report.commands
    assert report.seconds == progress.ended - progress.began


def test_a_flood_ends_it_at_the_cap(own_server):
    """Output beyond the cap ends the command early, and it says so; memory of the server stays small."""
    stop = threading.Event()
    payload = b"x" * 1000
    peak = 0

    def flood() -> None:
        client = own_server.client()
        pipe = client.pipeline(transaction=False)
        while not stop.is_set():
            for _ in range(500):
                pipe.set("cache:x", payload)
            pipe.execute()

    threads = [threading.Thread(target=flood) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        watcher = own_server.client()
        process = subprocess.Popen(
            [SCRIPT, "contention", "--redis-url", own_server.url, "--seconds", "10", "--max-megabytes", "3"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        while process.poll() is None:
            peak = max(
                peak, *(int(one["omem"]) for one in watcher.client_list() if one["cmd"] == "monitor"), 0
            )
        out, _ = process.communicate()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert process.returncode == 0
    assert "ended early at the cap on output" in out
    seconds = float(re.search(r"listened for ([\d.]+)s", out)[1])
    assert seconds < 8
    assert peak < 20_000_000


def test_times_that_would_hurt_are_refused(cli):
    """More than ten seconds, or what is no time, is a usage error with one line."""
    for words in (
        ("--seconds", "11"),
        ("--seconds", "1h"),
        ("--seconds", "often"),
        ("--max-megabytes", "9999"),
    ):
        status, out, err = cli(*words)
        assert (status, out) == (2, "")
        assert len(err.splitlines()) == 1


def test_without_permission_for_monitor_a_line_says_so(own_server, cli):
    """A user who may not run MONITOR gets one line that names the permission, and status 2."""
    client = own_server.client()
    client.acl_setuser("eve", enabled=True, passwords=["+sesame"], keys=["*"], commands=["+@all", "-monitor"])
    status, out, err = cli("--redis-url", f"redis://eve:sesame@127.0.0.1:{own_server.port}")
    assert (status, out) == (2, "")
    assert '"monitor"' in err.splitlines()[-1]
    assert "sesame" not in err


def test_with_no_other_permission_it_works_and_says_what_is_missing(contended, cli):
    """MONITOR alone is enough for a result; what PTTL, INFO, CLIENT LIST would add is said to be missing."""
    client = contended.client()
    client.acl_setuser("eve", enabled=True, passwords=["+pw"], commands=["+monitor"])
    url = f"redis://eve:pw@127.0.0.1:{contended.port}?protocol=2"
    status, out, err = cli("--redis-url", url, "--seconds", "0.6", "--json")
    assert status == 0, err
    report = json.loads(out)
    assert report["locks"][0]["attempts"] > 5
    assert report["locks"][0]["outcome_unknown"] == report["locks"][0]["attempts"]
    assert report["cost"] == {}
    assert any("PTTL" in note for note in report["notes"])
    assert any("CLIENT LIST" in note for note in report["notes"])


def test_databases_socket_files_and_hostile_keys(own_server):
    """Locks of every database count; clients of a socket file share a name; keys are shown safely."""
    hostile = b'lock:\xff\n\x1b[31m"' + "\u202e".encode()

    def work() -> None:
        for db in (0, 5):
            client = own_server.client(db=db)
            for _ in range(4):
                client.set(hostile, "t", nx=True, px=60_000)

    report = listen(f"unix://{own_server.socket}?db=0", plan(), work)
    assert [(one.db, one.key, one.attempts, one.acquired, one.refused) for one in report.keys] == [
        (0, hostile, 4, 1, 3), (5, hostile, 4, 1, 3),
    ]  # fmt: skip
    assert {one.address for one in report.callers} == {f"unix:{own_server.socket}"}
    assert any("socket file" in note for note in report.notes)
    shown = list(text_of(report, 80, 20))
    assert all(line.isprintable() and len(line) <= 110 for line in shown)
    only = listen(own_server.url, plan(dbs=frozenset({5})), work)
    assert {one.db for one in only.keys} == {5}


def test_over_tls(tmp_path):
    """The same over an encrypted connection."""
    authority = trustme.CA()
    leaf = authority.issue_cert("127.0.0.1")
    names = {name: str(tmp_path / f"{name}.pem") for name in ("ca", "cert", "key")}
    authority.cert_pem.write_to_path(names["ca"])
    leaf.cert_chain_pems[0].write_to_path(names["cert"])
    leaf.private_key_pem.write_to_path(names["key"])
    port = free_port()
    server = RedisServer(
        tls_port=port, tls_cert_file=names["cert"], tls_key_file=names["key"], tls_ca_cert_file=names["ca"],
        tls_auth_clients="no",
    )  # fmt: skip
    try:
        client = server.client()
        report = listen(
            f"rediss://127.0.0.1:{port}?ssl_ca_certs={names['ca']}",
            plan(),
            lambda: [client.set("lock:a", "t" * 300, nx=True, px=60_000) for _ in range(400)],
        )
    finally:
        server.close()
    assert report.errors == {}
    assert counts(report, b"lock:a") == (400, 1, 399, 0)


def test_every_primary_of_a_cluster_or_a_named_one(cli):
    """A cluster's primaries are listened to together, ``--node`` picks one, an unknown name is an error."""
    with cluster() as group:
        client = redis.RedisCluster("127.0.0.1", group.servers[0].port)
        names = [f"127.0.0.1:{server.port}" for server in group.servers]
        keys = [f"lock:{number}" for number in range(20)]

        def work() -> None:
            for _ in range(3):
                for key in keys:
                    client.set(key, "t", nx=True, px=60_000)

        report = listen(group.url, plan(), work)
        assert sorted(report.nodes) == sorted(names)
        assert {one.node for one in report.keys} == set(names)
        assert {(one.attempts, one.acquired, one.refused) for one in report.keys} == {(3, 1, 2)}
        assert len(report.keys) == len(keys)
        _, out, _ = cli("--redis-url", group.url, "--node", names[0], "--seconds", "0.1", "--json")
        assert json.loads(out)["nodes"] == [names[0]]
        status, _, err = cli("--redis-url", group.url, "--node", "nowhere:1")
        assert status == 2
        assert names[0] in err


def test_without_patterns_any_expiring_set_nx_is_a_lock(own_server):
    """A lock of a name that nobody could guess is found; with --locks only what matches is."""

    def work() -> None:
        client = own_server.client()
        for _ in range(3):
            client.set("gate", "t", nx=True, px=60_000)
            client.set("seen:1", "t", nx=True)
            client.set("lock:a", "t", nx=True)

    watch = Watch(DEFAULT_PATTERNS)
    assert {one.key for one in listen(own_server.url, plan(), work).keys} == {b"gate", b"lock:a"}
    how = plan(anywhere=False)
    assert {one.key for one in listen(own_server.url, how, work).keys} == {b"lock:a"}
    assert not watch.lock(b"gate")[0]

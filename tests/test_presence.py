"""Presence: written by real processes, read by a real mirror; and the rules of evidence as pure values."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis
import redis.asyncio
from prometheus_client import CollectorRegistry

import lockscope
from faraway import FarAway
from lockscope import presence, tokens
from lockscope.jobs import NO_JOB
from lockscope.presence import CHANNEL, announce
from lockscope_exporter import release
from lockscope_exporter.dialects.owners import described, holder
from lockscope_exporter.presence import Attendance, runs_here
from lockscope_exporter.presence.local import parse_stat
from lockscope_exporter.presence.roll_call import parse_clients, parse_numsub
from lockscope_exporter.sampling import open_source
from lockscope_exporter.targets import LockPattern, SamplingOptions, Target
from servers import RedisServer, wait_until
from topologies import cluster, sentinel_group

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockscope_exporter.source import Source
    from lockscope_exporter.state import Holder, LockState

# Takes a lock for a minute and says so; then does whatever its caller wants.
WORKER = """
import os, redis, sys, time, lockscope
lockscope.instrument(registry=None, prometheus=False, logs=False)
client = redis.Redis.from_url(sys.argv[1])
lock = client.lock("lock:" + sys.argv[2], timeout=float(sys.argv[3]))
with lockscope.job("invoice.generate", job_id="8812"):
    lock.acquire()
print("held", flush=True)
time.sleep(600)
"""


class Holding:
    """A worker process that holds a lock."""

    def __init__(self, url: str, name: str, ttl: float = 60, program: str = WORKER, **env: str) -> None:
        self.popen = subprocess.Popen(
            [sys.executable, "-c", program, url, name, str(ttl)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **env},
        )
        assert self.popen.stdout is not None
        assert self.popen.stdout.readline() == "held\n"

    def kill(self) -> None:
        """End it as the kernel's OOM killer does."""
        self.popen.send_signal(signal.SIGKILL)
        self.popen.wait()
        assert self.popen.stdout is not None
        self.popen.stdout.close()


@pytest.fixture
def holding() -> Iterator[list[Holding]]:
    workers: list[Holding] = []
    yield workers
    for worker in workers:
        worker.kill()


def opened(url: str, **options: object) -> Source:
    source = open_source([Target(url, patterns=(LockPattern(b"lock:*"),))], SamplingOptions(**options))
    source.start()
    assert source.wait_ready(20)
    return source


@pytest.fixture
def source(server: RedisServer) -> Iterator[Source]:
    source = opened(server.url)
    yield source
    source.stop()


def state(source: Source, name: str) -> LockState | None:
    return source.lock(b"lock:" + name.encode())


def life(source: Source, name: str) -> str | None:
    found = state(source, name)
    return found.holder.alive if found and found.holder else None


def subscribers(client: redis.Redis, worker: str) -> int:
    return int(client.pubsub_numsub(CHANNEL + worker)[0][1])


# --- the process ---


@pytest.fixture
def observed() -> Iterator[None]:
    lockscope.instrument(registry=CollectorRegistry())
    yield
    lockscope.uninstrument()


@pytest.mark.usefixtures("observed")
def test_first_lock_announces_the_process_and_its_token_proves_it(client: redis.Redis) -> None:
    """One subscriber on the worker's channel is there before the first token, and the token says so."""
    client.lock("lock:a", timeout=9).acquire()
    owner = tokens.parse(client.get("lock:a"))
    assert owner is not None
    assert owner.presence is True
    assert owner.worker == tokens.process.worker
    assert subscribers(client, owner.worker) == 1
    for number in range(20):
        client.lock(f"lock:{number}", timeout=9).acquire()
    assert subscribers(client, owner.worker) == 1


@pytest.mark.usefixtures("observed")
def test_presence_is_one_connection_a_server_not_a_client(own_server: RedisServer) -> None:
    """Many clients of one server, blocking and asyncio, share one connection; it has a telling name."""
    clients = [redis.Redis(port=own_server.port) for _ in range(3)]
    for number, client in enumerate(clients):
        client.lock(f"lock:{number}", timeout=9).acquire()

    async def more() -> None:
        async with redis.asyncio.Redis(port=own_server.port) as client:
            await client.lock("lock:async", timeout=9).acquire()

    asyncio.run(more())
    assert subscribers(clients[0], tokens.process.worker) == 1
    names = [each["name"] for each in clients[0].client_list() if each["name"].startswith(CHANNEL)]
    assert names == [CHANNEL + tokens.process.worker]
    assert tokens.parse(clients[0].get("lock:async")).presence is True
    for client in clients:
        client.close()


@pytest.mark.usefixtures("observed")
def test_asyncio_alone_announces_too(own_server: RedisServer) -> None:
    """A process that only ever uses asyncio clients is present as well."""

    async def lock() -> None:
        async with redis.asyncio.Redis(unix_socket_path=own_server.socket) as client:
            await client.lock("lock:async", timeout=9).acquire()

    asyncio.run(lock())
    with own_server.client() as client:
        assert subscribers(client, tokens.process.worker) == 1


@pytest.mark.usefixtures("observed")
def test_cut_connection_comes_back_at_once(client: redis.Redis) -> None:
    """A presence connection that the server kills is there again before anybody could call it gone."""
    client.lock("lock:a", timeout=9).acquire()
    before = client.client_list(_type="pubsub")[0]["id"]
    started = time.monotonic()
    client.client_kill_filter(_id=before)
    wait_until(lambda: subscribers(client, tokens.process.worker) == 1)
    assert time.monotonic() - started < 1.0


@pytest.mark.usefixtures("observed")
def test_presence_survives_a_restart_of_the_server(own_server: RedisServer) -> None:
    """After the server was away the process comes back within the time that readers forgive."""
    client = own_server.client()
    client.lock("lock:a", timeout=9).acquire()
    own_server.stop()
    own_server.start()
    wait_until(lambda: subscribers(client, tokens.process.worker) == 1, timeout=5)
    client.close()


@pytest.mark.usefixtures("observed")
def test_forked_child_is_a_worker_of_its_own(client: redis.Redis) -> None:
    """A child has its own name and connection, and keeps no copy of its parent's socket open."""
    client.lock("lock:parent", timeout=60).acquire()
    parent = tokens.process.worker
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            client.lock("lock:child", timeout=60).acquire()
            os.write(writing, tokens.process.worker.encode())
            signal.pause()
        finally:
            os._exit(1)
    try:
        own = os.read(reading, 100).decode()
        assert own != parent
        assert tokens.parse(client.get("lock:child")).worker == own
        assert (subscribers(client, own), subscribers(client, parent)) == (1, 1)
        client.client_kill_filter(_id=_presence_id(client, parent))
        wait_until(lambda: subscribers(client, parent) == 1)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    wait_until(lambda: subscribers(client, own) == 0)


def _presence_id(client: redis.Redis, worker: str) -> str:
    return next(each["id"] for each in client.client_list() if each["name"] == CHANNEL + worker)


def test_orphaned_child_does_not_hide_its_parents_death(server: RedisServer, client: redis.Redis) -> None:
    """A parent that is killed while its forked child lives on is absent: the child holds no copy open."""
    program = WORKER.replace(
        'print("held"', 'child = os.fork()\nif child == 0: time.sleep(600)\nprint("held"'
    )
    worker = Holding(server.url, "parent", program=program)
    owner = tokens.parse(client.get("lock:parent"))
    assert subscribers(client, owner.worker) == 1
    children = subprocess.run(
        ["pgrep", "-P", str(worker.popen.pid)], capture_output=True, text=True, check=True
    ).stdout.split()
    worker.kill()
    try:
        wait_until(lambda: subscribers(client, owner.worker) == 0, timeout=2)
    finally:
        for child in children:
            os.kill(int(child), signal.SIGKILL)


@pytest.mark.parametrize("how", ["argument", "variable"])
def test_switched_off_presence_is_said_in_the_token(
    how: str, own_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With presence off there is no connection, and the token says that absence means nothing."""
    if how == "variable":
        monkeypatch.setenv("LOCKSCOPE_PRESENCE", "0")
    lockscope.instrument(registry=CollectorRegistry(), presence=False if how == "argument" else None)
    with own_server.client() as client:
        client.lock("lock:a", timeout=9).acquire()
        lockscope.uninstrument()
        assert tokens.parse(client.get("lock:a")).presence is False
        assert client.pubsub_channels() == []


@pytest.mark.usefixtures("observed")
def test_server_that_refuses_costs_nothing_and_is_said_once(
    own_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A user without the right to subscribe gets its locks, tokens with p=0 and one warning that says why."""
    with own_server.client() as admin:
        admin.execute_command("ACL SETUSER app on >secret ~lock:* +@all -@dangerous resetchannels")
    client = redis.Redis(port=own_server.port, username="app", password="secret")
    with caplog.at_level("WARNING", "lockscope.presence"):
        for _ in range(3):
            with client.lock("lock:a", timeout=9):
                owner = tokens.parse(client.get("lock:a"))
    assert owner.presence is False
    assert len(caplog.records) == 1
    assert "grant SUBSCRIBE" in caplog.text
    assert "NOPERM" not in caplog.text or "secret" not in caplog.text
    client.close()


def test_client_of_another_make_is_left_alone() -> None:
    """A client that is no redis-py client has no presence, and nothing raises."""
    assert announce(object()) == presence.ABSENT

    class Odd:
        connection_pool = "none"

    odd = Odd()
    assert announce(odd) == presence.ABSENT
    assert announce(odd) == presence.ABSENT


@pytest.mark.usefixtures("observed")
def test_thread_ends_when_server_and_clients_are_gone() -> None:
    """No thread goes on calling at a server that the application has forgotten and that is not there."""
    server = RedisServer()
    client = server.client()
    client.lock("lock:a", timeout=9).acquire()

    def threads() -> int:
        return sum(thread.name == "lockscope-presence" for thread in threading.enumerate())

    before = threads()
    client.close()
    del client
    server.close()
    wait_until(lambda: threads() < before)


def test_tls_and_credentials_of_the_client_are_used(tmp_path: object) -> None:
    """Presence connects as the application does: with its user, its password and its certificates."""
    import trustme  # noqa: PLC0415

    authority = trustme.CA()
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    files = {name: f"{tmp_path}/{name}" for name in ("ca", "cert", "key")}
    authority.cert_pem.write_to_path(files["ca"])
    certificate.cert_chain_pems[0].write_to_path(files["cert"])
    certificate.private_key_pem.write_to_path(files["key"])
    server = RedisServer()
    try:
        with server.client() as admin:
            admin.config_set("requirepass", "hunter2")
        port = _tls_port(server, files)
        lockscope.instrument(registry=CollectorRegistry())
        client = redis.Redis(
            host="localhost", port=port, password="hunter2", ssl=True, ssl_ca_certs=files["ca"]
        )
        client.lock("lock:tls", timeout=9).acquire()  # making TLS ready may take longer than a lock may wait
        wait_until(lambda: subscribers(client, tokens.process.worker) == 1)
        with client.lock("lock:next", timeout=9):
            assert tokens.parse(client.get("lock:next")).presence is True
        client.close()
    finally:
        lockscope.uninstrument()
        server.close()


def _tls_port(server: RedisServer, files: dict[str, str]) -> int:
    from servers import free_port  # noqa: PLC0415

    port = free_port()
    with server.client(password="hunter2") as admin:
        for name, value in {
            "tls-ca-cert-file": files["ca"],
            "tls-cert-file": files["cert"],
            "tls-key-file": files["key"],
            "tls-auth-clients": "no",
        }.items():
            admin.config_set(name, value)
        admin.config_set("tls-port", port)
    return port


# --- the reader ---


def test_killed_holder_is_orphaned_within_two_seconds(
    server: RedisServer, source: Source, holding: list[Holding]
) -> None:
    """SIGKILL shows as orphaned, with who it was and since when, two seconds later at most.

    A machine that is busy with something else may be late once or twice, not three times in a row.
    """
    late = []
    for name in ("a", "b", "c"):
        worker = Holding(server.url, name)
        holding.append(worker)
        wait_until(lambda: life(source, name) == "alive", what="alive")  # noqa: B023 - it waits here
        worker.kill()
        killed = time.time()
        found = wait_until(
            lambda: (s := state(source, name)) and s.state == "orphaned" and s,  # noqa: B023
            what="orphaned",
        )
        late.append(time.time() - killed)
        assert found.holder.job_type == "invoice.generate"
        assert f"{found.holder.host}/{worker.popen.pid} of invoice.generate" in found.evidence[0]
        if late[-1] < 2.0 and abs(found.holder.gone_since - killed) < 0.7:
            return
    pytest.fail(f"orphaned only after {late} s")


def test_what_was_ready_stays_ready_whoever_comes_and_dies(
    server: RedisServer, source: Source, holding: list[Holding]
) -> None:
    """A worker that nobody knows yet takes back no readiness: an exporter would vanish from its balancer."""
    ready = []

    def orphaned() -> bool:
        ready.append(source.ready())
        found = state(source, "a")
        return found is not None and found.state == "orphaned"

    worker = Holding(server.url, "a")
    holding.append(worker)
    worker.kill()
    wait_until(orphaned, what="orphaned")
    assert all(ready)


def test_reader_that_comes_later_finds_the_orphan(server: RedisServer, holding: list[Holding]) -> None:
    """A command that starts after the death knows it as soon as it is ready: the token proves presence."""
    worker, living = Holding(server.url, "dead"), Holding(server.url, "living")
    holding += [worker, living]
    worker.kill()
    source = opened(server.url)
    try:
        assert source.wait_ready(20)
        assert state(source, "dead").state == "orphaned"
        assert state(source, "dead").holder.gone_since is None
        assert "is gone; frees itself in" in state(source, "dead").evidence[0]
        assert state(source, "living").holder.alive == "alive"
    finally:
        source.stop()


def test_paused_holder_is_alive(server: RedisServer, source: Source, holding: list[Holding]) -> None:
    """A process stopped by SIGSTOP keeps its connection: it is never taken for dead."""
    worker = Holding(server.url, "a")
    holding.append(worker)
    wait_until(lambda: life(source, "a") == "alive")
    worker.popen.send_signal(signal.SIGSTOP)
    paused = time.monotonic()
    wait_until(lambda: time.monotonic() - paused > 2.5, every=0.1)
    assert life(source, "a") == "alive"


def test_cut_presence_of_a_living_holder_is_never_orphaned(
    server: RedisServer, client: redis.Redis, source: Source, holding: list[Holding]
) -> None:
    """A living process whose connections are cut again and again is not called gone in between."""
    holding.append(Holding(server.url, "a"))
    wait_until(lambda: life(source, "a") == "alive")
    seen = set()
    ends = time.monotonic() + 2.5
    while time.monotonic() < ends:
        client.client_kill_filter(_type="pubsub")
        next_cut = time.monotonic() + 0.4
        wait_until(lambda at=next_cut: seen.add(state(source, "a").state) or time.monotonic() > at)
    assert seen == {"held"}


def test_restart_of_the_server_orphans_nobody_alive(own_server: RedisServer, holding: list[Holding]) -> None:
    """When the server restarts with its data, living holders stay held and a dead one is found after all."""
    client = own_server.client()
    holding += [Holding(own_server.url, "living"), Holding(own_server.url, "dead")]
    source = opened(own_server.url)
    for target in source._targets:
        target.attendance.grace = 4.0
    try:
        wait_until(lambda: life(source, "living") == life(source, "dead") == "alive")
        own_server.options["appendonly"] = "yes"
        client.config_set("appendonly", "yes")
        wait_until(lambda: client.info("persistence")["aof_rewrite_in_progress"] == 0)
        own_server.stop(signal.SIGTERM)
        holding[1].kill()
        own_server.start()
        seen = set()

        def found() -> bool:
            living, dead = state(source, "living"), state(source, "dead")
            if living is not None:
                seen.add(living.state)
            return dead is not None and dead.state == "orphaned"

        wait_until(found, timeout=15, what="the dead one to be found")
        assert seen == {"held"}
        wait_until(lambda: life(source, "living") == "alive")
    finally:
        source.stop()
        client.close()


def test_holder_without_presence_stays_unknown(
    server: RedisServer, source: Source, holding: list[Holding]
) -> None:
    """A killed process that had presence switched off is not called orphaned: nothing proves it."""
    off, on = Holding(server.url, "off", LOCKSCOPE_PRESENCE="0"), Holding(server.url, "on")
    holding += [off, on]
    wait_until(lambda: life(source, "on") == "alive")
    off.kill()
    on.kill()
    wait_until(lambda: state(source, "on").state == "orphaned")
    assert (state(source, "off").state, life(source, "off")) == ("held", "unknown")


def test_user_without_pubsub_knows_nothing(own_server: RedisServer, holding: list[Holding]) -> None:
    """An exporter that may not ask PUBSUB goes on sampling; holders are unknown, not gone."""
    with own_server.client() as admin:
        admin.execute_command("ACL SETUSER reader on >pw ~* &* +@all -pubsub")
    worker = Holding(own_server.url, "a")
    holding.append(worker)
    worker.kill()
    source = opened(f"redis://reader:pw@127.0.0.1:{own_server.port}/0")
    try:
        assert (state(source, "a").state, life(source, "a")) == ("held", "unknown")
        assert source.nodes()[0].up
    finally:
        source.stop()


# --- the rules of evidence, without sockets ---


def held_by(worker: str, flag: str = presence.CONFIRMED, at: float = 1000.0) -> Holder:
    token = tokens.describe(NO_JOB, at, flag).replace(tokens.process.worker.encode(), worker.encode())
    return holder(token, described(b"lock:a", token))


W = "abcdef123456"


def attended(
    *nodes: str, grace: float = 10.0, up_for: float | None = 1e6, runs: bool | None = False
) -> Attendance:
    """Return the attendance of one worker; what is seen of its process is that it has ended, or ``runs``."""
    attendance = Attendance(lambda _: runs, grace=grace)
    for node in nodes or ("n",):
        attendance.connected(node, 0.0, up_for)
    attendance.asked([W], 0.0)
    return attendance


def test_gone_takes_two_samples_a_second_apart() -> None:
    """One sample without the worker proves nothing, a second one too soon after it neither."""
    attendance = attended()
    attendance.sample("n", {W: 1}, 1.0)
    for now, expected in ((2.0, "unknown"), (2.9, "unknown"), (3.0, "gone")):
        attendance.sample("n", {W: 0}, now)
        assert attendance.of(held_by(W), now, 5000.0 + now)[0] == expected
    assert attendance.of(held_by(W), 9.0, 5009.0) == ("gone", 5002.0, "")


def test_a_sample_with_the_worker_starts_over() -> None:
    """Absence must be without a break; a worker that was away for a moment is alive."""
    attendance = attended()
    for now, count in ((1.0, 1), (2.0, 0), (2.5, 1), (3.0, 0)):
        attendance.sample("n", {W: count}, now)
    assert attendance.of(held_by(W), 3.0, 5003.0)[0] == "unknown"
    attendance.sample("n", {W: 1}, 3.5)
    assert attendance.of(held_by(W), 3.5, 5003.5).alive == "alive"


def test_cluster_needs_every_node() -> None:
    """A worker is present if any node counts it, gone if none does, unknown while a node is out of reach."""
    attendance = attended("a", "b")
    attendance.sample("a", {W: 0}, 1.0)
    attendance.sample("b", {W: 1}, 1.0)
    assert attendance.of(held_by(W), 1.0, 5001.0)[0] == "alive"
    attendance.lost("b")
    for now in (2.0, 3.0, 4.0):
        attendance.sample("a", {W: 0}, now)
    assert attendance.of(held_by(W), 4.0, 5004.0)[0] == "unknown"
    attendance.left("b")
    attendance.sample("a", {W: 0}, 4.5)
    assert attendance.of(held_by(W), 4.5, 5004.5)[0] == "gone"


def test_reconnects_are_forgiven() -> None:
    """After a reconnect nobody is found gone for a while; who was gone before stays gone."""
    other = "fedcba654321"
    attendance = attended()
    attendance.asked([W, other], 0.0)
    for now, count in ((1.0, 1), (2.0, 0), (3.0, 0)):
        attendance.sample("n", {W: count, other: 1}, now)
    assert attendance.of(held_by(W), 3.0, 5003.0)[0] == "gone"
    attendance.lost("n")
    attendance.connected("n", 10.0, None)
    for now in (10.1, 12.0, 16.0, 19.9):
        attendance.sample("n", {W: 0, other: 0}, now)
        assert attendance.of(held_by(other), now, 5000.0 + now)[0] == "unknown"
        assert attendance.of(held_by(W), now, 5000.0 + now)[0] == "gone"
    attendance.sample("n", {W: 0, other: 0}, 20.1)
    assert attendance.of(held_by(other), 20.1, 5020.1)[0] == "gone"


@pytest.mark.parametrize(
    ("up_for", "held_for", "expected"),
    [(1e6, 60.0, "gone"), (3.0, 60.0, "unknown"), (3.0, 2.0, "gone"), (None, 2.0, "unknown")],
)
def test_server_that_just_came_back_is_forgiven_to_those_it_cut_off(
    up_for: float | None, held_for: float, expected: str
) -> None:
    """A first look needs no patience, except with holders from before the server started, if it says when."""
    attendance = attended(up_for=up_for)
    for now in (0.1, 1.2):
        attendance.sample("n", {W: 0}, now)
    assert attendance.of(held_by(W, at=5001.2 - held_for), 1.2, 5001.2)[0] == expected


@pytest.mark.parametrize(
    ("flag", "others_work", "age", "expected"),
    [
        (presence.CONFIRMED, False, 1.0, "gone"),
        (presence.ABSENT, True, 100.0, "unknown"),
        (presence.UNKNOWN, False, 100.0, "unknown"),
        (presence.UNKNOWN, True, 1.0, "unknown"),
        (presence.UNKNOWN, True, 100.0, "gone"),
    ],
)
def test_absence_of_one_never_seen_proves_only_what_its_token_lets_it(
    flag: str, others_work: bool, age: float, expected: str
) -> None:
    """Never seen present, a holder is gone by its token's word, or where presence works and it had time."""
    attendance = attended()
    attendance.asked([W, "0123456789ab"], 0.0)
    for now in (0.5, 1.5):
        attendance.sample("n", {W: 0, "0123456789ab": int(others_work)}, now)
    assert attendance.of(held_by(W, flag, at=5000.0 - age), 1.5, 5000.0)[0] == expected


def test_silence_is_doubt_then_death() -> None:
    """Silent for three pings is in doubt; beyond any pause its host has vanished. Both are said."""
    attendance = attended()
    attendance.sample("n", {W: 1}, 1.0)
    for idle, expected, why in (
        (14.0, "alive", ""),
        (50.0, "unknown", "silent for over 45 s: it is paused, or its host has vanished"),
        (299.0, "unknown", "silent for over 45 s: it is paused, or its host has vanished"),
        (301.0, "gone", "silent for over 5 min: its host has vanished"),
    ):
        attendance.idle({W: idle})
        standing = attendance.of(held_by(W), 2.0, 5002.0)
        assert standing.alive == expected
        assert standing.doubt.endswith(why)
        assert bool(standing.doubt) is bool(why)
    attendance.idle({W: 0.0})
    assert attendance.of(held_by(W), 2.0, 5002.0).alive == "alive"


def test_away_without_sight_of_the_process_is_gone_after_the_grace() -> None:
    """Where nobody can see the process it may come back, so only absence for the whole grace is proof."""
    attendance = attended(runs=None)
    attendance.sample("n", {W: 1}, 1.0)
    changed = {}
    for half in range(4, 25):
        now = half / 2
        changed[now] = attendance.sample("n", {W: 0}, now)
        standing = attendance.of(held_by(W), now, 5000.0 + now)
        assert standing.alive == ("gone" if now >= 12.0 else "unknown")
        assert bool(standing.doubt) == (3.0 <= now < 12.0)
    assert changed[12.0] == {W}
    assert standing.since == 5002.0


def test_a_break_in_absence_starts_the_grace_anew() -> None:
    """Coming back, a cut of the reader's own connection, and a reader that slept all begin a new grace."""

    def back(attendance: Attendance) -> None:
        attendance.sample("n", {W: 1}, 9.4)

    def cut(attendance: Attendance) -> None:
        attendance.lost("n")

    for broken, resumes in ((back, 9.5), (cut, 9.5), (lambda _: None, 15.5)):
        attendance = attended(runs=None)
        attendance.sample("n", {W: 1}, 0.5)
        for half in range(2, 19):
            attendance.sample("n", {W: 0}, half / 2)
        broken(attendance)
        attendance._lost.clear()
        for half in range(19):
            now = resumes + half / 2
            attendance.sample("n", {W: 0}, now)
            assert attendance.of(held_by(W), now, 5000.0 + now).alive == "unknown", (broken, now)
        for half in range(20, 22):
            attendance.sample("n", {W: 0}, resumes + half / 2)
        assert attendance.of(held_by(W), resumes + 10.5, 5000.0 + resumes).alive == "gone"


def test_a_process_that_is_seen_to_run_is_never_gone() -> None:
    """However long its connection is closed or silent; the evidence says what was seen."""
    attendance = attended(runs=True)
    attendance.sample("n", {W: 1}, 1.0)
    for now in range(2, 100):
        attendance.sample("n", {W: 0}, float(now))
        standing = attendance.of(held_by(W), now, 5000.0 + now)
        assert standing.alive == "unknown"
    assert standing.doubt == f"its presence connection is closed, but process {os.getpid()} still runs here"
    attendance.sample("n", {W: 1}, 100.0)
    attendance.idle({W: 1000.0})
    assert attendance.of(held_by(W), 100.0, 5100.0).alive == "unknown"


def test_a_process_that_ends_while_it_is_away_is_gone_then() -> None:
    """It is looked at again with each sample, and the answer changes at once."""
    saw = [True]
    attendance = Attendance(lambda _: saw[0])
    attendance.connected("n", 0.0, 1e6)
    attendance.asked([W], 0.0)
    for now, count in ((1.0, 1), (2.0, 0), (3.0, 0)):
        attendance.sample("n", {W: count}, now)
    assert attendance.of(held_by(W), 3.0, 5003.0).alive == "unknown"
    saw[0] = False
    assert attendance.sample("n", {W: 0}, 3.5) == {W}
    assert attendance.of(held_by(W), 3.5, 5003.5).alive == "gone"


def test_nobody_waits_for_a_second_look_that_would_tell_nothing() -> None:
    """Absence that proves nothing of any of a worker's locks is settled by one look at every node."""
    unsaid, absent, present = (held_by(W, flag) for flag in ("", presence.ABSENT, presence.CONFIRMED))

    def settled(attendance: Attendance, *holders: Holder) -> bool:
        return attendance.settled([W], 1.1, lambda _: holders)

    for runs in (None, False):
        attendance = attended("n", "m", runs=runs)
        attendance.sample("n", {W: 0}, 1.0)
        assert not settled(attendance, unsaid)  # it may be at the other node
        attendance.sample("m", {W: 0}, 1.0)
        assert settled(attendance, unsaid, absent)
        assert not settled(attendance)
        assert not settled(attendance, unsaid, present)
        later = 2.5
        for node in ("n", "m"):
            attendance.sample(node, {W: 0}, later)
        told = [attendance.of(holder, later, 5000.0) for holder in (unsaid, absent)]
        assert told == [("unknown", None, "")] * 2
    running = attended(runs=True)
    running.sample("n", {W: 0}, 1.0)
    assert not settled(running, unsaid)  # that it runs is worth telling
    working = attended()
    working.asked([W, "123456abcdef"], 0.0)
    working.sample("n", {W: 0, "123456abcdef": 1}, 1.0)
    assert not settled(working, unsaid)  # presence works for others: absence may mean something
    assert settled(working, absent)


def test_patience_is_what_is_left_of_the_grace() -> None:
    """A command that reads once knows how long to go on looking, and need not where that proves nothing."""
    attendance = attended(runs=None)
    for now, count in ((1.0, 1), (2.0, 0), (3.0, 0)):
        attendance.sample("n", {W: count}, now)
    attendance.of(held_by(W), 3.0, 5003.0)
    assert attendance.patience([W], 3.0, 5003.0) == 9.0
    for now in range(4, 13):
        attendance.sample("n", {W: 0}, float(now))
    assert attendance.patience([W], 12.0, 5012.0) == 0.0
    for runs, flag in ((False, presence.CONFIRMED), (True, presence.CONFIRMED), (None, presence.ABSENT)):
        other = attended(runs=runs)
        for now in (1.0, 2.0):
            other.sample("n", {W: 0}, now)
        other.of(held_by(W, flag), 2.0, 5002.0)
        assert other.patience([W], 2.0, 5002.0) == 0.0


# --- a look at the process itself ---


def own(**changes: object) -> Holder:
    token = tokens.describe(NO_JOB, time.time(), presence.CONFIRMED)
    return replace(holder(token, described(b"lock:a", token)), **changes)


def test_processes_of_this_host_are_seen() -> None:
    """This one runs; one that has ended does not, before and after it was waited for, nor one reborn."""
    assert runs_here(own()) is True
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    born = parse_stat(Path(f"/proc/{child.pid}/stat").read_bytes())[2]
    its = own(pid=child.pid, born=born)
    assert runs_here(its) is True
    assert runs_here(replace(its, born=1)) is True  # two clocks disagree: better not gone
    assert runs_here(replace(its, born=1, started_at=time.time() - 60)) is False
    assert runs_here(replace(its, born=None, started_at=None)) is True
    child.kill()
    wait_until(lambda: runs_here(its) is False, what="the zombie to be told from the living")
    child.communicate()
    assert runs_here(its) is False


def test_release_looks_at_the_process_once_more(server: RedisServer, client: redis.Redis) -> None:
    """Whatever was seen before, a lock whose process runs on this host is not freed without force."""
    client.set("lock:a", tokens.describe(NO_JOB, time.time(), presence.CONFIRMED), px=60_000)
    source = opened(server.url)
    try:
        found = state(source, "a")
    finally:
        source.stop()
    seen = found._replace(state="orphaned", holders=(replace(found.holder, alive="gone"),))
    result = release.execute(client, release.plan(seen), allow=True, user="eve")
    assert (result.outcome, result.detail) == ("changed", "its holder's process runs on this host")
    assert client.exists("lock:a")


@pytest.mark.parametrize(
    "changes",
    [
        {"host": "elsewhere"},
        {"namespace": None},
        {"namespace": "4026531836.00000000"},
        {"pid": None},
        {"pid": 0},
        {"pid": 10**18},
    ],
)
def test_processes_elsewhere_are_not_seen(changes: dict[str, object]) -> None:
    """Another host, container or boot says nothing, and neither does an id that no process can have."""
    assert runs_here(own(**changes)) is None


def test_stat_of_a_hostile_process_name_is_read() -> None:
    """The name of a process may look like the rest of the line."""
    rest = " ".join(str(number) for number in range(4, 40)).encode()
    assert parse_stat(b"7 (a) Z 1 2 (b) R " + rest) == ("R", 20, 22)


# --- through a proxy that loses its connections ---

ELSEWHERE = WORKER.replace(
    "client = ",
    "from lockscope.tokens import process\n"
    "process.head = process.head.replace(f'host={process.host}', 'host=elsewhere')\nclient = ",
)


def test_a_proxy_that_is_cut_orphans_nobody_before_the_grace(
    server: RedisServer, source: Source, holding: list[Holding], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A living holder on another host, cut off for five seconds, keeps its lock; cut for good, it is gone."""
    monkeypatch.setenv(release.VARIABLE, "1")
    proxy = FarAway(server.port, 0.0)
    port = proxy.port
    holding.append(Holding(f"redis://127.0.0.1:{port}/0", "a", program=ELSEWHERE))
    wait_until(lambda: life(source, "a") == "alive")
    assert state(source, "a").holder.host == "elsewhere"

    proxy.close()
    back = time.monotonic() + 5.0
    seen = set()
    refusals = set()

    def free() -> None:
        found = state(source, "a")
        seen.add((found.state, found.holder.alive))
        plan = release.plan(found)
        with server.client() as client:
            refusals.add(release.execute(client, plan, allow=True, user="eve").outcome)

    wait_until(lambda: free() or time.monotonic() > back, every=0.2)
    proxy = FarAway(server.port, 0.0, port)
    try:
        wait_until(lambda: life(source, "a") == "alive", timeout=6)
        assert seen == {("held", "alive"), ("held", "unknown")}
        assert refusals == {"refused"}
    finally:
        proxy.close()
    closed = time.monotonic()
    wait_until(lambda: state(source, "a").state == "orphaned", timeout=15)
    assert 9.0 < time.monotonic() - closed < 13.0
    assert not release.plan(state(source, "a")).needs_force


def test_a_living_process_of_this_host_is_never_orphaned(
    own_server: RedisServer, holding: list[Holding]
) -> None:
    """Its connection is killed and it may not subscribe again: what counts is that it is seen to run."""
    with own_server.client() as admin:
        admin.execute_command("ACL SETUSER app on >secret ~* &* +@all")
        url = f"redis://app:secret@127.0.0.1:{own_server.port}/0"
        worker = Holding(url, "a")
        holding.append(worker)
        source = opened(own_server.url)
        for target in source._targets:
            target.attendance.grace = 2.0
        try:
            wait_until(lambda: life(source, "a") == "alive")
            admin.execute_command("ACL SETUSER app -subscribe resetchannels")
            admin.client_kill_filter(_type="pubsub")
            ends = time.monotonic() + 4.0
            seen = set()
            wait_until(lambda: seen.add(state(source, "a").state) or time.monotonic() > ends)
            assert seen == {"held"}
            doubt = f"its presence connection is closed, but process {worker.popen.pid} still runs here"
            assert doubt in state(source, "a").evidence
            worker.kill()
            wait_until(lambda: state(source, "a").state == "orphaned", timeout=2.5)
        finally:
            source.stop()


def test_workers_that_hold_nothing_are_forgotten() -> None:
    """Memory follows the locks that are held, not the processes that ever were."""
    attendance = attended()
    for number in range(1000):
        attendance.asked([f"{number:012x}"], float(number))
    assert len(attendance._workers) == 1


def test_answers_of_both_protocols_are_read() -> None:
    """PUBSUB NUMSUB comes as a list or a map; CLIENT LIST as lines with hostile names among them."""
    channel = (CHANNEL + W).encode()
    assert parse_numsub([channel, 1, channel + b"f", 0]) == {W: 1, W + "f": 0}
    assert parse_numsub({channel: 2}) == {W: 2}
    lines = (
        b"id=3 addr=1:2 laddr=3:4 fd=8 name=" + channel + b" age=9 idle=12 flags=P db=0\n"
        b"id=4 addr=1:2 name=lockscope:alive:zz age=9 idle=7 flags=P\n"
        b"id=5 addr=1:2 name= age=9 idle=5 flags=P\n"
    )
    assert parse_clients(lines) == {W: 12.0}


# --- crashes, failover, clusters ---

# Forks workers that take, renew and release locks without end; prints their process ids.
NURSERY = """
import os, random, redis, sys, time, lockscope
lockscope.instrument(prometheus=False, logs=False)
children = []
for number in range(int(sys.argv[2])):
    child = os.fork()
    if child == 0:
        client = redis.Redis.from_url(sys.argv[1])
        while True:
            lock = client.lock(f"lock:crash:{number}", timeout=30)
            lock.acquire()
            time.sleep(random.uniform(0, 0.05))
            lock.extend(30, replace_ttl=True)
            time.sleep(random.uniform(0, 0.05))
            lock.release()
            time.sleep(random.uniform(0, 0.02))
    children.append(child)
print(*children, flush=True)
time.sleep(600)
"""


def test_crash_of_many_workers_orphans_what_they_held_and_nothing_else(
    server: RedisServer, client: redis.Redis, source: Source
) -> None:
    """Of 100 workers killed or not at random instants, the locks of the dead are orphaned, then expire."""
    nursery = subprocess.Popen(
        [sys.executable, "-c", NURSERY, server.url, "100"], stdout=subprocess.PIPE, text=True
    )
    rng = random.Random(7)
    try:
        pids = [int(pid) for pid in nursery.stdout.readline().split()]
        dead = set(rng.sample(pids, 70))
        wrong = set()

        def watch() -> None:
            for lock in source.locks():
                if lock.state == "orphaned" and lock.holder.pid not in dead:
                    wrong.add(lock.key)

        for pid in dead:
            os.kill(pid, signal.SIGKILL)
            watch()
            pause = time.monotonic() + rng.uniform(0, 0.03)
            wait_until(lambda until=pause: time.monotonic() > until, every=0.002)
        left = {
            key
            for key in client.scan_iter("lock:crash:*")
            if (owner := tokens.parse(client.get(key) or b"")) and owner.pid in dead
        }
        assert len(left) > 10

        def all_found() -> bool:
            watch()
            states = {lock.key: lock.state for lock in source.locks()}
            return all(states.get(key) == "orphaned" for key in left)

        wait_until(all_found, timeout=20, what="every lock that was left behind")
        for key in left:
            client.pexpire(key, 300)
        wait_until(lambda: watch() or not client.exists(*left), timeout=10, every=0.1)
        wait_until(lambda: not any(lock.state == "orphaned" for lock in source.locks()))
        assert wrong == set()
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        nursery.kill()
        nursery.wait()
        nursery.stdout.close()


def test_failover_is_followed_and_orphans_nobody_alive(holding: list[Holding]) -> None:
    """After a Sentinel failover holders are present at the new master, and one that died is found there."""
    program = WORKER.replace(
        "redis.Redis.from_url(sys.argv[1])",
        "redis.sentinel.Sentinel([('127.0.0.1', int(sys.argv[1]))]).master_for('orders')",
    )
    with sentinel_group() as group:
        holding += [Holding(str(group.port), name, program=program) for name in ("living", "dead")]
        source = opened(group.url)
        for target in source._targets:
            target.attendance.grace = 4.0
        try:
            wait_until(lambda: life(source, "living") == life(source, "dead") == "alive")
            group.servers[0].stop(signal.SIGKILL)
            holding[1].kill()
            seen = set()

            def found() -> bool:
                living, dead = state(source, "living"), state(source, "dead")
                if living is not None:
                    seen.add(living.state)
                return dead is not None and dead.state == "orphaned"

            wait_until(found, timeout=20, what="the dead one to be found")
            assert seen == {"held"}
            assert life(source, "living") == "alive"
        finally:
            source.stop()


def test_cluster_is_asked_as_a_whole(holding: list[Holding]) -> None:
    """In a cluster a holder is found at whatever node it is present, for locks on every node."""
    program = WORKER.replace("redis.Redis.from_url(sys.argv[1])", "redis.RedisCluster.from_url(sys.argv[1])")
    program = program.replace('print("held"', 'client.lock("lock:{b}", timeout=60).acquire()\nprint("held"')
    with cluster() as group:
        port = group.servers[0].port
        holding.append(Holding(f"redis://127.0.0.1:{port}", "{a}", program=program))
        source = opened(group.url)
        try:
            assert {lock.node for lock in source.locks()} == {
                f"127.0.0.1:{server.port}" for server in group.servers
            }
            wait_until(lambda: life(source, "{a}") == life(source, "{b}") == "alive")
            holding[0].kill()
            wait_until(lambda: {lock.state for lock in source.locks()} == {"orphaned"}, timeout=4)
        finally:
            source.stop()

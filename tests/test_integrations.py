"""Worker frameworks, real worker processes: whose job a lock is taken for, and retries because of a lock."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

from lockscope import tokens
from older import older_packages
from servers import Process, RedisServer, wait_until

if TYPE_CHECKING:
    from types import TracebackType

    import redis

WORKERS = Path(__file__).with_name("workers")
BIN = Path(sys.executable).parent


class Work:
    """A worker process on an empty server, and a producer that has sent it its jobs; a context manager.

    Args:
        server: the server.
        command: the worker's command.
        producer: module whose ``send`` sends the jobs; none if the worker does that itself.
        folder: where output goes.
        env: further environment variables.
    """

    def __init__(
        self, server: RedisServer, command: list[Any], producer: str, folder: Path, **env: str
    ) -> None:
        self.client = server.client()
        self.env = {"WORK_REDIS": server.url, "PYTHONUNBUFFERED": "1"} | env
        self.env["PYTHONPATH"] = f"{env.get('PYTHONPATH', '')}:{WORKERS}".strip(":")
        self.worker = Process([str(part) for part in command], folder / "worker", self.env, cwd=folder)
        self.producer = (
            Process(
                [sys.executable, "-c", f"import {producer}; {producer}.send()"], folder / "producer", self.env
            )
            if producer
            else None
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.worker.stop(signal.SIGKILL)
        if self.producer is not None:
            self.producer.stop(signal.SIGKILL)
        self.client.close()

    def wait(self, check: Any, what: str) -> Any:
        """Wait for something; on failure show what the processes printed."""
        try:
            return wait_until(check, timeout=40, what=what)
        except AssertionError as error:
            printed = [each.output()[-3000:] for each in (self.worker, self.producer) if each is not None]
            raise AssertionError("\n".join([str(error), str(self.retries()), *printed])) from error

    def jobs(self, count: int) -> set[tuple[str | None, str | None]]:
        """Return job type and id of the first ``count`` tokens that guarded work found in its lock."""
        self.wait(lambda: self.client.llen("seen") >= count, f"{count} guarded jobs")
        owners = [tokens.parse(token) for token in self.client.lrange("seen", 0, -1)]
        return {(owner.job_type, owner.job_id) for owner in owners if owner is not None}

    def events(self) -> list[dict[str, Any]]:
        """Return what was logged so far."""
        return [json.loads(event) for event in self.client.lrange("events", 0, -1)]

    def retries(self) -> set[tuple[str | None, ...]]:
        """Return job type, job id, reason and key of each retry that was counted."""
        return {
            (event["job_type"], event["job_id"], event["reason"], event["lock_key"])
            for event in self.events()
            if event["event"] == "lock.retry"
        }

    def done(self, *names: str) -> None:
        """Wait until work of these names was done."""
        expected = {name.encode() for name in names}
        self.wait(lambda: expected <= set(self.client.lrange("done", 0, -1)), f"{names} to be done")


def hold(client: redis.Redis, *keys: str) -> None:
    """Hold locks as somebody else."""
    for key in keys:
        client.set(key, "theirs", px=60_000)


CELERY = [BIN / "celery", "-A", "celery_app", "worker", "-c", "1", "-l", "INFO"]
CELERY += ["--without-gossip", "--without-mingle", "--without-heartbeat"]


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_celery(server: RedisServer, client: redis.Redis, tmp_path: Path, pool: str) -> None:
    """Task name and id are the job's; ``retry``, autoretry and requeueing rejection count, others don't."""
    hold(client, "busy:auto", "busy:hand", "busy:reject")
    with Work(server, [*CELERY, "-P", pool], "celery_app", tmp_path) as work:
        assert work.jobs(2) == {("invoice.generate", "task-0"), ("invoice.generate", "task-1")}
        work.wait(lambda: len({name for name, *_ in work.retries()}) == 3, "three kinds of retries")
        client.delete("busy:auto", "busy:hand")
        work.done("busy:auto", "busy:hand", "busy:reject", "weather")
        assert work.retries() == {
            ("celery_app.automatic", "automatic", "contended", "busy:auto"),
            ("celery_app.by_hand", "by_hand", "contended", "busy:hand"),
            ("celery_app.rejected", "rejected", "contended", "busy:reject"),
        }
        ids = {event["job_id"] for event in work.events() if event["lock_key"] == "order:1"}
        assert ids == {"task-1"}
        in_child = {event["pid"] != work.worker.pid for event in work.events() if event["job_id"] == "task-1"}
        assert in_child == {pool == "prefork"}


@pytest.mark.parametrize("how", ["work-horse", "simple", "observed in the jobs' module"])
def test_rq(server: RedisServer, client: redis.Redis, tmp_path: Path, how: str) -> None:
    """Function and job id are the job's, in a forked work-horse and in the worker; ``Retry`` counts."""
    hold(client, "busy:rq")
    command = [BIN / "rq", "worker", "--url", server.url, "--burst", "--path", WORKERS]
    env = {}
    if how == "observed in the jobs' module":
        env = {"OBSERVE_IN_JOBS": "1"}
    else:
        command += ["-c", "rq_settings"]
    if how == "simple":
        command += ["--worker-class", "rq.SimpleWorker"]
    producer = Process(
        [sys.executable, "-c", "import rq_jobs; rq_jobs.send()"],
        tmp_path / "producer",
        {"WORK_REDIS": server.url, "PYTHONPATH": str(WORKERS)},
    )
    wait_until(lambda: producer.popen.poll() is not None, timeout=30)
    with Work(server, command, "", tmp_path, **env) as work:
        assert work.jobs(2) == {("rq_jobs.generate", "task-0"), ("rq_jobs.generate", "task-1")}
        work.done("busy:rq")
        expected = {("rq_jobs.busy", "busy", "contended", "busy:rq")}
        assert work.retries() == (set() if env else expected)
        pids = {event["pid"] for event in work.events() if event["job_id"] in {"task-0", "task-1"}}
        assert len(pids) == (1 if how == "simple" else 2)


def test_dramatiq(server: RedisServer, client: redis.Redis, tmp_path: Path) -> None:
    """Actor and message id are the job's, also of async actors; only a retry that happens counts."""
    hold(client, "busy:dramatiq")
    command = [BIN / "dramatiq", "dramatiq_app", "--processes", "1", "--threads", "2", "--path", WORKERS]
    with Work(server, command, "dramatiq_app", tmp_path) as work:
        jobs = work.jobs(3)
        assert {name for name, _ in jobs} == {"generate", "generate_async"}
        assert len({job_id for _, job_id in jobs}) == 3
        work.done("busy:dramatiq")
        retries = work.retries()
        assert {(name, reason, key) for name, _, reason, key in retries} == {
            ("busy", "contended", "busy:dramatiq")
        }
        assert len({job_id for _, job_id, *_ in retries}) == 1


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_huey(server: RedisServer, client: redis.Redis, tmp_path: Path, kind: str) -> None:
    """Task and id are the job's, in threads and processes; retries because of Huey's own lock count too."""
    hold(client, "busy:huey")
    command = [sys.executable, "-m", "huey.bin.huey_consumer", "huey_app.huey", "-w", "2", "-k", kind, "-n"]
    command += ["-d", "0.05", "-m", "0.1"]
    with Work(server, command, "huey_app", tmp_path) as work:
        jobs = work.jobs(2)
        assert {name for name, _ in jobs} == {"huey_app.generate"}
        assert len({job_id for _, job_id in jobs}) == 2
        work.done("busy:huey", "own")
        assert {(name, reason, key) for name, _, reason, key in work.retries()} == {
            ("huey_app.busy", "contended", "busy:huey"),
            ("huey_app.huey_locked", "contended", ""),
        }


def test_taskiq(server: RedisServer, client: redis.Redis, tmp_path: Path) -> None:
    """Task and id are the job's, in the event loop and in its threads; retries of its middleware count."""
    hold(client, "busy:taskiq")
    command = [BIN / "taskiq", "worker", "taskiq_app:broker", "--workers", "1", "--app-dir", WORKERS]
    with Work(server, command, "taskiq_app", tmp_path) as work:
        assert work.jobs(3) == {
            ("invoice:generate", "task-0"),
            ("invoice:generate", "task-1"),
            ("invoice:generate_async", "task-2"),
        }
        work.done("busy:taskiq")
        assert work.retries() == {("taskiq_app:busy", "busy", "contended", "busy:taskiq")}


def test_arq(server: RedisServer, client: redis.Redis, tmp_path: Path) -> None:
    """Function and job id are the job's; ``Retry`` from a lock's error and a cancelled lost lease count."""
    env = older_packages()
    hold(client, "busy:arq")
    command = [sys.executable, WORKERS / "arq_app.py"]
    with Work(server, command, "", tmp_path, **env) as work:
        assert work.jobs(2) == {("invoice.generate", "task-0"), ("invoice.generate", "task-1")}
        work.done("busy:arq", "lost")
        assert work.retries() == {
            ("busy", "busy", "contended", "busy:arq"),
            ("loses", "loses", "lost", ""),
        }
        work.wait(lambda: work.worker.popen.poll() == 0, "the burst to end")

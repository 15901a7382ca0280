"""1,000 jobs in a real Celery prefork pool and real RQ work-horses: the journal says what they counted."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.parser import text_string_to_metric_families

from commands import Exporter
from lockscope import catalog
from servers import Process, RedisServer, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    import redis

CELERY_JOBS, RQ_JOBS = 850, 150

# Takes a lock as workers do: with contention, renewals, locks that are lost and jobs that are given up.
JOBS = """
import os, time, redis
from redis.exceptions import LockError

client = redis.Redis.from_url(os.environ["REDIS_UNDER_TEST"])

def work(number):
    lock = client.lock(f"lock:job:{number % 9}", timeout=5, sleep=0.002)
    if lock.acquire(blocking=number % 2 == 0, blocking_timeout=0.01 if number % 2 == 0 else None):
        if number % 5 == 0:
            lock.extend(5, replace_ttl=True)
        if number % 7 == 0:
            client.delete(lock.name)
        time.sleep(0.001)
        try:
            lock.release()
        except LockError:
            pass
    client.incr("done")
"""
CELERY = """
import os, lockscope
from celery import Celery
import jobs

app = Celery("tasks", broker=os.environ["REDIS_UNDER_TEST"])
app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=8)
lockscope.instrument(logs=False)

@app.task(name="order.ship")
def ship(number):
    jobs.work(number)
"""
ENQUEUE = """
import os, sys, redis
import jobs, tasks
for number in range(int(sys.argv[1])):
    tasks.ship.delay(number)
from rq import Queue
queue = Queue(connection=redis.Redis.from_url(os.environ["REDIS_UNDER_TEST"]))
numbers = range(int(sys.argv[2]))
queue.enqueue_many([Queue.prepare_data(jobs.work, (number,), result_ttl=0) for number in numbers])
"""
RQ = """
import os, redis, lockscope
from rq import Queue, Worker
lockscope.instrument(logs=False)
connection = redis.Redis.from_url(os.environ["REDIS_UNDER_TEST"])
Worker([Queue(connection=connection)], connection=connection).work(burst=True, logging_level="WARNING")
"""


@pytest.mark.slow
def test_journal_of_a_thousand_jobs_equals_the_workers_own_metrics(
    own_server: RedisServer, tmp_path: Path
) -> None:
    """Every sample of every worker metric from the exporter equals what the processes counted themselves."""
    for name, text in (("jobs", JOBS), ("tasks", CELERY), ("enqueue", ENQUEUE), ("horses", RQ)):
        (tmp_path / f"{name}.py").write_text(text)
    counted = tmp_path / "counted"
    counted.mkdir()
    env = {
        "REDIS_UNDER_TEST": own_server.url,
        "PYTHONPATH": str(tmp_path),
        "PROMETHEUS_MULTIPROC_DIR": str(counted),
        "LOCKSCOPE_JOURNAL": "1",
    }
    python = [sys.executable, "-W", "ignore"]
    celery = [*python, "-m", "celery", "-A", "tasks", "worker", "--pool", "prefork", "--concurrency", "3"]
    with Exporter(own_server.url, "--journal") as exporter, own_server.client() as client:
        exporter.wait_ready()
        fill = [*python, str(tmp_path / "enqueue.py"), str(CELERY_JOBS), str(RQ_JOBS)]
        subprocess.run(
            fill, check=True, env={**env, "PROMETHEUS_MULTIPROC_DIR": "", "LOCKSCOPE_JOURNAL": "0"}
        )
        client.set("lock:job:8", "somebody else's", px=600_000)  # whoever waits for this one gives up
        workers = [
            Process(
                [*celery, "--without-gossip", "--without-mingle"], tmp_path / "celery.log", env, tmp_path
            ),
            *(Process([*python, "horses.py"], tmp_path / f"rq-{one}.log", env, tmp_path) for one in range(2)),
        ]
        try:
            wait_until(lambda: _done(client, workers), timeout=100, every=0.2, what="1,000 jobs")
        finally:
            codes = [worker.stop() for worker in workers]
        assert codes[0] == 0, workers[0].output()
        registry = CollectorRegistry()
        MultiProcessCollector(registry, str(counted))
        expected = _samples(registry.collect())
        assert _total(expected) == CELERY_JOBS + RQ_JOBS
        assert {dict(labels).get("job_type") for _, labels in expected} >= {"order.ship", "jobs.work"}

        def told() -> dict[object, float]:
            return _samples(text_string_to_metric_families(exporter.get().text))

        wait_until(
            lambda: told().keys() >= expected.keys() and _total(told()) == _total(expected),
            what="the whole journal",
        )
        found = told()
    assert {key: found[key] for key in expected} == pytest.approx(expected)
    assert {key: value for key, value in found.items() if value and key not in expected} == {}
    assert _outcomes(expected) >= {"acquired", "contended", "timeout", "renewed", "released", "lost"}


def _done(client: redis.Redis, workers: list[Process]) -> bool:
    for worker in workers[:1]:
        assert worker.popen.poll() is None, worker.output()
    return int(client.get("done") or 0) == CELERY_JOBS + RQ_JOBS


def _samples(families: object) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return the samples of the worker metrics; gauges of processes that have ended are left out."""
    wanted = {
        metric.name.removesuffix("_total")
        for metric in catalog.CATALOG
        if metric.labels[:2] == catalog.SHIM_LABELS
    }
    return {
        (
            sample.name,
            tuple(sorted((name, text) for name, text in sample.labels.items() if name != "pid")),
        ): sample.value
        for family in families
        if family.name in wanted
        for sample in family.samples
    }


def _total(samples: dict[object, float]) -> float:
    """Return how many locks the jobs asked for; RQ itself uses one now and then."""
    return sum(
        value
        for (name, labels), value in samples.items()
        if name == "redis_lock_acquire_total" and dict(labels)["job_type"] in ("order.ship", "jobs.work")
    )


def _outcomes(samples: dict[object, float]) -> set[str]:
    return {dict(labels).get("outcome", "") for (_, labels), value in samples.items() if value}

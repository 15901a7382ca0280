"""Jobs of an RQ application."""

from __future__ import annotations

import os

import common
from rq import Queue, Retry

if os.environ.get("OBSERVE_IN_JOBS"):
    common.observe()


def generate(key: str) -> None:
    """Guarded work."""
    common.guarded(key)


def busy() -> None:
    """Work that another job's lock forbids for now."""
    try:
        common.busy("busy:rq")
    finally:
        common.client.delete("busy:rq")


def send() -> None:
    """Send what the test waits for."""
    queue = Queue(connection=common.client)
    for number in range(2):
        queue.enqueue("rq_jobs.generate", f"order:{number}", job_id=f"task-{number}")
    queue.enqueue("rq_jobs.busy", job_id="busy", retry=Retry(max=3))

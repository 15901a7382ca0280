"""A Celery application."""

from __future__ import annotations

import common
from celery import Celery
from celery.exceptions import Reject
from redis.exceptions import LockError

app = Celery("shop", broker=common.URL)
app.conf.update(broker_connection_retry_on_startup=True, worker_hijack_root_logger=False)
common.observe()


@app.task(name="invoice.generate")
def generate(key: str) -> None:
    """Guarded work."""
    common.guarded(key)


@app.task(autoretry_for=(LockError,), retry_kwargs={"countdown": 0.1}, max_retries=50)
def automatic() -> None:
    """Retried by Celery's own rule."""
    common.busy("busy:auto")


@app.task(bind=True, max_retries=50)
def by_hand(self) -> None:
    """Retried from the except block, as the documentation shows."""
    try:
        common.busy("busy:hand")
    except LockError as error:
        raise self.retry(exc=error, countdown=0.1) from error


@app.task(acks_late=True)
def rejected() -> None:
    """Put back by rejection."""
    try:
        common.busy("busy:reject")
    except LockError as error:
        common.client.delete("busy:reject")
        raise Reject(error, requeue=True) from error


@app.task(bind=True, max_retries=3)
def other_reason(self) -> None:
    """Retried for a reason that is no lock."""
    if self.request.retries == 0:
        raise self.retry(exc=RuntimeError("weather"), countdown=0)
    common.client.rpush("done", "weather")


def send() -> None:
    """Send what the test waits for."""
    for number in range(2):
        generate.apply_async((f"order:{number}",), task_id=f"task-{number}")
    for task in (automatic, by_hand, rejected, other_reason):
        task.apply_async(task_id=task.__name__)

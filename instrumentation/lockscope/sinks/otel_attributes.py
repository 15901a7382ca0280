"""What an event says, as OpenTelemetry attributes. Imports nothing of OpenTelemetry."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from lockscope import events
from lockscope.jobs import NO_JOB, NO_JOB_TYPE
from lockscope.printable import printable
from lockscope.tokens import fingerprint

if TYPE_CHECKING:
    from opentelemetry.util.types import AttributeValue

    from lockscope.events import LockEvent
    from lockscope.jobs import Job
    from lockscope.tokens import Owner

ACQUIRES: Final = frozenset({events.ACQUIRED, events.CONTENDED, events.ACQUIRE_TIMEOUT, events.ACQUIRE_ERROR})


def attributes_of(event: LockEvent) -> dict[str, AttributeValue]:
    """Return the span attributes of an event: seconds, tokens as fingerprints, nothing that is unknown."""
    attributes: dict[str, AttributeValue] = {
        "db.system.name": "redis",
        "redis.lock.prefix": event.prefix,
        "redis.lock.key": _text(event.key),
    }
    if event.outcome:
        attributes["redis.lock.outcome"] = event.outcome
    if event.wait_seconds is not None:
        attributes["redis.lock.wait"] = event.wait_seconds
    if event.attempts:
        attributes["redis.lock.attempts"] = event.attempts
    if event.token is not None:
        attributes["redis.lock.owner"] = fingerprint(event.token)
    if event.ttl is not None:
        attributes["redis.lock.ttl"] = event.ttl
    if event.job is not NO_JOB:
        _add_job(attributes, event.job)
    if event.event not in ACQUIRES:
        _add_lease(attributes, event)
    if event.blocked_by is not None:
        _add_blocked_by(attributes, event.blocked_by)
    if event.error:
        attributes["error.type"] = event.error.partition(":")[0]
    return attributes


def _add_job(attributes: dict[str, AttributeValue], job: Job) -> None:
    if job.job_type != NO_JOB_TYPE:
        attributes["redis.lock.job_type"] = job.job_type
    if job.job_id is not None:
        attributes["redis.lock.job_id"] = job.job_id
    if job.resource_id is not None:
        attributes["redis.lock.resource_id"] = job.resource_id


def _add_lease(attributes: dict[str, AttributeValue], event: LockEvent) -> None:
    if event.ttl_remaining is not None:
        attributes["redis.lock.ttl_remaining"] = event.ttl_remaining
    if event.hold_seconds is not None:
        attributes["redis.lock.hold"] = event.hold_seconds
    if event.unprotected_seconds:
        attributes["redis.lock.unprotected"] = event.unprotected_seconds
    if event.reason:
        attributes["redis.lock.reason"] = event.reason


def _add_blocked_by(attributes: dict[str, AttributeValue], owner: Owner) -> None:
    for name in ("host", "pid", "worker", "job_type", "job_id"):
        value = getattr(owner, name)
        if value is not None:
            attributes[f"redis.lock.blocked_by.{name}"] = value
    if owner.started_at is not None:
        attributes["redis.lock.blocked_by.held_for"] = round(max(time.time() - owner.started_at, 0.0), 3)


def _text(key: bytes) -> str:
    """Return a key as bounded text; the common plain key takes the short way."""
    if len(key) <= 128 and key.isascii():  # noqa: PLR2004 - well under any bound
        text = key.decode("ascii")
        if text.isprintable():
            return text
    return printable(key)

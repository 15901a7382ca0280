"""Lock events as OpenTelemetry spans and span events. Needs ``opentelemetry-api``.

An acquire becomes a span once it has ended, with the times of the call; renewals and losses become events of
the span that works under the lock. Only the API is used: provider, sampling and export are the application's.
"""

from __future__ import annotations

import contextlib
import time
from collections import OrderedDict
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, NamedTuple

from opentelemetry import trace
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

from lockscope import events, jobs
from lockscope._version import __version__
from lockscope.jobs import NO_JOB, NO_JOB_TYPE, Job
from lockscope.sinks.logs import printable
from lockscope.tokens import fingerprint

if TYPE_CHECKING:
    from opentelemetry.trace import Span, SpanContext, TracerProvider
    from opentelemetry.util.types import AttributeValue

    from lockscope.events import LockEvent
    from lockscope.tokens import Owner

_ACQUIRES: Final = frozenset(
    {events.ACQUIRED, events.CONTENDED, events.ACQUIRE_TIMEOUT, events.ACQUIRE_ERROR}
)
_NOTES: Final = frozenset(
    {
        events.RENEWED,
        events.RENEW_LOST,
        events.RENEW_ERROR,
        events.RELEASE_LOST,
        events.RELEASE_ERROR,
        events.RETRY,
        events.IDEMPOTENCY,
        events.DUPLICATE,
    }
)
_NEVER_SILENT: Final = frozenset(
    {events.RENEW_LOST, events.RENEW_ERROR, events.RELEASE_LOST, events.RELEASE_ERROR}
)
_MAX_HELD = 10_000  # leases whose spans are remembered; beyond it the oldest is forgotten
_NS = 1_000_000_000


class _Held(NamedTuple):
    """What is remembered of a lock while it is held: the span around the acquire, and the acquire's own."""

    around: Span
    acquire: SpanContext


# The job in force and the span that stands for it. The job object tells whether the pair is still current.
_job_span: ContextVar[tuple[Job, Span] | None] = ContextVar("lockscope_job_span", default=None)


def note_job(job: Job) -> None:
    """Remember the current span as the one that stands for ``job``; called where a job begins."""
    with contextlib.suppress(Exception):  # a span of somebody else's making must not stop the job
        span = trace.get_current_span()
        if span.is_recording():
            _job_span.set((job, span))


class SpanSink:
    """Makes spans of lock events; call it with each event, in the context of the call that it tells of.

    Args:
        tracer_provider: where spans go; the default is the global provider, also one that is set later.
    """

    name = "otel-spans"

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("lockscope", __version__, tracer_provider)
        self._held: OrderedDict[tuple[bytes, bytes | None], _Held] = OrderedDict()
        jobs.entered = note_job

    def wants(self, name: str) -> bool:
        """Tell whether events of this name can matter now."""
        return name != events.RELEASED or bool(self._held)

    def __call__(self, event: LockEvent) -> None:
        """Make a span or a span event of ``event``."""
        if event.event in _ACQUIRES:
            self._acquire(event)
        elif event.event in _NOTES:
            self._note(event)
        if event.ends_lease:
            self._held.pop((event.key, event.token), None)

    def reset(self) -> None:
        """Remember no held lock any more."""
        self._held = OrderedDict()

    def _acquire(self, event: LockEvent) -> None:
        current = trace.get_current_span()
        job_span = _span_of(event.job, current)
        started = int(event.at * _NS)
        span = self._tracer.start_span(
            f"acquire {event.prefix}",
            kind=SpanKind.INTERNAL,
            attributes=attributes_of(event),
            links=None if job_span is None or job_span is current else (Link(job_span.get_span_context()),),
            start_time=started,
        )
        if not span.is_recording():
            return
        context = span.get_span_context()
        if job_span is not None:
            job_span.add_link(context)
        if event.error:
            _add_exception(span, event)
        if event.outcome == "acquired":
            self._remember((event.key, event.token), _Held(current, context))
        span.end(started + int((event.wait_seconds or 0.0) * _NS))

    def _remember(self, lease: tuple[bytes, bytes | None], held: _Held) -> None:
        self._held[lease] = held
        if len(self._held) > _MAX_HELD:
            self._held.popitem(last=False)

    def _note(self, event: LockEvent) -> None:
        held = self._held.get((event.key, event.token))
        span = trace.get_current_span()
        if not span.is_recording() and held is not None:
            span = held.around
        if span.is_recording():
            span.add_event(event.event, attributes_of(event))
        elif event.event in _NEVER_SILENT:
            self._stand_alone(event, held)

    def _stand_alone(self, event: LockEvent, held: _Held | None) -> None:
        """Report a loss that no span could take as a span of its own, linked to the acquire."""
        verb = "release" if event.event.startswith("lock.release") else "renew"
        now = time.time_ns()
        span = self._tracer.start_span(
            f"{verb} {event.prefix}",
            kind=SpanKind.INTERNAL,
            attributes=attributes_of(event),
            links=None if held is None else (Link(held.acquire),),
            start_time=now,
        )
        if event.error and span.is_recording():
            _add_exception(span, event)
        span.end(now)


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
    if event.event not in _ACQUIRES:
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


def _add_exception(span: Span, event: LockEvent) -> None:
    kind, _, message = event.error.partition(": ")
    span.add_event("exception", {"exception.type": kind, "exception.message": message})
    span.set_status(Status(StatusCode.ERROR, event.error))


def _span_of(job: Job, current: Span) -> Span | None:
    """Return the recording span that stands for ``job``: known from its start, else the first one seen."""
    if job is NO_JOB:
        return None
    known = _job_span.get()
    if known is not None and known[0] is job:
        return known[1] if known[1].is_recording() else None
    if not current.is_recording():
        return None
    _job_span.set((job, current))
    return current


def _text(key: bytes) -> str:
    """Return a key as bounded text; the common plain key takes the short way."""
    if len(key) <= 128 and key.isascii():  # noqa: PLR2004 - well under any bound
        text = key.decode("ascii")
        if text.isprintable():
            return text
    return printable(key)

"""Lock events as OpenTelemetry spans and span events. Needs ``opentelemetry-api``.

An acquire becomes a span once it has ended, with the times of the call; renewals and losses become events of
the span that works under the lock. Only the API is used: provider, sampling and export are the application's.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from opentelemetry import trace
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

from lockscope import events
from lockscope._version import __version__
from lockscope.sinks.otel_around import Around
from lockscope.sinks.otel_attributes import attributes_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.trace import Span, TracerProvider

    from lockscope.events import LockEvent

_NEVER_SILENT: Final = frozenset(
    {events.RENEW_LOST, events.RENEW_ERROR, events.RELEASE_LOST, events.RELEASE_ERROR}
)
NOTES: Final = _NEVER_SILENT | {events.RENEWED, events.RETRY, events.IDEMPOTENCY, events.DUPLICATE}
_AT_ONCE = 50.0  # acquire spans a second that are made at once; beyond that a background thread makes them
_BURST = 20.0
_NS = 1_000_000_000


class Spans:
    """Makes spans and span events of lock events.

    Args:
        tracer_provider: where spans go; the default is the global provider.
        catch_up: makes the spans that are due.
    """

    def __init__(self, tracer_provider: TracerProvider | None, catch_up: Callable[[], object]) -> None:
        self._tracer = trace.get_tracer("lockscope", __version__, tracer_provider)
        self._catch_up = catch_up
        self._tokens = _BURST
        self._counted_at = time.monotonic()

    def now(self) -> bool:
        """Tell whether a span may be made here and now: a token bucket, not exact between threads."""
        now = time.monotonic()
        tokens = min(self._tokens + (now - self._counted_at) * _AT_ONCE, _BURST)
        self._counted_at = now
        self._tokens = tokens - 1.0 if tokens >= 1.0 else tokens
        return tokens >= 1.0

    def acquire(self, event: LockEvent, surroundings: Around) -> None:
        """Make the span of a call to acquire."""
        surroundings.made = True
        job = surroundings.job
        started = int(event.at * _NS)
        span = self._tracer.start_span(
            f"acquire {event.prefix}",
            context=surroundings.context,
            kind=SpanKind.INTERNAL,
            attributes=attributes_of(event),
            links=None if job is None or job is surroundings.span else (Link(job.get_span_context()),),
            start_time=started,
        )
        if not span.is_recording():
            return
        surroundings.acquire = span.get_span_context()
        if job is not None and job.is_recording():
            job.add_link(surroundings.acquire)
        if event.error:
            _add_exception(span, event)
        span.end(started + int((event.wait_seconds or 0.0) * _NS))

    def note(self, event: LockEvent) -> None:
        """Make a span event of what happened to a lease, or a span if no other is open and it matters."""
        surroundings = event.around if isinstance(event.around, Around) else None
        span = trace.get_current_span()
        if not span.is_recording() and surroundings is not None:
            span = surroundings.span
        if span.is_recording():
            span.add_event(event.event, attributes_of(event))
        elif event.event in _NEVER_SILENT:
            self._stand_alone(event, surroundings)

    def _stand_alone(self, event: LockEvent, surroundings: Around | None) -> None:
        """Report a loss that no span could take as a span of its own, linked to the acquire."""
        verb = "release" if event.event.startswith("lock.release") else "renew"
        if surroundings is not None and surroundings.acquire is None:
            self._catch_up()
        acquire = None if surroundings is None else surroundings.acquire
        now = time.time_ns()
        span = self._tracer.start_span(
            f"{verb} {event.prefix}",
            kind=SpanKind.INTERNAL,
            attributes=attributes_of(event),
            links=None if acquire is None else (Link(acquire),),
            start_time=now,
        )
        if event.error and span.is_recording():
            _add_exception(span, event)
        span.end(now)


def _add_exception(span: Span, event: LockEvent) -> None:
    kind, _, message = event.error.partition(": ")
    span.add_event("exception", {"exception.type": kind, "exception.message": message})
    span.set_status(Status(StatusCode.ERROR, event.error))

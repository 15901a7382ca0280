"""Lock events as OpenTelemetry spans and span events. Needs ``opentelemetry-api``.

An acquire becomes a span once it has ended, with the times of the call; renewals and losses become events of
the span that works under the lock. Only the API is used: provider, sampling and export are the application's.
"""

from __future__ import annotations

import contextlib
import functools
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from opentelemetry import trace
from opentelemetry.context import get_current
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

from lockscope import events, jobs
from lockscope._version import __version__
from lockscope.backlog import Backlog
from lockscope.jobs import NO_JOB, Job, current
from lockscope.sinks.otel_attributes import ACQUIRES, attributes_of

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

    from opentelemetry.trace import Span, SpanContext, TracerProvider

    from lockscope.events import LockEvent

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
_PATIENCE = 2.0  # seconds that a storm of locks may last before its spans are made in the middle of it
_AT_ONCE = 50.0  # acquire spans a second that are made at once; beyond that a background thread makes them
_BURST = 20.0
_NS = 1_000_000_000
_MARK = "_lockscope_waiting"


class Around:
    """The surroundings of a call to acquire, which every event of the lease carries.

    Made on the caller's path, so it keeps the context and looks into it only when somebody asks.

    Attributes:
        context: OpenTelemetry's context of the call.
        job: the span that stands for the job.
        acquire: the acquire's own span, once it was made.
    """

    acquire: SpanContext | None = None
    job: Span | None = None

    def __init__(self) -> None:
        self.context = get_current()
        job = current.get()
        if job is not NO_JOB:
            self.job = _span_of(job, self.span)

    @property
    def span(self) -> Span:
        """The current span of the call."""
        return trace.get_current_span(self.context)


# The job in force and the span that stands for it. The job object tells whether the pair is still current.
_job_span: ContextVar[tuple[Job, Span] | None] = ContextVar("lockscope_job_span", default=None)


def note_job(job: Job) -> None:
    """Remember the current span as the one that stands for ``job``; called where a job begins."""
    with contextlib.suppress(Exception):  # a span of somebody else's making must not stop the job
        span = trace.get_current_span()
        if span.is_recording():
            _job_span.set((job, span))


def around() -> Around | None:
    """Return the surroundings of the caller; nothing if they cannot be had."""
    try:
        return Around()
    except Exception:  # noqa: BLE001 - whatever the application's tracing raises stays away from the lock
        return None


class SpanSink:
    """Makes spans of lock events; call it with each event, in the context of the call that it tells of.

    Making a span takes the SDK tens of microseconds. That is nothing to a job and much to a loop over locks,
    so beyond fifty a second they are made by a background thread, with the times of the call as ever.

    Args:
        tracer_provider: where spans go; the default is the global provider, also one that is set later.
    """

    name = "otel-spans"

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._provider = tracer_provider
        self._tracer = trace.get_tracer("lockscope", __version__, tracer_provider)
        self._later: Backlog[tuple[LockEvent, Around]] = Backlog(
            "otel-spans", self._make_up, patience=_PATIENCE
        )
        self._flushed = False
        self._tokens = _BURST
        self._counted_at = time.monotonic()
        jobs.entered = note_job

    @property
    def dropped(self) -> int:
        """Acquires that came faster than spans could be made of them."""
        return self._later.dropped

    def wants(self, name: str) -> bool:
        """Tell whether events of this name become spans or span events."""
        return name != events.RELEASED

    def __call__(self, event: LockEvent) -> None:
        """Make a span or a span event of ``event``."""
        if event.event in ACQUIRES:
            surroundings = event.around if isinstance(event.around, Around) else Around()
            if self._at_once():
                self._acquire(event, surroundings)
            else:
                self._flushed = self._flushed or flush_first(self._provider, self._later)
                self._later.put((event, surroundings))
        elif event.event in _NOTES:
            self._note(event)

    def close(self) -> None:
        """Make the spans that are still due."""
        self._later.close()

    def _at_once(self) -> bool:
        """Tell whether a span may be made here and now: a token bucket, not exact between threads."""
        now = time.monotonic()
        tokens = min(self._tokens + (now - self._counted_at) * _AT_ONCE, _BURST)
        self._counted_at = now
        self._tokens = tokens - 1.0 if tokens >= 1.0 else tokens
        return tokens >= 1.0

    def _make_up(self, due: deque[tuple[LockEvent, Around]]) -> None:
        while due:
            try:
                event, surroundings = due.popleft()
            except IndexError:
                return
            self._acquire(event, surroundings)
            time.sleep(0)  # lets go of the interpreter, or callers would wait for it 5 ms at a time

    def _acquire(self, event: LockEvent, surroundings: Around) -> None:
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

    def _note(self, event: LockEvent) -> None:
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
            self._later.drain()
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


def flush_first(provider: TracerProvider | None, backlog: Backlog[Any]) -> bool:
    """See to it that the provider's ``force_flush`` and ``shutdown`` also send what waits in ``backlog``.

    The API has no such hook, so these methods of the SDK's provider are wrapped, on the one object and once.

    Returns:
        Whether there is a provider that can be flushed.
    """
    target: Any = trace.get_tracer_provider() if provider is None else provider
    if not hasattr(target, "force_flush"):
        return False
    waiting: WeakSet[Backlog[Any]] | None = getattr(target, _MARK, None)
    if waiting is None:
        waiting = WeakSet()
        setattr(target, _MARK, waiting)
        for name in ("force_flush", "shutdown"):
            setattr(target, name, _after(waiting, getattr(target, name)))
    waiting.add(backlog)
    return True


def _after(waiting: WeakSet[Backlog[Any]], original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def flush(*args: Any, **kwargs: Any) -> Any:
        for backlog in list(waiting):
            backlog.drain()
        return original(*args, **kwargs)

    return flush

"""What is remembered of a call to acquire, for spans and exemplars. Needs ``opentelemetry-api``."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.context import get_current

from lockscope.interrupts import interrupts
from lockscope.jobs import NO_JOB, Job, current

if TYPE_CHECKING:
    from opentelemetry.trace import Span, SpanContext


class Around:
    """The surroundings of a call to acquire, which every event of the lease carries.

    Made on the caller's path, so it keeps the context and looks into it only when somebody asks.

    Attributes:
        context: OpenTelemetry's context of the call.
        job: the span that stands for the job.
        acquire: the acquire's own span, once it was made.
        made: a span was made of the acquire, or sampling decided that there is none.
    """

    __slots__ = ("acquire", "context", "job", "made")

    def __init__(self) -> None:
        self.context = get_current()
        self.made = False
        self.acquire: SpanContext | None = None
        job = current.get()
        self.job = None if job is NO_JOB else _span_of(job, self.span)

    @property
    def span(self) -> Span:
        """The current span of the call."""
        return trace.get_current_span(self.context)


# The job in force and the span that stands for it. The job object tells whether the pair is still current.
_job_span: ContextVar[tuple[Job, Span] | None] = ContextVar("lockscope_job_span", default=None)


def note_job(job: Job) -> None:
    """Remember the current span as the one that stands for ``job``; called where a job begins."""
    try:
        span = trace.get_current_span()
        if span.is_recording():
            _job_span.set((job, span))
    except Exception as error:  # a span of somebody else's making must not stop the job
        if interrupts(error):
            raise


def around() -> Around | None:
    """Return the surroundings of the caller; nothing if they cannot be had."""
    try:
        return Around()
    except Exception as error:  # whatever the application's tracing raises stays away from the lock
        if interrupts(error):
            raise
        return None


def _span_of(job: Job, current: Span) -> Span | None:
    """Return the recording span that stands for ``job``: known from its start, else the first one seen."""
    known = _job_span.get()
    if known is not None and known[0] is job:
        return known[1] if known[1].is_recording() else None
    if not current.is_recording():
        return None
    _job_span.set((job, current))
    return current

"""Lock events for OpenTelemetry, most of the work off the caller's path. Needs ``opentelemetry-api``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockscope import events, jobs
from lockscope.backlog import Backlog, give_way
from lockscope.sinks.otel_around import Around, note_job
from lockscope.sinks.otel_attributes import ACQUIRES
from lockscope.sinks.otel_flush import flush_first
from lockscope.sinks.otel_metrics import VALUED, Books, Values
from lockscope.sinks.otel_spans import NOTES, Spans

if TYPE_CHECKING:
    from collections import deque

    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from lockscope.events import LockEvent

_PATIENCE = 2.0  # seconds that a storm of locks may last before its telemetry is made in the middle of it


class OTelSink:
    """Feeds OpenTelemetry; call it with each event, in the context of the call that it tells of.

    Making a span or recording a value takes the SDK tens of microseconds. That is nothing to a job and much
    to a loop over locks, so beyond some spans a second it is done by a background thread, with the times and
    the context of the call as ever.
    """

    name = "otel"

    def __init__(self) -> None:
        self._spans: Spans | None = None
        self._values: Values | None = None
        self._provider: TracerProvider | None = None
        self._flushed = False
        self._later: Backlog[LockEvent] = Backlog("otel", self._work, size=20_000, patience=_PATIENCE)

    def make_spans(self, tracer_provider: TracerProvider | None) -> None:
        """Make spans from now on, for a provider or for the global one."""
        jobs.entered = note_job
        self._provider = tracer_provider
        self._spans = Spans(tracer_provider, self._later.drain)

    def make_metrics(self, meter_provider: MeterProvider | None, books: Books) -> None:
        """Make metrics from now on, for a provider or for the global one; counts are read from ``books``."""
        self._values = Values(meter_provider, books, self._later.drain)

    @property
    def dropped(self) -> int:
        """Events that came faster than telemetry could be made of them."""
        return self._later.dropped

    def wants(self, name: str) -> bool:
        """Tell whether events of this name matter."""
        return name != events.RELEASED or self._values is not None

    def __call__(self, event: LockEvent) -> None:
        """Make a span or a span event of ``event``, and have its values recorded."""
        name = event.event
        spans, values = self._spans, self._values
        if values is not None and values.count is not None:
            values.count(event)
        if name in ACQUIRES:
            around = event.around
            if type(around) is not Around:
                around = Around()
                event = event._replace(around=around)
            if spans is not None and spans.now():
                spans.acquire(event, around)
                if values is None:
                    return
            elif spans is not None and not self._flushed:
                self._flushed = flush_first(self._provider, self._later)
            self._later.put(event)
            return
        if spans is not None and name in NOTES:
            spans.note(event)
        if values is not None and name in VALUED:
            self._later.put(event)

    def reset(self) -> None:
        """Count nothing as held or waiting any more."""
        if self._values is not None:
            self._values.reset()

    def close(self) -> None:
        """Make what is still due."""
        self._later.close()

    def _work(self, due: deque[LockEvent]) -> None:
        while due:
            try:
                event = due.popleft()
            except IndexError:
                return
            around = event.around
            known = around if type(around) is Around else None
            if self._spans is not None and known is not None and not known.made and event.event in ACQUIRES:
                self._spans.acquire(event, known)
            if self._values is not None:
                self._values.record(event, None if known is None else known.context)
            give_way()

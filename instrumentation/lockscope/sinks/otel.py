"""OpenTelemetry: when to use it, and the stand-in that waits for it. Imports nothing where it is absent."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from lockscope.emit import Sink
    from lockscope.events import LockEvent
    from lockscope.record import Recorder

_LOOK_EVERY = 1.0  # seconds
_GETTERS = {"opentelemetry.trace": "get_tracer_provider", "opentelemetry.metrics": "get_meter_provider"}


def otel_sinks(
    recorder: Recorder,
    mode: bool | Literal["auto"],
    sink_errors: Callable[[], dict[str, int]],
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> tuple[Sink, ...]:
    """Return the sinks that feed OpenTelemetry.

    Args:
        recorder: whose events these will be.
        mode: ``True`` to use OpenTelemetry, ``False`` to leave it, ``"auto"`` to use it as soon as the
            application has configured a provider.
        sink_errors: returns how many events each sink failed to take.
        tracer_provider: where spans go, instead of the global provider.
        meter_provider: where metrics go, instead of the global provider.

    Raises:
        ValueError: ``mode`` is ``True`` and ``opentelemetry-api`` is not installed.
    """

    def make() -> tuple[Sink, ...]:
        from lockscope.sinks.otel_metrics import MetricsSink  # noqa: PLC0415 - imports OpenTelemetry
        from lockscope.sinks.otel_spans import SpanSink  # noqa: PLC0415

        metrics = MetricsSink(
            meter_provider,
            tally=recorder.emit.tally,
            before_collect=recorder.flush,
            overflowed=lambda: recorder.prefixes.overflowed,
            sink_errors=sink_errors,
        )
        return SpanSink(tracer_provider), metrics

    if mode == "auto" and (tracer_provider is not None or meter_provider is not None):
        mode = True
    if mode is True:
        try:
            return make()
        except ModuleNotFoundError as error:
            raise ValueError(
                f"otel: {error.name} is not installed; pip install 'lockscope[otel]', or set LOCKSCOPE_OTEL=0"
            ) from error
    if mode is False:
        return ()
    return make() if configured() else (Waiting(make, recorder),)


def configured() -> bool:
    """Tell whether the application has set a provider of spans or of metrics."""
    for module_name, getter in _GETTERS.items():
        module = sys.modules.get(module_name)
        if module is not None:
            # Until a provider is set, the API hands out one that is called a proxy, or one that does nothing.
            kind = type(getattr(module, getter)()).__name__.lstrip("_")
            if not kind.startswith(("Proxy", "NoOp")):
                return True
    return False


class Waiting:
    """Stands in for the OpenTelemetry sinks until the application configures OpenTelemetry.

    Args:
        make: makes the sinks.
        recorder: where they are put in place of this one.
    """

    name = "otel"

    def __init__(self, make: Callable[[], tuple[Sink, ...]], recorder: Recorder) -> None:
        self._make = make
        self._recorder = recorder
        self._sinks: tuple[Any, ...] = ()
        self._look_at = 0.0

    def wants(self, name: str) -> bool:
        """Tell whether events of this name are wanted; that is the moment to look for OpenTelemetry."""
        if not self._sinks and "opentelemetry.trace" in sys.modules:
            self._look()
        return any(sink.wants(name) for sink in self._sinks)

    def __call__(self, event: LockEvent) -> None:
        """Hand on an event that came while the sinks took over."""
        if self.wants(event.event):
            for sink in self._sinks:
                sink(event)

    def _look(self) -> None:
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + _LOOK_EVERY
        if configured():
            self._sinks = self._make()
            emit = self._recorder.emit
            emit.use(tuple(new for sink in emit.sinks for new in (self._sinks if sink is self else (sink,))))

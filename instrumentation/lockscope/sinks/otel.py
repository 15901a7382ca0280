"""OpenTelemetry: when to use it, and how to wait for it. Imports nothing where it is absent."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from lockscope.emit import Sink
    from lockscope.record import Recorder

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
        from lockscope.sinks.otel_spans import SpanSink, around  # noqa: PLC0415

        recorder.around = around
        metrics = MetricsSink(
            meter_provider,
            tally=recorder.emit.tally,
            before_collect=recorder.flush,
            overflowed=lambda: recorder.prefixes.overflowed,
            sink_errors=sink_errors,
            journal_dropped=lambda: sum(getattr(sink, "journal_dropped", 0) for sink in recorder.emit.sinks),
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
    if configured():
        return make()
    when_configured(recorder, lambda: recorder.emit.use((*recorder.emit.sinks, *make())))
    return ()


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


def when_configured(recorder: Recorder, action: Callable[[], None]) -> None:
    """Do ``action`` now if OpenTelemetry is configured, else within a second of that as locks are taken."""
    if configured():
        action()
        return

    def look() -> None:
        if configured():
            recorder.every_second = tuple(work for work in recorder.every_second if work is not look)
            action()

    recorder.every_second += (look,)

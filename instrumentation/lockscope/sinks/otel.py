"""OpenTelemetry: when to use it, and how to wait for it. Imports nothing where it is absent."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from lockscope.record import Recorder
    from lockscope.sinks.otel_sink import OTelSink

TRACES = "opentelemetry.trace", "get_tracer_provider"
METRICS = "opentelemetry.metrics", "get_meter_provider"


def use_otel(
    recorder: Recorder,
    mode: bool | Literal["auto"],
    sink_errors: Callable[[], dict[str, int]],
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> None:
    """Feed OpenTelemetry with a recorder's events: spans and metrics each as soon as there is a provider.

    Args:
        recorder: whose events.
        mode: ``False`` to leave OpenTelemetry alone, ``"auto"`` to use it where the application configures
            it, ``True`` the same where it has to be installed.
        sink_errors: returns how many events each sink failed to take.
        tracer_provider: where spans go, instead of the global provider.
        meter_provider: where metrics go, instead of the global provider.

    Raises:
        ValueError: ``mode`` is ``True`` and ``opentelemetry-api`` is not installed.
    """
    if mode is False:
        return
    if mode is True:
        _require()

    def spans() -> None:
        _sink(recorder).make_spans(tracer_provider)

    def metrics() -> None:
        from lockscope.sinks.otel_metrics import Books  # noqa: PLC0415 - imports OpenTelemetry

        books = Books(
            recorder.emit.tally,
            recorder.flush,
            lambda: recorder.prefixes.overflowed,
            sink_errors,
            lambda: sum(getattr(sink, "journal_dropped", 0) for sink in recorder.emit.sinks),
        )
        _sink(recorder).make_metrics(meter_provider, books)

    for signal, given, begin in ((TRACES, tracer_provider, spans), (METRICS, meter_provider, metrics)):
        if given is not None:
            begin()
        else:
            when_configured(recorder, begin, signal)


def _sink(recorder: Recorder) -> OTelSink:
    """Return the recorder's sink for OpenTelemetry, which is made when there is something to do."""
    from lockscope.sinks.otel_around import around  # noqa: PLC0415 - imports OpenTelemetry
    from lockscope.sinks.otel_sink import OTelSink  # noqa: PLC0415

    for sink in recorder.emit.sinks:
        if isinstance(sink, OTelSink):
            return sink
    made = OTelSink()
    recorder.around = around
    recorder.emit.use((*recorder.emit.sinks, made))
    return made


def _require() -> None:
    try:
        import opentelemetry.metrics  # noqa: PLC0415
        import opentelemetry.trace  # noqa: F401, PLC0415
    except ModuleNotFoundError as error:
        raise ValueError(
            f"otel: {error.name} is not installed; pip install opentelemetry-api, or set LOCKSCOPE_OTEL=0"
        ) from error


def configured(*signals: tuple[str, str]) -> bool:
    """Tell whether the application has set a provider of one of these signals, of any without arguments."""
    for module_name, getter in signals or (TRACES, METRICS):
        module = sys.modules.get(module_name)
        if module is not None:
            # Until a provider is set, the API hands out one that is called a proxy, or one that does nothing.
            kind = type(getattr(module, getter)()).__name__.lstrip("_")
            if not kind.startswith(("Proxy", "NoOp")):
                return True
    return False


def when_configured(recorder: Recorder, action: Callable[[], None], *signals: tuple[str, str]) -> None:
    """Do ``action`` now if OpenTelemetry is configured, else within a second of that as locks are taken."""
    if configured(*signals):
        action()
        return

    def look() -> None:
        if configured(*signals):
            recorder.every_second = tuple(work for work in recorder.every_second if work is not look)
            action()

    recorder.every_second += (look,)

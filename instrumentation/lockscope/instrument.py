"""Switch observation on and off for this process."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any, Literal

from lockscope import extras, runtime
from lockscope.emit import Background, Emitter, sink_name
from lockscope.guards import guard
from lockscope.prefixes import Prefixes
from lockscope.presence import announce
from lockscope.record import Recorder
from lockscope.seams import redis_py
from lockscope.settings import read
from lockscope.sinks.logs import LogSink
from lockscope.sinks.otel import use_otel, when_configured
from lockscope.traces import current_trace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider
    from prometheus_client import CollectorRegistry

    from lockscope.emit import Sink
    from lockscope.settings import Settings

_log = logging.getLogger("lockscope")
_switch = guard()
_provisional: dict[str, Any] = {}  # what machinery started observation with, until the application does
_helpers: Settings | None = None  # what ``ensure_recorder`` found, while only its recorder is there


def instrument(
    *,
    prefixes: Iterable[str] | None = None,
    max_prefixes: int | None = None,
    describe_owner: bool | None = None,
    blocked_by: bool | None = None,
    prometheus: bool | None = None,
    logs: bool | None = None,
    presence: bool | None = None,
    journal: object = None,
    otel: bool | Literal["auto"] | None = None,
    registry: CollectorRegistry | None = None,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    sinks: Iterable[Sink] = (),
) -> None:
    """Observe every lock of this process from now on, also those that exist already.

    redis-py's locks at once; other lock libraries and worker frameworks as soon as they are imported.

    Calling it again changes nothing; call ``uninstrument`` first to observe with other settings. What is
    left out comes from the environment (``LOCKSCOPE_…``), then from the defaults in ``Settings``.

    Args:
        prefixes: Redis globs that name families of keys, in order of preference.
        max_prefixes: cap on distinct prefixes.
        describe_owner: pass owner tokens that say who holds the lock; a caller's own token is left alone.
        blocked_by: on a refused lock read once who holds it.
        prometheus: count in Prometheus metrics.
        logs: write log records.
        presence: keep a connection to each server where locks are taken, which shows that this process lives.
        journal: write events to the journal, for processes that nobody scrapes and for timelines. ``True`` to
            write it to ``LOCKSCOPE_REDIS_URL`` or else the server of the first lock, or a URL, or a client.
        otel: make OpenTelemetry spans and metrics; ``"auto"`` as soon as the application has configured it.
        registry: where the metrics live; the default is ``prometheus_client``'s global registry.
        tracer_provider: where spans go, instead of OpenTelemetry's global provider.
        meter_provider: where OpenTelemetry metrics go, instead of its global provider.
        sinks: further callables that take each ``LockEvent``; each runs on a thread of its own.

    Raises:
        ValueError: a setting cannot be used, the message says which; nothing was changed.
    """
    with _switch:
        if runtime.everywhere.recorder is not None and not _provisional:
            redis_py.install()  # another tool may have put a method back meanwhile
            extras.install()
            return
        settings = read(
            prefixes=None if prefixes is None else _globs(prefixes),
            max_prefixes=max_prefixes,
            describe_owner=describe_owner,
            blocked_by=blocked_by,
            prometheus=prometheus,
            logs=logs,
            presence=presence,
            journal=journal,
            otel=otel,
        )
        tracer_provider = tracer_provider or _provisional.get("tracer_provider")
        meter_provider = meter_provider or _provisional.get("meter_provider")
        sinks = _callables(sinks)
        if registry is not None and not callable(getattr(registry, "register", None)):
            raise ValueError(f"registry takes a CollectorRegistry of prometheus_client, not {registry!r}")
        recorder = runtime.recorder
        nothing_more = not sinks and registry is None and tracer_provider is None and meter_provider is None
        if recorder is None or settings != _helpers or not nothing_more:
            recorder = _recorder(settings, registry, sinks, tracer_provider, meter_provider)
            uninstrument()
            _use(recorder, settings)
        _forget_helpers()
        runtime.everywhere.recorder = recorder
        redis_py.install()
        extras.install()


def instrument_provisionally(
    tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
) -> None:
    """Observe until the application calls ``instrument`` with settings of its own, which then hold.

    Args:
        tracer_provider: as for ``instrument``; stays in force after that.
        meter_provider: the same.
    """
    with _switch:
        if runtime.everywhere.recorder is None:
            instrument(tracer_provider=tracer_provider, meter_provider=meter_provider)
            _provisional.update(tracer_provider=tracer_provider, meter_provider=meter_provider)


def ensure_recorder() -> None:
    """Make a recorder from the environment's settings if none is there, without observing any class.

    It serves until ``instrument`` is called with other settings.

    Raises:
        ValueError: a variable cannot be used; nothing was changed.
    """
    global _helpers  # noqa: PLW0603 - the switch of this process
    with _switch:
        if runtime.recorder is None:
            settings = read()
            _use(_recorder(settings, None, ()), settings)
            _helpers = settings


def _forget_helpers() -> None:
    global _helpers  # noqa: PLW0603
    _helpers = None


def _use(recorder: Recorder, settings: Settings) -> None:
    runtime.describe_owner = settings.describe_owner
    runtime.announce = announce if settings.presence else runtime.not_announced
    runtime.recorder = recorder


def uninstrument() -> None:
    """Stop observing; locks that are held go on as if they had never been observed. Idempotent.

    Presence stays: tokens in Redis still name this process, and it still lives.
    """
    with _switch:
        _provisional.clear()
        _forget_helpers()
        recorder, runtime.recorder = runtime.recorder, None
        runtime.everywhere.recorder = None
        redis_py.remove()  # also what another tool kept in place until now
        if recorder is None:
            return
        extras.remove()
        recorder.forget()
        for sink in recorder.emit.sinks:
            close = getattr(sink, "close", None)
            if close is not None:
                close()


def _recorder(
    settings: Settings,
    registry: CollectorRegistry | None,
    extra: tuple[Sink, ...],
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> Recorder:
    emit = Emitter()
    prefixes = Prefixes(settings.prefixes, settings.max_prefixes)
    recorder = Recorder(emit, prefixes, read_blocked_by=settings.blocked_by)
    sinks: list[Sink] = []
    if settings.prometheus:
        sinks.append(_prometheus(recorder, registry))
    if settings.logs:
        sinks.append(LogSink())
    sinks.extend(Background(sink) for sink in extra)
    if settings.journal:
        sinks.append(_journal(settings.journal, recorder))
    emit.use(tuple(sinks))
    use_otel(recorder, settings.otel, lambda: _errors(emit), tracer_provider, meter_provider)
    when_configured(recorder, lambda: setattr(recorder, "trace", current_trace))
    return recorder


def _prometheus(recorder: Recorder, registry: CollectorRegistry | None) -> Sink:
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        from lockscope.sinks.multiprocess import MultiprocessSink  # noqa: PLC0415 - declares files on import

        return MultiprocessSink(registry)
    from lockscope.sinks.prometheus import PrometheusSink  # noqa: PLC0415 - readers of locks count nothing

    return PrometheusSink(
        registry,
        before_collect=recorder.flush,
        overflowed=lambda: recorder.prefixes.overflowed,
        sink_errors=lambda: _errors(recorder.emit),
        journal_dropped=lambda: sum(getattr(sink, "journal_dropped", 0) for sink in recorder.emit.sinks),
    )


def _journal(target: object, recorder: Recorder) -> Sink:
    from lockscope.journal import Losses  # noqa: PLC0415 - most processes have no journal
    from lockscope.sinks.journal import journal_sink  # noqa: PLC0415

    def losses() -> Losses:
        return Losses(0, recorder.prefixes.overflowed, _errors(recorder.emit))

    return journal_sink(target, losses, recorder.drain)


def _errors(emit: Emitter) -> dict[str, int]:
    """Return by sink how many events it failed to take or was too slow for."""
    errors = dict(emit.errors)
    for sink in emit.sinks:
        if hasattr(sink, "dropped"):
            name = sink_name(sink)
            errors[name] = errors.get(name, 0) + getattr(sink, "errors", 0) + sink.dropped
    return errors


def _globs(prefixes: Iterable[str]) -> object:
    return prefixes if isinstance(prefixes, str | bytes) else tuple(prefixes)


def _callables(sinks: Iterable[Sink]) -> tuple[Sink, ...]:
    found = tuple(sinks)
    for sink in found:
        if not callable(sink):
            raise ValueError(f"sinks takes callables, not {sink!r}")  # noqa: TRY004 - one error type
    return found

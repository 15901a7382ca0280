"""The instrumentor that ``opentelemetry-instrument`` finds; needs ``opentelemetry-instrumentation``.

It does what ``lockscope.instrument()`` does. An application that also calls ``lockscope.instrument(...)``
itself gets its own settings from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry.instrumentation import instrumentor

from lockscope.instrument import instrument_provisionally, uninstrument

if TYPE_CHECKING:
    from collections.abc import Collection

_ARGUMENTS = ("tracer_provider", "meter_provider")
_Base: Any = instrumentor.BaseInstrumentor  # type: ignore[attr-defined]  # its file is closed to type checkers


class LockscopeInstrumentor(_Base):  # type: ignore[misc]
    """Observes redis-py locks for OpenTelemetry; also usable by hand, as other instrumentors are."""

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return what must be installed for this to be of use."""
        return ("redis >= 5.0",)

    def _instrument(self, **kwargs: Any) -> None:
        instrument_provisionally(**{name: kwargs.get(name) for name in _ARGUMENTS})

    def _uninstrument(self, **_kwargs: Any) -> None:
        uninstrument()

"""The trace that the caller is in, if OpenTelemetry is in use; nothing is imported for it."""

from __future__ import annotations

import sys
from typing import NamedTuple


class Trace(NamedTuple):
    """Ids of the current span, in hex as W3C Trace Context writes them."""

    trace_id: str
    span_id: str


def current_trace() -> Trace | None:
    """Return the ids of the current span if it is sampled, or ``None``."""
    otel = sys.modules.get("opentelemetry.trace")
    if otel is None:
        return None
    context = otel.get_current_span().get_span_context()
    if not context.is_valid or not context.trace_flags.sampled:
        return None
    return Trace(format(context.trace_id, "032x"), format(context.span_id, "016x"))

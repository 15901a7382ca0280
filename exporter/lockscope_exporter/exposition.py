"""Metrics as bytes: which text format and compression a scraper accepts. Pure functions."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.exposition import generate_latest as plain_text
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPENMETRICS_1_0_0
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

PLAIN = CONTENT_TYPE_PLAIN_0_0_4
OPENMETRICS = OPENMETRICS_1_0_0

_GZIP_LEVEL = 1  # label text repeats so much that higher levels cost time and save little
_VERSIONS = ("", "1.0.0", "0.0.1")  # 0.0.1 is what Prometheus 2 also offers; the text is the same


class _Choice(NamedTuple):
    quality: float
    name: str
    parameters: dict[str, str]


def negotiate(accept: str) -> str:
    """Return the content type to answer an ``Accept`` header with.

    OpenMetrics only where it is asked for by name and preferred (RFC 9110, section 12.5.1); anything else,
    such as a browser, gets the plain text format.
    """
    best = max(
        (choice for choice in _choices(accept) if choice.quality > 0 and _known(choice)),
        key=lambda choice: choice.quality,
        default=None,
    )
    return OPENMETRICS if best is not None and best.name == "application/openmetrics-text" else PLAIN


def accepts_gzip(accept_encoding: str) -> bool:
    """Tell whether an ``Accept-Encoding`` header allows gzip."""
    return any(
        choice.name in ("gzip", "x-gzip") and choice.quality > 0 for choice in _choices(accept_encoding)
    )


def render(registry: Collector, content_type: str, *, compress: bool = False) -> bytes:
    """Collect and write all metrics.

    Args:
        registry: what to collect from.
        content_type: ``PLAIN`` or ``OPENMETRICS``.
        compress: whether to gzip.

    Returns:
        The body of the answer.
    """
    if content_type == OPENMETRICS:
        body: bytes = openmetrics(registry)  # type: ignore[no-untyped-call]
    else:
        body = plain_text(registry)
    return gzip.compress(body, _GZIP_LEVEL, mtime=0) if compress else body


def _known(choice: _Choice) -> bool:
    if choice.name == "application/openmetrics-text":
        return choice.parameters.get("version", "") in _VERSIONS
    return choice.name in ("text/plain", "text/*", "*/*")


def _choices(header: str) -> list[_Choice]:
    """Split an ``Accept`` or ``Accept-Encoding`` header; a quality that cannot be read counts as 0."""
    choices = []
    for item in header.split(","):
        kind, *rest = (part.strip().lower() for part in item.split(";"))
        pairs = (part.partition("=") for part in rest)
        parameters = {name.strip(): value.strip(' "') for name, _, value in pairs}
        try:
            quality = float(parameters.pop("q", "1"))
        except ValueError:
            quality = 0.0
        if kind:
            choices.append(_Choice(quality, kind, parameters))
    return choices

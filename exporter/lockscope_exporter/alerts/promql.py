"""The notation that the table is written in, and its translation to plain PromQL.

Beside plain PromQL an expression may say:

- ``$by``: the target labels kept (``job`` and those of ``RuleOptions.labels``).
- ``$across``: the labels by which a worker's series and an exporter's series of one lock family meet.
- ``${name}``: a threshold. ``${10m}``: a window in seconds.
- ``events(metric{…}[10m])``: the growth of a counter over the window where it grew, counting a series born
  within it from zero. ``increase`` alone never sees the first event of a new series. A birth does not count
  where Prometheus merely meets the process: it is older than the window and was not scraped well at the
  window's beginning (a new Prometheus, a new scrape job, a network that came back), or it is an exporter that
  was not there then and reads of what was before.

Every duration is scaled by ``RuleOptions.window_scale``.
"""

from __future__ import annotations

import re
from inspect import cleandoc
from typing import TYPE_CHECKING

from lockscope_exporter.alerts.model import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DURATION = re.compile(r"(?<![\w.:$])(\d+)(ms|s|m|h|d|w)(?![\w:])")
_SECONDS = re.compile(r"\$\{(\d+)(ms|s|m|h|d|w)\}")
_EVENTS = re.compile(r"events\((\w+(?:\{[^}]*\})?)\[(\w+)\]\)")
_STRING = re.compile(r'("(?:[^"\\]|\\.)*")')
_NAME = re.compile(r"\$\{([a-z_]+)\}")


def met(window: str) -> Record:
    """Return the rule that records the processes whose counters may begin above 0 within ``window``.

    Those that are older and were met within it; and new exporters: one that replaces another, on another host
    or in another pod, counts the journal from its beginning.
    """
    return Record(
        f"instance:redis_lock_met:{window}",
        f"""
        group by ($by, instance) (up)
        unless on ($by, instance) (
          up offset {window} == 1 or time() - process_start_time_seconds < ${{{window}}}
        )
        or group by ($by, instance) (redis_lock_up unless on ($by, instance) redis_lock_up offset {window})
        """,
    )


def scale_duration(text: str, scale: float) -> str:
    """Return a PromQL duration scaled, in the largest unit that divides it; at least one millisecond."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no duration")
    milliseconds = max(round(int(match[1]) * _UNITS[match[2]] * scale), 1)
    unit = next(unit for unit in ("d", "h", "m", "s", "ms") if milliseconds % _UNITS[unit] == 0)
    return f"{milliseconds // _UNITS[unit]}{unit}"


def duration_seconds(text: str) -> float:
    """Return a PromQL duration of one unit in seconds."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no duration")
    return int(match[1]) * _UNITS[match[2]] / 1000


def number(value: float) -> str:
    """Return a number as PromQL takes it, without a needless fraction."""
    return f"{value:.10g}"


def translate(expr: str, *, labels: tuple[str, ...], thresholds: Mapping[str, float], scale: float) -> str:
    """Translate an expression of the table to plain PromQL.

    Args:
        expr: expression in the notation above.
        labels: target labels to keep beside ``job``.
        thresholds: every threshold by name.
        scale: factor on every duration.

    Returns:
        PromQL, with its line breaks and without a common indent.
    """

    def seconds(match: re.Match[str]) -> str:
        return number(int(match[1]) * _UNITS[match[2]] * scale / 1000)

    by, across = ", ".join(("job", *labels)), ", ".join((*labels, "prefix"))

    def plain(text: str) -> str:
        text = _SECONDS.sub(seconds, text)
        text = _DURATION.sub(lambda match: scale_duration(match[0], scale), text)
        return fill(text, thresholds).replace("$by", by).replace("$across", across)

    # A prefix that a user names is a string of the expression, and means what it says.
    parts = _STRING.split(_EVENTS.sub(_born_or_increased, cleandoc(expr)))
    return "".join(part if index % 2 else plain(part) for index, part in enumerate(parts))


def words(text: str, thresholds: Mapping[str, float]) -> str:
    """Return a text of an alert as a template of Prometheus.

    Growth of a counter is extrapolated to its window: ``{{ $value | count }}`` prints it as a whole number.
    """
    return fill(text, thresholds).replace("| count }}", '| printf "%.0f" }}')


def fill(text: str, thresholds: Mapping[str, float]) -> str:
    """Replace ``${name}`` by the threshold of that name."""
    return _NAME.sub(lambda match: number(thresholds[match[1]]), text)


def _born_or_increased(match: re.Match[str]) -> str:
    selector, window = match[1], match[2]
    return (
        f"({selector} > 0 unless {selector} offset {window})"
        f"\n  unless on ($by, instance) instance:redis_lock_met:{window}"
        f"\n  or (increase({selector}[{window}]) > 0)"
    )

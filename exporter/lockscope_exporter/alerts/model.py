"""What an alert, a recording rule and a rule group are, before any option is applied."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Severity = Literal["critical", "warning", "info"]

ALERT_PREFIX = "RedisLock"


@dataclass(frozen=True, slots=True)
class Record:
    """A recording rule.

    Attributes:
        name: ``level:metric:operation``; the level names the labels kept beside ``job``.
        expr: PromQL in the notation of ``promql``.
    """

    name: str
    expr: str


@dataclass(frozen=True, slots=True)
class Alert:
    """An alerting rule.

    Attributes:
        name: full name, ``RedisLock…``.
        severity: ``critical`` wakes someone, ``warning`` is for working hours, ``info`` is advice.
        expr: PromQL in the notation of ``promql``; the value is the number that the texts name.
        summary: one line for a pager; Go template with ``$labels`` and ``$value``, for the
            growth of a counter ``{{ $value | count }}``.
        description: what it means and what to look at first; thresholds as ``${name}``.
        pending: how long the condition must hold first (``for``), a PromQL duration, empty for none.
        keep: how long it goes on firing after the condition ended (``keep_firing_for``).
        labels: further labels of the alert.
        dashboard: uid of the dashboard to open.
        variables: labels of the alert that become variables of that dashboard.
        about: ``state`` for what only the exporter can tell (muted while it is down), else empty.
    """

    name: str
    severity: Severity
    expr: str
    summary: str
    description: str
    pending: str = ""
    keep: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    dashboard: str = "lockscope-prefix"
    variables: tuple[str, ...] = ("prefix",)
    about: Literal["", "state"] = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that Prometheus evaluates one after the other.

    Attributes:
        name: unique among the groups.
        rules: in order; a rule may use what an earlier one of its group recorded at the same instant.
        interval: PromQL duration between evaluations, empty for the server's own.
    """

    name: str
    rules: tuple[Record | Alert, ...]
    interval: str = ""

"""What a user may choose when the rules are written."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lockscope.catalog import CATALOG
from lockscope_exporter.alerts.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from collections.abc import Mapping

RUNBOOK_BASE_URL = "https://github.com/lockscope/lockscope/blob/main/docs/runbooks"
DASHBOARD_BASE_URL = "http://localhost:3000"
LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
# What series and alerts have already: kept once more it would keep a worker's series from an exporter's.
_TAKEN = {"__name__", "job", "instance", "le", "alertname", "alertstate", "severity", "about", "scope"}
_TAKEN |= {"long_window", "short_window"}.union(*(metric.labels for metric in CATALOG))


class RuleOptionError(ValueError):
    """An option of the rules cannot be used; the message says which, why and what would do."""


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """How to write the rules.

    Attributes:
        runbook_base_url: URL of the folder that holds ``<AlertName>.md``.
        dashboard_base_url: URL of Grafana; empty for links relative to Grafana itself.
        only: alert names to write, with or without ``RedisLock``; empty means all.
        skip: alert names to leave out.
        thresholds: values by threshold name that replace the defaults.
        objectives: share of acquires that must succeed (0 to 1), by prefix; ``*`` changes the default.
        visibility_timeouts: seconds after which the queue delivers a job again, by prefix; ``*`` changes the
            default, which counts only for locks that instrumented jobs take.
        labels: target labels to keep in alerts beside ``job``, such as ``cluster`` and ``namespace``.
        window_scale: factor on every window, offset, ``for`` and interval; below 1 only for rehearsals.
    """

    runbook_base_url: str = RUNBOOK_BASE_URL
    dashboard_base_url: str = DASHBOARD_BASE_URL
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    thresholds: Mapping[str, float] = field(default_factory=dict)
    objectives: Mapping[str, float] = field(default_factory=dict)
    visibility_timeouts: Mapping[str, float] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    window_scale: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what would write a rule file that Prometheus rejects or that can never fire."""
        self._check_thresholds()
        for prefix, value in self.objectives.items():
            if not 0 < value < 1:
                raise RuleOptionError(f"objective of {prefix!r} must lie between 0 and 1, not {value}")
        for prefix, value in self.visibility_timeouts.items():
            if not math.isfinite(value) or value <= 0:
                raise RuleOptionError(
                    f"visibility timeout of {prefix!r} must be above 0 seconds, not {value}"
                )
        for label in self.labels:
            if not LABEL_NAME.fullmatch(label) or label in _TAKEN:
                raise RuleOptionError(f"{label!r} is no label name that can be kept beside job")
        if not math.isfinite(self.window_scale) or self.window_scale <= 0:
            raise RuleOptionError(f"window scale must be above 0, not {self.window_scale}")

    def _check_thresholds(self) -> None:
        for name, value in self.thresholds.items():
            if name not in THRESHOLDS:
                raise RuleOptionError(f"unknown threshold {name!r}; known: {', '.join(THRESHOLDS)}")
            if not math.isfinite(value) or value < 0:
                raise RuleOptionError(f"threshold {name} must be a number of 0 or more, not {value}")

    @property
    def default_objective(self) -> float:
        """Share of acquires that must succeed where no prefix says otherwise."""
        return self.objectives.get("*", 0.99)

    @property
    def default_visibility_timeout(self) -> float:
        """Seconds; the default of Celery's Redis transport."""
        return self.visibility_timeouts.get("*", 3600.0)

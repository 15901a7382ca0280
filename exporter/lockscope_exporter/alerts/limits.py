"""Limits that differ by lock, recorded as series: the objective of acquiring, and the visibility timeout."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lockscope_exporter.alerts.model import Group, Record
from lockscope_exporter.alerts.promql import number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockscope_exporter.alerts.options import RuleOptions


def limits(options: RuleOptions) -> Group:
    """Return the rules that record each prefix's limits, the user's first, else the default."""
    objective = _first_match(
        'group by ($by, instance, prefix) (redis_lock_acquire_total{outcome!="contended"selector})',
        options.objectives,
        options.default_objective,
    )
    # Only a lock that a job takes is bound to a queue: one held by a scheduler or a leader may last for days.
    overrides = {prefix: value for prefix, value in options.visibility_timeouts.items() if prefix != "*"}
    jobs = 'group by ($across) (redis_lock_acquire_total{job_type!="none", outcome="acquired"})'
    timeout = [
        *_first_match('group by ($across) (redis_lock_keys{state="held"selector})', overrides, None),
        f"{jobs} * {number(options.default_visibility_timeout)}",
    ]
    return Group(
        "lockscope.limits",
        (
            Record("instance_prefix:redis_lock_acquire_objective:ratio", "\nor ".join(objective)),
            Record(
                "prefix:redis_lock_acquire_objective:ratio",
                # Only of families that failed in the longest window: the others burn nothing.
                """
                max by ($by, prefix) (instance_prefix:redis_lock_acquire_objective:ratio)
                and on ($by, prefix) (
                  present_over_time(prefix:redis_lock_acquire_failed:increase5m[1h])
                  or present_over_time(prefix:redis_lock_acquire_failed:increase30m[3d])
                )
                """,
            ),
            Record("prefix:redis_lock_visibility_timeout:seconds", "\nor ".join(timeout)),
        ),
        interval="2m",
    )


def _first_match(template: str, values: Mapping[str, float], default: float | None) -> list[str]:
    terms = []
    for prefix, value in values.items():
        if prefix != "*":
            matcher = f", prefix={json.dumps(prefix, ensure_ascii=False)}"
            terms.append(f"{template.replace('selector', matcher)} * {number(value)}")
    if default is not None:
        terms.append(f"{template.replace('selector', '')} * {number(default)}")
    return terms

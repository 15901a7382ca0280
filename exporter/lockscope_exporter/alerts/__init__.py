"""The alerting and recording rules as a declarative table, and the writers that make files of it.

An alert is one entry of ``acquire``, ``lease``, ``state``, ``queues``, ``trends``, ``slo`` or ``sampler``; a
threshold is one entry of ``thresholds``; a window is written as in PromQL where it is used. ``compile_rules``
turns the table into plain Prometheus rule groups for the options given; ``writer`` and ``grafana`` know the
file forms.
"""

from lockscope_exporter.alerts.build import compile_rules
from lockscope_exporter.alerts.model import Alert, Group, Record
from lockscope_exporter.alerts.options import RuleOptionError, RuleOptions
from lockscope_exporter.alerts.table import ALERT_NAMES, GROUPS
from lockscope_exporter.alerts.thresholds import THRESHOLDS

__all__ = [
    "ALERT_NAMES",
    "GROUPS",
    "THRESHOLDS",
    "Alert",
    "Group",
    "Record",
    "RuleOptionError",
    "RuleOptions",
    "compile_rules",
]

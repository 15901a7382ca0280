"""All groups in the order they are written, and the names of all alerts."""

from __future__ import annotations

from lockscope_exporter.alerts.acquire import ACQUIRE
from lockscope_exporter.alerts.lease import LEASE
from lockscope_exporter.alerts.model import Alert, Group
from lockscope_exporter.alerts.queues import QUEUES
from lockscope_exporter.alerts.recording import ACQUIRES, EVENTS, HALF_HOURS, HISTORY, SLOW_EVENTS
from lockscope_exporter.alerts.sampler import SAMPLER, SERVER
from lockscope_exporter.alerts.slo import SLO
from lockscope_exporter.alerts.state import STATE
from lockscope_exporter.alerts.trends import TRENDS

RECORDING: tuple[Group, ...] = (EVENTS, SLOW_EVENTS, ACQUIRES, HALF_HOURS, HISTORY)
ALERTING: tuple[Group, ...] = (ACQUIRE, LEASE, STATE, QUEUES, TRENDS, SLO, SERVER, SAMPLER)
GROUPS: tuple[Group, ...] = (*RECORDING, *ALERTING)

ALERT_NAMES: tuple[str, ...] = tuple(
    dict.fromkeys(rule.name for group in ALERTING for rule in group.rules if isinstance(rule, Alert))
)

"""The checks, one function a question; each turns evidence into findings and asks nobody anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockscope_exporter.doctor.checks import locks, patterns, permissions, queues, safety, servers, ttl
from lockscope_exporter.doctor.finding import by_severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lockscope_exporter.doctor.evidence import Evidence
    from lockscope_exporter.doctor.finding import Finding

    Check = Callable[[Evidence], Iterable[Finding]]

CHECKS: tuple[Check, ...] = (
    servers.reachable,
    servers.version,
    servers.topology,
    servers.clock,
    servers.clients,
    permissions.commands,
    permissions.keys,
    servers.feed,
    safety.eviction,
    safety.persistence,
    safety.replication,
    locks.states,
    locks.without_ttl,
    locks.weak_owners,
    patterns.matching,
    patterns.missing,
    ttl.advice,
    queues.visibility,
)


def examine(evidence: Evidence) -> list[Finding]:
    """Run every check; return what they found, the worst first."""
    found = [finding for check in CHECKS for finding in check(evidence)]
    return sorted(found, key=by_severity)

"""The servers themselves: there, new enough, the right ones, in time, with room, telling of changes. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockscope_exporter.doctor.finding import Finding
from lockscope_exporter.listing import node_name
from lockscope_exporter.moments import span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockscope_exporter.doctor.evidence import Evidence, ServerEvidence
    from lockscope_exporter.doctor.finding import Severity

SKEW = 0.5  # seconds between two clocks that make times in a log hard to compare
SLOW = 0.02  # seconds for one answer: renewals and releases wait for it, too
FULL = 0.9  # share of maxclients

_RESP3_SINCE = (6, 0)
_TRACKINGINFO_SINCE = (6, 2)
_KINDS = {
    "standalone": "a single server",
    "sentinel": "the master that Sentinels name",
    "cluster": "a primary of a cluster",
}
_MODES = {
    "tracking": "changes are followed by tracking",
    "notifications": "changes are followed by keyspace notifications",
    "scan": "changes are found by scanning",
}
# What other checks say, and what to do about it.
_ELSEWHERE = re.compile(
    r"maxmemory-policy|append-only|failover now|is a replica|clock is|may not be read|maxclients"
)
_NOT_TOLD = "the server does not let this user run INFO"
_GRANT_INFO = "grant the command INFO to the user"


def reachable(evidence: Evidence) -> Iterator[Finding]:
    """Does every server answer?"""
    for server in evidence.servers:
        if server.error:
            yield Finding("reachable", "critical", server.error, "see to it first", server.where)


def version(evidence: Evidence) -> Iterator[Finding]:
    """Is the server new enough for everything that lockscope can see?"""
    for server in _asked(evidence):
        if server.info is None:
            yield Finding("version", "unknown", _NOT_TOLD, _GRANT_INFO, server.where)
            continue
        name = "Valkey" if "valkey_version" in server.info else "Redis"
        number = server.info.get("valkey_version") or server.info.get("redis_version", "")
        compatible = _numbers(server.info.get("redis_version", ""))
        data = {"server": name, "version": number}
        if compatible < _RESP3_SINCE:
            text = f"{name} {number} is older than 6.0: changes can be found by scanning only"
            yield Finding("version", "warning", text, "update the server", server.where, data)
        elif compatible < _TRACKINGINFO_SINCE:
            text = f"{name} {number} is older than 6.2: whether tracking is still on cannot be checked"
            yield Finding("version", "note", text, "", server.where, data)
        else:
            yield Finding("version", "ok", f"{name} {number}", "", server.where, data)


def topology(evidence: Evidence) -> Iterator[Finding]:
    """Is it the server that applications write to, and all of them?"""
    for server in _asked(evidence):
        if server.info is None or server.facts is None:
            continue
        replicas = server.facts.replicas
        data = {"role": server.facts.role, "replicas": replicas, "kind": server.kind}
        if server.facts.role == "slave":
            text = "this is a replica: it may be behind its master, and nobody takes a lock here"
            fix = "name the master, or use sentinel://host/master-name"
            yield Finding("topology", "warning", text, fix, server.where, data)
        elif server.info.get("cluster_enabled") == "1" and server.kind != "cluster":
            text = "this is one node of a cluster: locks of the other nodes are not seen"
            yield Finding("topology", "warning", text, f"write cluster://{server.name}", server.where, data)
        else:
            text = f"{_KINDS[server.kind]}, {replicas} replica{'' if replicas == 1 else 's'} online"
            yield Finding("topology", "ok", text, "", server.where, data)


def clock(evidence: Evidence) -> Iterator[Finding]:
    """Do the clocks agree, and is the way to the server short?"""
    for server in _asked(evidence):
        ahead = server.clock_ahead
        if ahead is None:
            text = "the server does not let this user run TIME"
            yield Finding("clock", "unknown", text, "grant TIME to the user", server.where)
            continue
        data = {"ahead_seconds": round(ahead, 4), "round_trip_seconds": round(server.round_trip, 5)}
        way = f"an answer takes {span(server.round_trip)}"
        if abs(ahead) > SKEW:
            side = "ahead of" if ahead > 0 else "behind"
            text = (
                f"the server's clock is {span(abs(ahead))} {side} this host's: ages and starting times of "
                "locks are wrong by as much"
            )
            yield Finding("clock", "warning", text, "let both follow NTP", server.where, data)
        elif server.round_trip > SLOW:
            text = f"{way}: every acquire, renewal and release takes at least as long"
            yield Finding("clock", "note", text, "", server.where, data)
        else:
            text = f"the clocks agree within {span(max(abs(ahead), 0.001))}; {way}"
            yield Finding("clock", "ok", text, "", server.where, data)


def clients(evidence: Evidence) -> Iterator[Finding]:
    """Is there room for more connections?"""
    for server in _asked(evidence):
        connected, most = (_number(server, name) for name in ("connected_clients", "maxclients"))
        if connected is None or not most:
            continue
        data = {"connected": connected, "maxclients": most}
        text = f"{connected:,} of {most:,} connections are in use"
        if connected > FULL * most:
            fix = "raise maxclients, or look for a leak of connections"
            text = f"{text}: without one nobody gets a lock"
            yield Finding("clients", "warning", text, fix, server.where, data)
        else:
            yield Finding("clients", "ok", text, "", server.where, data)


def feed(evidence: Evidence) -> Iterator[Finding]:
    """How are changes followed, and if not by tracking, why not?"""
    for status in evidence.statuses:
        if not status.up:
            continue
        where = node_name(status, evidence.statuses)
        reasons = [warning for warning in status.warnings if not _ELSEWHERE.search(warning)]
        data = {"mode": status.mode, "warnings": reasons}
        why = f": {'; '.join(reasons)}" if reasons else ""
        severity: Severity = "ok"
        if status.mode == "scan" or (status.mode == "tracking" and reasons):
            severity = "warning"
        elif status.mode == "notifications":
            severity = "note"
        yield Finding("feed", severity, f"{_MODES[status.mode]}{why}", "", where, data)


def _asked(evidence: Evidence) -> Iterator[ServerEvidence]:
    return (server for server in evidence.servers if not server.error)


def _numbers(version_: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version_.split(".")[:3] if part.isdigit())


def _number(server: ServerEvidence, name: str) -> int | None:
    text = (server.info or {}).get(name, "")
    return int(text) if text.isdigit() else None

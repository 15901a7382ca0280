"""Can the server itself lose or drop a lock? Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockscope_exporter.doctor.finding import Finding
from lockscope_exporter.sampling.facts import eviction_safe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockscope_exporter.doctor.evidence import Evidence, ServerEvidence
    from lockscope_exporter.doctor.finding import Severity
    from lockscope_exporter.state import ServerFacts

BEHIND = 1_000_000  # bytes
LATE = 5  # seconds


def eviction(evidence: Evidence) -> Iterator[Finding]:
    """Can the server evict a lock when its memory is full, and has it evicted anything?"""
    for server in evidence.servers:
        if not server.error:
            yield _eviction(server)


def persistence(evidence: Evidence) -> Iterator[Finding]:
    """Do locks survive a crash of the server?"""
    for server in evidence.servers:
        if server.error:
            continue
        if server.facts is None:
            text = "whether locks survive a crash of the server is not known: INFO is not granted"
            yield Finding("persistence", "unknown", text, "grant the command INFO to the user", server.where)
        elif server.facts.role != "slave":
            yield from _persistence(server, server.facts)


def replication(evidence: Evidence) -> Iterator[Finding]:
    """Can a failover lose a lock?"""
    for server in evidence.servers:
        if not server.error and server.facts is not None and server.facts.replicas:
            yield _replication(server, server.facts)


def _eviction(server: ServerEvidence) -> Finding:
    facts = server.facts
    policy = (facts.maxmemory_policy if facts else "") or server.config.get("maxmemory-policy") or ""
    evicted = facts.evicted_keys if facts else None
    data = {"policy": policy, "maxmemory": facts.maxmemory if facts else None, "evicted_keys": evicted}
    since = f"{evicted or 0:,} keys were evicted since the server started"
    severity: Severity = "ok"
    text, fix = "maxmemory-policy is noeviction", ""
    if not policy:
        severity = "unknown"
        text = "whether locks can be evicted is not known: neither INFO nor CONFIG GET tells maxmemory-policy"
        fix = "grant INFO or CONFIG GET to the user, or ask the provider"
    elif policy == "noeviction" and evicted:
        severity, text = "note", f"maxmemory-policy is noeviction now, but {since}"
    elif policy != "noeviction" and facts is not None and eviction_safe(facts):
        severity = "note"
        text = f"there is no memory limit, so nothing is evicted; with one, {policy} could evict locks"
        fix = "keep locks where maxmemory-policy is noeviction"
    elif policy != "noeviction" and evicted:
        severity = "critical"
        text = f"maxmemory-policy is {policy}, and {since}: locks may have been among them"
        fix = "move locks to a server of their own with noeviction"
    elif policy != "noeviction":
        severity = "warning"
        text = f"maxmemory-policy is {policy}: a full memory can evict a lock, and a second holder comes in"
        fix = "set maxmemory-policy noeviction, or move locks to a server of their own"
    return Finding("eviction", severity, text, fix, server.where, data)


_AFTER_A_CRASH: dict[str | None, tuple[Severity, str]] = {
    "always": ("ok", "no acknowledged lock is lost by a crash"),
    "everysec": ("note", "a crash can lose the locks of the last second"),
    "no": ("note", "a crash can lose the locks of the last half minute or so"),
    None: ("unknown", "how much a crash can lose is not known: CONFIG GET appendfsync is not granted"),
}


def _persistence(server: ServerEvidence, facts: ServerFacts) -> Iterator[Finding]:
    info = server.info or {}
    fsync = server.config.get("appendfsync")
    data = {"persistence": facts.persistence, "appendfsync": fsync, "replicas": facts.replicas}
    if info.get("aof_last_write_status", "ok") != "ok":
        text = "the last write of the append-only file failed"
        yield Finding("persistence", "warning", text, "see the server's log and its disk", server.where, data)
    elif facts.persistence == "aof":
        severity, text = _AFTER_A_CRASH.get(fsync, _AFTER_A_CRASH[None])
        yield Finding("persistence", severity, f"append-only file: {text}", "", server.where, data)
    elif not facts.replicas:
        text = (
            "neither an append-only file nor a replica: a crash of the server loses its newest locks, and "
            "others take them while their holders still work"
        )
        fix = "turn appendonly on, or check a fencing token at what the locks protect"
        yield Finding("persistence", "warning", text, fix, server.where, data)


def _replication(server: ServerEvidence, facts: ServerFacts) -> Finding:
    behind, lag = facts.replica_behind_bytes or 0, facts.replica_lag_seconds or 0
    needed = server.config.get("min-replicas-to-write")
    data = {
        "replicas": facts.replicas,
        "behind_bytes": behind,
        "lag_seconds": lag,
        "min_replicas_to_write": needed,
    }
    if behind > BEHIND or lag > LATE:
        text = f"a replica is {behind:,} bytes and {lag} s behind: a failover now would lose the newest locks"
        fix = "see to the replica's load and network"
        return Finding("replication", "warning", text, fix, server.where, data)
    text = "replication is asynchronous: a failover can lose locks that were taken a moment before"
    if needed is None:
        text += "; min-replicas-to-write is not known"
    elif needed == "0":
        text += ", and a master that is cut off goes on giving out locks (min-replicas-to-write is 0)"
    fix = "where two holders do harm, check a fencing token at what the lock protects"
    return Finding("replication", "note", text, fix, server.where, data)

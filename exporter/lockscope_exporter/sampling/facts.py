"""What a server's INFO says about how safely it keeps locks. Pure."""

from __future__ import annotations

from lockscope_exporter.state import ServerFacts

_BEHIND = 1_000_000  # bytes of replication backlog not yet confirmed that are worth a warning
_LATE = 5  # seconds since a replica last confirmed that are worth a warning
_SKEW = 1.0  # seconds between the clocks that are worth a warning


def parse_info(text: str) -> dict[str, str]:
    """Return the fields of an INFO answer."""
    lines = (line.partition(":") for line in text.splitlines() if not line.startswith("#"))
    return {name: value.strip() for name, colon, value in lines if colon}


def server_facts(info: dict[str, str], clock_ahead: float) -> ServerFacts:
    """Judge a server by its INFO fields.

    Args:
        info: fields as ``parse_info`` returns them; missing ones are unknown.
        clock_ahead: seconds by which its clock is ahead of this host's.
    """
    replicas = [_pairs(info[f"slave{index}"]) for index in range(64) if f"slave{index}" in info]
    online = [replica for replica in replicas if replica.get("state") == "online"]
    offset = _number(info.get("master_repl_offset"))
    behind = [offset - (_number(replica.get("offset")) or 0) for replica in online if offset is not None]
    return ServerFacts(
        version=info.get("valkey_version") or info.get("redis_version", ""),
        run_id=info.get("run_id", ""),
        role=info.get("role", ""),
        maxmemory=_number(info.get("maxmemory")),
        maxmemory_policy=info.get("maxmemory_policy", ""),
        evicted_keys=_number(info.get("evicted_keys")),
        persistence=_persistence(info),
        replicas=len(online),
        replica_behind_bytes=max(behind, default=None),
        replica_lag_seconds=max((_number(replica.get("lag")) or 0 for replica in online), default=None),
        clock_ahead_seconds=clock_ahead,
    )


def eviction_safe(facts: ServerFacts) -> bool | None:
    """Tell whether the server can never evict a lock; ``None`` if it did not say."""
    if not facts.maxmemory_policy:
        return None
    return facts.maxmemory_policy == "noeviction" or facts.maxmemory == 0


def warnings(facts: ServerFacts) -> tuple[str, ...]:
    """Return the sentences that an operator should read."""
    found = []
    if eviction_safe(facts) is False:
        found.append(
            f"maxmemory-policy {facts.maxmemory_policy} can evict locks under memory pressure; "
            "locks want noeviction"
        )
    if facts.role == "master" and facts.persistence != "aof" and not facts.replicas:
        found.append(
            "neither an append-only file nor a replica: a crash of the server loses its newest locks"
        )
    if (facts.replica_behind_bytes or 0) > _BEHIND or (facts.replica_lag_seconds or 0) > _LATE:
        found.append(
            f"a replica is {facts.replica_behind_bytes} bytes and {facts.replica_lag_seconds} s behind: "
            "a failover now would lose the newest locks"
        )
    if facts.role == "slave":
        found.append("this is a replica: what it shows may be behind its master")
    if abs(facts.clock_ahead_seconds) > _SKEW:
        found.append(
            f"the server's clock is {abs(facts.clock_ahead_seconds):.1f} s "
            f"{'ahead of' if facts.clock_ahead_seconds > 0 else 'behind'} this host's"
        )
    return tuple(found)


def _persistence(info: dict[str, str]) -> str:
    if info.get("aof_enabled") == "1":
        return "aof"
    # INFO does not show save points; only snapshots that were taken prove that there are some.
    return "rdb" if (_number(info.get("rdb_saves")) or 0) > 0 else ""


def _pairs(text: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.lstrip("-").isdecimal() else None

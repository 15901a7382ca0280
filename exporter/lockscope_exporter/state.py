"""``LockState``: what Redis says of one live lock now. The only noun that crosses the exporter's border."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

State = Literal["orphaned", "no_ttl", "stalled", "overdue", "held"]
Life = Literal["alive", "gone", "unknown"]


@dataclass(frozen=True, slots=True)
class Holder:
    """One holder of a lock, as far as its token and its presence tell.

    Attributes:
        token: the exact bytes that name the owner in Redis; never shown, only its fingerprint.
        fingerprint: first 8 hex digits of the token's SHA-256.
        host: host name, ``mac:…`` for a UUIDv1 node, or whatever the dialect's owner value names.
        pid: process id.
        worker: random process name of an instrumented holder, the key of its presence channel.
        job_type: bounded task name.
        job_id: the queue's id of the run.
        started_at: unix time in seconds when the acquire attempt began.
        alive: whether the holder's process lives; ``unknown`` without positive evidence.
        gone_since: unix time in seconds since when the holder is known to be gone.
        count: re-entrancy count or number of permits, 1 for plain locks.
        presence: what the token says of the presence connection, see ``tokens.Owner``.
        until: unix time in seconds when this holder loses its hold by itself, where holders end one by one.
        namespace: the PID namespace of the process and the boot of its host, see ``tokens.Owner``.
        born: when the process started, in clock ticks since that boot.
        doubt: why it is not known to be gone although its presence connection is closed or silent, or why it
            is although that is open; else empty.
    """

    token: bytes
    fingerprint: str
    host: str | None = None
    pid: int | None = None
    worker: str | None = None
    job_type: str | None = None
    job_id: str | None = None
    started_at: float | None = None
    alive: Life = "unknown"
    gone_since: float | None = None
    count: int = 1
    presence: bool | None = None
    until: float | None = None
    namespace: str | None = None
    born: int | None = None
    doubt: str = ""


class LockState(NamedTuple):
    """One live lock. A tuple, since it is made a third as fast otherwise, and ten thousand at a time.

    Attributes:
        key: the full Redis key, exact bytes.
        field: the hash field or zset member that is the lock, where one key holds several.
        prefix: bounded family, a Redis glob.
        dialect: name of the recognised library format, ``generic`` where none fits.
        state: the first that matches of orphaned, no_ttl, stalled, overdue, held.
        evidence: sentences that say why the state is what it is, most important first.
        ttl_seconds: remaining time to live at ``sampled_at``; ``None`` without expiry.
        ttl_expected: whether a lock of this dialect ought to have an expiry.
        age_seconds: how long the lock has been held at ``sampled_at``; ``None`` if nothing tells.
        age_at_least: the age is only a lower bound (the lock was there when sampling began).
        expected_hold_seconds: threshold beyond which the lock is overdue, if known.
        lease_seconds: remaining time to live when the lock was last seen to be taken or renewed, what a full
            countdown bar stands for; ``None`` without expiry or before that was seen.
        holders: everyone who holds it; one for a plain lock, none where the dialect names no owner.
        weak_owner: the owner value is constant or shared, so a release cannot be verified.
        value: for string locks the exact bytes of the value, for others ``None``; never shown.
        renewals: renewals seen since the lock was first seen.
        db: Redis database number.
        target: configured name of the server or group.
        node: ``host:port`` or socket path of the node that holds the key.
        type: Redis type of the key.
        sampled_at: unix time in seconds when this was read.
        quorum: servers of its Redlock group that have a copy, and all of them; ``None`` outside such groups.
    """

    key: bytes
    prefix: str
    dialect: str
    state: State
    evidence: Sequence[str]
    ttl_seconds: float | None
    sampled_at: float
    ttl_expected: bool = True
    age_seconds: float | None = None
    age_at_least: bool = False
    expected_hold_seconds: float | None = None
    lease_seconds: float | None = None
    holders: tuple[Holder, ...] = ()
    weak_owner: bool = False
    value: bytes | None = None
    renewals: int = 0
    field: bytes | None = None
    db: int = 0
    target: str = "default"
    node: str = ""
    quorum: tuple[int, int] | None = None
    type: str = "string"

    @property
    def holder(self) -> Holder | None:
        """The first holder, or ``None``."""
        return self.holders[0] if self.holders else None


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a server says of itself, as far as it matters to the locks it keeps.

    Attributes:
        version: of Redis or Valkey.
        run_id: changes at every start of the server.
        role: master or slave, as Redis calls it.
        maxmemory: bytes, 0 for no limit.
        maxmemory_policy: what it evicts at that limit.
        evicted_keys: keys of any kind evicted since its start.
        persistence: ``aof``, ``rdb``, or empty where it does not show.
        replicas: replicas that are online.
        replica_behind_bytes: replication stream that the slowest has not confirmed.
        replica_lag_seconds: time since the slowest last confirmed.
        clock_ahead_seconds: its clock minus this host's.
    """

    version: str = ""
    run_id: str = ""
    role: str = ""
    maxmemory: int | None = None
    maxmemory_policy: str = ""
    evicted_keys: int | None = None
    persistence: str = ""
    replicas: int = 0
    replica_behind_bytes: int | None = None
    replica_lag_seconds: int | None = None
    clock_ahead_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """How sampling of one node stands.

    Attributes:
        target: configured name of the server or group.
        node: ``host:port`` or socket path.
        up: the last sample succeeded.
        mode: feed in use: tracking, notifications or scan.
        age_seconds: time since this node was last heard from.
        error: one line saying why it is not up, else empty.
        resyncs: full resynchronisations by reason.
        corrections: differences that resynchronisations found.
        eviction_safe: the maxmemory policy cannot drop locks; ``None`` if it could not be read.
        evicted_keys: the server's count of evicted keys; ``None`` if it could not be read.
        warnings: sentences an operator should read, such as a pattern that cannot be tracked.
        facts: what the server says of itself; ``None`` if it could not be read.
        unreadable: keys under the patterns that this user may not read.
        visited: every key was visited at least once, or the node was found unreachable.
    """

    target: str
    node: str
    up: bool
    mode: str
    age_seconds: float
    error: str = ""
    resyncs: dict[str, int] = field(default_factory=dict)
    corrections: int = 0
    eviction_safe: bool | None = None
    evicted_keys: int | None = None
    warnings: tuple[str, ...] = ()
    facts: ServerFacts | None = None
    unreadable: int = 0
    visited: bool = True


@dataclass(frozen=True, slots=True)
class Family:
    """Running counts of one prefix, kept so that a scrape need not walk the locks.

    Attributes:
        prefix: bounded family; ``db`` and ``target`` as in ``LockState``.
        keys: live locks by ``(dialect, state)``; a pair once seen stays at 0.
        without_ttl: live locks that never expire.
        oldest_age: seconds, ``None`` with no live lock of known age.
        ttl_min: seconds, ``None`` with no live lock that expires.
        ttl_buckets: live locks with a remaining TTL up to each bound of ``catalog.TTL_BUCKETS``,
            cumulative, then all of them; ``ttl_sum`` is the sum of the remaining seconds.
        expected_hold: seconds, ``None`` while unknown.
        weak_owner: live locks with a constant or shared owner value.
        acquired, renewed, takeover: counts since the sampler started; ``ended`` the same by how.
        known: what is live now is known; ``False`` while no node of the target answers: then only counts do.
        usual_ttl: seconds that locks are usually given when taken or renewed, ``None`` before it was seen.
        usual_hold: 99th percentile of past holds in seconds, ``None`` while too few are known.
        renewal_interval: usual seconds between two renewals, ``None`` before that was seen.
    """

    prefix: str
    db: int
    target: str
    keys: dict[tuple[str, State], int]
    without_ttl: int
    oldest_age: float | None
    ttl_min: float | None
    ttl_buckets: tuple[int, ...]
    ttl_sum: float
    expected_hold: float | None
    weak_owner: int
    acquired: int
    renewed: int
    takeover: int
    ended: dict[str, int]
    known: bool = True
    usual_ttl: float | None = None
    usual_hold: float | None = None
    renewal_interval: float | None = None


@dataclass(frozen=True, slots=True)
class ProgressFamily:
    """Job-progress keys of one prefix.

    Attributes:
        prefix: bounded family; ``db`` and ``target`` as in ``LockState``.
        keys: keys by state: running, stale, failed, completed; all four are always there.
        silent_seconds: longest silence of a job that says that it runs, 0 if none does.
    """

    prefix: str
    db: int
    target: str
    keys: dict[str, int]
    silent_seconds: float

"""Everything that the checks judge, as values: what servers said, what their keys are, what holds lasted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lockscope_exporter.state import Family, LockState, NodeStatus, ServerFacts

Answer = Literal["granted", "denied", "not known to the server", "unclear"]


@dataclass(frozen=True, slots=True)
class ServerEvidence:
    """What one server says of itself.

    Attributes:
        name: ``host:port`` or socket path.
        kind: how the URL names it: standalone, sentinel or cluster.
        error: why it could not be asked, in one line; everything else is empty then.
        info: fields of INFO, ``None`` if that is not granted.
        facts: the same judged.
        config: settings that were asked for, ``None`` for one that the server would not tell.
        commands: whether this user may run each command that lockscope uses.
        patterns: whether this user may read keys of each watched pattern.
        clock_ahead: seconds by which its clock is ahead of this host's, ``None`` if it would not tell.
        round_trip: seconds for one answer.
        user: name of the ACL user, empty if not known.
        target: name of the target that it belongs to, empty if there is only one.
    """

    name: str
    kind: str = "standalone"
    error: str = ""
    info: Mapping[str, str] | None = None
    facts: ServerFacts | None = None
    config: Mapping[str, str | None] = field(default_factory=dict)
    commands: Mapping[str, Answer] = field(default_factory=dict)
    patterns: Mapping[bytes, Answer] = field(default_factory=dict)
    clock_ahead: float | None = None
    round_trip: float = 0.0
    user: str = ""
    target: str = ""

    @property
    def where(self) -> str:
        """What to call it: its name, after its target's where there are several."""
        return f"{self.target} {self.name}".lstrip()


@dataclass(frozen=True, slots=True)
class PatternCount:
    """Keys that one watched pattern matches.

    Attributes:
        glob: the pattern.
        locks: those that are locks.
        others: those that are none; ``beside`` those that a library keeps beside its locks.
        example: one that is none.
        unread: those that were too many to be read.
    """

    glob: bytes
    locks: int = 0
    others: int = 0
    beside: int = 0
    example: bytes = b""
    unread: int = 0


@dataclass(frozen=True, slots=True)
class Unwatched:
    """Locks that no watched pattern matches.

    Attributes:
        pattern: the Redis glob that would match them.
        dialect: the format that they have.
        count: how many were seen.
        example: one of them.
    """

    pattern: str
    dialect: str
    count: int
    example: bytes


@dataclass(frozen=True, slots=True)
class Broker:
    """A Celery broker in this Redis: what kombu keeps of messages that were delivered, not acknowledged yet.

    Attributes:
        key: the sorted set of deliveries.
        waiting: messages that were delivered and not acknowledged.
        oldest: seconds since the oldest was delivered, ``None`` without any or if that is not known.
    """

    key: bytes
    waiting: int
    oldest: float | None


@dataclass(frozen=True, slots=True)
class Keyspace:
    """A sample of the keys of one database on one server.

    Attributes:
        node: the server; ``db`` the database.
        error: why it could not be read, in one line.
        visited: keys that were looked at.
        total: keys that there are, ``None`` if not known.
        patterns: by watched pattern.
        unwatched: locks that none of them matches.
        brokers: brokers of Celery.
        target: as in ``ServerEvidence``.
    """

    node: str
    db: int = 0
    error: str = ""
    visited: int = 0
    total: int | None = None
    patterns: tuple[PatternCount, ...] = ()
    unwatched: tuple[Unwatched, ...] = ()
    brokers: tuple[Broker, ...] = ()
    target: str = ""

    @property
    def where(self) -> str:
        """What to call its server: its name, after its target's where there are several."""
        return f"{self.target} {self.node}".lstrip()

    @property
    def complete(self) -> bool:
        """Whether every key was looked at."""
        return self.total is not None and self.visited >= self.total


@dataclass(frozen=True, slots=True)
class Holds:
    """How long locks of one family were held, from the best source there is.

    Attributes:
        prefix: the family.
        source: where this comes from, in words.
        count: holds known.
        p99: seconds, ``None`` while there are too few.
        longest: seconds, ``None`` if nothing is known.
        ttl: seconds that they are usually given, ``None`` if not known.
        headroom: 5th percentile of the share of the TTL that was left at a renewal; ``None`` without any.
        interval: usual seconds between two renewals; ``None`` without any.
        ended: locks seen to end; ``expired`` those that expired under their holder.
    """

    prefix: str
    source: str
    count: int = 0
    p99: float | None = None
    longest: float | None = None
    ttl: float | None = None
    headroom: float | None = None
    interval: float | None = None
    ended: int = 0
    expired: int = 0


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything.

    Attributes:
        servers: by server.
        statuses: how sampling of each node stands.
        locks: live locks; ``families`` their counts by prefix.
        watched: seconds that they were watched for.
        keyspaces: by server and database.
        holds: by prefix.
        explicit: the user named the patterns.
        visibility: seconds after which a queue delivers a job again, by prefix glob; ``*`` for all.
        unread: sources of past holds that cannot be read, and why.
    """

    servers: Sequence[ServerEvidence] = ()
    statuses: Sequence[NodeStatus] = ()
    locks: Sequence[LockState] = ()
    families: Sequence[Family] = ()
    watched: float = 0.0
    keyspaces: Sequence[Keyspace] = ()
    holds: Mapping[str, Holds] = field(default_factory=dict)
    explicit: bool = False
    visibility: Mapping[str, float] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)

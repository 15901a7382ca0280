"""What a sample of MONITOR says of each lock and of each of its callers: values, and their JSON form."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lockscope_exporter.listing import holder_object
from lockscope_exporter.text import key_text, label_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockscope_exporter.contention.cost import Cost
    from lockscope_exporter.state import Holder

POLLS = 3  # tries without success that make a caller a poller


@dataclass(frozen=True, slots=True)
class KeyCount:
    """What happened to one lock.

    Attributes:
        key: the full Redis key; ``field`` the hash field that is the lock, or ``None``.
        db: database number.
        node: ``host:port`` or socket path.
        prefix: bounded family.
        attempts: tries to take it.
        acquired: tries that succeeded; ``refused`` those that did not; ``unknown`` those of which nothing
            tells. All three are deduced.
        looks: times that somebody asked whether it is there.
        renewals: times that its expiry was moved or it was entered again.
        releases: times that it was deleted.
        callers: connections that tried or looked.
        per_second: tries and looks a second.
    """

    key: bytes
    field: bytes | None
    db: int
    node: str
    prefix: str
    attempts: int
    acquired: int
    refused: int
    unknown: int
    looks: int
    renewals: int
    releases: int
    callers: int
    per_second: float

    @property
    def tries_per_second(self) -> float:
        """Tries a second, without the looks."""
        asked = self.attempts + self.looks
        return self.per_second * self.attempts / asked if asked else 0.0

    @property
    def contended(self) -> int:
        """Tries and looks that may have been made because another had the lock."""
        return self.refused + self.looks + self.unknown


@dataclass(frozen=True, slots=True)
class CallerCount:
    """What one connection did about one lock.

    Attributes:
        key: the lock, with ``field``, ``db`` and ``node``.
        address: ``host:port`` of the client, or ``unix:/path`` for all connections through a socket file.
        name: what the client calls itself (CLIENT SETNAME), empty if nothing or not known.
        holder: who the token that it tries with says it is, ``None`` if it says nothing.
        attempts: as in ``KeyCount``, and so ``acquired``, ``refused``, ``unknown``, ``looks``.
        per_second: tries and looks a second.
        interval: median time between two of them in seconds, ``None`` with fewer than three.
    """

    key: bytes
    field: bytes | None
    db: int
    node: str
    address: str
    name: str
    holder: Holder | None
    attempts: int
    acquired: int
    refused: int
    unknown: int
    looks: int
    per_second: float
    interval: float | None

    @property
    def polls(self) -> bool:
        """Whether it asks again and again without getting the lock."""
        return self.refused + self.looks >= POLLS and self.refused + self.looks > self.acquired


@dataclass(frozen=True, slots=True)
class Report:
    """A sample of one or more nodes.

    Attributes:
        nodes: the nodes sampled.
        seconds: how long each was listened to.
        stopped: why it ended: time, bytes, interrupted or lost; the worst of all nodes.
        commands: commands that the servers were given meanwhile.
        output_bytes: what MONITOR printed.
        unreadable: lines that could not be read.
        beyond: tries left out because there were too many locks or callers.
        keys: the most contended first; ``callers`` likewise.
        costs: what it cost, by node, where the server said.
        notes: sentences on what the numbers do not tell.
        errors: by node, why it could not be sampled to the end.
    """

    nodes: tuple[str, ...] = ()
    seconds: float = 0.0
    stopped: str = "time"
    commands: int = 0
    output_bytes: int = 0
    unreadable: int = 0
    beyond: int = 0
    keys: tuple[KeyCount, ...] = ()
    callers: tuple[CallerCount, ...] = ()
    costs: dict[str, Cost] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    errors: dict[str, str] = field(default_factory=dict)


_WORST = ("time", "interrupted", "bytes", "lost")


def merge(reports: Iterable[Report]) -> Report:
    """Return one report of several nodes."""
    found = list(reports)
    return Report(
        nodes=tuple(node for one in found for node in one.nodes),
        seconds=max((one.seconds for one in found), default=0.0),
        stopped=max((one.stopped for one in found), default="time", key=_WORST.index),
        commands=sum(one.commands for one in found),
        output_bytes=sum(one.output_bytes for one in found),
        unreadable=sum(one.unreadable for one in found),
        beyond=sum(one.beyond for one in found),
        keys=tuple(sorted((key for one in found for key in one.keys), key=by_contention)),
        callers=tuple(sorted((caller for one in found for caller in one.callers), key=by_insistence)),
        costs={node: cost for one in found for node, cost in one.costs.items()},
        notes=tuple(dict.fromkeys(note for one in found for note in one.notes)),
        errors={node: error for one in found for node, error in one.errors.items()},
    )


def by_contention(key: KeyCount) -> tuple[Any, ...]:
    """Order locks: the most tries in vain first, then the most tries; looks alone are no contention yet."""
    return (-key.refused, -key.attempts, -key.looks, key.node, key.db, key.key, key.field or b"")


def by_insistence(caller: CallerCount) -> tuple[Any, ...]:
    """Order callers: who asks most often in vain first."""
    return (
        -caller.refused - caller.looks,
        -caller.attempts,
        caller.node,
        caller.db,
        caller.key,
        caller.field or b"",
        caller.address,
    )


def report_object(report: Report) -> dict[str, Any]:
    """Return a report as a JSON object; times in seconds, sizes in bytes."""
    return {
        "nodes": list(report.nodes),
        "seconds": round(report.seconds, 3),
        "stopped": report.stopped,
        "commands": report.commands,
        "output_bytes": report.output_bytes,
        "unreadable_lines": report.unreadable,
        "left_out": report.beyond,
        "locks": [
            {
                **_where(one),
                "prefix": label_text(one.prefix),
                **_counts(one),
                "renewals": one.renewals,
                "releases": one.releases,
                "callers": one.callers,
                "per_second": round(one.per_second, 2),
            }
            for one in report.keys
        ],
        "callers": [
            {
                **_where(one),
                "address": one.address,
                "name": label_text(one.name),
                "holder": holder_object(one.holder) if one.holder is not None else None,
                **_counts(one),
                "polls": one.polls,
                "per_second": round(one.per_second, 2),
                "interval_seconds": None if one.interval is None else round(one.interval, 4),
            }
            for one in report.callers
        ],
        "cost": {node: cost.to_object() for node, cost in report.costs.items()},
        "notes": list(report.notes),
        "errors": report.errors,
    }


def _where(one: KeyCount | CallerCount) -> dict[str, Any]:
    return {
        "key": key_text(one.key),
        "field": None if one.field is None else key_text(one.field),
        "db": one.db,
        "node": one.node,
    }


def _counts(one: KeyCount | CallerCount) -> dict[str, int]:
    return {
        "attempts": one.attempts,
        "acquired": one.acquired,
        "refused_deduced": one.refused,
        "outcome_unknown": one.unknown,
        "looks": one.looks,
    }

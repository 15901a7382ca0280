"""What freeing a lock is about: the plan made from what was seen, and what came of it. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import redis
from redis.cluster import RedisCluster

if TYPE_CHECKING:
    from lockscope_exporter.dialects import Release
    from lockscope_exporter.state import Holder, LockState

Client = redis.Redis | RedisCluster
"""A client of the lock's database, or of its cluster. It must read bytes and not retry by itself."""

Outcome = Literal[
    "attempted", "refused", "ready", "released", "changed", "gone", "resurrected", "failed", "unknown"
]
"""What came of a release.

``attempted``: only in the audit, the end of the attempt was never recorded. ``refused``: lockscope would not.
``ready``: a rehearsal found everything as it was seen. ``released``: freed, and still free a moment later.
``resurrected``: freed, and held again a moment later. ``changed``: not freed, the lock is not as it was seen.
``gone``: not freed, it no longer exists. ``failed``: not freed, the server refused. ``unknown``: the server
did not answer, so nobody knows.
"""

FREED: frozenset[Outcome] = frozenset({"released", "resurrected"})

NEVER = -1
"""An expiry that says that there was none."""


@dataclass(frozen=True, slots=True)
class WakeUp:
    """How the waiters of one lock are told that it is free.

    Attributes:
        how: push to a list that they block on, or publish to a channel that they listen to.
        where: that list or channel.
        message: the element or message.
        reset: delete the list first.
        ttl_ms: expiry of the list in milliseconds, ``None`` for none.
    """

    how: Literal["push", "publish"]
    where: bytes
    message: bytes
    reset: bool = False
    ttl_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Blocked:
    """Why a lock is not going to be freed whatever the operator says.

    Attributes:
        outcome: how an attempt ends.
        reason: a sentence.
    """

    outcome: Literal["refused", "changed"]
    reason: str


@dataclass(frozen=True, slots=True)
class ReleasePlan:
    """How one lock, as it was seen, would be freed. Made by ``plan``; it carries the exact bytes.

    Attributes:
        lock: the lock as it was seen.
        way: how its dialect is freed.
        holders: whose hold is ended; empty where the format names nobody.
        expires_ms: unix time in milliseconds when the key expires, ``NEVER`` if it does not, ``None`` where
            that says nothing about this lock. Another expiry than this means that somebody prolonged it.
        wake: how its waiters are woken, if its library needs that.
        must_be_absent: a key whose existence means that this way would be wrong.
        markers: members that go once no holder is left.
        weak: another lock of this key may carry the same bytes.
        steps: what will happen, one sentence each.
        warnings: what to know before.
        needs_force: why only ``force`` and the typed key free it; empty if its holders are known to be gone.
        blocked: why nothing frees it; ``None`` if something does.
    """

    lock: LockState
    way: Release
    holders: tuple[Holder, ...] = ()
    expires_ms: int | None = None
    wake: WakeUp | None = None
    must_be_absent: bytes | None = None
    markers: tuple[bytes, ...] = ()
    weak: bool = False
    steps: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    needs_force: str = ""
    blocked: Blocked | None = None


@dataclass(frozen=True, slots=True)
class ReleaseResult:
    """What came of a release or its rehearsal.

    Attributes:
        outcome: one of ``Outcome``.
        detail: a sentence that says why.
        woken: waiters that a channel reached; ``None`` where that does not show.
        holders: who holds the lock now, where it is held.
        audit_id: id of the entry in the audit stream, empty if there is none.
        warnings: what else went wrong.
    """

    outcome: Outcome
    detail: str
    woken: int | None = None
    holders: tuple[Holder, ...] = ()
    audit_id: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def freed(self) -> bool:
        """Whether the lock that was seen is no longer held because of this."""
        return self.outcome in FREED

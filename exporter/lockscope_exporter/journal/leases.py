"""Who held a lock when, from the journal: takeovers, and two holders at once. Pure.

An overlap is only what both sides prove: one process acquired the lock, and another one that had acquired it
before found out later than that that it had lost it. A holder that died, or let the lock run out and never
came back to it, overlaps with nobody.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from lockscope import events

if TYPE_CHECKING:
    from lockscope.journal import Recorded, Writer

SETTLE = 3.0  # seconds that the journals of two processes may be apart before an end is counted
_SHORTEST = 0.002  # seconds; what clocks and ways differ by is no overlap
_KEEP = 600.0  # seconds that a lease which ended is remembered
_MAX_KEYS = 20_000
_MAX_A_KEY = 32
_LOSSES = frozenset({events.RENEW_LOST, events.RELEASE_LOST})
_ENDS = _LOSSES | {events.RELEASED, events.RELEASE_ERROR, events.ABANDONED}

Place = tuple[int, bytes]  # database and key


class Party(NamedTuple):
    """One holder of a lock.

    Attributes:
        writer: its process.
        owner: fingerprint of its token.
        job_type: its job.
        job_id: the queue's id of the run.
        acquired_at: unix time in seconds by the server's clock.
        ended_at: when it released the lock or found it lost; ``None`` if it has not.
    """

    writer: Writer
    owner: str
    job_type: str
    job_id: str | None
    acquired_at: float
    ended_at: float | None = None


class Overlap(NamedTuple):
    """Two holders of one lock at once.

    Attributes:
        db: database number.
        key: the lock.
        prefix: its family.
        first: the holder that had lost it and did not know.
        second: the one that came in.
        began_at: unix time in seconds by the server's clock.
        seconds: how long both held it.
    """

    db: int
    key: bytes
    prefix: str
    first: Party
    second: Party
    began_at: float
    seconds: float


class Takeover(NamedTuple):
    """A lock went to another owner without having been released.

    Attributes:
        db: database number.
        key: the lock.
        prefix: its family.
        before: the holder that lost it, or left it behind.
        after: the holder that came in.
    """

    db: int
    key: bytes
    prefix: str
    before: Party
    after: Party


@dataclass(slots=True, eq=False)
class _Lease:
    """One stay in a lock; ``paired`` are the later ones that were compared with it already."""

    prefix: str
    party: Party
    lost: bool = False
    released: bool = False
    paired: set[str] = field(default_factory=set)


class Leases:
    """The leases of many keys. Memory is bounded; what was used longest ago is forgotten first."""

    def __init__(self) -> None:
        self._places: OrderedDict[Place, list[_Lease]] = OrderedDict()
        self._waiting: list[tuple[float, Place, _Lease]] = []

    def take(self, recorded: Recorded) -> Takeover | None:
        """Take in an event; return the takeover that it completes, if any."""
        event = recorded.event
        if not recorded.owner:
            return None
        place = (recorded.writer.db, event.key)
        if event.event == events.ACQUIRED:
            return self._acquired(place, recorded)
        if event.event in _ENDS and (event.ends_lease or event.event in _LOSSES):
            self._ended(place, recorded)
        return None

    def overlaps(self, now: float) -> list[Overlap]:
        """Return the overlaps that are certain by now, each once.

        Args:
            now: unix time in seconds by the server's clock.
        """
        if not self._waiting:
            return []
        due = [(place, lease) for at, place, lease in self._waiting if at <= now]
        if due:
            self._waiting = [waiting for waiting in self._waiting if waiting[0] > now]
        return [overlap for place, lease in due for overlap in self._compare(place, lease)]

    def forget(self, now: float) -> None:
        """Forget leases that ended long ago, so that an old story does not pair with a new one."""
        while self._places:
            place, leases = next(iter(self._places.items()))
            last = max(lease.party.ended_at or lease.party.acquired_at for lease in leases)
            if now - last < _KEEP and len(self._places) <= _MAX_KEYS:
                return
            del self._places[place]

    def _acquired(self, place: Place, recorded: Recorded) -> Takeover | None:
        event = recorded.event
        party = Party(
            recorded.writer,
            recorded.owner,
            event.job.job_type,
            event.job.job_id,
            event.at + (event.wait_seconds or 0.0),
        )
        leases = self._places.setdefault(place, [])
        self._places.move_to_end(place)
        lease = _Lease(event.prefix, party)
        before = max(
            (old for old in leases if old.party.acquired_at <= party.acquired_at),
            key=lambda old: old.party.acquired_at,
            default=None,
        )
        leases.append(lease)
        del leases[:-_MAX_A_KEY]
        for old in leases:
            if old.lost:  # it ended before this one was heard of
                self._waiting.append((party.acquired_at + SETTLE, place, old))
        if before is None or before.released or before.party.owner == party.owner:
            return None
        return Takeover(*place, event.prefix, before.party, party)

    def _ended(self, place: Place, recorded: Recorded) -> None:
        event = recorded.event
        for lease in self._places.get(place, ()):
            party = lease.party
            if party.owner == recorded.owner and party.writer == recorded.writer and party.ended_at is None:
                lease.party = party._replace(ended_at=event.at)
                lease.released = event.event == events.RELEASED
                lease.lost = event.event in _LOSSES
                if lease.lost:
                    self._waiting.append((event.at + SETTLE, place, lease))
                self._places.move_to_end(place)
                return

    def _compare(self, place: Place, lost: _Lease) -> list[Overlap]:
        """Return the overlaps of a lease that was found lost with those acquired after it."""
        found = []
        first = lost.party
        end = first.ended_at or first.acquired_at
        for other in self._places.get(place, ()):
            second = other.party
            began = second.acquired_at
            if other is lost or second.owner in lost.paired or not first.acquired_at < began < end:
                continue
            lost.paired.add(second.owner)
            seconds = min(end, second.ended_at or end) - began
            if seconds > _SHORTEST:
                found.append(Overlap(*place, other.prefix, first, second, began, seconds))
        return found

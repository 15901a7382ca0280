"""One live lock as the ledger keeps it: what was read, when it was seen to be taken and renewed. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lockscope_exporter.classify import NO_RENEWALS, Cadence, Expected, Facts, classify, state_of
from lockscope_exporter.state import LockState

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockscope_exporter.dialects import Decoded
    from lockscope_exporter.presence import Standing
    from lockscope_exporter.sampling.counts import Counts
    from lockscope_exporter.state import Holder, State

    Presence = Callable[[Holder, float], Standing]


@dataclass(slots=True, eq=False)
class Entry:
    """A live lock.

    Attributes:
        key: full Redis key.
        db: database number.
        node: the node that holds it.
        counts: the running counts of its family.
        decoded: what its bytes say.
        held_since: unix time in seconds when it was acquired, or first seen.
        since_at_least: it was there before anyone looked: ``held_since`` is only an upper bound.
        lease: seconds it had to live when last seen to be taken or renewed.
        first_lease: the same at the acquisition.
        cadence: how it was renewed so far.
        state: as last counted.
        slot: index of the TTL bucket it is counted in, -1 without expiry.
        hidden: it counts as gone although no reading has confirmed that: its deadline has passed, or its
            node is out of reach.
        live: it is in the ledger.
        look_at: unix time in seconds when its state or bucket may change without any news.
        expires: unix time in seconds when its key expires, which for locks that share a key is not when the
            lock ends.
        moved: it is another node's since it was last read, which may have rounded its deadline anew.
    """

    key: bytes
    db: int
    node: str
    counts: Counts
    decoded: Decoded
    held_since: float
    since_at_least: bool = False
    lease: float | None = None
    first_lease: float | None = None
    cadence: Cadence = NO_RENEWALS
    state: State = "held"
    slot: int = -1
    hidden: bool = False
    live: bool = True
    look_at: float | None = None
    expires: float | None = None
    moved: bool = False
    _shown: tuple[Holder, ...] = ()
    _shown_of: Decoded | None = None

    def renewed(self, decoded: Decoded, now: float, *, missed: bool = False) -> None:
        """Take in a reading with the same owner and a later deadline.

        Args:
            decoded: what its bytes say now.
            now: unix time in seconds.
            missed: other renewals may have come since the last one seen.
        """
        complete = not missed and (bool(self.cadence.renewals) or not self.since_at_least)
        self.cadence = self.cadence.renewed(now, complete=complete)
        self.lease = None if decoded.deadline is None else decoded.deadline - now

    def facts(self, now: float, presence: Presence, expected: Expected | None) -> Facts:
        """Return all that is known of it now, to be judged."""
        decoded = self.decoded
        holders = decoded.holders
        if holders:
            last = self._shown if self._shown_of is decoded else holders
            holders = tuple([_with_life(holder, presence, now) for holder in last])
            self._shown, self._shown_of = holders, decoded
        if expected is None and self.first_lease is not None:
            expected = Expected(self.first_lease, "first_ttl")
        return Facts(
            now=now,
            dialect=decoded.dialect,
            ttl_expected=decoded.ttl_expected,
            deadline=decoded.deadline,
            holders=holders,
            held_since=self.held_since,
            since_at_least=self.since_at_least,
            cadence=self.cadence,
            expected=expected,
            note=decoded.note,
        )

    def state_now(self, now: float, presence: Presence, expected: Expected | None) -> State:
        """Return the state alone, for counting; a fraction of the cost of all facts."""
        decoded = self.decoded
        gone = bool(decoded.holders) and all(
            holder.worker is not None and presence(holder, now).alive == "gone" for holder in decoded.holders
        )
        if gone:
            return state_of(self.facts(now, presence, expected))
        if expected is None and self.first_lease is not None:
            expected = Expected(self.first_lease, "first_ttl")
        return state_of(
            Facts(
                now,
                decoded.dialect,
                decoded.ttl_expected,
                decoded.deadline,
                (),
                self.held_since,
                self.since_at_least,
                self.cadence,
                expected,
            )
        )

    def to_state(self, facts: Facts) -> LockState:
        """Return it as the rest of the program sees it."""
        state, evidence = classify(facts)
        decoded = self.decoded
        now = facts.now
        return LockState(
            key=self.key,
            field=decoded.field,
            prefix=self.counts.prefix,
            dialect=decoded.dialect,
            state=state,
            evidence=evidence,
            ttl_seconds=None if decoded.deadline is None else max(decoded.deadline - now, 0.0),
            ttl_expected=decoded.ttl_expected,
            age_seconds=max(now - self.held_since, 0.0),
            age_at_least=self.since_at_least,
            expected_hold_seconds=None if facts.expected is None else facts.expected.seconds,
            lease_seconds=self.lease,
            holders=facts.holders,
            weak_owner=decoded.weak_owner,
            value=decoded.value,
            renewals=self.cadence.renewals,
            db=self.db,
            target=self.counts.target,
            node=self.node,
            type=decoded.type,
            sampled_at=now,
        )


def _with_life(holder: Holder, presence: Presence, now: float) -> Holder:
    if holder.worker is None:
        return holder
    alive, gone_since, doubt = presence(holder, now)
    if holder.alive == alive and holder.gone_since == gone_since and holder.doubt == doubt:
        return holder  # as it mostly is, and ten times as cheap as another one
    return replace(holder, alive=alive, gone_since=gone_since, doubt=doubt)

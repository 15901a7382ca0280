"""What an exporter says of locks in JSON, back as values: ``listing`` the other way round. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockscope_exporter.state import Family, Holder, LockState, NodeStatus, ServerFacts
from lockscope_exporter.watching.happenings import Happening

if TYPE_CHECKING:
    from collections.abc import Mapping

    Object = Mapping[str, Any]


def lock_of(found: Object) -> LockState:
    """Return a lock. Its value stays unknown, and fingerprints stand for the tokens of its holders.

    Raises:
        KeyError, TypeError, AttributeError: it is no lock in this form.
    """
    return LockState(
        key=found["key"].encode(),
        field=_bytes(found["field"]),
        prefix=found["prefix"],
        dialect=found["dialect"],
        state=found["state"],
        evidence=tuple(found["evidence"]),
        ttl_seconds=found["ttl_seconds"],
        ttl_expected=found["ttl_expected"],
        age_seconds=found["age_seconds"],
        age_at_least=found["age_at_least"],
        expected_hold_seconds=found["expected_hold_seconds"],
        lease_seconds=found["lease_seconds"],
        renewals=found["renewals"],
        weak_owner=found["weak_owner"],
        holders=tuple([_holder(one) for one in found["holders"]]),
        db=found["db"],
        target=found["target"],
        node=found["node"],
        sampled_at=found["sampled_at"],
    )


def family_of(found: Object) -> Family:
    """Return the counts of a prefix; the distribution of TTLs is not told."""
    return Family(
        prefix=found["prefix"],
        db=found["db"],
        target=found["target"],
        keys={(one["dialect"], one["state"]): one["keys"] for one in found["keys"]},
        known=found["known"],
        without_ttl=found["without_ttl"],
        oldest_age=found["oldest_age_seconds"],
        ttl_min=found["ttl_min_seconds"],
        ttl_buckets=(),
        ttl_sum=0.0,
        expected_hold=found["expected_hold_seconds"],
        weak_owner=found["weak_owner"],
        acquired=found["acquired"],
        renewed=found["renewed"],
        takeover=found["takeover"],
        ended=dict(found["ended"]),
    )


def node_of(found: Object) -> NodeStatus:
    """Return how sampling of a node stands."""
    return NodeStatus(
        target=found["target"],
        node=found["node"],
        up=found["up"],
        mode=found["mode"],
        age_seconds=found["age_seconds"] or 0.0,
        error=found["error"],
        warnings=tuple(found["warnings"]),
        unreadable=found["unreadable"],
        facts=ServerFacts(version=found["version"]) if found["version"] else None,
    )


def happening_of(found: Object) -> Happening:
    """Return something that happened."""
    return Happening(
        at=float(found["at"]),
        what=found["what"],
        prefix=found["prefix"],
        key=_bytes(found["key"]),
        field=_bytes(found["field"]),
        text=found["text"],
        count=found["count"],
    )


def _holder(found: Object) -> Holder:
    return Holder(
        token=(found["fingerprint"] or "").encode(),
        fingerprint=found["fingerprint"] or "",
        host=found["host"],
        pid=found["pid"],
        worker=found["worker"],
        job_type=found["job_type"],
        job_id=found["job_id"],
        started_at=found["started_at"],
        alive=found["alive"],
        gone_since=found["gone_since"],
        count=found["count"],
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()

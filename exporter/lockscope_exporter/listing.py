"""Live locks as lists for people and programs: filter, order, plain objects. Pure functions of values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from lockscope.globs import compile_glob
from lockscope_exporter.state import Holder, State
from lockscope_exporter.text import key_text, label_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from lockscope_exporter.state import Family, LockState, NodeStatus

STATES: tuple[State, ...] = get_args(State)
_URGENCY = {state: place for place, state in enumerate(STATES)}
_DECIMALS = 3
_UNKNOWN = Holder(token=b"", fingerprint="", count=0)


@dataclass(frozen=True, slots=True)
class Filter:
    """Which locks to list; an empty field means all.

    Attributes:
        key: Redis glob on the whole key.
        prefixes: exact prefixes.
        states: states.
        dialects: dialects.
        targets: names of targets.
        host: host of a holder.
        job_type: job type of a holder.
    """

    key: bytes = b""
    prefixes: frozenset[str] = frozenset()
    states: frozenset[str] = frozenset()
    dialects: frozenset[str] = frozenset()
    targets: frozenset[str] = frozenset()
    host: str = ""
    job_type: str = ""

    def admits(self, lock: LockState) -> bool:
        """Tell whether a lock is to be listed."""
        return (
            (not self.states or lock.state in self.states)
            and (not self.prefixes or lock.prefix in self.prefixes)
            and (not self.dialects or lock.dialect in self.dialects)
            and (not self.targets or lock.target in self.targets)
            and (not self.host or any(holder.host == self.host for holder in lock.holders))
            and (not self.job_type or any(holder.job_type == self.job_type for holder in lock.holders))
            and (not self.key or compile_glob(self.key).fullmatch(lock.key) is not None)
        )


def _urgency(lock: LockState) -> tuple[Any, ...]:
    return (_URGENCY[lock.state], -(lock.age_seconds or 0.0), lock.key, lock.field or b"")


ORDERS: dict[str, Callable[[LockState], Any]] = {
    "urgency": _urgency,
    "key": lambda lock: (lock.key, lock.field or b"", lock.target, lock.db),
    "age": lambda lock: (-(lock.age_seconds or 0.0), lock.key, lock.field or b""),
    "ttl": lambda lock: (
        lock.ttl_seconds is None, lock.ttl_seconds or 0.0, lock.key, lock.field or b"",
    ),
}  # fmt: skip


def select(locks: Iterable[LockState], wanted: Filter, order: str = "urgency") -> list[LockState]:
    """Return the wanted locks in an order.

    Args:
        locks: all live locks.
        wanted: which of them.
        order: ``urgency`` (worst state first, then oldest), ``key``, ``age`` (oldest first) or ``ttl``
            (soonest to expire first, those that never do last).
    """
    return sorted(filter(wanted.admits, locks), key=ORDERS[order])


def lock_object(lock: LockState) -> dict[str, Any]:
    """Return a lock as a JSON object; durations in seconds, times as unix seconds, no owner token."""
    holders = [holder_object(holder) for holder in lock.holders]
    return {
        "key": key_text(lock.key),
        "field": None if lock.field is None else key_text(lock.field),
        "prefix": label_text(lock.prefix),
        "dialect": lock.dialect,
        "state": lock.state,
        "evidence": [label_text(sentence) for sentence in lock.evidence],
        "ttl_seconds": _rounded(lock.ttl_seconds),
        "ttl_expected": lock.ttl_expected,
        "age_seconds": _rounded(lock.age_seconds),
        "age_at_least": lock.age_at_least,
        "expected_hold_seconds": _rounded(lock.expected_hold_seconds),
        "lease_seconds": _rounded(lock.lease_seconds),
        "renewals": lock.renewals,
        "weak_owner": lock.weak_owner,
        "holder": dict(holders[0]) if holders else holder_object(None),
        "holders": holders,
        "db": lock.db,
        "target": lock.target,
        "node": lock.node,
        "sampled_at": _rounded(lock.sampled_at),
    }


def holder_object(holder: Holder | None) -> dict[str, Any]:
    """Return a holder as a JSON object; every name is there, unknown ones are null."""
    known = holder or _UNKNOWN
    return {
        "host": _text(known.host),
        "pid": known.pid,
        "worker": known.worker,
        "job_type": _text(known.job_type),
        "job_id": _text(known.job_id),
        "fingerprint": known.fingerprint or None,
        "alive": known.alive,
        "gone_since": _rounded(known.gone_since),
        "started_at": _rounded(known.started_at),
        "count": known.count,
    }


def node_name(node: NodeStatus, nodes: Collection[NodeStatus]) -> str:
    """Name a node for people, with its target where there are several targets; not yet escaped.

    Args:
        node: the one to name.
        nodes: all that are told of, this one among them.
    """
    several = len({one.target for one in nodes}) > 1
    return f"{node.target} {node.node}" if several else node.node


def node_object(node: NodeStatus) -> dict[str, Any]:
    """Return the state of a node's sampling as a JSON object."""
    return {
        "target": node.target,
        "node": node.node,
        "up": node.up,
        "mode": node.mode,
        "age_seconds": _rounded(node.age_seconds),
        "error": node.error,
        "unreadable": node.unreadable,
        "warnings": list(node.warnings),
        "version": node.facts.version if node.facts else "",
    }


def family_object(family: Family) -> dict[str, Any]:
    """Return the running counts of a prefix as a JSON object; durations in seconds."""
    return {
        "prefix": label_text(family.prefix),
        "db": family.db,
        "target": family.target,
        "keys": [
            {"dialect": dialect, "state": state, "keys": number}
            for (dialect, state), number in family.keys.items()
        ],
        "known": family.known,
        "without_ttl": family.without_ttl,
        "oldest_age_seconds": _rounded(family.oldest_age),
        "ttl_min_seconds": _rounded(family.ttl_min),
        "expected_hold_seconds": _rounded(family.expected_hold),
        "weak_owner": family.weak_owner,
        "acquired": family.acquired,
        "renewed": family.renewed,
        "takeover": family.takeover,
        "ended": dict(family.ended),
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None or not math.isfinite(seconds) else round(seconds, _DECIMALS)


def _text(text: str | None) -> str | None:
    return None if text is None else label_text(text)

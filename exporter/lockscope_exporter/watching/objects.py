"""What an exporter says of locks in JSON, back as values: ``listing`` the other way round. Pure.

Whoever answers may be something else than an exporter, or one of another version: every value is checked
here, so that whatever shows it need not. Text that is shown as it stands is made harmless, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockscope_exporter.listing import STATES
from lockscope_exporter.state import Family, Holder, LockState, NodeStatus, ServerFacts
from lockscope_exporter.text import shown
from lockscope_exporter.watching.happenings import Happening

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockscope_exporter.state import Life, State

    Object = Mapping[str, Any]

_MOST = 1e17  # seconds: times and durations beyond are none; the longest TTL of Redis is 9.2e15
_MANY = 1 << 53  # counts beyond are none: JSON of other makers cannot write them exactly
_STATES: dict[str, State] = {state: state for state in STATES}
_LIVES: dict[str, Life] = {"alive": "alive", "gone": "gone", "unknown": "unknown"}
_ENDS = ("released", "expired", "evicted", "flushed")
_NAME = 200  # characters of a name
_SENTENCE = 1_000


def lock_of(found: Object) -> LockState:
    """Return a lock. Its value stays unknown, and fingerprints stand for the tokens of its holders.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: it is no lock in this form.
    """
    return LockState(
        key=text(found["key"]).encode(),
        field=_bytes(found["field"]),
        prefix=text(found["prefix"]),
        dialect=name(found["dialect"]),
        state=_STATES[found["state"]],
        evidence=tuple([text(one) for one in _list(found["evidence"])]),
        ttl_seconds=_seconds(found["ttl_seconds"]),
        ttl_expected=_flag(found["ttl_expected"]),
        age_seconds=_seconds(found["age_seconds"]),
        age_at_least=_flag(found["age_at_least"]),
        expected_hold_seconds=_seconds(found["expected_hold_seconds"]),
        lease_seconds=_seconds(found["lease_seconds"]),
        renewals=count(found["renewals"]),
        weak_owner=_flag(found["weak_owner"]),
        holders=tuple([_holder(one) for one in _list(found["holders"])]),
        db=count(found["db"]),
        target=name(found["target"]),
        node=name(found["node"]),
        sampled_at=_moment(found["sampled_at"]),
    )


def family_of(found: Object) -> Family:
    """Return the counts of a prefix, without the distribution of TTLs and ways to end that are not known."""
    return Family(
        prefix=text(found["prefix"]),
        db=count(found["db"]),
        target=name(found["target"]),
        keys={
            (name(one["dialect"]), _STATES[one["state"]]): count(one["keys"]) for one in _list(found["keys"])
        },
        known=_flag(found["known"]),
        without_ttl=count(found["without_ttl"]),
        oldest_age=_seconds(found["oldest_age_seconds"]),
        ttl_min=_seconds(found["ttl_min_seconds"]),
        ttl_buckets=(),
        ttl_sum=0.0,
        expected_hold=_seconds(found["expected_hold_seconds"]),
        weak_owner=count(found["weak_owner"]),
        acquired=count(found["acquired"]),
        renewed=count(found["renewed"]),
        takeover=count(found["takeover"]),
        ended={how: count(number) for how, number in found["ended"].items() if how in _ENDS},
    )


def node_of(found: Object) -> NodeStatus:
    """Return how sampling of a node stands."""
    version = name(found["version"])
    return NodeStatus(
        target=name(found["target"]),
        node=name(found["node"]),
        up=_flag(found["up"]),
        mode=name(found["mode"]),
        age_seconds=_seconds(found["age_seconds"]) or 0.0,
        error=sentence(found["error"]),
        warnings=tuple([sentence(one) for one in _list(found["warnings"])]),
        unreadable=count(found["unreadable"]),
        facts=ServerFacts(version=version) if version else None,
    )


def happening_of(found: Object) -> Happening:
    """Return something that happened."""
    return Happening(
        at=_moment(found["at"]),
        what=name(found["what"]),
        prefix=text(found["prefix"]),
        key=_bytes(found["key"]),
        field=_bytes(found["field"]),
        text=text(found["text"]),
        count=count(found["count"]),
    )


def text(value: object) -> str:
    """Return a value that is text, as it is: whatever shows it makes it harmless.

    Raises:
        TypeError: it is none.
    """
    if type(value) is not str:
        raise TypeError(f"{type(value).__name__} in place of text")
    return value


def name(value: object) -> str:
    """Return a value that is text, fit for showing as it is.

    Raises:
        TypeError: it is none.
    """
    return shown(text(value), _NAME)


def sentence(value: object) -> str:
    """Return a value that is text, fit for showing as it is.

    Raises:
        TypeError: it is none.
    """
    return shown(text(value), _SENTENCE)


def count(value: object) -> int:
    """Return a value that is a whole number and not negative.

    Raises:
        TypeError, ValueError: it is none.
    """
    found = _whole(value)
    if not 0 <= found < _MANY:
        raise ValueError("a number that is negative or far too large")
    return found


def _holder(found: Object) -> Holder:
    fingerprint = name(found["fingerprint"] or "")
    pid = found["pid"]
    return Holder(
        token=fingerprint.encode(),
        fingerprint=fingerprint,
        host=_maybe(found["host"]),
        pid=None if pid is None else _whole(pid),
        worker=None if found["worker"] is None else name(found["worker"]),
        job_type=_maybe(found["job_type"]),
        job_id=_maybe(found["job_id"]),
        started_at=_seconds(found["started_at"]),
        alive=_LIVES[found["alive"]],
        gone_since=_seconds(found["gone_since"]),
        count=_whole(found["count"]),
    )


def _bytes(value: object) -> bytes | None:
    return None if value is None else text(value).encode()


def _maybe(value: object) -> str | None:
    return None if value is None else text(value)


def _flag(value: object) -> bool:
    if type(value) is not bool:
        raise TypeError(f"{type(value).__name__} in place of true or false")
    return value


def _whole(value: object) -> int:
    """Return a whole number of any size: what a token says of its owner may be any."""
    if type(value) is not int:
        raise TypeError(f"{type(value).__name__} in place of a whole number")
    return value


def _seconds(value: object) -> float | None:
    return None if value is None else _moment(value)


def _moment(value: object) -> float:
    if type(value) is not float and type(value) is not int:
        raise TypeError(f"{type(value).__name__} in place of a number")
    if not -_MOST < value < _MOST:
        raise ValueError("a number of seconds that is none")
    return value


def _list(value: object) -> list[Any]:
    if type(value) is not list:
        raise TypeError(f"{type(value).__name__} in place of a list")
    return value

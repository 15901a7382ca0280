"""Value shapes: how a lock lies in a string, hash, sorted set or set. Dialects are built from these."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from lockscope_exporter.dialects import owners, values
from lockscope_exporter.dialects.model import MAX_MEMBERS, Finding
from lockscope_exporter.moments import moment

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable

    from lockscope.tokens import Owner
    from lockscope_exporter.dialects.model import Reading, Shape
    from lockscope_exporter.state import Holder


def _never(_value: bytes) -> bool:
    return False


def token(
    accepts: Callable[[bytes], bool],
    owner: Callable[[bytes, bytes], Owner] = owners.described,
    lenient: Callable[[bytes], bool] = values.is_token,
    *,
    weak: Callable[[bytes], bool] = _never,
    identity: Callable[[bytes], bytes] = bytes,
    note: str = "",
) -> Shape:
    """A string whose value is the owner token.

    Args:
        accepts: what a value must look like for the format to be recognised.
        owner: reads the owner from key and token.
        lenient: what else a value may look like when the user named the format.
        weak: tells of an accepted value that others would write the same; one that is only taken because
            the user named the format is judged by ``values.is_weak``.
        identity: the part of the value that changes exactly when the owner does.
        note: what to say about the lock.
    """

    def shape(reading: Reading, forced: bool) -> tuple[Finding, ...] | None:
        value = _string(reading)
        if value is None:
            return None
        recognised = accepts(value)
        if not recognised and not (forced and lenient(value)):
            return None
        held_by = owners.holder(value, owner(reading.key, value))
        shared = weak(value) if recognised else values.is_weak(value)
        return (Finding((held_by,), shared, identity(value), value, deadline=reading.deadline, note=note),)

    return shape


def constant(accepts: Callable[[bytes], bool], *, note: str = "") -> Shape:
    """A string that says only that the lock is held, and by nobody in particular.

    Args:
        accepts: what the value must look like, forced or not.
        note: what to say about the lock.
    """

    def shape(reading: Reading, _forced: bool) -> tuple[Finding, ...] | None:
        value = _string(reading)
        if value is None or not accepts(value):
            return None
        return (
            Finding((), weak_owner=True, identity=value, value=value, deadline=reading.deadline, note=note),
        )

    return shape


def counter(reading: Reading, _forced: bool) -> tuple[Finding, ...] | None:
    """A string that counts holders: 0 is free, and the count names nobody."""
    value = _string(reading)
    if value is None or not value.isdigit() or len(value) > 9:  # noqa: PLR2004
        return None
    holders = int(value)
    if holders == 0:
        return ()
    note = "" if holders == 1 else f"{holders} hold it at once; the count names none of them"
    return (Finding((), weak_owner=True, value=value, deadline=reading.deadline, note=note),)


def deadline_in_value(reading: Reading, _forced: bool) -> tuple[Finding, ...] | None:
    """A string that says from when the lock may be taken over, often without an expiry of the key."""
    value = _string(reading)
    until = moment(value.decode("ascii", "replace")) if value is not None else None
    if value is None or until is None or not values.is_number(value):
        return None
    if reading.read_at is not None and until <= reading.read_at:
        return ()
    ends = until if reading.deadline is None else min(until, reading.deadline)
    return (Finding((), identity=value, value=value, deadline=ends),)


def token_until(pattern: re.Pattern[bytes]) -> Shape:
    """A string of the owner token and the time from when the lock may be taken over; the key has no expiry.

    Args:
        pattern: the whole value, with groups ``token`` and ``end``.
    """

    def shape(reading: Reading, _forced: bool) -> tuple[Finding, ...] | None:
        value = _string(reading)
        found = pattern.fullmatch(value) if value is not None else None
        until = moment(found["end"].decode("ascii", "replace")) if found is not None else None
        if value is None or found is None or until is None:
            return None
        if reading.read_at is not None and until <= reading.read_at:
            return ()
        ends = until if reading.deadline is None else min(until, reading.deadline)
        held_by = owners.holder(value, owners.described(reading.key, found["token"]))
        return (Finding((held_by,), identity=found["token"], value=value, deadline=ends),)

    return shape


def beside(accepts: Callable[[bytes], bool]) -> Shape:
    """A string that stands beside a lock and is none, though its key might be another library's lock."""

    def shape(reading: Reading, _forced: bool) -> tuple[Finding, ...] | None:
        value = _string(reading)
        return () if value is not None and accepts(value) else None

    return shape


def hash_token(field: bytes, *others: bytes) -> Shape:
    """A hash that describes one lock, with its owner's token in a field.

    Args:
        field: the field of the token.
        others: fields that must be there as well.
    """

    def shape(reading: Reading, _forced: bool) -> tuple[Finding, ...] | None:
        fields = reading.value
        if (
            not isinstance(fields, dict)
            or not fields.get(field)
            or not all(name in fields for name in others)
        ):
            return None
        held_by = owners.holder(fields[field], owners.described(reading.key, fields[field]))
        return (Finding((held_by,), identity=fields[field], deadline=reading.deadline),)

    return shape


def hash_holders(
    member: re.Pattern[bytes],
    *,
    ignore: frozenset[bytes] = frozenset(),
    count: Callable[[bytes], int] | None = None,
    owner: Callable[[bytes, bytes], Owner] | None = None,
    require: bytes | None = None,
    slots: bool = False,
) -> Shape:
    """A hash whose fields are the holders.

    Args:
        member: what every field but the ignored ones must match whole.
        ignore: fields that are no holders, such as a mode.
        count: reads the re-entrancy count from a field's value; a count of 0 is no holder.
        owner: reads the owner from field and value.
        require: a field that must be there.
        slots: fields are reused by other owners, so their values belong to the identity.
    """

    def shape(reading: Reading, _forced: bool) -> tuple[Finding, ...] | None:
        fields = reading.value
        if not isinstance(fields, dict) or not 0 < len(fields) <= MAX_MEMBERS:
            return None
        if require is not None and require not in fields:
            return None
        held: list[Holder] = []
        for name, value in sorted(fields.items()):
            if name in ignore:
                continue
            if member.fullmatch(name) is None:
                return None
            times = count(value) if count is not None else 1
            if times > 0:
                said = owner(name, value) if owner is not None else owners.NOBODY
                held.append(owners.holder(name, said, times))
        if not held:
            return ()
        parts = [name + b"=" + value for name, value in sorted(fields.items())] if slots else None
        identity = b"\0".join(parts or [item.token for item in held])
        return (Finding(tuple(held), identity=identity, deadline=reading.deadline),)

    return shape


def hash_fields(matches: Callable[[bytes], bool], *, note: str = "") -> Shape:
    """A hash in which each field of a certain name is a lock of its own, held by nobody in particular."""

    def shape(reading: Reading, _forced: bool) -> tuple[Finding, ...] | None:
        if not isinstance(reading.value, dict):
            return None
        names = sorted(name for name in reading.value if matches(name))
        return tuple(
            Finding((), weak_owner=True, field=name, deadline=reading.deadline, note=note) for name in names
        )

    return shape


def zset_holders(
    member: Callable[[bytes], bool],
    *,
    ignore: frozenset[bytes] = frozenset(),
    never: float | None = None,
    owner: Callable[[bytes, bytes], Owner] = owners.described,
) -> Shape:
    """A sorted set whose members are the holders and whose scores are the times when each loses its hold.

    Scores may be epoch seconds or milliseconds. Members whose time has passed at ``read_at`` hold nothing:
    libraries remove them only when someone comes to acquire.

    Args:
        member: what every member but the ignored ones must look like.
        ignore: members that are no holders, such as a write marker.
        never: the score of a holder that never loses its hold.
        owner: reads the owner from key and member.
    """

    def shape(reading: Reading, _forced: bool) -> tuple[Finding, ...] | None:
        members = reading.value
        if not isinstance(members, tuple) or not 0 < len(members) <= MAX_MEMBERS:
            return None
        held: list[tuple[float, Holder]] = []
        for name, score in members:
            if name in ignore:
                continue
            until = math.inf if score == never else moment(score)
            if until is None or not member(name):
                return None
            if reading.read_at is None or until > reading.read_at:
                held.append((until, owners.holder(name, owner(reading.key, name))))
        return expiring(held, reading)

    return shape


def zset_since(member: Callable[[bytes], bool]) -> Shape:
    """A sorted set whose members are the holders and whose scores are the times since when each holds.

    Args:
        member: what every member must look like.
    """

    def shape(reading: Reading, _forced: bool) -> tuple[Finding, ...] | None:
        members = reading.value
        if not isinstance(members, tuple) or not 0 < len(members) <= MAX_MEMBERS:
            return None
        held = []
        for name, score in members:
            since = moment(score)
            if since is None or not member(name):
                return None
            said = owners.described(reading.key, name)
            held.append(owners.holder(name, replace(said, started_at=since)))
        held.sort(key=lambda one: one.token)
        identity = b"\0".join(one.token for one in held)
        return (Finding(tuple(held), identity=identity, deadline=reading.deadline),)

    return shape


def expiring(held: Iterable[tuple[float, Holder]], reading: Reading) -> tuple[Finding, ...]:
    """Return the lock of holders that lose their hold one by one, at the times given; ``()`` without any."""
    ordered = sorted(held, key=lambda pair: pair[1].token)
    if not ordered:
        return ()
    ends = min(
        max(until for until, _ in ordered), reading.deadline if reading.deadline is not None else math.inf
    )
    first = min(until for until, _ in ordered)
    return (
        Finding(
            tuple(replace(item, until=until if until < math.inf else None) for until, item in ordered),
            identity=b"\0".join(item.token for _, item in ordered),
            deadline=ends if ends < math.inf else None,
            next_change=first if first < ends else None,
        ),
    )


def set_holders(
    member: Callable[[bytes], bool], owner: Callable[[bytes, bytes], Owner] = owners.described
) -> Shape:
    """A set whose members are the holders."""

    def shape(reading: Reading, _forced: bool) -> tuple[Finding, ...] | None:
        members = reading.value
        if not isinstance(members, frozenset) or not 0 < len(members) <= MAX_MEMBERS:
            return None
        if not all(member(name) for name in members):
            return None
        ordered = sorted(members)
        held = tuple(owners.holder(name, owner(reading.key, name)) for name in ordered)
        return (Finding(held, identity=b"\0".join(ordered), deadline=reading.deadline),)

    return shape


def small_count(value: bytes) -> int:
    """Read a re-entrancy count; what is no count counts as one."""
    return int(value) if value.isdigit() and len(value) < 7 else 1  # noqa: PLR2004


@lru_cache(maxsize=64)
def exactly(*allowed: bytes) -> Callable[[bytes], bool]:
    """Return a test for being one of these values."""
    return frozenset(allowed).__contains__


def _string(reading: Reading) -> bytes | None:
    return reading.value if isinstance(reading.value, bytes) else None

"""The nouns of recognition: what was read, how to read it, what it means, and what a dialect is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from lockscope_exporter.state import Holder

Value = bytes | dict[bytes, bytes] | tuple[tuple[bytes, float], ...] | frozenset[bytes] | None
"""String, hash, sorted set as ``(member, score)``, set, or nothing read."""

MAX_VALUE = 1024
"""Bytes: a longer string is no owner token. ``describe`` writes at most 512; no library seen writes over 200."""

MAX_MEMBERS = 256
"""Fields or members: a larger hash, sorted set or set is no lock with holders."""

MAX_FIELDS = 20_000
"""Fields visited in a hash that holds several locks beside other data, such as Huey's results."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One key as it was read from Redis.

    Attributes:
        key: the full key.
        type: what the Redis command TYPE says.
        value: shaped by ``ReadPlan.shape``; strings may be cut after ``MAX_VALUE + 1`` bytes.
        deadline: unix time in seconds when the key expires, ``None`` if it never does.
        read_at: unix time in seconds of the reading, by the server's clock where known. Members of sorted
            sets carry expiries of their own that only this can judge; ``None`` believes them all alive.
    """

    key: bytes
    type: str
    value: Value
    deadline: float | None = None
    read_at: float | None = None


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """How to read one key without surprises, whatever it holds.

    ``command`` is sent as ``(command, key, *args)``. HSCAN and SSCAN are the only commands to repeat: the
    first of ``args`` is the cursor; go on until the server returns cursor 0 or ``limit`` fields were visited.
    Replies are those of raw RESP2 or RESP3: ``shape`` takes both.

    Attributes:
        command: GETRANGE, HSCAN, ZRANGE or SSCAN.
        args: arguments after the key.
        limit: bytes, or fields or members visited at most.
    """

    command: Literal["GETRANGE", "HSCAN", "ZRANGE", "SSCAN"]
    args: tuple[bytes | int, ...]
    limit: int


@dataclass(frozen=True, slots=True)
class Decoded:
    """One lock found in a reading.

    Attributes:
        dialect: name of the recognised format.
        field: the hash field that is the lock, where one key holds several.
        holders: everyone who holds it; empty where the format names no owner.
        ttl_expected: whether a lock of this format ought to have an expiry.
        weak_owner: the owner value is constant or shared, so a release cannot be verified.
        value: the exact bytes of a string lock, else ``None``.
        deadline: unix time in seconds when the lock ends by itself: the key's expiry, or that of the last
            member where members expire one by one.
        owner_identity: bytes that change exactly when ownership changes.
        started_at: unix time in seconds when the (first) acquire attempt began, if the value tells.
        renews: the library prolongs its locks by itself while the holder lives.
        next_change: unix time in seconds when the holders change next without any write, if before
            ``deadline``.
        note: a sentence about what the bytes do and do not tell, for ``why``; often empty.
    """

    dialect: str
    field: bytes | None = None
    holders: tuple[Holder, ...] = ()
    ttl_expected: bool = True
    weak_owner: bool = False
    value: bytes | None = None
    deadline: float | None = None
    owner_identity: bytes = b""
    started_at: float | None = None
    renews: bool = False
    next_change: float | None = None
    note: str = ""


class Release(StrEnum):
    """How an operator may free a lock safely."""

    COMPARE_AND_DELETE = "compare_and_delete"
    COMPARE_AND_DELETE_AND_SIGNAL = "compare_and_delete_and_signal"
    REDISSON_HASH = "redisson_hash"
    ZSET_MEMBER = "zset_member"
    HASH_FIELD = "hash_field"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a value shape makes of a reading, before the dialect's own facts are added."""

    holders: tuple[Holder, ...] = ()
    weak_owner: bool = False
    identity: bytes = b""
    value: bytes | None = None
    field: bytes | None = None
    deadline: float | None = None
    next_change: float | None = None
    note: str = ""


Shape = Callable[[Reading], tuple[Finding, ...]]
"""A value shape: the locks in a reading, ``()`` if these are not the bytes of one."""


@dataclass(frozen=True, slots=True)
class Form:
    """One way in which a dialect writes a lock.

    Attributes:
        type: Redis type of the key.
        shape: reads the value.
        keys: Redis globs of the keys; empty means any key, recognised by value alone.
        forced_keys: globs that a key must match when the dialect is forced; empty means any key.
        match: for a hash with several locks, the glob of the lock fields.
        ttl_expected: whether a missing expiry is a fault.
        renews: the library prolongs the lock by itself.
        release: the safe way to free it.
    """

    type: str
    shape: Shape
    keys: tuple[bytes, ...] = ()
    forced_keys: tuple[bytes, ...] = ()
    match: bytes | None = None
    ttl_expected: bool = True
    renews: bool = False
    release: Release = Release.COMPARE_AND_DELETE


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a library writes into Redis when it locks.

    Attributes:
        name: the ``dialect`` label, and the name in ``--locks PATTERN=NAME``.
        library: which libraries write it, in words.
        ecosystem: language or framework.
        forms: the ways it writes a lock, most specific first; empty for formats that look like locks but
            are none.
        companions: Redis globs of keys that belong to the library and are never locks. A key that is a
            lock of some form is none, so a companion glob may be broad.
        ttl_note: what to expect of the expiry, and how the library renews.
        release_note: what freeing a lock by hand takes.
    """

    name: str
    library: str
    ecosystem: str
    forms: tuple[Form, ...]
    companions: tuple[bytes, ...] = ()
    ttl_note: str = ""
    release_note: str = ""
    aliases: tuple[str, ...] = field(default=())

"""The nouns of recognition: what was read, how to read it, what it means, and what a dialect is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from lockscope_exporter.state import Holder

PLAIN_RELEASE = "Compare and delete, as the library itself does."
REDLOCK_RELEASE = "Compare and delete, on each of the independent servers that hold a copy."

Value = bytes | dict[bytes, bytes] | tuple[tuple[bytes, float], ...] | frozenset[bytes] | None
"""String, hash, sorted set as ``(member, score)``, set, or nothing read."""

MAX_VALUE = 1024
"""Bytes: a longer string is no owner token. lockscope's own have at most 512, libraries stay under 200."""

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
        value: what its type holds; strings may be cut after ``MAX_VALUE + 1`` bytes, and ``None`` is right
            for a type that is never read.
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
    first of ``args`` is the cursor; go on until the server returns cursor 0 or ``limit`` elements came back.

    Attributes:
        command: GETRANGE, HSCAN, ZRANGE or SSCAN.
        args: arguments after the key.
        limit: bytes, or fields or members to take at most. A string that is longer, or a hash, sorted set
            or set with more, holds no lock.
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
        owner_identity: bytes that change exactly when ownership changes: the token, or all members. A lock
            with several holders was taken over only if none of the earlier ones is left.
        started_at: unix time in seconds when the (first) acquire attempt began, if the value tells.
        renews: the library prolongs its locks by itself while the holder lives.
        next_change: unix time in seconds when the holders change next without any write, if before
            ``deadline``.
        note: a sentence about what the bytes do and do not tell, for ``why``; often empty.
        type: Redis type of the key.
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
    type: str = "string"


class Release(StrEnum):
    """How an operator may free a lock safely."""

    COMPARE_AND_DELETE = "compare_and_delete"
    """Delete the key only if it still holds the exact bytes seen."""
    COMPARE_AND_DELETE_AND_SIGNAL = "compare_and_delete_and_signal"
    """The same, and wake the library's waiters in one step, see ``Wake``."""
    REDISSON_HASH = "redisson_hash"
    """Delete the hash only if it still holds exactly the holders seen, and publish to the unlock channel."""
    ZSET_MEMBER = "zset_member"
    """Remove the holder's member from the sorted set, with the form's ``markers`` once no holder is left."""
    HASH_FIELD = "hash_field"
    """Delete the field of the hash."""
    NONE = "none"
    """No way is safe from outside; the dialect's note says what to do instead."""


@dataclass(frozen=True, slots=True)
class Wake:
    """How a library tells its waiters that a lock is free.

    Attributes:
        how: push to a list that waiters block on, or publish to a channel.
        strip: what the lock's key begins with before its name.
        target: where to push or publish; ``%b`` stands for the name.
        message: the element or message.
        braced: the name goes in braces, unless it has one of its own (a hash tag of Redis Cluster).
        reset: delete the list first.
        ttl_ms: expiry of the list in milliseconds, ``None`` for none.
    """

    how: Literal["push", "publish"]
    target: bytes
    strip: bytes = b""
    message: bytes = b"1"
    braced: bool = False
    reset: bool = False
    ttl_ms: int | None = None

    def where(self, key: bytes) -> bytes:
        """Return the list or channel for this key."""
        name = key.removeprefix(self.strip)
        return self.target % (b"{%b}" % name if self.braced and b"{" not in name else name)


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


Shape = Callable[[Reading, bool], tuple[Finding, ...] | None]
"""A value shape: the locks in a reading; ``()`` if it is of this shape but nobody holds it; ``None`` if not.

The second argument says that the user named the dialect, so a value that others could have written counts.
"""


@dataclass(frozen=True, slots=True)
class Form:
    """One way in which a dialect writes a lock.

    Attributes:
        type: Redis type of the key.
        shape: reads the value.
        keys: Redis globs of the keys; empty means any key, recognised by its value alone.
        forced_keys: globs that a key must match when the user named the dialect, for custom prefixes; empty
            means any key that is no companion.
        only_forced: nothing in the bytes tells this format from others; used only where the user named it.
        match: for a hash with several locks, the glob of the lock fields.
        ttl_expected: whether a missing expiry is a fault.
        renews: the library prolongs the lock by itself while the holder lives.
        release: the safe way to free it.
        wake: how the library's waiters are woken, where releasing must do that.
        markers: members of a sorted set that are no holders.
        example: a key, as the documentation shows it.
    """

    type: str
    shape: Shape
    keys: tuple[bytes, ...] = ()
    forced_keys: tuple[bytes, ...] = ()
    only_forced: bool = False
    match: bytes | None = None
    ttl_expected: bool = True
    renews: bool = False
    release: Release = Release.COMPARE_AND_DELETE
    wake: Wake | None = None
    markers: tuple[bytes, ...] = ()
    example: str = ""


@dataclass(frozen=True, slots=True)
class Dialect:
    """A lock format, named after the library that it is best known from.

    Attributes:
        name: the ``dialect`` label, and the name in ``--locks PATTERN=NAME``.
        library: which libraries write these bytes, in words.
        ecosystem: language.
        forms: the ways it writes a lock, most specific first; empty for keys that look like locks and are
            none.
        companions: Redis globs of keys of the library that are never locks. Where a form's glob matches too,
            the one with the longer fixed beginning wins and a draw goes to the form, so these may be broad.
        ttl: what to expect of the expiry, and how the library renews.
        release: what freeing a lock by hand takes.
        aliases: other names that the user may say.
    """

    name: str
    library: str
    ecosystem: str
    forms: tuple[Form, ...]
    companions: tuple[bytes, ...] = ()
    ttl: str = ""
    release: str = PLAIN_RELEASE
    aliases: tuple[str, ...] = ()

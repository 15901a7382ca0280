"""Lock formats of .NET libraries."""

from __future__ import annotations

import re

from lockscope.tokens import Owner
from lockscope_exporter.dialects import owners, values
from lockscope_exporter.dialects.model import REDLOCK_RELEASE, Dialect, Form, Release
from lockscope_exporter.dialects.shapes import set_holders, token, zset_holders

_WAITING = b"_WRITERWAITING"
_MACHINE = re.compile(rb"(?=.*[A-Za-z])[A-Za-z0-9][A-Za-z0-9.-]{0,62}")


def _lock_id(value: bytes) -> bool:
    """A writer that waits for readers marks the key as well, but holds nothing yet."""
    return owners.medallion_owner(value) is not None and not value.endswith(_WAITING)


def _lenient_id(value: bytes) -> bool:
    return values.is_token(value) and not value.endswith(_WAITING)


def _machine(key: bytes, value: bytes) -> Owner:
    """The value is the caller's choice; the documentation's own is the machine's name."""
    said = owners.described(key, value)
    if said == owners.NOBODY and not values.is_random(value) and _MACHINE.fullmatch(value) is not None:
        return Owner(host=values.text(value))
    return said


DIALECTS = (
    Dialect(
        "hangfire-redis",
        "Hangfire.Redis.StackExchange",
        ".NET",
        (
            Form(
                "string",
                token(values.is_uuid),
                keys=(b"{hangfire}:*lock*", b"hangfire:*lock*"),
                forced_keys=(b"*lock*",),
                renews=True,
                example="{hangfire}:recurring-jobs:lock",
            ),
        ),
        companions=(b"{hangfire}:*", b"hangfire:*"),
        ttl="Always set, 30 s, renewed at half of it.",
        release="Compare and delete. The value names the process, so all its locks share it.",
        aliases=("hangfire",),
    ),
    Dialect(
        "medallion-distributedlock",
        "DistributedLock.Redis (Medallion)",
        ".NET",
        (
            Form("string", token(_lock_id, lenient=_lenient_id), renews=True, example="name"),
            Form(
                "zset",
                zset_holders(_lock_id),
                renews=True,
                release=Release.ZSET_MEMBER,
                example="name (semaphore)",
            ),
            Form("set", set_holders(_lock_id), renews=True, release=Release.NONE, example="name.readers"),
        ),
        ttl="Always set, 30 s by default, renewed at a third of it. Every holder of a semaphore has its own "
        "end, the score.",
        release="Compare and delete; of a semaphore, remove the member. Readers: they leave by themselves.",
        aliases=("medallion",),
    ),
    Dialect(
        "stackexchange.redis",
        "StackExchange.Redis `LockTake`",
        ".NET",
        (
            Form(
                "string",
                token(values.is_token, _machine, weak=values.is_weak),
                only_forced=True,
                example="key",
            ),
        ),
        ttl="Always set. Renewed by `LockExtend`, never by itself.",
        release="Compare and delete, as `LockRelease` does. A machine's name as value is shared by all its "
        "processes.",
        aliases=("stackexchange",),
    ),
    Dialect(
        "redlock.net",
        "RedLock.net",
        ".NET",
        (Form("string", token(values.is_uuid), only_forced=True, renews=True, example="redlock:printer"),),
        ttl="Always set; a timer renews it at half of it.",
        release=REDLOCK_RELEASE,
    ),
)

"""Lock formats of PHP libraries."""

from __future__ import annotations

import re

from lockscope.tokens import Owner
from lockscope_exporter.dialects import values
from lockscope_exporter.dialects.model import Dialect, Form, Release
from lockscope_exporter.dialects.shapes import token, zset_holders

# 16 letters and digits, bare or as phpredis stores them with its PHP, JSON, msgpack or igbinary serialiser.
_OWNER = re.compile(
    rb"(?P<bare>[A-Za-z0-9]{16})"
    rb'|(?:s:16:"|"|\xb0|\x00\x00\x00\x02\x11\x10)(?P<inner>[A-Za-z0-9]{16})(?:";|")?',
)
_GUARD = re.compile(rb"(?:laravel_unique_job|laravel-queue-overlap):([A-Za-z_][\w\\]{0,200})(?::|$)")
_SYMFONY = re.compile(rb"[A-Za-z0-9+/]{43}=")
_WRITE = b"__write__"


def _laravel(value: bytes) -> bool:
    """Tell a lock's owner from a cached value.

    The cache serialises every string before it stores it, so a bare one is an owner; a serialised one must
    look drawn at random.
    """
    found = _OWNER.fullmatch(value)
    if found is None:
        return False
    return values.mixed(found["inner"]) if found["inner"] else not value.isdigit()


def _laravel_lenient(value: bytes) -> bool:
    return _OWNER.fullmatch(value) is not None or values.is_token(value)


def _guarded_job(key: bytes, _value: bytes) -> Owner:
    found = _GUARD.search(key)
    return Owner(job_type=values.text(found[1])) if found is not None and b"\\" in found[1] else Owner()


def _symfony(value: bytes) -> bool:
    return _SYMFONY.fullmatch(value) is not None


_LARAVEL = token(_laravel, _guarded_job, _laravel_lenient)

DIALECTS = (
    Dialect(
        "laravel",
        "Laravel `Cache::lock`, unique jobs, `WithoutOverlapping`, `onOneServer`",
        "PHP",
        (
            Form(
                "string",
                _LARAVEL,
                keys=(
                    b"*laravel_unique_job:*",
                    b"*laravel-queue-overlap:*",
                    b"*framework/schedule-*",
                    b"*[-_]database[-_]*",
                    b"*[-_]cache[-_]*",
                    b"*[-_]cache:*",
                ),
                example="laravel_database_laravel_cache:processing",
            ),
        ),
        ttl="Set from the seconds given; 0 and `WithoutOverlapping` without `expireAfter` set none: a fault, "
        "a job killed by its timeout keeps the lock for good.",
        release="Compare and delete the exact bytes: a serialiser on the connection quotes them, and then "
        "Laravel's own comparison never matches.",
    ),
    Dialect(
        "symfony-lock",
        "Symfony Lock `RedisStore`",
        "PHP",
        (
            Form(
                "zset",
                zset_holders(_symfony, ignore=frozenset((_WRITE,))),
                release=Release.ZSET_MEMBER,
                markers=(_WRITE,),
                example="invoice",
            ),
            Form("string", token(_symfony), example="invoice (before Symfony 5.2)"),
        ),
        ttl="Always set, 5 min by default; every holder of a shared lock has its own end, the score. Renewed "
        "by `refresh`, never by itself.",
        release="Remove the member, and the marker `__write__` with it.",
        aliases=("symfony",),
    ),
    Dialect(
        "symfony-semaphore",
        "Symfony Semaphore `RedisStore`",
        "PHP",
        (
            Form(
                "zset",
                zset_holders(_symfony),
                keys=(b"*:time",),
                forced_keys=(b"*:time",),
                release=Release.NONE,
                example="pool:time",
            ),
        ),
        ttl="Always set, 5 min by default; every holder has its own end, the score.",
        release="Not from outside: the member is in two sorted sets, `<name>:time` and `<name>:weight`. It "
        "ends by itself at its score.",
    ),
)

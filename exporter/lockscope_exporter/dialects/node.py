"""Lock formats of Node.js libraries."""

from __future__ import annotations

import re

from lockscope.tokens import Owner
from lockscope_exporter.dialects import values
from lockscope_exporter.dialects.model import REDLOCK_RELEASE, Dialect, Form, Release
from lockscope_exporter.dialects.shapes import constant, token, zset_since

_WORKER = re.compile(values.UUID.pattern + rb":\d{1,9}", re.IGNORECASE)
_IDENTIFIER = re.compile(values.UUID.pattern + rb"(?:-[\x21-\x7e]{1,100})?(?:_\d{1,4})?", re.IGNORECASE)
_MILLIS = re.compile(rb"1\d{12}")


def _worker_token(value: bytes) -> bool:
    return _WORKER.fullmatch(value) is not None


def _bull_token(value: bytes) -> bool:
    return _worker_token(value) or values.is_uuid(value)


def _millis(value: bytes) -> bool:
    return _MILLIS.fullmatch(value) is not None


def _identifier(value: bytes) -> bool:
    return _IDENTIFIER.fullmatch(value) is not None


def _locked_job(key: bytes, _value: bytes) -> Owner:
    """Read the job from ``<prefix>:<queue>:<job>:lock``; ids of repeated jobs have colons of their own."""
    parts = key.removesuffix(b":lock").split(b":")
    start = parts.index(b"repeat", 2) if b"repeat" in parts[2:] else -1
    return Owner(job_id=values.text(b":".join(parts[start:])))


def _first_job(_key: bytes, value: bytes) -> Owner:
    return Owner(job_id=values.text(value))


DIALECTS = (
    Dialect(
        "bullmq",
        "BullMQ; Bull 3 and 4 write the same keys",
        "Node.js",
        (
            Form(
                "string",
                token(_bull_token, _locked_job),
                keys=(b"bull:*:lock",),
                forced_keys=(b"*:lock",),
                renews=True,
                example="bull:mail:j-42:lock",
            ),
            Form(
                "string",
                token(_worker_token, _locked_job),
                keys=(b"*:*:*:lock",),
                forced_keys=(b"*:lock",),
                renews=True,
                example="myprefix:mail:j-42:lock",
            ),
            Form(
                "string",
                token(bool, _first_job, bool),
                keys=(b"bull:*:de:*",),
                forced_keys=(b"*:de:*",),
                ttl_expected=False,
                example="bull:mail:de:cust-1",
            ),
        ),
        companions=(b"bull:*",),
        ttl="A job's lock lasts 30 s and is renewed every 15 s. A deduplication key (`de`) without `ttl` "
        "stays until its job ends: normal.",
        release="Compare and delete. The stalled check then hands the job to another worker, even if the "
        "first still runs.",
        aliases=("bull",),
    ),
    Dialect(
        "bee-queue",
        "Bee-Queue `stallBlock` guard: once an interval, never released, no lock",
        "Node.js",
        (),
        companions=(b"bq:*",),
    ),
    Dialect(
        "redis-lock(npm)",
        "redis-lock for Node.js",
        "Node.js",
        (
            Form(
                "string",
                constant(_millis, note="the value is the time when the lock ends, in milliseconds; no owner"),
                keys=(b"lock.*",),
                example="lock.myLock",
            ),
        ),
        ttl="Always set, 5 s by default. Never renewed.",
        release="Compare and delete. The library itself deletes without comparing.",
        aliases=("redis-lock",),
    ),
    Dialect(
        "redis-semaphore(npm)",
        "redis-semaphore for Node.js",
        "Node.js",
        (
            Form("string", token(_identifier), keys=(b"mutex:*",), renews=True, example="mutex:report"),
            Form(
                "zset",
                zset_since(_identifier),
                keys=(b"semaphore:*",),
                renews=True,
                release=Release.ZSET_MEMBER,
                example="semaphore:pool",
            ),
        ),
        ttl="Always set, 10 s by default, renewed at four fifths of it. The scores of a semaphore say since "
        "when each holds.",
        release="Compare and delete; of a semaphore, remove the member.",
        aliases=("redis-semaphore-npm",),
    ),
    Dialect(
        "ioredis-lock",
        "ioredis-lock; others that write a UUIDv1 with dashes",
        "Node.js",
        (Form("string", token(values.is_uuid1_dashed), example="app:feature:lock"),),
        ttl="Always set, 10 s by default. Renewed by `extend`, never by itself.",
    ),
    Dialect(
        "node-redlock",
        "redlock for Node.js (4, 5 and forks); others that write 16 random bytes in hex",
        "Node.js",
        (Form("string", token(values.is_random_hex), example="locks:account:1"),),
        ttl="Always set. `using` renews it half a second before the end; otherwise only `extend` does.",
        release=REDLOCK_RELEASE,
    ),
)

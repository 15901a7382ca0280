"""Lock formats of Go libraries."""

from __future__ import annotations

import re

from lockscope.tokens import Owner
from lockscope_exporter.dialects import owners, values
from lockscope_exporter.dialects.model import REDLOCK_RELEASE, Dialect, Form, Release
from lockscope_exporter.dialects.shapes import constant, counter, exactly, token

_RUEIDIS = 24  # random bytes
_TOKEN = 22  # characters of 16 random bytes in URL-safe base64 without padding
_B64URL = re.compile(rb"[A-Za-z0-9_-]{22}")
_B64_16 = re.compile(rb"[A-Za-z0-9+/]{21}[AQgw]==")


def _redsync(value: bytes) -> bool:
    return _B64_16.fullmatch(value) is not None


def _rueidis(value: bytes) -> bool:
    return len(value) == _RUEIDIS


def _bsm(value: bytes) -> bool:
    """16 random bytes in URL-safe base64, then whatever metadata the caller gave.

    Without metadata a token of letters and digits may be redlock-py's as well: not claimed. With metadata
    its text must show where the token ends: by a character that no token has.
    """
    head, metadata = value[:_TOKEN], value[_TOKEN:]
    if _B64URL.fullmatch(head) is None or not values.mixed(head) or owners.medallion_owner(value):
        return False
    if metadata:
        return re.search(rb"[^A-Za-z0-9_-]", metadata) is not None
    return head[-1:] in b"AQgw" and re.search(rb"[_-]", head) is not None


def _bsm_lenient(value: bytes) -> bool:
    return len(value) >= _TOKEN and values.is_token(value)


def _bsm_owner(key: bytes, value: bytes) -> Owner:
    metadata = value[_TOKEN:]
    return owners.pairs_owner(metadata) or owners.described(key, metadata)


def _task(_key: bytes, value: bytes) -> Owner:
    return Owner(job_id=values.text(value))


DIALECTS = (
    Dialect(
        "asynq",
        "Asynq unique tasks",
        "Go",
        (
            Form(
                "string",
                token(values.is_token, _task),
                keys=(b"asynq:{*}:unique:*",),
                forced_keys=(b"*:unique:*",),
                example="asynq:{default}:unique:email:send:4f2b…",
            ),
        ),
        companions=(b"asynq:*",),
        ttl="Always set, the `Unique` option. Never renewed, so a longer task may get a twin.",
        release="Compare and delete. The value is the id of the task that is queued or runs.",
    ),
    Dialect(
        "gocraft-work",
        "gocraft/work `MaxConcurrency` and `EnqueueUnique`",
        "Go",
        (
            Form(
                "string",
                counter,
                keys=(b"work:jobs:*:lock",),
                forced_keys=(b"*:jobs:*:lock",),
                ttl_expected=False,
                release=Release.NONE,
                example="work:jobs:send:lock",
            ),
            Form(
                "string",
                constant(exactly(b"1"), note="the library stores no owner"),
                keys=(b"work:unique:*",),
                forced_keys=(b"*:unique:*",),
                example='work:unique:send:{"a":1}',
            ),
        ),
        companions=(
            b"work:jobs:*",
            b"work:known_jobs",
            b"work:worker_pools*",
            b"work:worker:*",
            b"work:retry",
            b"work:scheduled",
            b"work:dead",
            b"work:last_periodic_enqueue",
        ),
        ttl="The counter of running jobs has none, which is normal; a unique key lasts a day.",
        release="The counter: not by hand, it must agree with the hash `…:lock_info`; the reaper of dead "
        "pools does that. A unique key: compare and delete.",
    ),
    Dialect(
        "rueidislock",
        "rueidislock",
        "Go",
        (
            Form(
                "string",
                token(
                    _rueidis,
                    note="one of several keys of the lock, three by default; a majority of them holds it",
                ),
                keys=(b"rueidislock:[0-9]*:*",),
                forced_keys=(b"*:[0-9]*:*",),
                renews=True,
                example="rueidislock:0:report",
            ),
        ),
        ttl="Always set, 5 s by default, renewed at half of it.",
        release="Compare and delete, each of its keys.",
    ),
    Dialect(
        "redsync",
        "redsync; others that write 16 random bytes in padded base64",
        "Go",
        (Form("string", token(_redsync), example="my-global-mutex"),),
        ttl="Always set, 8 s by default. Renewed by `Extend`, never by itself.",
        release=REDLOCK_RELEASE,
    ),
    Dialect(
        "bsm-redislock",
        "bsm/redislock",
        "Go",
        (Form("string", token(_bsm, _bsm_owner, _bsm_lenient), example="my-key"),),
        ttl="Always set. Renewed by `Refresh`, never by itself. Metadata like `host=web-1 pid=42` is read.",
        aliases=("redislock",),
    ),
)

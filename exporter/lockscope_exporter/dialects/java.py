"""Lock formats of Java libraries."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockscope_exporter.dialects import owners, values
from lockscope_exporter.dialects.model import Dialect, Form, Release, Wake
from lockscope_exporter.dialects.shapes import (
    hash_holders,
    hash_token,
    small_count,
    token,
    token_until,
    zset_holders,
)

if TYPE_CHECKING:
    from lockscope.tokens import Owner

_THREAD = re.compile(values.UUID.pattern + rb":\d{1,19}", re.IGNORECASE)
_THREAD_OR_WRITER = re.compile(_THREAD.pattern + rb"(?::write)?", re.IGNORECASE)
_JEDIS = re.compile(rb"(?P<token>" + values.UUID.pattern + rb"):(?P<end>\d{13})", re.IGNORECASE)
_NO_LEASE = 922337203685477.0  # the end, in milliseconds, of a permit without lease time
_WATCHDOG = (
    "30 s by default, and a watchdog renews every 10 s while the client lives; with a `leaseTime` never."
)


def _permit(member: bytes) -> bool:
    return values.HEX32.fullmatch(member) is not None


def _shedlock(value: bytes) -> bool:
    return owners.shedlock_owner(value) is not None


def _shedlock_owner(_key: bytes, value: bytes) -> Owner:
    return owners.shedlock_owner(value) or owners.NOBODY


def _anything(_value: bytes) -> bool:
    return True


# The instant is written anew when the lock is prolonged, so the host alone is its owner.
_SHEDLOCK = token(_shedlock, _shedlock_owner, identity=lambda value: value.partition(b"@")[2])
_CHANNEL = Wake("publish", b"redisson_lock__channel:%b", message=b"0", braced=True)
_HOLDER = hash_holders(_THREAD, count=small_count)

DIALECTS = (
    Dialect(
        "redisson-rwlock",
        "Redisson `RReadWriteLock`",
        "Java",
        (
            Form(
                "hash",
                hash_holders(
                    _THREAD_OR_WRITER, ignore=frozenset((b"mode",)), count=small_count, require=b"mode"
                ),
                renews=True,
                release=Release.NONE,
                example="rw",
            ),
        ),
        companions=(b"*:rwlock_timeout:*",),
        ttl=_WATCHDOG,
        release="Not from outside: every hold of a reader has a timeout key of its own "
        "(`{name}:<holder>:rwlock_timeout:<n>`). Use `forceUnlock()`.",
    ),
    Dialect(
        "redisson-rlock",
        "Redisson `RLock`; fair, fenced and spin locks leave the same hash",
        "Java",
        (
            Form(
                "hash",
                _HOLDER,
                renews=True,
                release=Release.REDISSON_HASH,
                wake=_CHANNEL,
                example="myLock",
            ),
        ),
        companions=(
            b"redisson_lock_queue:*",
            b"redisson_lock_timeout:*",
            b"redisson_lock_token:*",
            b"redisson_unlock_latch:*",
            b"redisson__*",
        ),
        ttl=_WATCHDOG,
        release="Delete the hash if it still has exactly this holder and count, and publish 0 to "
        "`redisson_lock__channel:{name}`. If `redisson_lock_queue:{name}` exists it is a fair lock.",
        aliases=("redisson",),
    ),
    Dialect(
        "redisson-fairlock",
        "Redisson `getFairLock`",
        "Java",
        (Form("hash", _HOLDER, only_forced=True, renews=True, release=Release.NONE, example="myLock"),),
        ttl=_WATCHDOG,
        release="Not from outside: the next waiter in `redisson_lock_queue:{name}` listens on a channel of "
        "its own. Use `forceUnlock()`.",
    ),
    Dialect(
        "redisson-fencedlock",
        "Redisson `getFencedLock`",
        "Java",
        (
            Form(
                "hash",
                _HOLDER,
                only_forced=True,
                renews=True,
                release=Release.REDISSON_HASH,
                wake=_CHANNEL,
                example="myLock",
            ),
        ),
        ttl=_WATCHDOG,
        release="As redisson-rlock; the fencing counter `redisson_lock_token:{name}` stays.",
    ),
    Dialect(
        "redisson-permit-semaphore",
        "Redisson `RPermitExpirableSemaphore`",
        "Java",
        (
            Form(
                "zset",
                zset_holders(_permit, never=_NO_LEASE),
                keys=(b"*}:timeout",),
                forced_keys=(b"*:timeout",),
                release=Release.NONE,
                example="{psem}:timeout",
            ),
        ),
        ttl="The key has none; every permit has its own end, the score. Without lease time it never ends: "
        "a fault.",
        release="Not from outside: the permit must also be given back to the counter `<name>`. Use "
        "`release(permitId)`.",
    ),
    Dialect(
        "redisson-semaphore",
        "Redisson `RSemaphore`: a counter of free permits that names no holder, no lock",
        "Java",
        (),
    ),
    Dialect(
        "shedlock",
        "ShedLock Redis providers",
        "Java",
        (
            Form(
                "string",
                _SHEDLOCK,
                keys=(b"job-lock:*",),
                example="job-lock:default:nightly-report",
            ),
            Form("string", _SHEDLOCK, example="any prefix"),
        ),
        ttl="Always set, `lockAtMostFor`. After the task the key stays until `lockAtLeastFor`: held, though "
        "nothing runs.",
        release="Compare and delete. Rewritten at unlock while `lockAtLeastFor` lasts.",
    ),
    Dialect(
        "jetcache",
        "JetCache, the lock around refreshing a value",
        "Java",
        (
            Form(
                "string",
                token(_anything, lenient=_anything),
                keys=(b"*_#RL#",),
                forced_keys=(b"*_#RL#",),
                example="user.42_#RL#",
            ),
        ),
        companions=(b"*_#TS#",),
        ttl="Always set, a minute by default. Never renewed.",
    ),
    Dialect(
        "jedis-lock",
        "Jedis-Lock",
        "Java",
        (Form("string", token_until(_JEDIS), ttl_expected=False, example="my-lock"),),
        ttl="The key has none, which is normal: the value ends with the time when it may be taken over.",
    ),
    Dialect(
        "seata",
        "Apache Seata, row locks of global transactions",
        "Java",
        (
            Form(
                "hash",
                hash_token(b"xid", b"rowKey"),
                keys=(b"SEATA_ROW_LOCK_*",),
                ttl_expected=False,
                release=Release.NONE,
                example="SEATA_ROW_LOCK_jdbc:mysql://db/shop^^^orders^^^42",
            ),
        ),
        companions=(b"SEATA_*",),
        ttl="None, which is normal for it: the transaction frees its rows when it ends.",
        release="Not by hand: the transaction has a list of its rows. End the transaction instead.",
    ),
    Dialect(
        "spring-integration",
        "Spring Integration `RedisLockRegistry`",
        "Java",
        (Form("string", token(values.is_uuid), only_forced=True, example="app-locks:order-1"),),
        ttl="Always set, 60 s by default; renewed every third of it only with a renewal scheduler.",
        release="Compare and delete. The value names the registry, so all its locks share it. Waiters of the "
        "publish/subscribe kind learn of it from `<registry>-channel`, or try again after the expiry.",
        aliases=("spring",),
    ),
)

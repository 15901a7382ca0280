"""Lock formats of Python libraries."""

from __future__ import annotations

from lockscope.tokens import Owner
from lockscope_exporter.dialects import values
from lockscope_exporter.dialects.model import REDLOCK_RELEASE, Dialect, Form, Release, Wake
from lockscope_exporter.dialects.shapes import constant, counter, hash_fields, token

_B64_18 = 24  # characters of 18 random bytes in base64
_URANDOM = 32  # bytes


def _python_redis_lock(value: bytes) -> bool:
    return len(value) == _B64_18 and b"=" not in value and values.is_random(value)


def _walrus(value: bytes) -> bool:
    return len(value) == _URANDOM and not values.is_word(value)


def _redlock_py(value: bytes) -> bool:
    """22 letters and digits, and not what 16 bytes in base64 may look like, see bsm-redislock."""
    return len(value) == 22 and value.isalnum() and values.mixed(value) and value[-1:] not in b"AQgw"  # noqa: PLR2004


def _task_id(_key: bytes, value: bytes) -> Owner:
    return Owner(job_id=values.text(value))


def _arq_job(key: bytes, _value: bytes) -> Owner:
    return Owner(job_id=values.text(key.partition(b"in-progress:")[2]) or None)


def _nobody(_key: bytes, _value: bytes) -> Owner:
    return Owner()


def _huey_field(field: bytes) -> bool:
    return b".lock." in field


def _anything(_value: bytes) -> bool:
    return True


REDIS_PY = token(values.is_redis_py)
_NOBODY = "the library stores no owner: nothing in Redis tells who holds it"

DIALECTS = (
    Dialect(
        "django-redis",
        "django-redis `cache.lock` (a redis-py lock behind a cache key)",
        "Python",
        (Form("string", REDIS_PY, keys=(b":[0-9]*:*",), example=":1:invoice"),),
        ttl="`timeout=None`, the default, sets no expiry: a fault, the lock outlives its holder.",
    ),
    Dialect(
        "dogpile.cache",
        "dogpile.cache with `distributed_lock=True`",
        "Python",
        (Form("string", REDIS_PY, keys=(b"_lock*",), example="_lockuser:1"),),
        ttl="Set from `lock_timeout`; without it a killed creator blocks the value for good: a fault.",
    ),
    Dialect(
        "celery-once",
        "celery-once",
        "Python",
        (Form("string", REDIS_PY, keys=(b"qo_*",), example="qo_tasks.slow_a-1"),),
        ttl="Always set, 1 h unless told otherwise. Never renewed, so a longer task runs unguarded.",
        release="Compare and delete. The library itself deletes without comparing.",
    ),
    Dialect(
        "celery-singleton",
        "celery-singleton",
        "Python",
        (
            Form(
                "string",
                token(values.is_token, _task_id),
                keys=(b"*SINGLETONLOCK_*",),
                ttl_expected=False,
                example="SINGLETONLOCK_f4c48044f5bedef8b710bf871ba28fae",
            ),
        ),
        ttl="None unless `lock_expiry` is set, which is normal for it: the task frees it when it ends.",
        release="Compare and delete. The value is the id of the task that is queued or runs.",
    ),
    Dialect(
        "celery-redbeat",
        "celery-redbeat",
        "Python",
        (
            Form(
                "string",
                REDIS_PY,
                keys=(b"redbeat::lock",),
                forced_keys=(b"*:lock",),
                renews=True,
                example="redbeat::lock",
            ),
        ),
        companions=(b"redbeat:*",),
        ttl="Five times the longest loop interval, 25 min by default; renewed at every loop.",
        release="Compare and delete; a scheduler that still runs then stops with LockNotOwnedError.",
    ),
    Dialect(
        "kombu-redis-transport",
        "kombu (Celery) Redis transport, the mutex around restoring unacknowledged messages",
        "Python",
        (Form("string", REDIS_PY, keys=(b"unacked_mutex", b"*unacked_mutex"), example="unacked_mutex"),),
        companions=(
            b"_kombu.binding.*",
            b"unacked",
            b"unacked_index",
            b"celery-task-meta-*",
            b"celery-taskset-meta-*",
        ),
        ttl="Always set, 5 min by default. Never renewed.",
    ),
    Dialect(
        "taskiq-redis",
        "taskiq-redis stream broker, the lock around claiming abandoned messages",
        "Python",
        (Form("string", REDIS_PY, keys=(b"autoclaim:*",), example="autoclaim:taskiq:taskiq"),),
        ttl="None unless `unacknowledged_lock_timeout` is set: a fault, a killed worker stops the claiming.",
    ),
    Dialect(
        "rq",
        "RQ scheduler",
        "Python",
        (
            Form(
                "string",
                token(
                    values.is_token,
                    note="the value names the scheduler; host and pid are in the hash rq:scheduler:<value>",
                ),
                keys=(b"rq:scheduler-lock:*",),
                forced_keys=(b"*scheduler-lock:*",),
                renews=True,
                example="rq:scheduler-lock:default",
            ),
        ),
        companions=(b"rq:*",),
        ttl="Always set, a minute or more, renewed at every heartbeat of the scheduler.",
    ),
    Dialect(
        "rq-scheduler",
        "rq-scheduler",
        "Python",
        (
            Form(
                "string",
                token(_anything, _nobody, _anything, weak=values.is_weak),
                keys=(b"rq:scheduler_lock", b"rq:scheduler:scheduler_lock"),
                forced_keys=(b"*scheduler_lock",),
                example="rq:scheduler_lock",
            ),
        ),
        ttl="Always set, the polling interval and 10 s.",
        release="Compare and delete. The library itself deletes without comparing.",
    ),
    Dialect(
        "arq",
        "arq, the marker of a job in progress",
        "Python",
        (
            Form(
                "string",
                token(values.is_constant, _arq_job, _anything, weak=_anything),
                keys=(b"arq:in-progress:*",),
                forced_keys=(b"*in-progress:*",),
                example="arq:in-progress:job-42",
            ),
        ),
        companions=(b"arq:*",),
        ttl="Always set, the job's timeout and 10 s. Never renewed.",
        release="Compare and delete, but everyone writes the same value. Another worker then starts the job.",
    ),
    Dialect(
        "huey",
        "Huey `lock_task`",
        "Python",
        (
            Form(
                "hash",
                hash_fields(_huey_field, note=_NOBODY),
                keys=(b"huey.results.*",),
                match=b"*.lock.*",
                ttl_expected=False,
                release=Release.HASH_FIELD,
                example="huey.results.app, field app.lock.nightly",
            ),
            Form(
                "string",
                constant(_anything, note=_NOBODY),
                keys=(b"huey.r.*.lock.*",),
                forced_keys=(b"*.lock.*",),
                ttl_expected=False,
                example="huey.r.app.app.lock.nightly",
            ),
        ),
        companions=(b"huey.*",),
        ttl="A hash field cannot expire, so none is normal; with `RedisExpireHuey` only if `ttl` is given.",
        release="Delete the field (or key). No owner is stored, so nobody can tell whose lock it was.",
    ),
    Dialect(
        "saq",
        "SAQ `schedule` and `sweep` guards: once an interval, never released, no locks",
        "Python",
        (),
        companions=(b"saq:*",),
    ),
    Dialect(
        "pottery",
        "pottery `Redlock`; RedLock.net writes the same bytes",
        "Python",
        (Form("string", token(values.is_uuid), keys=(b"redlock:*",), example="redlock:printer"),),
        ttl="Always set, 10 s unless told otherwise. Renewed when asked; by RedLock.net by itself.",
        release=REDLOCK_RELEASE,
    ),
    Dialect(
        "python-redis-lock",
        "python-redis-lock",
        "Python",
        (
            Form(
                "string",
                token(_python_redis_lock),
                keys=(b"lock:*",),
                release=Release.COMPARE_AND_DELETE_AND_SIGNAL,
                wake=Wake("push", b"lock-signal:%b", strip=b"lock:", reset=True, ttl_ms=1000),
                example="lock:report",
            ),
        ),
        companions=(b"lock-signal:*",),
        ttl="`expire=None`, the default, sets no expiry: a fault. `auto_renewal=True` renews at two thirds.",
        release="Compare and delete, then push to `lock-signal:<name>`: waiters block on that list.",
    ),
    Dialect(
        "walrus",
        "walrus",
        "Python",
        (
            Form(
                "string",
                token(_walrus, lenient=_anything),
                keys=(b"lock:*",),
                release=Release.COMPARE_AND_DELETE_AND_SIGNAL,
                wake=Wake("push", b"lock.event:%b", strip=b"lock:"),
                example="lock:my-lock",
            ),
        ),
        companions=(b"lock.event:*",),
        ttl="Set from `ttl`; without it the lock never expires: a fault. Never renewed.",
        release="Compare and delete, then push to `lock.event:<name>`: waiters block on that list.",
    ),
    Dialect(
        "redis-py",
        "redis-py `Lock`, sync and asyncio, and what builds on it; self-describing tokens of lockscope",
        "Python",
        (Form("string", REDIS_PY, example="orders:lock"),),
        ttl="`timeout=None`, the default, sets no expiry: a fault, the lock outlives its holder. "
        "Renewed by `extend` and `reacquire`, never by itself.",
    ),
    Dialect(
        "redlock-py",
        "redlock-py",
        "Python",
        (Form("string", token(_redlock_py), example="my_resource"),),
        ttl="Always set, never renewed.",
        release=REDLOCK_RELEASE,
    ),
    Dialect(
        "aioredlock",
        "aioredlock",
        "Python",
        (Form("string", token(values.is_uuid), only_forced=True, renews=True, example="resource"),),
        ttl="Always set; a watchdog renews it at 60 % when no lifetime is given.",
        release=REDLOCK_RELEASE,
    ),
    Dialect(
        "redlock-ng",
        "redlock-ng",
        "Python",
        (Form("string", token(values.is_uuid), only_forced=True, example="my_resource"),),
        ttl="Always set, never renewed by itself.",
        release=REDLOCK_RELEASE,
    ),
    Dialect(
        "aiocache",
        "aiocache `RedLock`",
        "Python",
        (
            Form(
                "string",
                token(values.is_uuid),
                forced_keys=(b"*-lock",),
                only_forced=True,
                example="main:key-lock",
            ),
        ),
        ttl="Always set, the `lease`. Never renewed.",
        release="Compare and delete; waiters in other processes go on when their lease ends.",
    ),
    Dialect(
        "dramatiq",
        "Dramatiq `ConcurrentRateLimiter`",
        "Python",
        (Form("string", counter, only_forced=True, example="distributed-mutex"),),
        companions=(b"dramatiq:*",),
        ttl="Always set, 15 min by default, from the last acquire or release. Never renewed.",
        release="Compare and delete. The value counts holders: 0 is free, more than 1 names none of them.",
    ),
)

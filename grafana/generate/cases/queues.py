"""Cases of the alerts about jobs."""

from __future__ import annotations

from grafana.generate.cases.kit import CRON, LONG, ORDER, REPORT, Case, Text, seen, shim

CHECKS = "redis_lock_idempotency_total"
FIRST, DUPLICATE, IN_PROGRESS = 'outcome="first"', 'outcome="duplicate"', 'outcome="in_progress"'
OLDEST = "redis_lock_oldest_age_seconds"
PROGRESS = "redis_lock_progress_keys"
_STATE = {
    "job": "lockscope",
    "target": "default",
    "db": "0",
    "prefix": ORDER,
    "about": "state",
    "severity": "warning",
}
_URL = "lockscope-queues?from=now-3h&to=now&var-prefix=lock%3Aorder%3A%2A"

_SURGE = "RedisLockDuplicatesSurge"
_SURGES = (
    Case(
        _SURGE,
        "fires",
        "half of the deliveries are duplicates, after a quiet start",
        {shim(CHECKS, FIRST): "0+5x30", shim(CHECKS, DUPLICATE): "0x10 0+5x20"},
        {"10m": [], "25m": [ORDER]},
        text=Text(
            "25m",
            {"job": "workers", "prefix": ORDER, "severity": "warning"},
            "50%",
            "50% of deliveries for lock:order:* are duplicates",
            _URL,
        ),
    ),
    Case(
        _SURGE,
        "silent",
        "runs in progress are no duplicates; twice as always; nine of twenty; a third where a fifth is usual",
        {
            shim(CHECKS, FIRST): "0+5x240",
            shim(CHECKS, IN_PROGRESS): "0+5x240",
            shim(CHECKS, FIRST, REPORT): "0+5x240",
            shim(CHECKS, DUPLICATE, REPORT): "0+5x240",
            shim(CHECKS, DUPLICATE, "nine"): "_x210 9x30",
            shim(CHECKS, FIRST, "nine"): "_x210 11x30",
            shim(CHECKS, DUPLICATE, "a third"): "0+20x220 4400+35x20",
            shim(CHECKS, FIRST, "a third"): "0+80x220 17600+65x20",
        },
        {"215m": [], "240m": []},
    ),
    Case(
        _SURGE,
        "fires",
        "nearly half are duplicates where a fifth is usual",
        {shim(CHECKS, DUPLICATE): "0+20x220 4400+45x20", shim(CHECKS, FIRST): "0+80x220 17600+55x20"},
        {"219m": [], "240m": [ORDER]},
    ),
    Case(
        _SURGE,
        "boundary",
        "just under and over a fifth; ten duplicates where nothing was ever first",
        {
            shim(CHECKS, FIRST, "under"): "0+81x30",
            shim(CHECKS, DUPLICATE, "under"): "0+19x30",
            shim(CHECKS, FIRST, "over"): "0+79x30",
            shim(CHECKS, DUPLICATE, "over"): "0+21x30",
            shim(CHECKS, DUPLICATE, "ten"): "_x15 10x15",
        },
        {"16m": ["over"], "20m": ["over", "ten"]},
    ),
    Case(
        _SURGE,
        "restart",
        "duplicates of before a restart do not count again",
        {shim(CHECKS, FIRST): "0+1x15 0+1x15", shim(CHECKS, DUPLICATE): "500x15 0x15"},
        {"17m": [], "30m": []},
    ),
    Case(_SURGE, "absent", "no worker reports", {}, {"20m": []}),
    Case(
        _SURGE,
        "flapping",
        "batches of duplicates every quarter of an hour are one alert",
        {shim(CHECKS, FIRST): "0+1x120", shim(CHECKS, DUPLICATE): "0x5 20x14 40x14 60x60"},
        {"10m": [ORDER], "18m": [ORDER], "32m": [ORDER], "65m": []},
    ),
)

_STARVING = "RedisLockIdempotencyStarving"
_STARVINGS = (
    Case(
        _STARVING,
        "fires",
        "twenty checks in ten minutes meet a run in progress, and none begins",
        {
            shim(CHECKS, IN_PROGRESS): "0+2x40",
            shim(CHECKS, FIRST): "1x40",
            shim(CHECKS, DUPLICATE): "0x40",
        },
        {"8m": [], "25m": [ORDER]},
        text=Text(
            "25m",
            {"job": "workers", "prefix": ORDER, "job_type": "invoice", "severity": "warning"},
            "20",
            "20 checks of lock:order:* by invoice met a run in progress, none began",
            f"{_URL}&var-job_type=invoice",
        ),
    ),
    Case(
        _STARVING,
        "silent",
        "runs begin in between; finished work is found in between; nine checks; checks that fail",
        {
            shim(CHECKS, IN_PROGRESS): "0+2x40",
            shim(CHECKS, FIRST): "0+0.2x40",
            shim(CHECKS, IN_PROGRESS, REPORT): "0+2x40",
            shim(CHECKS, DUPLICATE, REPORT): "0+0.2x40",
            shim(CHECKS, IN_PROGRESS, "nine"): "_x15 9x25",
            shim(CHECKS, 'outcome="error"', "failing"): "0+5x40",
        },
        {"24m": [], "40m": []},
    ),
    Case(
        _STARVING,
        "boundary",
        "nine and ten checks; the last run began just over ten minutes ago",
        {
            shim(CHECKS, IN_PROGRESS, "nine"): "_x15 9x25",
            shim(CHECKS, IN_PROGRESS, "ten"): "_x15 10x25",
            shim(CHECKS, IN_PROGRESS, "since"): "0+2x40",
            shim(CHECKS, FIRST, "since"): "0x9 1x40",
        },
        {"21m": ["ten"], "26m": ["since", "ten"]},
    ),
    Case(
        _STARVING,
        "restart",
        "checks of before a restart do not count again",
        {shim(CHECKS, IN_PROGRESS): "70x15 0x25"},
        {"20m": [], "30m": []},
    ),
    Case(_STARVING, "absent", "no worker reports", {}, {"20m": []}),
    Case(
        _STARVING,
        "flapping",
        "bursts of refused checks nine minutes apart keep one alert",
        {shim(CHECKS, IN_PROGRESS): "0x5 30x8 60x8 90x60"},
        {"12m": [ORDER], "16m": [ORDER], "23m": [ORDER], "30m": [ORDER], "55m": []},
    ),
)

_VISIBILITY = "RedisLockHoldNearVisibilityTimeout"
JOBS = "redis_lock_acquire_total"
_VISIBILITIES = (
    Case(
        _VISIBILITY,
        "fires",
        "a job holds its lock for 50 minutes of the hour after which the broker delivers it again",
        {seen(OLDEST): "0+60x60", shim(JOBS, 'outcome="acquired"'): "1x60"},
        {"47m": [], "50m": [ORDER]},
        text=Text("50m", _STATE, "50m 0s", "A job holds lock:order:* for 50m 0s, near redelivery", _URL),
    ),
    Case(
        _VISIBILITY,
        "silent",
        "a leader's lock taken outside any job; a lock of which no worker reports",
        {
            seen(OLDEST, "", "leader"): "0+600x60",
            shim(JOBS, 'outcome="acquired"', "leader", job_type="none"): "1x60",
            seen(OLDEST, "", CRON): "0+600x60",
        },
        {"30m": [], "60m": []},
    ),
    Case(
        _VISIBILITY,
        "boundary",
        "four fifths of the hour, and a second more",
        {
            seen(OLDEST, "", "equal"): f"2880{LONG}",
            shim(JOBS, 'outcome="acquired"', "equal"): "1x60",
            seen(OLDEST, "", "more"): f"2881{LONG}",
            shim(JOBS, 'outcome="acquired"', "more"): "1x60",
        },
        {"5m": ["more"]},
    ),
    Case(
        _VISIBILITY,
        "restart",
        "a worker that restarts is known by its new counters",
        {seen(OLDEST): "0+60x60", shim(JOBS, 'outcome="acquired"'): "90x49 0x20"},
        {"47m": [], "55m": [ORDER]},
    ),
    Case(_VISIBILITY, "absent", "neither exporter nor worker reports", {}, {"20m": []}),
    Case(
        _VISIBILITY,
        "flapping",
        "a second long job right after the first keeps one alert",
        {
            seen(OLDEST): "3000x5 0x3 3000x5 0x20",
            shim(JOBS, 'outcome="acquired"'): "1x60",
        },
        {"2m": [ORDER], "8m": [ORDER], "12m": [ORDER], "25m": []},
    ),
)

_STALE = "RedisLockProgressStale"


def _progress(state: str, prefix: str = ORDER) -> str:
    return seen(PROGRESS, f'state="{state}"', prefix)


_STALES = (
    Case(
        _STALE,
        "fires",
        "three running jobs have not been heard of",
        {_progress("stale"): "0x3 3x20", _progress("running"): "9x20"},
        {"3m": [], "8m": [ORDER]},
        text=Text("8m", _STATE, "3", "3 running jobs of lock:order:* report no progress", _URL),
    ),
    Case(
        _STALE,
        "silent",
        "running, failed and completed jobs",
        {_progress(state): f"9{LONG}" for state in ("running", "failed", "completed")}
        | {_progress("stale"): f"0{LONG}"},
        {"15m": []},
    ),
    Case(
        _STALE,
        "boundary",
        "one sample and two minutes",
        {_progress("stale", "moment"): "0x5 1 0x20", _progress("stale", "two"): "0x5 1x2 0x20"},
        {"6m": [], "7m": ["two"]},
    ),
    Case(
        _STALE,
        "restart",
        "an exporter that is gone for three minutes comes back to the same jobs",
        {_progress("stale"): "1x5 stale _x2 1x20"},
        {"4m": [ORDER], "12m": [ORDER]},
    ),
    Case(_STALE, "absent", "no exporter reports", {}, {"10m": []}),
    Case(
        _STALE,
        "flapping",
        "jobs that report now and then keep one alert once it fires",
        {_progress("stale"): "0 1x3 0 1 0 1 0 1 0 1 0x20"},
        {"4m": [ORDER], "6m": [ORDER], "8m": [ORDER], "10m": [ORDER], "18m": []},
    ),
)

QUEUES = (*_SURGES, *_STARVINGS, *_VISIBILITIES, *_STALES)

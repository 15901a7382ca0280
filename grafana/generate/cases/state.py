"""Cases of the alerts about the locks that Redis holds now."""

from __future__ import annotations

from dataclasses import replace

from grafana.generate.cases.kit import (
    CRON,
    EXPORTER_2,
    LONG,
    ORDER,
    REPORT,
    WORKERS_2,
    Case,
    Text,
    node,
    seen,
    shim,
)

KEYS = "redis_lock_keys"
OLDEST, EXPECTED = "redis_lock_oldest_age_seconds", "redis_lock_expected_hold_seconds"
WAITERS, ACQUIRE_TOTAL = "redis_lock_waiters", "redis_lock_acquire_total"
ENDED = "redis_lock_observed_ended_total"
_HOME = {"job": "lockscope", "target": "default", "db": "0", "prefix": ORDER}
_STATE = {**_HOME, "about": "state", "severity": "warning"}
_URL = "lockscope-prefix?from=now-3h&to=now&var-prefix=lock%3Aorder%3A%2A"


def keys(state: str, prefix: str = ORDER, dialect: str = "redis-py", who: str | None = None) -> str:
    """Return the series of live keys of one state and dialect."""
    matchers = f'dialect="{dialect}", state="{state}"'
    return seen(KEYS, matchers, prefix, who) if who else seen(KEYS, matchers, prefix)


def _of_state(alert: str, state: str, text: Text, *, keep: int) -> tuple[Case, ...]:
    """Return the six cases of an alert that counts keys of one state for over a minute.

    Args:
        alert: its name.
        state: the state it counts.
        text: how it reads for two keys of one dialect and one of another.
        keep: minutes that it goes on firing.
    """
    return (
        Case(
            alert,
            "fires",
            "three keys of two dialects, seen by two exporters",
            {
                keys(state): "0x3 2x20",
                keys(state, dialect="generic"): "0x3 1x20",
                keys(state, who=EXPORTER_2): "0x3 2x20",
                keys("held"): "5x20",
            },
            {"3m": [], "8m": [ORDER]},
            text=text,
        ),
        Case(
            alert,
            "silent",
            "keys of every other state, and none of this one",
            {
                keys(other): f"9{LONG}"
                for other in ("orphaned", "no_ttl", "stalled", "overdue", "held")
                if other != state
            }
            | {keys(state): f"0{LONG}"},
            {"15m": []},
        ),
        Case(
            alert,
            "boundary",
            "one sample is a moment of change; two minutes are not",
            {keys(state, "moment"): "0x5 1 0x20", keys(state, "two"): "0x5 1x2 0x20"},
            {"6m": [], "7m": ["two"]},
        ),
        Case(
            alert,
            "restart",
            "an exporter that is gone for three minutes comes back to the same keys",
            {keys(state): "1x5 stale _x2 1x20"},
            {"4m": [ORDER], "12m": [ORDER]},
        ),
        Case(alert, "absent", "no exporter reports", {}, {"10m": []}),
        Case(
            alert,
            "flapping",
            "keys that come and go each minute keep one alert once it fires",
            {keys(state): "0 1x3 0 1 0 1 0 1 0 1 0x20"},
            {"4m": [ORDER], "6m": [ORDER], "8m": [ORDER], "10m": [ORDER], f"{13 + keep}m": []},
        ),
    )


_TOO_LONG = "RedisLockHeldTooLong"
_HELD_TOO_LONG = (
    Case(
        _TOO_LONG,
        "fires",
        "a lock that is usually held for a minute is held for eight",
        {seen(OLDEST): "0+60x20", seen(EXPECTED): f"60{LONG}"},
        {"4m": [], "5m": [ORDER], "8m": [ORDER]},
        text=Text("8m", _STATE, "8m 0s", "A lock of lock:order:* is held for 8m 0s", _URL),
    ),
    Case(
        _TOO_LONG,
        "silent",
        "hours are usual for this prefix; nothing is known of that one; no lock at all; an age that nothing "
        "tells",
        {
            seen(OLDEST, "", "hours"): "0+60x120",
            seen(EXPECTED, "", "hours"): f"7200{LONG}",
            seen(OLDEST, "", "unknown"): "0+60x120",
            seen(OLDEST, "", "empty"): f"0{LONG}",
            seen(EXPECTED, "", "empty"): f"1{LONG}",
            seen(EXPECTED, "", "ageless"): f"1{LONG}",
        },
        {"15m": [], "60m": []},
    ),
    Case(
        _TOO_LONG,
        "boundary",
        "three times the usual, and a second more",
        {
            seen(OLDEST, "", "three"): f"180{LONG}",
            seen(EXPECTED, "", "three"): f"60{LONG}",
            seen(OLDEST, "", "more"): f"181{LONG}",
            seen(EXPECTED, "", "more"): f"60{LONG}",
        },
        {"5m": ["more"]},
    ),
    Case(
        _TOO_LONG,
        "restart",
        "an exporter that restarts knows ages only from then on: no alert until they say so again",
        {seen(OLDEST): "0+60x10 0+60x20", seen(EXPECTED): f"60{LONG}"},
        {"9m": [ORDER], "14m": [], "18m": [ORDER]},
    ),
    Case(_TOO_LONG, "absent", "no exporter reports", {}, {"10m": []}),
    Case(
        _TOO_LONG,
        "flapping",
        "a short gap between two long holds keeps one alert",
        {seen(OLDEST): "200x5 0 200x5 0 200x5 0x20", seen(EXPECTED): f"60{LONG}"},
        {"3m": [ORDER], "6m": [ORDER], "10m": [ORDER], "13m": [ORDER], "25m": []},
    ),
)

_NO_TTL = _of_state(
    "RedisLockNoTTL",
    "no_ttl",
    Text("8m", _STATE, "3", "3 locks of lock:order:* have no TTL", _URL),
    keep=2,
)
_ORPHANED = _of_state(
    "RedisLockOrphaned",
    "orphaned",
    Text(
        "8m",
        _STATE,
        "3",
        "3 locks of lock:order:* belong to processes that are gone",
        _URL,
    ),
    keep=5,
)
_STALLED = _of_state(
    "RedisLockStalled",
    "stalled",
    Text("8m", _STATE, "3", "3 locks of lock:order:* are no longer renewed", _URL),
    keep=5,
)

_BLOCKING = "RedisLockOrphanedBlocking"
_ORPHANED_BLOCKING = (
    Case(
        _BLOCKING,
        "fires",
        "two orphaned locks while another service waits for their prefix",
        {keys("orphaned"): "0x3 2x20", shim(WAITERS): "1x20"},
        {"4m": [], "5m": [ORDER], "8m": [ORDER]},
        text=Text(
            "8m",
            {**_STATE, "severity": "critical"},
            "2",
            "2 orphaned locks of lock:order:* block running workers",
            _URL,
        ),
    ),
    Case(
        _BLOCKING,
        "fires",
        "try-locks that are refused are blocked too",
        {keys("orphaned"): "1x20", shim(ACQUIRE_TOTAL, 'outcome="contended"'): "0+1x20"},
        {"8m": [ORDER]},
    ),
    Case(
        _BLOCKING,
        "silent",
        "orphaned and nobody asks; somebody waits for another prefix; waiters of a held lock",
        {
            keys("orphaned"): f"1{LONG}",
            shim(ACQUIRE_TOTAL, 'outcome="acquired"'): "0+1x40",
            shim(WAITERS, "", REPORT): f"5{LONG}",
            keys("held", REPORT): f"1{LONG}",
        },
        {"15m": []},
    ),
    Case(
        _BLOCKING,
        "boundary",
        "the last refusal leaves the window after ten minutes",
        {
            keys("orphaned"): f"1{LONG}",
            shim(ACQUIRE_TOTAL, 'outcome="timeout"'): "0x3 1x60",
            shim(WAITERS): f"0{LONG}",
        },
        {"10m": [ORDER], "25m": []},
    ),
    Case(
        _BLOCKING,
        "restart",
        "a worker that restarts takes its waiters and refusals with it",
        {
            keys("orphaned"): f"1{LONG}",
            shim(WAITERS): "2x10 0x40",
            shim(ACQUIRE_TOTAL, 'outcome="contended"'): "90x10 0x40",
        },
        {"9m": [ORDER], "25m": []},
    ),
    Case(_BLOCKING, "absent", "neither exporter nor worker reports", {}, {"10m": []}),
    Case(
        _BLOCKING,
        "flapping",
        "waiters that give up and come back keep one alert",
        {keys("orphaned"): f"1{LONG}", shim(WAITERS): "1x4 0x2 1x2 0x2 1x3 0x20"},
        {"3m": [ORDER], "5m": [ORDER], "9m": [ORDER], "14m": [ORDER], "30m": []},
    ),
)

_GROWING = "RedisLockKeysGrowing"
_KEYS_GROWING = tuple(
    replace(case, step="5m")
    for case in (
        Case(
            _GROWING,
            "fires",
            "one key more every two minutes, for three hours, and none ever goes",
            {keys("held"): "0+0.5x180"},
            {"60m": [], "150m": [ORDER]},
            # The lowest of the last half hour, at 2:00 h.
            text=Text(
                "150m", _STATE, "60", "Locks of lock:order:* only grow: at least 60 for 30 minutes", _URL
            ),
        ),
        Case(
            _GROWING,
            "silent",
            "many keys at a steady level; load that swings; few keys",
            {
                keys("held", "steady"): "900x180",
                keys("held", "swing"): "20+8x30 260-8x30 20+8x30 260-8x30 20+8x30 260-8x30",
                keys("held", "few"): "0+0.1x180",
            },
            {"130m": [], "150m": [], "175m": []},
        ),
        Case(
            _GROWING,
            "silent",
            "the morning's load rises as yesterday's did",
            {keys("held"): "0+1x240 240x480 240-1x240 0x480 0+1x240"},
            {"1600m": [], "1660m": []},
        ),
        Case(
            _GROWING,
            "boundary",
            "nineteen and twenty-one keys more in ninety minutes; a level that has not quite doubled",
            {
                keys("held", "nineteen"): "0+0.211x180",
                keys("held", "twenty-one"): "0+0.233x180",
                keys("held", "not-doubled"): "100+1x180",
            },
            {"140m": ["twenty-one"]},
        ),
        Case(
            _GROWING,
            "restart",
            "an exporter that restarts and first counts from 0",
            {keys("held"): "80x60 0x2 80x100"},
            {"100m": [], "155m": []},
        ),
        Case(_GROWING, "absent", "no exporter reports", {}, {"30m": []}),
        Case(
            _GROWING,
            "flapping",
            "growth that pauses for a while and goes on is one alert",
            {keys("held"): "0+0.5x150 75x40 75+0.5x60 105x200"},
            {"150m": [ORDER], "165m": [ORDER], "190m": [ORDER], "300m": []},
        ),
    )
)

_EXPIRY = "RedisLockEndedByExpiry"
RELEASED, EXPIRED = 'how="released"', 'how="expired"'
_EXPIRIES = (
    Case(
        _EXPIRY,
        "fires",
        "half of the locks that end run out, and they used to be released",
        {seen(ENDED, RELEASED): "0+1x40", seen(ENDED, EXPIRED): "0x20 0+1x20"},
        {"20m": [], "31m": [ORDER]},
        text=Text("31m", _STATE, "50%", "50% of locks of lock:order:* end by expiry", _URL),
    ),
    Case(
        _EXPIRY,
        "silent",
        "a throttle that is never released; half by expiry as always; a third where a fifth is usual",
        {
            seen(ENDED, EXPIRED, CRON): "0+2x240",
            seen(ENDED, RELEASED, CRON): "0x240",
            seen(ENDED, EXPIRED, REPORT): "0+1x240",
            seen(ENDED, RELEASED, REPORT): "0+1x240",
            seen(ENDED, EXPIRED, "a third"): "0+2x220 440+3.5x20",
            seen(ENDED, RELEASED, "a third"): "0+8x220 1760+6.5x20",
        },
        {"200m": [], "240m": []},
    ),
    Case(
        _EXPIRY,
        "fires",
        "nearly half by expiry where a fifth is usual",
        {
            seen(ENDED, EXPIRED): "0+2x220 440+4.5x20",
            seen(ENDED, RELEASED): "0+8x220 1760+5.5x20",
        },
        {"219m": [], "240m": [ORDER]},
    ),
    Case(
        _EXPIRY,
        "boundary",
        "just under and over a fifth; two and three expiries",
        {
            seen(ENDED, RELEASED, "under"): "0+81x40",
            seen(ENDED, EXPIRED, "under"): "0+19x40",
            seen(ENDED, RELEASED, "over"): "0+79x40",
            seen(ENDED, EXPIRED, "over"): "0+21x40",
            seen(ENDED, RELEASED, "two"): "0+1x10 10x30",
            seen(ENDED, EXPIRED, "two"): "_x25 2x15",
            seen(ENDED, RELEASED, "three"): "0+1x10 10x30",
            seen(ENDED, EXPIRED, "three"): "_x25 3x15",
        },
        {"30m": ["over", "three"]},
    ),
    Case(
        _EXPIRY,
        "restart",
        "an exporter that restarts counts from 0",
        {seen(ENDED, RELEASED): "800+2x20 0+2x20", seen(ENDED, EXPIRED): "90x20 0x20"},
        {"22m": [], "35m": []},
    ),
    Case(_EXPIRY, "absent", "no exporter reports", {}, {"20m": []}),
    Case(
        _EXPIRY,
        "flapping",
        "three expiries every quarter of an hour keep one alert",
        {seen(ENDED, RELEASED): "0+0.3x120", seen(ENDED, EXPIRED): "0x10 3x14 6x14 9x60"},
        {"12m": [ORDER], "24m": [ORDER], "40m": [ORDER], "70m": []},
    ),
)

_OVERLAP = "RedisLockOverlap"
OVERLAP_TOTAL = "redis_lock_overlap_total"
_OVERLAPS = (
    Case(
        _OVERLAP,
        "fires",
        "the first overlap ever, in a counter born at 1, seen by two exporters",
        {seen(OVERLAP_TOTAL): "_x12 1x20", seen(OVERLAP_TOTAL, who=EXPORTER_2): "_x12 1x20"},
        {"11m": [], "15m": [ORDER]},
        text=Text(
            "15m",
            {**_STATE, "severity": "critical"},
            "1",
            "Two holders had one lock of lock:order:* at once, 1 times",
            _URL,
        ),
        up={f"up{{{EXPORTER_2}}}": "1x40"},
    ),
    Case(_OVERLAP, "silent", "overlaps of before are no news", {seen(OVERLAP_TOTAL): "40x30"}, {"15m": []}),
    Case(
        _OVERLAP,
        "boundary",
        "none and one; it ends ten minutes after the overlap left the window",
        {seen(OVERLAP_TOTAL, "", "none"): "0x60", seen(OVERLAP_TOTAL, "", "one"): "0x14 1x60"},
        {"14m": [], "16m": ["one"], "33m": ["one"], "37m": []},
    ),
    Case(
        _OVERLAP,
        "restart",
        "an exporter that restarts, and one that Prometheus meets with 6 on the counter",
        {
            seen(OVERLAP_TOTAL): "6x15 0x30",
            seen(OVERLAP_TOTAL, "", REPORT, WORKERS_2): "_x15 6x30",
        },
        {"17m": [], "30m": []},
        up={f"up{{{WORKERS_2}}}": "_x15 1x30"},
    ),
    Case(
        _OVERLAP,
        "restart",
        "an exporter in a new pod counts the journal from its beginning",
        {
            seen(OVERLAP_TOTAL): "6x15 stale",
            seen(OVERLAP_TOTAL, who=EXPORTER_2): "_x15 6x30",
            node("redis_lock_up"): "1x15 stale",
            node("redis_lock_up", EXPORTER_2): "_x15 1x30",
        },
        {"16m": [], "18m": [], "24m": [], "30m": []},
        up={
            f"up{{{EXPORTER_2}}}": "_x15 1x30",
            f"process_start_time_seconds{{{EXPORTER_2}}}": "_x15 900x30",
        },
    ),
    Case(_OVERLAP, "absent", "no exporter reports", {}, {"20m": []}),
    Case(
        _OVERLAP,
        "flapping",
        "an overlap every quarter of an hour keeps one alert",
        {seen(OVERLAP_TOTAL): "0x4 1x14 2x14 3x60"},
        {"6m": [ORDER], "18m": [ORDER], "30m": [ORDER], "44m": [ORDER], "60m": []},
    ),
)

_WEAK = "RedisLockWeakOwner"
WEAK_KEYS = "redis_lock_weak_owner_keys"
_WEAK_OWNERS = (
    Case(
        _WEAK,
        "fires",
        "two locks with a constant value for a quarter of an hour",
        {seen(WEAK_KEYS): "2x40", seen(WEAK_KEYS, who=EXPORTER_2): "2x40"},
        {"14m": [], "18m": [ORDER]},
        text=Text(
            "18m",
            {**_STATE, "severity": "info"},
            "2",
            "2 locks of lock:order:* have an owner value that others share",
            _URL,
        ),
    ),
    Case(_WEAK, "silent", "every lock has a token of its own", {seen(WEAK_KEYS): "0x40"}, {"30m": []}),
    Case(
        _WEAK,
        "boundary",
        "fourteen minutes and sixteen",
        {seen(WEAK_KEYS, "", "fourteen"): "1x13 0x40", seen(WEAK_KEYS, "", "sixteen"): "1x15 0x40"},
        {"14m": [], "17m": ["sixteen"]},
    ),
    Case(
        _WEAK,
        "restart",
        "an exporter that is gone for three minutes comes back to the same locks",
        {seen(WEAK_KEYS): "1x20 stale _x2 1x20"},
        {"20m": [ORDER], "30m": [ORDER]},
    ),
    Case(_WEAK, "absent", "no exporter reports", {}, {"20m": []}),
    Case(
        _WEAK,
        "flapping",
        "short locks that come and go keep one alert once it fires",
        {seen(WEAK_KEYS): "1x16 0x9 1x3 0x9 1x3 0x60"},
        {"16m": [ORDER], "24m": [ORDER], "36m": [ORDER], "110m": []},
    ),
)

STATE = (
    *_HELD_TOO_LONG,
    *_NO_TTL,
    *_ORPHANED,
    *_ORPHANED_BLOCKING,
    *_STALLED,
    *_KEYS_GROWING,
    *_EXPIRIES,
    *_OVERLAPS,
    *_WEAK_OWNERS,
)

"""Cases of the alerts about getting a lock."""

from __future__ import annotations

from grafana.generate.cases.kit import (
    CRON,
    EXPORTER,
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

ACQUIRE_TOTAL = "redis_lock_acquire_total"
ACQUIRED, CONTENDED = 'outcome="acquired"', 'outcome="contended"'
TIMEOUT, ERROR = 'outcome="timeout"', 'outcome="error"'

_SPIKE = "RedisLockAcquireFailureSpike"
_SPIKES = (
    Case(
        _SPIKE,
        "fires",
        "a third of the acquires give up, after a quiet start",
        {
            shim(ACQUIRE_TOTAL, ACQUIRED): "0+6x60",
            shim(ACQUIRE_TOTAL, TIMEOUT): "0x20 0+3x40",
            shim(ACQUIRE_TOTAL, ACQUIRED, REPORT): "0+6x60",
            shim(ACQUIRE_TOTAL, TIMEOUT, REPORT): "0x60",
        },
        {"20m": [], "40m": [ORDER]},
        text=Text(
            "40m",
            {"job": "workers", "prefix": ORDER, "job_type": "invoice", "severity": "warning"},
            "33.33%",
            "33.33% of acquires of lock:order:* fail",
            "lockscope-prefix?from=now-3h&to=now&var-prefix=lock%3Aorder%3A%2A&var-job_type=invoice",
        ),
    ),
    Case(
        _SPIKE,
        "silent",
        "a singleton cron is refused by design; a lock whose usual share of time-outs is a third",
        {
            shim(ACQUIRE_TOTAL, ACQUIRED, CRON): "0+0.1x300",
            shim(ACQUIRE_TOTAL, CONTENDED, CRON): "0+9.9x300",
            shim(ACQUIRE_TOTAL, ACQUIRED, REPORT): "0+6x300",
            shim(ACQUIRE_TOTAL, TIMEOUT, REPORT): "0+3x300",
        },
        {"2h": [], "4h": []},
    ),
    Case(
        _SPIKE,
        "boundary",
        "just under and over a fifth; four and five failures without a single success",
        {
            shim(ACQUIRE_TOTAL, ACQUIRED, "under"): "0+81x40",
            shim(ACQUIRE_TOTAL, TIMEOUT, "under"): "0+19x40",
            shim(ACQUIRE_TOTAL, ACQUIRED, "over"): "0+79x40",
            shim(ACQUIRE_TOTAL, TIMEOUT, "over"): "0+21x40",
            shim(ACQUIRE_TOTAL, ERROR, "four"): "_x25 4x15",
            shim(ACQUIRE_TOTAL, ERROR, "five"): "_x25 5x15",
        },
        {"30m": ["five", "over"]},
    ),
    Case(
        _SPIKE,
        "restart",
        "a healthy worker that restarts is no spike; one that fails from its start, with no success ever, is",
        {
            shim(ACQUIRE_TOTAL, ACQUIRED): "0+6x20 0+6x20",
            shim(ACQUIRE_TOTAL, TIMEOUT): "0+0.1x20 0+0.1x20",
            shim(ACQUIRE_TOTAL, TIMEOUT, REPORT): "0x20 3+3x20",
        },
        {"22m": [], "30m": [REPORT]},
    ),
    Case(
        _SPIKE,
        "restart",
        "a counter that Prometheus meets at 9 for the first time is no burst",
        {shim(ACQUIRE_TOTAL, TIMEOUT, who=WORKERS_2): "_x20 9x20"},
        {"24m": [], "35m": []},
        up={
            f"up{{{WORKERS_2}}}": "_x20 1x20",
            f"process_start_time_seconds{{{WORKERS_2}}}": "_x20 -86400x20",
        },
    ),
    Case(
        _SPIKE,
        "restart",
        "a worker scraped again after ten minutes of a broken network brings no burst",
        {shim(ACQUIRE_TOTAL, TIMEOUT, who=WORKERS_2): "0x5 _x15 400x20"},
        {"24m": [], "35m": []},
        up={f"up{{{WORKERS_2}}}": "1x5 0x15 1x20"},
    ),
    Case(
        _SPIKE,
        "restart",
        "workers without a port, by an exporter in a new pod that counts the journal from its beginning",
        {
            shim(ACQUIRE_TOTAL, TIMEOUT, who=EXPORTER): "400x15 stale",
            shim(ACQUIRE_TOTAL, TIMEOUT, who=EXPORTER_2): "_x15 400x30",
            node("redis_lock_up"): "1x15 stale",
            node("redis_lock_up", EXPORTER_2): "_x15 1x30",
        },
        {"18m": [], "24m": [], "35m": []},
        up={
            f"up{{{EXPORTER_2}}}": "_x15 1x30",
            f"process_start_time_seconds{{{EXPORTER_2}}}": "_x15 900x30",
        },
    ),
    Case(_SPIKE, "absent", "no worker reports", {}, {"30m": []}),
    Case(
        _SPIKE,
        "flapping",
        "failures in bursts thirteen minutes apart keep one alert",
        {
            shim(ACQUIRE_TOTAL, ACQUIRED): "0+2x80",
            shim(ACQUIRE_TOTAL, TIMEOUT): "0x10 12x12 24x12 36x60",
        },
        {"16m": [ORDER], "23m": [ORDER], "30m": [ORDER], "36m": [ORDER], "70m": []},
    ),
)

_ERRORS = "RedisLockBackendErrors"
_BACKEND_ERRORS = (
    Case(
        _ERRORS,
        "fires",
        "a tenth of all lock commands raise",
        {
            shim(ACQUIRE_TOTAL, ACQUIRED): "0+8x40",
            shim(ACQUIRE_TOTAL, ERROR): "0x10 0+1x30",
            shim("redis_lock_renew_total", 'outcome="error"'): "0x40",
            shim("redis_lock_release_total", 'outcome="released"'): "0+1x40",
        },
        {"9m": [], "30m": [ORDER]},
        text=Text(
            "30m",
            {"job": "workers", "prefix": ORDER, "severity": "critical"},
            "10%",
            "10% of lock commands on lock:order:* raise errors",
            "lockscope-prefix?from=now-3h&to=now&var-prefix=lock%3Aorder%3A%2A",
        ),
    ),
    Case(
        _ERRORS,
        "silent",
        "time-outs and refusals are no errors",
        {
            shim(ACQUIRE_TOTAL, ACQUIRED): "0+1x40",
            shim(ACQUIRE_TOTAL, TIMEOUT): "0+5x40",
            shim(ACQUIRE_TOTAL, CONTENDED): "0+5x40",
            shim(ACQUIRE_TOTAL, ERROR): f"0{LONG}",
        },
        {"30m": []},
    ),
    Case(
        _ERRORS,
        "boundary",
        "just under and over a twentieth; four and five errors; errors of the three commands add up",
        {
            shim(ACQUIRE_TOTAL, ACQUIRED, "under"): "0+96x40",
            shim(ACQUIRE_TOTAL, ERROR, "under"): "0+4x40",
            shim(ACQUIRE_TOTAL, ACQUIRED, "over"): "0+94x40",
            shim(ACQUIRE_TOTAL, ERROR, "over"): "0+6x40",
            shim(ACQUIRE_TOTAL, ERROR, "four"): "_x20 4x20",
            shim(ACQUIRE_TOTAL, ERROR, "five"): "_x20 3x20",
            shim("redis_lock_renew_total", 'outcome="error"', "five"): "_x20 1x20",
            shim("redis_lock_release_total", 'outcome="error"', "five"): "_x20 1x20",
        },
        {"25m": ["five", "over"]},
    ),
    Case(
        _ERRORS,
        "restart",
        "restarted workers start at 0; a Redis that refuses everything from the start still counts",
        {
            shim(ACQUIRE_TOTAL, ACQUIRED): "0+90x20 0+90x20",
            shim(ACQUIRE_TOTAL, ERROR): "0+1x20 0+1x20",
            shim(ACQUIRE_TOTAL, ERROR, REPORT): "300x20 5+5x20",
        },
        {"19m": [], "30m": [REPORT]},
    ),
    Case(_ERRORS, "absent", "no worker reports", {}, {"30m": []}),
    Case(
        _ERRORS,
        "flapping",
        "errors every thirteen minutes keep one alert",
        {shim(ACQUIRE_TOTAL, ERROR): "0x10 6x12 12x12 18x60", shim(ACQUIRE_TOTAL, ACQUIRED): "0+1x80"},
        {"11m": [], "13m": [ORDER], "23m": [ORDER], "30m": [ORDER], "36m": [ORDER], "60m": []},
    ),
)

_CONTENTION = "RedisLockContentionHigh"
WAIT_SUM, HOLD_SUM = "redis_lock_acquire_wait_seconds_sum", "redis_lock_hold_seconds_sum"
_CONTENTIONS = (
    Case(
        _CONTENTION,
        "fires",
        "workers wait three seconds for each second of work",
        {
            shim(WAIT_SUM, ACQUIRED): "0+90x60",
            shim(WAIT_SUM, TIMEOUT): "0+90x60",
            shim(HOLD_SUM): "0+60x60",
        },
        {"8m": [], "30m": [ORDER]},
        text=Text(
            "30m",
            {"job": "workers", "prefix": ORDER, "severity": "warning"},
            "75%",
            "Workers spend 75% of their lock time waiting for lock:order:*",
            "lockscope-prefix?from=now-3h&to=now&var-prefix=lock%3Aorder%3A%2A",
        ),
    ),
    Case(
        _CONTENTION,
        "silent",
        "refused try-locks do not wait; long holds with short waits; long waits of hardly anyone",
        {
            shim(WAIT_SUM, CONTENDED, CRON): "0+600x60",
            shim(HOLD_SUM, "", CRON): "0+1x60",
            shim(WAIT_SUM, ACQUIRED): "0+60x60",
            shim(HOLD_SUM): "0+600x60",
            shim(WAIT_SUM, ACQUIRED, REPORT): "0+20x60",
            shim(HOLD_SUM, "", REPORT): "0+5x60",
        },
        {"40m": []},
    ),
    Case(
        _CONTENTION,
        "boundary",
        "just under and over a half; half a caller waiting; nobody ever got it",
        {
            shim(WAIT_SUM, ACQUIRED, "under"): "0+98x60",
            shim(HOLD_SUM, "", "under"): "0+102x60",
            shim(WAIT_SUM, ACQUIRED, "over"): "0+102x60",
            shim(HOLD_SUM, "", "over"): "0+98x60",
            shim(WAIT_SUM, TIMEOUT, "few"): "0+29x60",
            shim(WAIT_SUM, TIMEOUT, "enough"): "0+31x60",
        },
        {"40m": ["enough", "over"]},
    ),
    Case(
        _CONTENTION,
        "restart",
        "sums that start again from 0 are read as such",
        {shim(WAIT_SUM, ACQUIRED): "0+20x30 0+20x30", shim(HOLD_SUM): "0+90x30 0+90x30"},
        {"32m": [], "50m": []},
    ),
    Case(_CONTENTION, "absent", "no worker reports", {}, {"40m": []}),
    Case(
        _CONTENTION,
        "flapping",
        "two contended spells with a short calm between are one alert",
        {
            shim(WAIT_SUM, ACQUIRED): "0+180x30 5400+0x6 5400+180x30 10800x60",
            shim(HOLD_SUM): f"0+60{LONG}",
        },
        {"25m": [ORDER], "35m": [ORDER], "40m": [ORDER], "50m": [ORDER], "110m": []},
    ),
)

_GROWING = "RedisLockWaitersGrowing"
WAITERS = "redis_lock_waiters"
_WAITERS_GROWING = (
    Case(
        _GROWING,
        "fires",
        "one more caller waits every minute",
        {shim(WAITERS): "0x10 0+1x30 30x30"},
        {"12m": [], "30m": [ORDER], "60m": []},
        text=Text(
            "30m",
            {"job": "workers", "prefix": ORDER, "severity": "warning"},
            "14",
            "At least 14 calls wait for lock:order:*, and more every 5 minutes",
            "lockscope-prefix?from=now-3h&to=now&var-prefix=lock%3Aorder%3A%2A",
        ),
    ),
    Case(
        _GROWING,
        "silent",
        "many waiters at a steady level; a short burst; waves that return to nothing",
        {
            shim(WAITERS, "", "steady"): "40x40",
            shim(WAITERS, "", "burst"): "0x20 50x2 0x20",
            shim(WAITERS, "", "waves"): "0 9 12 0 14 20 0 25 30 0 35 40 0 50 60 0 70 80 0 90 99 0 100x2",
        },
        {"21m": [], "24m": [], "35m": []},
    ),
    Case(
        _GROWING,
        "boundary",
        "the lowest of five minutes is four, then five",
        {
            shim(WAITERS, "", "four"): "0x8 1x5 2x5 4x30",
            shim(WAITERS, "", "five"): "0x8 1x5 2x5 5x30",
        },
        {"27m": ["five"]},
    ),
    Case(
        _GROWING,
        "restart",
        "a worker that restarts takes its waiters with it",
        {shim(WAITERS): "9x20 0x3 9x30", shim(WAITERS, who=WORKERS_2): "9x60"},
        {"22m": [], "26m": [], "40m": []},
        up={f"up{{{WORKERS_2}}}": "1x60"},
    ),
    Case(_GROWING, "absent", "no worker reports", {}, {"40m": []}),
    Case(
        _GROWING,
        "flapping",
        "a queue that grows by jerks keeps one alert",
        {shim(WAITERS): "0x5 0+2x14 28x7 28+2x30 88x30"},
        {"18m": [ORDER], "26m": [ORDER], "28m": [ORDER], "40m": [ORDER], "85m": []},
    ),
)

_STARVED = "RedisLockStarved"
OLDEST, EXPECTED = "redis_lock_oldest_age_seconds", "redis_lock_expected_hold_seconds"
_STARVATIONS = (
    Case(
        _STARVED,
        "fires",
        "three callers wait, the holder is far over its usual hold and does not renew",
        {
            shim(WAITERS): "0x5 3x60",
            shim(ACQUIRE_TOTAL, ACQUIRED): "0+1x6 6x60",
            shim(ACQUIRE_TOTAL, CONTENDED): "0+9x60",
            shim("redis_lock_renew_total", 'outcome="lost"'): "0+1x60",
            seen(OLDEST): "0x5 0+60x60",
            seen(EXPECTED): f"60{LONG}",
        },
        {"20m": [], "40m": [ORDER]},
        text=Text(
            "40m",
            {"job": "workers", "prefix": ORDER, "severity": "critical"},
            "3",
            "3 calls wait for lock:order:* and none got it for 10 minutes",
            "lockscope-prefix?from=now-3h&to=now&var-prefix=lock%3Aorder%3A%2A",
        ),
    ),
    Case(
        _STARVED,
        "fires",
        "callers wait although no lock is there: nobody woke them",
        {shim(WAITERS): "2x60", seen(OLDEST): f"0{LONG}", seen(EXPECTED): f"60{LONG}"},
        {"9m": [], "15m": [ORDER]},
    ),
    Case(
        _STARVED,
        "silent",
        "a standby waits for a leader that renews; a long job within its expected hold; another service gets"
        " it",
        {
            shim(WAITERS, "", "leader"): "1x60",
            shim("redis_lock_renew_total", 'outcome="renewed"', "leader"): "0+2x60",
            shim(WAITERS, "", "foreign-leader"): "1x60",
            seen("redis_lock_observed_renewed_total", "", "foreign-leader"): "0+2x60",
            shim(WAITERS, "", "long"): "1x60",
            seen(OLDEST, "", "long"): "0+60x60",
            seen(EXPECTED, "", "long"): f"7200{LONG}",
            shim(WAITERS, "", "shared"): "1x60",
            shim(ACQUIRE_TOTAL, ACQUIRED, "shared", who='job="other", instance="o:1"'): "0+1x60",
        },
        {"30m": [], "50m": []},
        up={'up{job="other", instance="o:1"}': "1x60"},
    ),
    Case(
        _STARVED,
        "boundary",
        "nine and eleven minutes without a lock, after the last ten that saw one",
        {shim(WAITERS): "1x60", shim(ACQUIRE_TOTAL, ACQUIRED): "0+1x10 10x60"},
        {"29m": [], "32m": [ORDER]},
    ),
    Case(
        _STARVED,
        "restart",
        "a counter of acquires that starts again still shows that locks are got",
        {shim(WAITERS): "1x60", shim(ACQUIRE_TOTAL, ACQUIRED): "500+1x20 0+1x40"},
        {"25m": [], "50m": []},
    ),
    Case(_STARVED, "absent", "no worker reports", {}, {"40m": []}),
    Case(
        _STARVED,
        "flapping",
        "callers that give up and come back within two minutes keep the alert once it fires",
        {shim(WAITERS): "1x25 0x2 1x9 0x2 1x30 0x30"},
        {"24m": [ORDER], "26m": [ORDER], "30m": [ORDER], "60m": [ORDER], "80m": []},
    ),
)

_STORM = "RedisLockRetryStorm"
RETRY = "redis_lock_retry_total"
_STORMS = (
    Case(
        _STORM,
        "fires",
        "thirty retries for one lock got",
        {
            shim(RETRY, 'reason="lock_held"'): "0+20x40",
            shim(RETRY, 'reason="timeout"'): "0+10x40",
            shim(ACQUIRE_TOTAL, ACQUIRED): "0+1x40",
            shim(ACQUIRE_TOTAL, CONTENDED): "0+300x40",
        },
        {"4m": [], "30m": [ORDER]},
        text=Text(
            "30m",
            {"job": "workers", "prefix": ORDER, "severity": "warning"},
            "300",
            "300 jobs retried in 10 minutes because of lock:order:*",
            "lockscope-prefix?from=now-3h&to=now&var-prefix=lock%3Aorder%3A%2A",
        ),
    ),
    Case(
        _STORM,
        "silent",
        "many retries of a busy lock that most get; few retries",
        {
            shim(RETRY, 'reason="lock_held"'): "0+20x40",
            shim(ACQUIRE_TOTAL, ACQUIRED): "0+50x40",
            shim(RETRY, 'reason="lock_held"', REPORT): "0+0.5x40",
        },
        {"30m": []},
    ),
    Case(
        _STORM,
        "boundary",
        "nineteen and twenty retries where nothing was got; just under and over three for one",
        {
            shim(RETRY, 'reason="lock_held"', "nineteen"): "_x20 19x20",
            shim(RETRY, 'reason="lock_held"', "twenty"): "_x20 20x20",
            shim(RETRY, 'reason="lock_held"', "under"): "0+29x40",
            shim(ACQUIRE_TOTAL, ACQUIRED, "under"): "0+10x40",
            shim(RETRY, 'reason="lock_held"', "over"): "0+31x40",
            shim(ACQUIRE_TOTAL, ACQUIRED, "over"): "0+10x40",
        },
        {"28m": ["over", "twenty"]},
    ),
    Case(
        _STORM,
        "restart",
        "retries counted before a restart are not counted again",
        {shim(RETRY, 'reason="lock_held"'): "900x20 0x20", shim(ACQUIRE_TOTAL, ACQUIRED): "0+1x20 0+1x20"},
        {"22m": [], "35m": []},
    ),
    Case(_STORM, "absent", "no worker reports", {}, {"40m": []}),
    Case(
        _STORM,
        "flapping",
        "waves of retries thirteen minutes apart keep one alert",
        {shim(RETRY, 'reason="lock_held"'): "0x5 60x12 120x12 180x60"},
        {"9m": [], "12m": [ORDER], "18m": [ORDER], "25m": [ORDER], "31m": [ORDER], "60m": []},
    ),
)

ACQUIRE = (*_SPIKES, *_BACKEND_ERRORS, *_CONTENTIONS, *_WAITERS_GROWING, *_STARVATIONS, *_STORMS)

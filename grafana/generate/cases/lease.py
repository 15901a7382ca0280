"""Cases of the alerts about keeping a lock."""

from __future__ import annotations

from dataclasses import replace

from grafana.generate.cases.kit import ORDER, REPORT, WORKERS_2, Case, Text, shim

RENEW_TOTAL, RELEASE_TOTAL = "redis_lock_renew_total", "redis_lock_release_total"
RENEWED, RELEASED = 'outcome="renewed"', 'outcome="released"'
LOST, ERROR = 'outcome="lost"', 'outcome="error"'
_LABELS = {"job": "workers", "prefix": ORDER, "job_type": "invoice", "severity": "warning"}
_URL = "lockscope-prefix?from=now-3h&to=now&var-prefix=lock%3Aorder%3A%2A&var-job_type=invoice"

_RENEW = "RedisLockRenewFailing"
_RENEWALS = (
    Case(
        _RENEW,
        "fires",
        "a quarter of the renewals are lost or raise",
        {
            shim(RENEW_TOTAL, RENEWED): "0+6x20",
            shim(RENEW_TOTAL, LOST): "0x5 0+1x15",
            shim(RENEW_TOTAL, ERROR): "0x5 0+1x15",
        },
        {"4m": [], "20m": [ORDER]},
        text=Text("20m", _LABELS, "25%", "25% of renewals of lock:order:* fail", _URL),
    ),
    Case(
        _RENEW,
        "silent",
        "all renewals succeed; one in a hundred fails; two of two fail",
        {
            shim(RENEW_TOTAL, RENEWED): "0+6x30",
            shim(RENEW_TOTAL, LOST): "0x30",
            shim(RENEW_TOTAL, RENEWED, "few"): "0+99x30",
            shim(RENEW_TOTAL, LOST, "few"): "0+1x30",
            shim(RENEW_TOTAL, LOST, "two"): "_x15 2x15",
        },
        {"20m": [], "30m": []},
    ),
    Case(
        _RENEW,
        "boundary",
        "just under and over a tenth; three failures born in the window",
        {
            shim(RENEW_TOTAL, RENEWED, "under"): "0+91x30",
            shim(RENEW_TOTAL, ERROR, "under"): "0+9x30",
            shim(RENEW_TOTAL, RENEWED, "over"): "0+89x30",
            shim(RENEW_TOTAL, ERROR, "over"): "0+11x30",
            shim(RENEW_TOTAL, LOST, "three"): "_x15 3x15",
        },
        {"20m": ["over", "three"]},
    ),
    Case(
        _RENEW,
        "restart",
        "a worker that restarts; one whose counters another process exposes for the first time at 50",
        {
            shim(RENEW_TOTAL, RENEWED): "0+6x15 0+6x15",
            shim(RENEW_TOTAL, LOST): "9x15 0x15",
            shim(RENEW_TOTAL, LOST, REPORT, who=WORKERS_2): "_x15 50x15",
        },
        {"17m": [], "30m": []},
        up={f"up{{{WORKERS_2}}}": "_x15 1x15"},
    ),
    Case(_RENEW, "absent", "no worker reports", {}, {"20m": []}),
    Case(
        _RENEW,
        "flapping",
        "three lost every twelve minutes keep one alert",
        {shim(RENEW_TOTAL, LOST): "0x5 3x11 6x11 9x40", shim(RENEW_TOTAL, RENEWED): "0+0.5x90"},
        {"10m": [ORDER], "16m": [ORDER], "20m": [ORDER], "28m": [ORDER], "50m": []},
    ),
)

_LOSS = "RedisLockOwnershipLost"
_LOSSES = (
    Case(
        _LOSS,
        "fires",
        "the first loss ever, in a counter born at 1",
        {
            shim(RENEW_TOTAL, RENEWED): "0+6x20",
            shim(RENEW_TOTAL, LOST): "_x12 1x8",
            shim(RELEASE_TOTAL, LOST): "0x12 1x8",
        },
        {"11m": [], "15m": [ORDER]},
        text=Text("15m", _LABELS, "2", "invoice lost lock:order:* 2 times while working", _URL),
    ),
    Case(
        _LOSS,
        "fires",
        "a growth of 3 that is extrapolated to 3.75 is told as a whole number",
        {shim(RELEASE_TOTAL, LOST): "_ 5 _ 5 _ 5 _ 5 _ 5 _ 5 _ 6 _ 7 _ 8 _ 8"},
        {"20m": [ORDER]},
        text=Text("20m", _LABELS, "4", "invoice lost lock:order:* 4 times while working", _URL),
    ),
    Case(
        _LOSS,
        "silent",
        "renewals and releases that raise, or that all succeed, are no losses",
        {
            shim(RENEW_TOTAL, RENEWED): "0+6x30",
            shim(RENEW_TOTAL, ERROR): "0+1x30",
            shim(RELEASE_TOTAL, ERROR): "0+1x30",
            shim(RENEW_TOTAL, LOST): "0x30",
            shim(RELEASE_TOTAL, LOST): "7x30",
        },
        {"12m": [], "30m": []},
    ),
    Case(
        _LOSS,
        "boundary",
        "no loss and one loss; it ends ten minutes after the loss left the window",
        {shim(RELEASE_TOTAL, LOST, "none"): "0x40", shim(RELEASE_TOTAL, LOST, "one"): "0x14 1x40"},
        {"14m": [], "16m": ["one"], "33m": ["one"], "37m": []},
    ),
    Case(
        _LOSS,
        "restart",
        "losses of before a restart are not new ones; a process that lives two minutes and lost one is heard",
        {
            shim(RELEASE_TOTAL, LOST): "8x15 0x15",
            shim(RELEASE_TOTAL, LOST, REPORT, who=WORKERS_2): "_x15 1x2 stale",
        },
        {"14m": [], "16m": [REPORT], "25m": [REPORT], "30m": []},
        up={
            f"up{{{WORKERS_2}}}": "_x15 1x2 stale",
            f"process_start_time_seconds{{{WORKERS_2}}}": "_x15 880x2 stale",
        },
    ),
    Case(_LOSS, "absent", "no worker reports", {}, {"20m": []}),
    Case(
        _LOSS,
        "flapping",
        "one loss every quarter of an hour keeps one alert",
        {shim(RENEW_TOTAL, LOST): "0x4 1x14 2x14 3x40"},
        {"6m": [ORDER], "18m": [ORDER], "30m": [ORDER], "44m": [ORDER], "60m": []},
    ),
)

_RELEASE = "RedisLockReleaseFailing"
_RELEASES = (
    Case(
        _RELEASE,
        "fires",
        "a fifth of the releases raise or free nothing",
        {
            shim(RELEASE_TOTAL, RELEASED): "0+8x20",
            shim(RELEASE_TOTAL, LOST): "0+1x20",
            shim(RELEASE_TOTAL, ERROR): "0+1x20",
        },
        {"20m": [ORDER]},
        text=Text("20m", _LABELS, "20%", "20% of releases of lock:order:* free nothing", _URL),
    ),
    Case(
        _RELEASE,
        "silent",
        "all succeed; two of two fail",
        {shim(RELEASE_TOTAL, RELEASED): "0+8x30", shim(RELEASE_TOTAL, ERROR, "two"): "_x15 2x15"},
        {"20m": [], "30m": []},
    ),
    Case(
        _RELEASE,
        "boundary",
        "just under and over a tenth; three failures without one success",
        {
            shim(RELEASE_TOTAL, RELEASED, "under"): "0+91x30",
            shim(RELEASE_TOTAL, LOST, "under"): "0+9x30",
            shim(RELEASE_TOTAL, RELEASED, "over"): "0+89x30",
            shim(RELEASE_TOTAL, LOST, "over"): "0+11x30",
            shim(RELEASE_TOTAL, ERROR, "three"): "_x15 3x15",
        },
        {"20m": ["over", "three"]},
    ),
    Case(
        _RELEASE,
        "restart",
        "failures of before a restart do not count again",
        {shim(RELEASE_TOTAL, RELEASED): "0+1x15 0+1x15", shim(RELEASE_TOTAL, ERROR): "40x15 0x15"},
        {"17m": [], "30m": []},
    ),
    Case(_RELEASE, "absent", "no worker reports", {}, {"20m": []}),
    Case(
        _RELEASE,
        "flapping",
        "three failures every twelve minutes keep one alert",
        {shim(RELEASE_TOTAL, ERROR): "0x5 3x11 6x11 9x40", shim(RELEASE_TOTAL, RELEASED): "0+0.5x90"},
        {"10m": [ORDER], "16m": [ORDER], "20m": [ORDER], "28m": [ORDER], "50m": []},
    ),
)

_HEADROOM = "RedisLockTTLHeadroomLow"
LATE, RENEWALS = "redis_lock_renew_headroom_ratio_bucket", "redis_lock_renew_headroom_ratio_count"
_LE_LATE = 'le="0.2"'
_HEADROOMS = (
    Case(
        _HEADROOM,
        "fires",
        "three of ten renewals come with less than a fifth of the TTL left",
        {shim(LATE, _LE_LATE): "0+3x30", shim(RENEWALS): "0+10x30"},
        {"3m": [], "20m": [ORDER]},
        text=Text("20m", _LABELS, "30%", "30% of renewals of lock:order:* come at the last moment", _URL),
    ),
    Case(
        _HEADROOM,
        "silent",
        "renewals at a third of the TTL; nine late ones of nine",
        {
            shim(LATE, _LE_LATE): "0x60",
            shim(RENEWALS): "0+10x60",
            shim(LATE, _LE_LATE, "nine"): "0x20 9x40",
            shim(RENEWALS, "", "nine"): "0x20 9x40",
        },
        {"18m": [], "60m": []},
    ),
    Case(
        _HEADROOM,
        "boundary",
        "just under and over a tenth; ten late ones of ten",
        {
            shim(LATE, _LE_LATE, "under"): "0+9x80",
            shim(RENEWALS, "", "under"): "0+100x80",
            shim(LATE, _LE_LATE, "over"): "0+11x80",
            shim(RENEWALS, "", "over"): "0+100x80",
            shim(LATE, _LE_LATE, "ten"): "0x39 10x40",
            shim(RENEWALS, "", "ten"): "0x39 10x40",
        },
        {"42m": ["over"], "60m": ["over", "ten"]},
    ),
    Case(
        _HEADROOM,
        "restart",
        "buckets that start again from 0 are read as such",
        {shim(LATE, _LE_LATE): "900x20 0x40", shim(RENEWALS): "9000+10x20 0+10x40"},
        {"22m": [], "60m": []},
    ),
    Case(_HEADROOM, "absent", "no worker reports", {}, {"20m": []}),
    Case(
        _HEADROOM,
        "flapping",
        "late renewals for ten minutes, and again after more than an hour, are one alert",
        {shim(LATE, _LE_LATE): "0+10x10 100x66 110+10x10 210x90", shim(RENEWALS): "0+10x240"},
        {"20m": [ORDER], "60m": [ORDER], "74m": [ORDER], "110m": [ORDER], "170m": []},
    ),
)

_SHORT = "RedisLockTTLTooShort"
USED, HOLDS = "redis_lock_ttl_used_ratio_bucket", "redis_lock_ttl_used_ratio_count"
_LE_TIGHT = 'le="0.8"'
_SHORTS = (
    Case(
        _SHORT,
        "fires",
        "a quarter of the holds use more than four fifths of their TTL",
        {shim(USED, _LE_TIGHT): "0+3x30", shim(HOLDS): "0+4x30"},
        {"3m": [], "20m": [ORDER]},
        text=Text("20m", _LABELS, "25%", "25% of holds of lock:order:* use over 80 % of their TTL", _URL),
    ),
    Case(
        _SHORT,
        "silent",
        "all holds fit; four of four do not",
        {
            shim(USED, _LE_TIGHT): "0+4x60",
            shim(HOLDS): "0+4x60",
            shim(USED, _LE_TIGHT, "four"): "0x60",
            shim(HOLDS, "", "four"): "0x20 4x40",
        },
        {"18m": [], "60m": []},
    ),
    Case(
        _SHORT,
        "boundary",
        "just under and over a twentieth; five of five",
        {
            shim(USED, _LE_TIGHT, "under"): "0+96x80",
            shim(HOLDS, "", "under"): "0+100x80",
            shim(USED, _LE_TIGHT, "over"): "0+94x80",
            shim(HOLDS, "", "over"): "0+100x80",
            shim(USED, _LE_TIGHT, "five"): "0x80",
            shim(HOLDS, "", "five"): "0x39 5x40",
        },
        {"42m": ["over"], "60m": ["five", "over"]},
    ),
    Case(
        _SHORT,
        "restart",
        "buckets that start again from 0 are read as such",
        {shim(USED, _LE_TIGHT): "100+4x20 0+4x40", shim(HOLDS): "900+4x20 0+4x40"},
        {"22m": [], "60m": []},
    ),
    Case(_SHORT, "absent", "no worker reports", {}, {"20m": []}),
    Case(
        _SHORT,
        "flapping",
        "tight holds for ten minutes, and again after more than an hour, are one alert",
        {shim(USED, _LE_TIGHT): "0x10 0+5x64 320x10 320+5x100 820x90", shim(HOLDS): "0+5x184 920x90"},
        {"20m": [ORDER], "65m": [ORDER], "75m": [ORDER], "110m": [ORDER], "180m": []},
    ),
)

_LONG_TTL = "RedisLockTTLTooLong"
_LE_LOOSE = 'le="0.1"'
HOLD_SUM, USED_SUM = "redis_lock_hold_seconds_sum", "redis_lock_ttl_used_ratio_sum"


def _loose(prefix: str, loose: float, holds: float, ttl: float, length: int = 200) -> dict[str, str]:
    """Return holds a minute, how many of them use at most a tenth of the TTL, and 2 % of it on average."""
    used = 0.02 * holds
    return {
        shim(USED, _LE_LOOSE, prefix): f"0+{loose}x{length}",
        shim(HOLDS, "", prefix): f"0+{holds}x{length}",
        shim(USED_SUM, "", prefix): f"0+{used}x{length}",
        shim(HOLD_SUM, "", prefix): f"0+{used * ttl}x{length}",
    }


_LONGS = (
    Case(
        _LONG_TTL,
        "fires",
        "holds of twelve seconds under a TTL of ten minutes",
        _loose(ORDER, 2, 2, 600),
        {"50m": [], "100m": [ORDER]},
        text=Text(
            "100m",
            {**_LABELS, "severity": "info"},
            "100%",
            "100% of holds of lock:order:* use under a tenth of their TTL",
            _URL,
        ),
    ),
    Case(
        _LONG_TTL,
        "silent",
        "the same share under a TTL of a minute; a lock that is renewed; some holds that need the TTL",
        {
            **_loose("short-ttl", 2, 2, 60),
            **_loose("renewed", 2, 2, 600),
            shim(RENEWALS, "", "renewed"): "0+2x200",
            **_loose("varied", 90, 100, 600),
        },
        {"100m": [], "180m": []},
    ),
    Case(
        _LONG_TTL,
        "boundary",
        "a TTL just under and over five minutes; forty and sixty holds in all",
        {
            **_loose("under", 2, 2, 290),
            **_loose("over", 2, 2, 310),
            **_loose("forty", 4, 4, 600, 10),
            **_loose("sixty", 6, 6, 600, 10),
        },
        {"110m": ["over", "sixty"]},
    ),
    Case(
        _LONG_TTL,
        "restart",
        "a worker that restarts goes on being judged by what it does",
        {
            shim(USED, _LE_LOOSE): "0+2x60 0+2x60",
            shim(HOLDS): "0+2x60 0+2x60",
            shim(USED_SUM): "0+0.04x60 0+0.04x60",
            shim(HOLD_SUM): "0+24x60 0+24x60",
            shim(USED, _LE_LOOSE, REPORT): "500x60 0+1x60",
            shim(HOLDS, "", REPORT): "900x60 0+100x60",
        },
        {"110m": [ORDER]},
    ),
    Case(_LONG_TTL, "absent", "no worker reports", {}, {"90m": []}),
    Case(
        _LONG_TTL,
        "flapping",
        "half an hour without any hold does not end it",
        {
            shim(USED, _LE_LOOSE): "0+2x90 180x30 180+2x60",
            shim(HOLDS): "0+2x90 180x30 180+2x60",
            shim(USED_SUM): "0+0.04x90 3.6x30 3.6+0.04x60",
            shim(HOLD_SUM): "0+24x90 2160x30 2160+24x60",
        },
        {"95m": [ORDER], "118m": [ORDER], "150m": [ORDER]},
    ),
)

# As often as a running Prometheus evaluates the last three.
LEASE = (
    *_RENEWALS,
    *_LOSSES,
    *_RELEASES,
    *(replace(case, step="4m") for case in (*_HEADROOMS, *_SHORTS, *_LONGS)),
)

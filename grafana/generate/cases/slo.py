"""Cases of the burn rates. The objective is the shipped 99 %, so a burn of 1 is one failure in a hundred."""

from __future__ import annotations

from dataclasses import replace

from grafana.generate.cases.kit import ORDER, WORKERS_2, Case, Text, shim

_BURN = "RedisLockAcquireSLOBurn"
TOTAL = "redis_lock_acquire_total"
ACQUIRED, CONTENDED = 'outcome="acquired"', 'outcome="contended"'
TIMEOUT, ERROR = 'outcome="timeout"', 'outcome="error"'


def _steady(kind: str, percent: float, windows: list[str]) -> Case:
    """Return a case where a constant share of the acquires fails for four hours."""
    return Case(
        _BURN,
        "boundary" if kind == "boundary" else "silent",
        f"{percent} % of the acquires fail",
        {
            shim(TOTAL, ACQUIRED): f"0+{1000 - 10 * percent:g}x240",
            shim(TOTAL, TIMEOUT): f"0+{10 * percent:g}x240",
        },
        {"4h": windows},
    )


_CASES = (
    Case(
        _BURN,
        "fires",
        "the last quarter of an hour of a quiet hour after a busy day fails: only the fastest pair sees it",
        {
            shim(TOTAL, ACQUIRED): "0+1000x280 280000+10x65 280650x60",
            shim(TOTAL, TIMEOUT): "0x345 0+10x15",
        },
        {"340m": [], "360m": ["1h"]},
        text=Text(
            "360m",
            {
                "job": "workers",
                "prefix": ORDER,
                "severity": "critical",
                "long_window": "1h",
                "short_window": "5m",
            },
            "20%",
            "Acquiring lock:order:* burns its error budget 14.4 times too fast",
            "lockscope-slo?from=now-3h&to=now&var-prefix=lock%3Aorder%3A%2A",
        ),
    ),
    Case(
        _BURN,
        "silent",
        "refused try-locks are within the objective",
        {shim(TOTAL, ACQUIRED): "0+1x240", shim(TOTAL, CONTENDED): "0+99x240", shim(TOTAL, ERROR): "0x240"},
        {"4h": []},
    ),
    Case(
        _BURN,
        "silent",
        "an outage that is over no longer burns in any short window",
        {
            shim(TOTAL, ACQUIRED): "0+100x60 6000x15 6000+100x500",
            shim(TOTAL, ERROR): "0x60 0+100x15 1500x500",
        },
        {"76m": ["1h", "6h", "1d", "3d"], "8h": []},
    ),
    _steady("boundary", 0.9, []),
    _steady("boundary", 1.1, ["3d"]),
    _steady("boundary", 2.9, ["3d"]),
    _steady("boundary", 3.1, ["1d", "3d"]),
    _steady("boundary", 5.9, ["1d", "3d"]),
    _steady("boundary", 6.1, ["6h", "1d", "3d"]),
    _steady("boundary", 14.3, ["6h", "1d", "3d"]),
    _steady("boundary", 14.5, ["1h", "6h", "1d", "3d"]),
    Case(
        _BURN,
        "boundary",
        "eight failures and nothing else are too few",
        {shim(TOTAL, TIMEOUT): "0x30 8x60"},
        {"35m": []},
    ),
    Case(
        _BURN,
        "boundary",
        "twelve failures and nothing else, in a counter born at twelve",
        {shim(TOTAL, TIMEOUT): "_x30 12x60"},
        {"36m": ["1h", "6h", "1d", "3d"]},
    ),
    Case(
        _BURN,
        "restart",
        "workers that restart burn nothing",
        {
            shim(TOTAL, ACQUIRED): "0+10x60 0+10x60",
            shim(TOTAL, TIMEOUT): "90x60 0x60",
            shim(TOTAL, TIMEOUT, who=WORKERS_2): "_x60 300x60",
        },
        {"64m": [], "2h": []},
        up={f"up{{{WORKERS_2}}}": "_x60 1x60"},
    ),
    Case(_BURN, "absent", "no worker reports", {}, {"2h": []}),
    Case(
        _BURN,
        "flapping",
        "failures in every other five minutes burn without a break",
        {
            shim(TOTAL, ACQUIRED): "0+10x90",
            shim(TOTAL, TIMEOUT): "0+20x5 100x5 100+20x5 200x5 200+20x5 300x5 300+20x5 400x5 400+20x5 500x30",
        },
        {"30m": ["6h", "1d", "3d", "1h"], "40m": ["6h", "1d", "3d", "1h"], "50m": ["6h", "1d", "3d", "1h"]},
    ),
)

# As often as a running Prometheus evaluates these groups.
SLO = tuple(replace(case, by="long_window", step="2m") for case in _CASES)

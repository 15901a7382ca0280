"""Cases of the alerts about Redis as a place for locks, and about lockscope itself."""

from __future__ import annotations

from grafana.generate.cases.kit import (
    EXPORTER,
    EXPORTER_2,
    LONG,
    ORDER,
    WORKERS,
    WORKERS_2,
    Case,
    Text,
    node,
    seen,
)

ADDRESS = "10.0.0.5:6379"
_NODE = {"job": "lockscope", "target": "default", "node": ADDRESS}
_URL = "lockscope-exporter?from=now-3h&to=now"
_NODE_URL = f"{_URL}&var-target=default&var-node=10.0.0.5%3A6379"

_UNSAFE = "RedisLockEvictionUnsafe"
SAFE = "redis_lock_server_eviction_safe"
_UNSAFES = (
    Case(
        _UNSAFE,
        "fires",
        "the policy can drop locks for ten minutes, whichever exporter says so",
        {node(SAFE): "0x30", node(SAFE, EXPORTER_2): "0x30"},
        {"9m": [], "15m": [ADDRESS]},
        by="node",
        text=Text(
            "15m",
            {**_NODE, "severity": "warning"},
            "0",
            "Redis 10.0.0.5:6379 of default may evict locks",
            _NODE_URL,
        ),
    ),
    Case(_UNSAFE, "silent", "noeviction", {node(SAFE): "1x30"}, {"15m": []}, by="node"),
    Case(
        _UNSAFE,
        "boundary",
        "nine minutes while someone tunes the server",
        {node(SAFE): "1x3 0x9 1x30"},
        {"12m": [], "15m": []},
        by="node",
    ),
    Case(
        _UNSAFE,
        "boundary",
        "eleven minutes",
        {node(SAFE): "1x3 0x11 1x30"},
        {"13m": [], "15m": [ADDRESS]},
        by="node",
    ),
    Case(
        _UNSAFE,
        "restart",
        "an exporter that is gone for two minutes comes back to the same server",
        {node(SAFE): "0x13 stale _x1 0x30"},
        {"13m": [ADDRESS], "20m": [ADDRESS]},
        by="node",
    ),
    Case(_UNSAFE, "absent", "a server that does not tell its policy", {}, {"15m": []}, by="node"),
    Case(
        _UNSAFE,
        "flapping",
        "a policy that is changed back and forth keeps one alert",
        {node(SAFE): "0x12 1x4 0x4 1x4 0x4 1x20"},
        {"12m": [ADDRESS], "16m": [ADDRESS], "24m": [ADDRESS], "50m": []},
        by="node",
    ),
)

_EVICTED = "RedisLockEvicted"
ENDED, EVICTED_KEYS = "redis_lock_observed_ended_total", "redis_lock_server_evicted_keys_total"
_GONE = 'how="evicted"'
_EVICTIONS = (
    Case(
        _EVICTED,
        "fires",
        "the first locks that Redis evicts",
        {seen(ENDED, _GONE): "0x8 3x20", seen(ENDED, 'how="released"'): "0+9x40"},
        {"8m": [], "12m": [ORDER]},
        text=Text(
            "12m",
            {
                "job": "lockscope",
                "target": "default",
                "db": "0",
                "prefix": ORDER,
                "about": "state",
                "severity": "critical",
            },
            "3",
            "Redis evicted 3 locks of lock:order:*",
            "lockscope-prefix?from=now-3h&to=now&var-prefix=lock%3Aorder%3A%2A",
        ),
    ),
    Case(
        _EVICTED,
        "fires",
        "Redis evicts keys under a policy that can take locks",
        {node(EVICTED_KEYS): "500x8 900x20", node(SAFE): f"0{LONG}"},
        {"8m": [], "12m": ["server"]},
        by="scope",
        text=Text(
            "12m",
            {**_NODE, "severity": "warning", "scope": "server"},
            "400",
            "Redis 10.0.0.5:6379 of default evicts keys, and may take locks",
            _NODE_URL,
        ),
    ),
    Case(
        _EVICTED,
        "silent",
        "locks end in every other way; evictions under a policy that spares locks",
        {
            seen(ENDED, _GONE): f"0{LONG}",
            seen(ENDED, 'how="released"'): "0+9x40",
            seen(ENDED, 'how="expired"'): "0+9x40",
            seen(ENDED, 'how="flushed"'): "0+9x40",
            node(EVICTED_KEYS): "0+500x40",
            node(SAFE): f"1{LONG}",
        },
        {"20m": []},
    ),
    Case(
        _EVICTED,
        "boundary",
        "none and one, in a counter born at 1",
        {seen(ENDED, _GONE, "none"): "0x60", seen(ENDED, _GONE, "one"): "_x15 1x60"},
        {"14m": [], "16m": ["one"], "33m": ["one"], "37m": []},
    ),
    Case(
        _EVICTED,
        "restart",
        "an exporter that restarts, and a server counter that was there before it",
        {
            seen(ENDED, _GONE): "7x15 0x30",
            node(EVICTED_KEYS, EXPORTER_2): "_x15 90000x30",
            node(SAFE, EXPORTER_2): f"0{LONG}",
        },
        {"17m": [], "30m": []},
        up={f"up{{{EXPORTER_2}}}": "_x15 1x30"},
    ),
    Case(_EVICTED, "absent", "no exporter reports", {}, {"20m": []}),
    Case(
        _EVICTED,
        "flapping",
        "one lock every quarter of an hour keeps one alert",
        {seen(ENDED, _GONE): "0x4 1x14 2x14 3x60"},
        {"6m": [ORDER], "18m": [ORDER], "30m": [ORDER], "44m": [ORDER], "60m": []},
    ),
    Case(
        _EVICTED,
        "flapping",
        "a batch of keys every quarter of an hour keeps one alert of the server",
        {node(EVICTED_KEYS): "0x4 90x14 180x14 270x60", node(SAFE): f"0{LONG}"},
        {"6m": ["server"], "18m": ["server"], "30m": ["server"], "60m": []},
        by="scope",
    ),
)

_DOWN = "RedisLockExporterDown"
UP = "redis_lock_up"
_DOWNS = (
    Case(
        _DOWN,
        "fires",
        "the only exporter of a target stops answering",
        {node(UP): "1x10 stale"},
        {"10m": [], "15m": ["scrape"]},
        by="reason",
        up={f"up{{{EXPORTER}}}": "1x10 0x30"},
        text=Text(
            "15m",
            {"job": "lockscope", "target": "default", "severity": "critical", "reason": "scrape"},
            "0",
            "No lockscope exporter of default answers",
            f"{_URL}&var-target=default",
        ),
    ),
    Case(
        _DOWN,
        "fires",
        "the exporter answers, and Redis does not",
        {node(UP): "1x10 0x30"},
        {"10m": [], "13m": ["redis"]},
        by="reason",
        text=Text(
            "13m",
            {**_NODE, "severity": "critical", "reason": "redis"},
            "0",
            "lockscope cannot read Redis 10.0.0.5:6379 of default",
            _NODE_URL,
        ),
    ),
    Case(
        _DOWN,
        "silent",
        "one of two exporters of a target is down; one of them cannot reach Redis; other jobs are down",
        {node(UP): "1x10 stale", node(UP, EXPORTER_2): "1x60"},
        {"15m": [], "30m": []},
        by="reason",
        up={
            f"up{{{EXPORTER}}}": "1x10 0x30",
            f"up{{{EXPORTER_2}}}": "1x60",
            f"up{{{WORKERS}}}": f"0{LONG}",
        },
    ),
    Case(
        _DOWN,
        "boundary",
        "not for a minute, and for over two",
        {node(UP): "1x10 stale _x1 1x10 stale"},
        {"12m": [], "23m": [], "27m": ["scrape"]},
        by="reason",
        up={f"up{{{EXPORTER}}}": "1x10 0x1 1x10 0x30"},
    ),
    Case(
        _DOWN,
        "fires",
        "an exporter that stays down for over a day, beside one of another target",
        {node(UP): "1x10 stale", node(UP, EXPORTER_2, 'target="other", node="10.0.0.6:6379"'): "1x1600"},
        {"26h": ["scrape"]},
        by="reason",
        up={f"up{{{EXPORTER}}}": "1x10 0x1600", f"up{{{EXPORTER_2}}}": "1x1600"},
        alone=True,
    ),
    Case(
        _DOWN,
        "restart",
        "a pod that is replaced by one of another name is no outage",
        {node(UP): "1x10 stale", node(UP, EXPORTER_2): "_x11 1x60"},
        {"13m": [], "30m": []},
        by="reason",
        up={f"up{{{EXPORTER}}}": "1x10 stale", f"up{{{EXPORTER_2}}}": "_x11 1x60"},
    ),
    Case(_DOWN, "absent", "nothing was ever scraped", {}, {"20m": []}, by="reason"),
    Case(
        _DOWN,
        "flapping",
        "a server that answers every other sample does not call anyone",
        {node(UP): "1 0 1 0 1 0 1 0 1 0 1 0 1 0 1"},
        {"5m": [], "10m": [], "14m": []},
        by="reason",
    ),
)

_ABSENT = "RedisLockExporterAbsent"
_ABSENTS = tuple(
    Case(_ABSENT, kind, why, series, firing, by="severity", text=text, alone=True)  # type: ignore[arg-type]
    for kind, why, series, firing, text in (
        (
            "fires",
            "no exporter for ten minutes",
            {node(UP): "1x5 stale"},
            {"5m": [], "14m": [], "18m": ["critical"]},
            Text(
                "18m",
                {"severity": "critical"},
                "1",
                "Prometheus knows no lockscope exporter (1 of 1 absent)",
                _URL,
            ),
        ),
        ("silent", "an exporter whose Redis is down is there", {node(UP): "0x30"}, {"20m": []}, None),
        ("boundary", "gone for nine minutes", {node(UP): "1x2 stale _x8 1x30"}, {"13m": []}, None),
        (
            "restart",
            "a deployment that replaces the pod",
            {node(UP): "1x5 stale", node(UP, EXPORTER_2): "_x8 1x30"},
            {"7m": [], "20m": []},
            None,
        ),
        ("absent", "there never was one", {}, {"9m": [], "12m": ["critical"]}, None),
        (
            "flapping",
            "an exporter that comes back for a moment every five minutes",
            {node(UP): "1 stale _x3 1 stale _x3 1 stale _x3 1 stale _x3 1"},
            {"10m": [], "19m": []},
            None,
        ),
    )
)

_MIRROR = "RedisLockMirrorStale"
AGE = "redis_lock_mirror_age_seconds"
_MIRRORS = (
    Case(
        _MIRROR,
        "fires",
        "nothing heard of the server for two minutes",
        {node(AGE): "0 0 60 120 180 240", node(AGE, EXPORTER_2): "0 0 61 121 181 241"},
        {"2m": [], "4m": [ADDRESS]},
        by="node",
        text=Text(
            "4m",
            {**_NODE, "severity": "warning"},
            "3m 0s",
            "What is known of locks on 10.0.0.5:6379 is 3m 0s old",
            _NODE_URL,
        ),
    ),
    Case(
        _MIRROR,
        "silent",
        "one of two exporters is up to date",
        {node(AGE): "0.2x20", node(AGE, EXPORTER_2): "0+60x20"},
        {"10m": []},
        by="node",
    ),
    Case(
        _MIRROR,
        "boundary",
        "thirty seconds, and a little more",
        {node(AGE): "30x20", node(AGE, where='target="other", node="b:1"'): "30.5x20"},
        {"5m": ["b:1"]},
        by="node",
    ),
    Case(
        _MIRROR,
        "restart",
        "an exporter that restarts has heard nothing for a moment",
        {node(AGE): "0.2x5 stale 40 0.2x20"},
        {"7m": [], "9m": []},
        by="node",
    ),
    Case(_MIRROR, "absent", "no exporter reports", {}, {"10m": []}, by="node"),
    Case(
        _MIRROR,
        "flapping",
        "a server that answers late but answers",
        {node(AGE): "0 40 0 40 0 40 0 40 0 40 0"},
        {"4m": [], "8m": [], "10m": []},
        by="node",
    ),
)


def _counted(alert: str, metric: str, text: Text, keep_ends: str) -> tuple[Case, ...]:
    """Return the cases of an alert on any growth of a counter without labels.

    Args:
        alert: its name.
        metric: the counter.
        text: how it reads, at 15 minutes, for four of one process and three of another, born at three.
        keep_ends: when an alert that began at 15 minutes is certainly over.
    """
    first, second = f"{metric}{{{WORKERS}}}", f"{metric}{{{WORKERS_2}}}"
    both_up = {f"up{{{WORKERS_2}}}": "1x200"}
    return (
        Case(
            alert,
            "fires",
            "two processes, one with a new counter",
            {first: "5x8 9x20", second: "_x9 3x20"},
            {"8m": [], "15m": ["workers"]},
            by="job",
            up=both_up,
            text=text,
        ),
        Case(alert, "silent", "old counts are no news", {first: "700x40"}, {"15m": []}, by="job"),
        Case(
            alert,
            "boundary",
            "none and one",
            {first: "0x14 1x150"},
            {"14m": [], "16m": ["workers"], keep_ends: []},
            by="job",
        ),
        Case(
            alert,
            "restart",
            "a process that restarts, and one that Prometheus meets with 60 on the counter",
            {first: "9x15 0x30", second: "_x15 60x30"},
            {"17m": [], "30m": []},
            by="job",
            up={f"up{{{WORKERS_2}}}": "_x15 1x30"},
        ),
        Case(alert, "absent", "no process reports", {}, {"20m": []}, by="job"),
        Case(
            alert,
            "flapping",
            "one every quarter of an hour keeps one alert",
            {first: "0x4 1x14 2x14 3x30"},
            {"6m": ["workers"], "18m": ["workers"], "30m": ["workers"], "44m": ["workers"]},
            by="job",
        ),
    )


_OVERFLOWS = _counted(
    "RedisLockPrefixOverflow",
    "redis_lock_prefix_overflow_total",
    Text(
        "15m",
        {"job": "workers", "severity": "warning"},
        "7",
        '7 keys of workers were folded into the prefix "other"',
        f"{_URL}&var-job=workers",
    ),
    "87m",
)
_DROPS = _counted(
    "RedisLockJournalDropping",
    "redis_lock_journal_dropped_total",
    Text(
        "15m",
        {"job": "workers", "severity": "warning"},
        "7",
        "workers dropped 7 journal events",
        f"{_URL}&var-job=workers",
    ),
    "37m",
)

SAMPLER = (*_UNSAFES, *_EVICTIONS, *_DOWNS, *_ABSENTS, *_MIRRORS, *_OVERFLOWS, *_DROPS)

"""Job-progress payloads: what they say, and when a running job counts as stale."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockscope_exporter.dialects import Reading
from lockscope_exporter.progress import (
    MAX_FIELDS,
    MAX_PAYLOAD,
    Names,
    decode_progress,
    judge,
    plan_progress,
)

NOW = 1_796_000_000.0  # 2026-11-30T00:53:20Z


def _json(**fields):
    return Reading(b"progress:job-7", "string", json.dumps(fields).encode())


def _hash(**fields):
    return Reading(
        b"progress:job-7", "hash", {name.encode(): str(value).encode() for name, value in fields.items()}
    )


def _verdict(reading, names=None, **options):
    report = decode_progress(reading, *([names] if names else []))
    assert report is not None
    return judge(report, NOW, **options)


@pytest.mark.parametrize("make", [_json, _hash])
def test_a_running_job_is_stale_once_it_was_silent_for_longer_than_allowed(make):
    """Sixty seconds of silence are allowed unless the user says otherwise, not more."""
    assert _verdict(make(status="running", last_heartbeat=NOW - 59)).state == "running"
    assert _verdict(make(status="running", last_heartbeat=NOW - 61)).state == "stale"
    assert _verdict(make(status="running", last_heartbeat=NOW - 61), stale_after=90).state == "running"
    assert _verdict(make(status="running", last_heartbeat=NOW - 61)).silent_seconds == 61


@pytest.mark.parametrize(
    ("written", "seconds_ago"),
    [
        (NOW - 30, 30),
        (int((NOW - 30) * 1000), 30),
        (str(NOW - 30), 30),
        (f"{(NOW - 30) * 1000:.0f}", 30),
        (int((NOW - 30) * 1e6), 30),
        ("2026-11-30T00:52:50Z", 30),
        ("2026-11-30T02:52:50.500+02:00", 29.5),
        ("2026-11-30 00:52:50", 30),
    ],
)
def test_heartbeats_are_read_in_every_usual_notation(written, seconds_ago):
    """Epoch seconds, milli- and microseconds, numbers and text, ISO 8601 with and without offset agree."""
    report = decode_progress(_json(status="running", updated_at=written))
    assert report.heartbeat_at == pytest.approx(NOW - seconds_ago, abs=0.01)


def test_the_latest_of_several_signs_of_life_counts():
    """A fresh updated_at beside an old heartbeat is a sign of life."""
    verdict = _verdict(_json(status="running", last_heartbeat=NOW - 500, updated_at=NOW - 5))
    assert (verdict.state, verdict.silent_seconds) == ("running", 5)


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("running", "running"),
        ("STARTED", "running"),
        ("in_progress", "running"),
        ("in-progress", "running"),
        ("JobStatus.STARTED", "running"),
        ("failed", "failed"),
        ("ERROR", "failed"),
        ("completed", "completed"),
        ("Finished", "completed"),
        ("SUCCESS", "completed"),
        ("queued", None),
        ("cancelled", None),
        ("🦀", None),
    ],
)
def test_the_words_that_frameworks_use_for_a_status_are_understood(status, state):
    """Running, failed and completed in the words of RQ, Celery and others; waiting jobs are not counted."""
    assert _verdict(_json(status=status, last_heartbeat=NOW - 1)).state == state


def test_a_finished_job_never_turns_stale():
    """Silence after the end says nothing."""
    assert _verdict(_json(status="completed", last_heartbeat=NOW - 9999)).state == "completed"
    assert _verdict(_json(status="failed", last_heartbeat=NOW - 9999)).state == "failed"


def test_without_a_heartbeat_nothing_is_guessed():
    """A running job that never gave a sign is running, and its silence unknown."""
    verdict = _verdict(_json(status="running", progress=10))
    assert (verdict.state, verdict.silent_seconds) == ("running", None)


def test_a_heartbeat_of_a_clock_that_is_ahead_counts_as_now():
    """Silence is never negative."""
    assert _verdict(_json(status="running", last_heartbeat=NOW + 40)).silent_seconds == 0


def test_an_rq_job_hash_is_a_progress_payload_as_it_is():
    """The fields that RQ itself writes are enough to see a work-horse that died silently."""
    reading = _hash(
        status="started",
        created_at="2026-11-29T16:24:38.764015Z",
        last_heartbeat="2026-11-29T16:24:38.937934Z",
    )
    assert _verdict(reading).state == "stale"


def test_field_names_are_the_users_to_choose():
    """Named fields replace the defaults, spelled in any case and with any separator."""
    names = Names.parse("status=phase, heartbeat=seenAt|touched, progress=pct")
    reading = _json(phase="running", seen_at=NOW - 70, touched=NOW - 80, pct="42 %", status="failed")
    report = decode_progress(reading, names)
    assert (report.said, report.progress, report.heartbeat_at) == ("running", 42.0, NOW - 70)


@pytest.mark.parametrize("text", ["nonsense", "status", "status=", "status=|", "colour=x"])
def test_a_wrong_list_of_field_names_is_refused_with_the_part_that_is_wrong(text):
    """The error repeats what the user wrote."""
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        Names.parse(f"progress=pct,{text}")


@pytest.mark.parametrize(
    "reading",
    [
        Reading(b"k", "string", b"not json"),
        Reading(b"k", "string", b"[1, 2]"),
        Reading(b"k", "string", b'{"unrelated": 1}'),
        Reading(b"k", "string", b"{" * 60_000),
        Reading(b"k", "string", b'{"a":' * 10_000 + b"1" + b"}" * 10_000),
        Reading(b"k", "string", b'{"status":"running","x":"' + b"x" * MAX_PAYLOAD + b'"}'),
        Reading(
            b"k", "hash", {b"f%d" % number: b"1" for number in range(MAX_FIELDS)} | {b"status": b"running"}
        ),
        Reading(b"k", "zset", ((b"running", 1.0),)),
        Reading(b"k", "string", None),
    ],
)
def test_what_is_no_progress_report_is_none(reading):
    """Other data, nesting bombs and oversized payloads are left alone."""
    assert decode_progress(reading) is None


def test_only_strings_and_hashes_are_read_and_never_without_bound():
    """The read plans bound bytes and fields; other types have none."""
    assert plan_progress("string").limit == MAX_PAYLOAD + 1
    assert plan_progress("hash").limit == MAX_FIELDS + 1
    assert plan_progress("list") is None
    assert plan_progress("zset") is None


_SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=30))
_FIELDS = st.sampled_from(["status", "progress", "last_heartbeat", "updated_at", "STATE", "x"])


@given(st.dictionaries(_FIELDS, st.one_of(_SCALARS, st.lists(_SCALARS, max_size=3)), max_size=6))
def test_no_json_payload_can_raise_or_forge_a_line(payload):
    """Whatever the values, a verdict has a state of the four or none, and one printable line of evidence."""
    report = decode_progress(Reading(b"k", "string", json.dumps(payload).encode()))
    if report is not None:
        verdict = judge(report, NOW)
        assert verdict.state in ("running", "stale", "failed", "completed", None)
        assert verdict.evidence.isprintable()


@given(st.dictionaries(st.binary(max_size=20), st.binary(max_size=40), max_size=5), st.binary(max_size=40))
def test_no_bytes_in_a_hash_or_string_can_raise(fields, raw):
    """Bytes that are no text are no reason to fail."""
    decode_progress(Reading(b"k", "hash", {**fields, b"status": raw, b"updated_at": raw}))
    decode_progress(Reading(b"k", "string", raw))
    decode_progress(Reading(b"k", "string", b'{"status":"' + raw + b'"}'))

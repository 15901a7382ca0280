"""The journal's entries: what is written is read again, and nothing that others write can do harm."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockscope import catalog, events
from lockscope.events import LockEvent
from lockscope.jobs import NO_JOB, Job
from lockscope.journal import Entry, FormatError, Losses, Recorded, Writer, decode, encode, recorded
from lockscope.journal.model import MAX_ENTRY, MAX_KEY, OUTCOMES, VERSION
from lockscope.tokens import Owner, fingerprint

WRITER = Writer("web-3", 4121, "7f3a9c0011ff", 2)
SECONDS = st.floats(-1e6, 1e6, allow_nan=False).map(float)
MAYBE = st.none() | SECONDS
LASTED = st.none() | SECONDS.map(abs)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
JOBS = st.just(NO_JOB) | st.builds(Job, WORDS, st.none() | WORDS, st.none() | WORDS)
OWNERS = st.builds(
    Owner,
    host=st.none() | WORDS,
    pid=st.none() | st.integers(0, 2**31),
    worker=st.none() | st.just("0123456789ab"),
    job_type=st.none() | WORDS,
    job_id=st.none() | WORDS,
    started_at=st.none() | st.floats(0, 2e9),
)


def outcome_of(name: str) -> st.SearchStrategy[str]:
    return (
        st.sampled_from(catalog.IDEMPOTENCY_OUTCOMES)
        if name == events.IDEMPOTENCY
        else st.just(OUTCOMES[name])
    )


@st.composite
def lock_events(draw: st.DrawFn) -> LockEvent:
    name = draw(st.sampled_from(sorted(OUTCOMES)))
    return LockEvent(
        name,
        draw(st.binary(max_size=60)),
        draw(WORDS),
        1.7e9 + draw(st.integers(0, 10**9)) / 1e6,
        draw(JOBS),
        draw(outcome_of(name)),
        draw(st.none() | st.binary(min_size=1, max_size=80)),
        draw(MAYBE),
        draw(MAYBE),
        draw(LASTED),
        draw(LASTED),
        abs(draw(SECONDS)),
        draw(st.integers(0, 1000)),
        waited=draw(st.booleans()),
        ends_lease=draw(st.booleans()),
        reason=draw(st.just("") | WORDS),
        blocked_by=draw(st.none() | OWNERS),
        error=draw(st.just("") | WORDS),
    )


def fields(entry: Entry) -> dict[bytes, bytes]:
    return {b"v": VERSION, b"b": "".join(encode(entry)).encode()}


@given(st.lists(lock_events(), max_size=12), st.booleans())
def test_what_is_written_is_read_again(happened: list[LockEvent], last: bool) -> None:
    """Every field survives, exactly; tokens come back as fingerprints, times to a microsecond."""
    offset = 0.25
    told = tuple(recorded(event, WRITER, offset) for event in happened)
    losses = Losses(3, 5, {"logs": 2})
    gauges = {("lock:*", "none"): (2, 1)}
    entry = decode(fields(Entry(WRITER, 7, 1.7e9, told, losses, gauges, last=last)))
    assert (entry.writer, entry.sequence, entry.losses, entry.gauges) == (WRITER, 7, losses, gauges)
    assert (entry.last, entry.skipped) == (last, 0)
    for before, after in zip(happened, entry.events, strict=True):
        assert after.owner == ("" if before.token is None else fingerprint(before.token))
        assert after.event.at == pytest.approx(before.at + offset, abs=2e-6)
        assert after.event == before._replace(at=after.event.at, token=None)


def test_entry_repeats_no_key_prefix_or_job() -> None:
    """A hundred events of one lock name it once, so entries stay small."""
    event = LockEvent(
        events.RENEWED, b"lock:order:" + b"x" * 200, "lock:order:*", 1.7e9, Job("t", "1"), "renewed"
    )
    body = fields(Entry(WRITER, 1, 1.7e9, (recorded(event, WRITER, 0.0),) * 100))[b"b"]
    assert body.count(b"xxx" * 60) == 1
    assert body.count(b"lock:order:*") == 1
    assert len(body) < 100 * 60 + 500


def test_tokens_are_nowhere_in_an_entry() -> None:
    """Whoever reads the journal cannot release anybody's lock with what it says."""
    event = LockEvent(events.ACQUIRED, b"k", "k", 1.7e9, token=b"secret-token", outcome="acquired")
    body = fields(Entry(WRITER, 1, 1.7e9, (recorded(event, WRITER, 0.0),)))[b"b"]
    assert b"secret-token" not in body
    assert fingerprint(b"secret-token").encode() in body


def test_huge_keys_and_texts_are_cut() -> None:
    """One event is never more than a few kilobytes, whatever the application names its keys and jobs."""
    event = LockEvent(
        events.RETRY, b"\xff" * 70_000, "p" * 160, 1.7e9, Job("t" * 120, "i" * 120), reason="r" * 9999
    )
    entry = fields(Entry(WRITER, 1, 1.7e9, (recorded(event, WRITER, 0.0),)))
    assert len(entry[b"b"]) < 10_000
    assert decode(entry).events[0].event.key == b"\xff" * MAX_KEY


GOOD = fields(Entry(WRITER, 1, 1.7e9, (recorded(LockEvent(events.WAITING, b"k", "k", 1.7e9), WRITER, 0.0),)))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from([b"v", b"b", b"x"]), st.binary(max_size=200)))
def test_foreign_fields_are_no_entry(found: dict[bytes, bytes]) -> None:
    """Whatever bytes somebody adds to the stream are refused by name, never by another exception."""
    with pytest.raises(FormatError):
        decode(found)


@given(JSON)
def test_foreign_json_is_no_entry(document: object) -> None:
    """JSON of any other shape is refused as well."""
    with pytest.raises(FormatError):
        decode({b"v": VERSION, b"b": json.dumps(document).encode()})


@given(st.data())
def test_entry_with_one_field_replaced_does_no_harm(data: st.DataObject) -> None:
    """An entry in which anything is replaced by anything is read, read in part, or refused."""
    document = json.loads(GOOD[b"b"])
    event = document["events"][0] | {
        "wait": 0.5,
        "by": ["h", 1, "0123456789ab", "t", "i", 1.0],
        "job": ["t", "i", None],
    }
    document["events"] = [event]
    target = data.draw(st.sampled_from([document, event]))
    target[data.draw(st.sampled_from(sorted(target)))] = data.draw(JSON)
    try:
        entry = decode({b"v": VERSION, b"b": json.dumps(document).encode()})
    except FormatError:
        return
    assert len(entry.events) + entry.skipped == len(document["events"])
    for each in entry.events:
        assert isinstance(each, Recorded)
        each.event.prefix.encode()
        assert isinstance(each.event.key, bytes)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"[" * 100_000, "no JSON"),
        (b'{"a": ' * 5_000, "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b" " * (MAX_ENTRY + 1), "more than any writer writes"),
        (GOOD[b"b"][:-20], "no JSON"),
        (GOOD[b"b"].replace(b'"7f3a9c0011ff"', b'"no hex"'), "worker's name"),
        (GOOD[b"b"].replace(b"1700000000.0", b"1e999"), "number"),
        (GOOD[b"b"].replace(b"4121", b"-1"), "number"),
    ],
)
def test_hostile_entries_are_refused_with_a_reason(body: bytes, why: str) -> None:
    """Deep, truncated, oversized and forged entries end in one sentence."""
    with pytest.raises(FormatError, match=why):
        decode({b"v": VERSION, b"b": body})


@pytest.mark.parametrize("name", ["wait", "hold", "unprotected"])
def test_negative_durations_are_skipped(name: str) -> None:
    """A counter adds durations up and must never go down: an event with a negative one is skipped."""
    document = json.loads(GOOD[b"b"])
    document["events"][0][name] = -5
    entry = decode({b"v": VERSION, b"b": json.dumps(document).encode()})
    assert (len(entry.events), entry.skipped) == (0, 1)


def test_later_version_is_refused_and_later_fields_are_not() -> None:
    """A format of another number is not guessed at; fields and events that came later are skipped."""
    with pytest.raises(FormatError, match="not known here"):
        decode({**GOOD, b"v": b"2"})
    document = json.loads(GOOD[b"b"])
    document["invented"] = 1
    document["events"][0]["invented"] = {"a": 1}
    document["events"].append({"e": "invented", "t": 0, "key": 0, "prefix": 0})
    entry = decode({b"v": VERSION, b"b": json.dumps(document).encode()})
    assert (len(entry.events), entry.skipped) == (1, 1)


def test_escapes_that_are_no_text_cannot_reach_the_metrics() -> None:
    """Lone surrogates in names are replaced: a label must be valid UTF-8."""
    document = json.loads(GOOD[b"b"])
    document["host"] = "\ud800"
    document["events"][0]["prefix"] = "lock:\udcff*"
    entry = decode({b"v": VERSION, b"b": json.dumps(document).encode()})
    assert entry.writer.host == "?"
    assert entry.events[0].event.prefix == "lock:?*"

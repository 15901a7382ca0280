"""The past holders of one lock, and who waited for it, from the journal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pandas as pd

from lockscope import events
from lockscope.jobs import NO_JOB_TYPE
from lockscope_dashboard import text

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lockscope.journal import Recorded
    from lockscope_exporter.journal import Overlap

ENDS: Final = {
    events.RELEASED: "released",
    events.RELEASE_LOST: "found lost",
    events.RENEW_LOST: "found lost",
    events.RELEASE_ERROR: "release failed",
    events.ABANDONED: "left behind",
}
MARKS: Final = {
    events.RENEWED: "renewed",
    events.RENEW_LOST: "renewal found it lost",
    events.RENEW_ERROR: "renewal failed",
    events.RELEASE_LOST: "release found it lost",
    events.FORCE_RELEASED: "freed by an operator",
}
SHORTEST_WAIT: Final = 0.01  # seconds; a call that got the lock at once did not wait
SPANS: Final = ["who", "kind", "start", "end", "how", "owner"]


@dataclass(slots=True)
class _Open:
    """A lease whose end was not told yet."""

    who: str
    start: float
    ttl: float | None
    renewed: float


def spans_frame(recorded: Sequence[Recorded], held: Collection[str], now: float) -> pd.DataFrame:
    """Lay out who held a lock when, and who waited for it.

    Args:
        recorded: events of one key, oldest first.
        held: fingerprints of the tokens that hold it now.
        now: unix time in seconds by the server's clock.

    Returns:
        One row a span: ``who``, ``kind`` (held or waited), ``start`` and ``end`` (unix seconds), ``how`` it
        ended, and ``owner`` (fingerprint). A lease whose end nobody told ends when it must have run out.
    """
    rows: list[tuple[str, str, float, float, str, str]] = []
    leases: dict[str, _Open] = {}
    for each in recorded:
        event, who = each.event, name(each)
        wait = event.wait_seconds or 0.0
        if event.event == events.ACQUIRED:
            start = event.at + wait
            if wait > SHORTEST_WAIT:
                rows.append((who, "waited", event.at, start, "then got it", each.owner))
            leases[each.owner] = _Open(who, start, event.ttl, start)
        elif event.event in (events.CONTENDED, events.ACQUIRE_TIMEOUT) and wait > SHORTEST_WAIT:
            rows.append((who, "waited", event.at, event.at + wait, "gave up", ""))
        elif event.event == events.RENEWED and each.owner in leases:
            leases[each.owner].renewed = event.at
            leases[each.owner].ttl = event.ttl or leases[each.owner].ttl
        elif event.event in ENDS:
            rows += _ended(each, who, leases.pop(each.owner, None))
    for owner, lease in leases.items():
        if owner in held:
            rows.append((lease.who, "held", lease.start, now, "still held", owner))
        else:
            out = now if lease.ttl is None else min(lease.renewed + lease.ttl, now)
            rows.append((lease.who, "held", lease.start, max(out, lease.start), "end not told", owner))
    frame = pd.DataFrame(rows, columns=SPANS).astype({"start": "float64", "end": "float64"})
    return frame.sort_values("start", kind="stable").reset_index(drop=True)


def latest(spans: pd.DataFrame, most: int) -> pd.DataFrame:
    """Keep the latest holds, and the latest waits beside them, so that many waits do not hide the holds.

    Args:
        spans: of ``spans_frame``.
        most: holds to keep, and waits to keep.

    Returns:
        The kept rows, in order.
    """
    waits = spans["kind"] == "waited"
    holds = spans[~waits].tail(most)
    since = holds["start"].min() if len(holds) else float("-inf")
    beside = spans[waits & (spans["end"] >= since)].tail(most)
    return spans[spans.index.isin(holds.index) | spans.index.isin(beside.index)]


def _ended(each: Recorded, who: str, lease: _Open | None) -> list[tuple[str, str, float, float, str, str]]:
    """Return the spans that an end closes; a loss tells what was worked after the lease had lapsed."""
    event = each.event
    lapsed = event.at - event.unprotected_seconds
    start = lease.start if lease else None if event.hold_seconds is None else event.at - event.hold_seconds
    rows = []
    if start is not None and (lease or event.ends_lease):
        lost = event.event in (events.RELEASE_LOST, events.RENEW_LOST)
        how = "ran out" if lost else ENDS[event.event]
        rows.append((who, "held", start, max(lapsed if lost else event.at, start), how, each.owner))
    if event.unprotected_seconds > 0:
        rows.append((who, "unprotected", lapsed, event.at, ENDS[event.event], each.owner))
    return rows


def overlaps_frame(overlaps: Sequence[Overlap]) -> pd.DataFrame:
    """Lay out when two held one lock at once.

    Returns:
        One row an overlap: ``start`` and ``end`` (unix seconds) and ``who`` (both).
    """
    rows = [
        (
            one.began_at,
            one.began_at + one.seconds,
            " and ".join(
                f"{text.safe(party.writer.host)}/{party.writer.pid}" for party in (one.first, one.second)
            ),
        )
        for one in overlaps
    ]
    return pd.DataFrame(rows, columns=["start", "end", "who"])


def marks_frame(recorded: Sequence[Recorded]) -> pd.DataFrame:
    """Lay out the instants worth a mark: renewals and losses.

    Returns:
        One row an event: ``who``, ``at`` (unix seconds), ``what``, ``bad``.
    """
    rows = [
        (name(each), each.event.at, MARKS[each.event.event], each.event.event != events.RENEWED)
        for each in recorded
        if each.event.event in MARKS
    ]
    return pd.DataFrame(rows, columns=["who", "at", "what", "bad"])


def name(recorded: Recorded) -> str:
    """Name the process and job of an event."""
    job = recorded.event.job
    of = "" if job.job_type in ("", NO_JOB_TYPE) else f" {text.safe(job.job_type)}"
    return f"{text.cut(text.safe(recorded.writer.host), 40)}/{recorded.writer.pid}{of}"

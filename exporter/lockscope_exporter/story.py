"""The past of one lock, from journal and audit trail: what happened, and who waits for it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from lockscope import events
from lockscope.jobs import NO_JOB_TYPE
from lockscope_exporter.journal.books import GIVE_UP
from lockscope_exporter.moments import span
from lockscope_exporter.text import key_text, label_text, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lockscope.journal import Recorded
    from lockscope_exporter.journal import Overlap
    from lockscope_exporter.release import AuditEntry

RECENT = 300.0  # seconds in which a refused caller counts as one that still wants the lock

_NAME = 80
_ATTEMPT = "release: "
_HALF_A_DAY = 43_200.0
_REFUSALS = frozenset({events.CONTENDED, events.ACQUIRE_TIMEOUT, events.WAITING})
_WORDS = {
    events.ACQUIRED: "acquired",
    events.CONTENDED: "refused",
    events.ACQUIRE_TIMEOUT: "gave up waiting",
    events.ACQUIRE_ERROR: "failed to acquire",
    events.WAITING: "began to wait",
    events.RENEWED: "renewed",
    events.RENEW_LOST: "found it lost when renewing",
    events.RENEW_ERROR: "failed to renew",
    events.RELEASED: "released",
    events.RELEASE_LOST: "found it lost when releasing",
    events.RELEASE_ERROR: "failed to release",
    events.ABANDONED: "forgotten without a release",
    events.RETRY: "job retried",
    events.DUPLICATE: "duplicate blocked",
    events.IDEMPOTENCY: "idempotency check",
    events.FORCE_RELEASED: "freed by an operator",
}


class Moment(NamedTuple):
    """Something that happened to the lock, or the same thing several times in a row.

    Attributes:
        at: unix time in seconds of the last time, by the server's clock.
        what: in words.
        who: process and job.
        times: how often in a row.
        since: unix time in seconds of the first time.
    """

    at: float
    what: str
    who: str
    times: int = 1
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Waiter:
    """Somebody who wants the lock and does not get it.

    Attributes:
        who: process and job.
        since: unix time in seconds of the first refusal since it last had the lock.
        last: of the last.
        refusals: how many.
        waiting: it is inside a call that waits.
    """

    who: str
    since: float
    last: float
    refusals: int
    waiting: bool


def moments(recorded: Sequence[Recorded], audit: Iterable[AuditEntry] = ()) -> list[Moment]:
    """Tell what happened, oldest first; the same thing in a row is told once.

    Args:
        recorded: events of one key, oldest first.
        audit: attempts to free it.
    """
    found = [_moment(each) for each in recorded if each.event.event != events.IDEMPOTENCY]
    found += [Moment(one.at, f"{_ATTEMPT}{one.outcome}", shown(one.user, _NAME), 1, one.at) for one in audit]
    told: list[Moment] = []
    for each in sorted(found, key=lambda moment: moment.at):
        last = told[-1] if told else None
        if last is not None and (last.what, last.who) == (each.what, each.who):
            told[-1] = each._replace(times=last.times + 1, since=last.since)
        else:
            told.append(each)
    return told


def waiters(
    recorded: Sequence[Recorded], now: float, heard: Mapping[str, float] | None = None
) -> list[Waiter]:
    """Return who was refused lately and has not got the lock since, longest waiting first.

    Args:
        recorded: events of one key, oldest first.
        now: unix time in seconds by the server's clock.
        heard: when each worker last wrote, in unix seconds: whoever is inside a call that waits says so every
            quarter of a minute, so it waits as long as it is heard of, and no longer.
    """
    found: dict[tuple[str, int, str, str | None], Waiter] = {}
    for each in recorded:
        event, writer = each.event, each.writer
        caller = (writer.worker, writer.pid, event.job.job_type, event.job.job_id)
        if event.event not in _REFUSALS:
            if event.event in (events.ACQUIRED, events.ACQUIRE_ERROR):
                found.pop(caller, None)
            continue
        at = event.at + (event.wait_seconds or 0.0)
        before = found.get(caller, Waiter(_who(each), event.at, at, 0, waiting=False))
        waiting = event.event == events.WAITING
        found[caller] = Waiter(before.who, before.since, at, before.refusals + (not waiting), waiting)
    recent = [
        one
        for (worker, *_), one in found.items()
        if (
            now - max(heard.get(worker, 0.0), one.last) < GIVE_UP
            if one.waiting and heard is not None
            else now - one.last < RECENT
        )
    ]
    return sorted(recent, key=lambda one: one.since)


def moment_line(moment: Moment, now: float) -> str:
    """Write a moment: ``12:03:41 UTC (20 s ago) renewed 12 times since 12:01:41: web-3/4121``."""
    times = f" {moment.times} times since {clock(moment.since, now)}" if moment.times > 1 else ""
    of = " by " if moment.what.startswith(_ATTEMPT) else ": "  # "refused by" would name the wrong one
    return f"{clock(moment.at, now)} ({span(now - moment.at)} ago) {moment.what}{times}{of}{moment.who}"


def waiter_line(waiter: Waiter, now: float) -> str:
    """Write a waiter: ``web-5/77 of report waits for 12 s``."""
    if waiter.waiting:
        return f"{waiter.who} waits for {span(now - waiter.since)}"
    times = "once" if waiter.refusals == 1 else f"{waiter.refusals} times in {span(now - waiter.since)}"
    return f"{waiter.who} was refused {times}, last {span(now - waiter.last)} ago"


def overlap_line(overlap: Overlap) -> str:
    """Write an overlap: who worked under the lock at the same time."""
    first, second = (
        f"{shown(party.writer.host, _NAME)}/{party.writer.pid}" for party in (overlap.first, overlap.second)
    )
    return f"{clock(overlap.began_at)} two held it at once for {span(overlap.seconds)}: {first} and {second}"


def clock(at: float, now: float | None = None) -> str:
    """Write a unix time as the time of day in UTC, with the date where it is half a day from ``now``."""
    date = "" if now is None or abs(now - at) < _HALF_A_DAY else "%Y-%m-%d "
    try:
        return datetime.fromtimestamp(at, tz=UTC).strftime(f"{date}%H:%M:%S UTC")
    except (OverflowError, OSError, ValueError):
        return "at an unknown time"


def moment_object(moment: Moment) -> dict[str, Any]:
    """Return a moment as a JSON object."""
    return {**moment._asdict(), "what": label_text(moment.what), "who": label_text(moment.who)}


def waiter_object(waiter: Waiter) -> dict[str, Any]:
    """Return a waiter as a JSON object."""
    return {
        "who": label_text(waiter.who),
        "since": waiter.since,
        "last": waiter.last,
        "refusals": waiter.refusals,
        "waiting": waiter.waiting,
    }


def overlap_object(overlap: Overlap) -> dict[str, Any]:
    """Return an overlap as a JSON object."""
    return {
        "key": key_text(overlap.key),
        "began_at": overlap.began_at,
        "seconds": overlap.seconds,
        "holders": [
            {"host": label_text(party.writer.host), "pid": party.writer.pid, "owner": party.owner}
            for party in (overlap.first, overlap.second)
        ],
    }


def _moment(recorded: Recorded) -> Moment:
    event = recorded.event
    at = event.at + (event.wait_seconds or 0.0)
    what = _WORDS.get(event.event, shown(event.event, _NAME))
    if event.event == events.RELEASED and event.hold_seconds is not None:
        what = f"{what} after {span(event.hold_seconds)}"
    if event.unprotected_seconds:
        what = f"{what}, after {span(event.unprotected_seconds)} of work without it"
    return Moment(at, what, _who(recorded), 1, at)


def _who(recorded: Recorded) -> str:
    writer, job = recorded.writer, recorded.event.job
    of = f" of {shown(job.job_type, _NAME)}" if job.job_type not in ("", NO_JOB_TYPE) else ""
    number = f" (job {shown(job.job_id, _NAME)})" if job.job_id else ""
    return f"{shown(writer.host, _NAME)}/{writer.pid}{of}{number}"

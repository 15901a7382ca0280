"""What workers told the journal, as happenings. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockscope import events
from lockscope_exporter.moments import span
from lockscope_exporter.watching.happenings import Happening

if TYPE_CHECKING:
    from lockscope.events import LockEvent
    from lockscope.journal import Recorded
    from lockscope.tokens import Owner
    from lockscope_exporter.journal.leases import Overlap

# Acquiring and releasing the sampler sees by itself, of every library.
_WORDS = {
    events.CONTENDED: "refused",
    events.ACQUIRE_TIMEOUT: "gave up",
    events.ACQUIRE_ERROR: "acquire failed",
    events.RENEW_LOST: "renewal lost",
    events.RENEW_ERROR: "renewal failed",
    events.RELEASE_LOST: "release lost",
    events.RELEASE_ERROR: "release failed",
    events.RETRY: "retried",
    events.DUPLICATE: "duplicate",
    events.FORCE_RELEASED: "freed by hand",
}


def is_told(event: LockEvent) -> bool:
    """Tell whether an event of the journal is told here, and not shown better by the sampler."""
    return event.event in _WORDS


def happening(recorded: Recorded) -> Happening:
    """Return what an event of the journal is here; it has to be one that ``is_told``."""
    event = recorded.event
    what = _WORDS[event.event]
    parts = [f"{recorded.writer.host}/{recorded.writer.pid}"]
    if event.job.job_id is not None or event.job.job_type != "none":
        parts.append(f"of {event.job.job_type}" + (f" (job {event.job.job_id})" if event.job.job_id else ""))
    if event.wait_seconds:
        parts.append(f"after {span(event.wait_seconds)}")
    if event.unprotected_seconds:
        parts.append(f"worked {span(event.unprotected_seconds)} without it")
    if event.blocked_by is not None:
        parts.append(f"held by {_owner(event.blocked_by)}")
    if event.reason:
        parts.append(event.reason)
    if event.error:
        parts.append(event.error)
    at = event.at + (event.wait_seconds or 0.0)
    return Happening(at, what, event.prefix, event.key or None, None, " ".join(parts))


def overlap(found: Overlap) -> Happening:
    """Return two holders at once as a happening."""
    first, second = (f"{party.writer.host}/{party.writer.pid}" for party in (found.first, found.second))
    text = f"{first} worked on for {span(found.seconds)} after {second} had come in"
    return Happening(found.began_at + found.seconds, "overlap", found.prefix, found.key, None, text)


def missed(count: int, at: float) -> Happening:
    """Return that something was told which nobody could take in."""
    return Happening(at, "note", "", text="entries of the journal came too fast to be shown", count=count)


def _owner(owner: Owner) -> str:
    if owner.host is None:
        return "another"
    pid = "" if owner.pid is None else f"/{owner.pid}"
    return f"{owner.host}{pid}" + (f" of {owner.job_type}" if owner.job_type else "")

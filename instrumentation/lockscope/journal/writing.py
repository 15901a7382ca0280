"""From events to an entry of the journal. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lockscope.jobs import NO_JOB
from lockscope.journal.model import BLOCKED_BY, MAX_KEY, MAX_TEXT, NUMBERS, OUTCOMES, Losses, Recorded
from lockscope.tokens import fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockscope.events import LockEvent
    from lockscope.journal.model import Entry, Writer


def encode(entry: Entry) -> Iterator[str]:
    """Yield an entry's JSON in pieces, so that a writer can let others run between them.

    Args:
        entry: what to write. Tokens of its events are replaced by fingerprints.
    """
    writer = entry.writer
    head: dict[str, Any] = {
        "host": writer.host,
        "pid": writer.pid,
        "worker": writer.worker,
        "db": writer.db,
        "seq": entry.sequence,
        "at": round(entry.at, 6),
    }
    if entry.losses != Losses():
        head["lost"] = [entry.losses.dropped, entry.losses.overflowed, entry.losses.sink_errors]
    if entry.gauges is not None:
        head["gauges"] = [[*labels, *numbers] for labels, numbers in entry.gauges.items()]
    if entry.last:
        head["last"] = True
    yield _dumps(head)[:-1] + ',"events":['
    seen = _Seen()
    for number, recorded in enumerate(entry.events):
        yield ("," if number else "") + _dumps(_event(recorded, entry.at, seen))
    yield "]}"


class _Seen:
    """Keys, prefixes and jobs that came before in the entry, by their numbers there."""

    def __init__(self) -> None:
        self.keys: dict[Any, int] = {}
        self.prefixes: dict[Any, int] = {}
        self.jobs: dict[Any, int] = {}


def _event(recorded: Recorded, base: float, seen: _Seen) -> dict[str, Any]:
    """Return one event; a key, prefix or job that came before is named by its number."""
    event = recorded.event
    job = event.job
    told: dict[str, Any] = {
        "e": event.event.removeprefix("lock."),
        "t": round(event.at - base, 6),
        "key": _once(seen.keys, event.key[:MAX_KEY].decode("utf-8", "surrogateescape")),
        "prefix": _once(seen.prefixes, event.prefix),
    }
    if job is not NO_JOB:
        told["job"] = _once(seen.jobs, (job.job_type, job.job_id, job.resource_id))
    if recorded.owner:
        told["owner"] = recorded.owner
    for name, attribute in NUMBERS.items():
        value = getattr(event, attribute)
        if value is not None and (value or attribute != "unprotected_seconds"):
            told[name] = value
    optional = {
        "tries": event.attempts,
        "waited": int(event.waited),
        "ends": int(event.ends_lease),
        "outcome": "" if event.outcome == OUTCOMES.get(event.event) else event.outcome,
        "reason": event.reason[:MAX_TEXT],
        "error": event.error[:MAX_TEXT],
    }
    told.update((name, value) for name, value in optional.items() if value)
    if event.blocked_by is not None:
        told["by"] = [getattr(event.blocked_by, name) for name in BLOCKED_BY]
    return told


def recorded(event: LockEvent, writer: Writer, offset: float) -> Recorded:
    """Return an event of this process as the journal tells it.

    Args:
        event: what happened.
        writer: this process.
        offset: the server's clock minus this host's, seconds.
    """
    owner = "" if event.token is None else fingerprint(event.token)
    return Recorded(event._replace(at=event.at + offset, token=None, around=None), owner, writer)


def _once(table: dict[Any, int], value: Any) -> Any:
    number = table.get(value)
    if number is None:
        table[value] = len(table)
        return value
    return number


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))

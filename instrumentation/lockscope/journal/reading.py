"""From an entry of the journal back to events, whatever somebody else may have written there. Pure."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from lockscope import catalog, events
from lockscope.events import LockEvent
from lockscope.jobs import NO_JOB, NO_JOB_TYPE, Job
from lockscope.journal.model import (
    MAX_ENTRY,
    MAX_KEY,
    MAX_TEXT,
    NUMBERS,
    OUTCOMES,
    VERSION,
    Entry,
    FormatError,
    Losses,
    Recorded,
    Writer,
)
from lockscope.tokens import Owner

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_MAX_NUMBER = 1e15
_WORKER = re.compile(r"[0-9a-f]{6,32}")
_FINGERPRINT = re.compile(r"[0-9a-f]{8}")
_DURATIONS = frozenset({"wait", "hold", "unprotected"})  # counters add them up, so none is negative
_UNREADABLE = (FormatError, TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError)


def decode(fields: Mapping[bytes, bytes]) -> Entry:
    """Read the fields of a stream entry. Whatever they hold, nothing but ``FormatError`` is raised.

    Args:
        fields: as Redis returns them.

    Returns:
        The entry; events that cannot be read are left out and counted in ``skipped``.

    Raises:
        FormatError: this is no entry of a journal that can be read.
    """
    version, body = fields.get(b"v"), fields.get(b"b")
    if version is None or body is None:
        raise FormatError("it lacks the fields v and b")
    if version != VERSION:
        raise FormatError(f"format {version[:8]!r} is not known here")
    if len(body) > MAX_ENTRY:
        raise FormatError(f"{len(body)} bytes are more than any writer writes")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise FormatError("it is no JSON") from error
    if not isinstance(document, dict):
        raise FormatError("it is no JSON object")
    try:
        return _entry(document)
    except FormatError:
        raise
    except _UNREADABLE as error:
        raise FormatError(f"a field is missing or of another type ({error!r})") from error


def _entry(document: dict[str, Any]) -> Entry:
    worker = document["worker"]
    if not _WORKER.fullmatch(worker):
        raise FormatError("the worker's name is none")
    writer = Writer(_text(document["host"]), _whole(document["pid"]), worker, _whole(document.get("db", 0)))
    at = _number(document["at"])
    found: list[Recorded] = []
    tables = _Tables()
    listed = document["events"]
    if not isinstance(listed, list):
        raise FormatError("its events are no list")
    skipped = 0
    for told in listed:
        try:
            found.append(_recorded(told, at, writer, tables))
        except _UNREADABLE:
            skipped += 1
    gauges = document.get("gauges")
    return Entry(
        writer,
        _whole(document["seq"]),
        at,
        tuple(found),
        _losses(document.get("lost")),
        None if gauges is None else _gauges(gauges),
        last=document.get("last") is True,
        skipped=skipped,
    )


class _Tables:
    """Keys, prefixes and jobs that an entry named in full, by their numbers."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.prefixes: list[str] = []
        self.jobs: list[Any] = []


def _recorded(told: dict[str, Any], base: float, writer: Writer, tables: _Tables) -> Recorded:
    key = _named(told["key"], tables.keys)
    prefix = _named(told["prefix"], tables.prefixes)
    job = NO_JOB if "job" not in told else _job(_named(told["job"], tables.jobs))
    name = "lock." + told["e"]
    if name not in OUTCOMES:
        raise FormatError("the event is not known here")
    numbers: dict[str, Any] = {
        attribute: (_duration if short in _DURATIONS else _number)(told[short])
        for short, attribute in NUMBERS.items()
        if short in told
    }
    owner = told.get("owner", "")
    if owner and not _FINGERPRINT.fullmatch(owner):
        raise FormatError("the owner is no fingerprint")
    event = LockEvent(
        name,
        _key(key),
        _text(prefix),
        base + _number(told["t"]),
        job,
        _outcome(name, told.get("outcome", OUTCOMES[name])),
        attempts=_whole(told.get("tries", 0)),
        waited=told.get("waited") == 1,
        ends_lease=told.get("ends") == 1,
        reason=_text(told.get("reason", "")),
        error=_text(told.get("error", "")),
        blocked_by=None if "by" not in told else _owner(told["by"]),
        **numbers,
    )
    return Recorded(event, owner, writer)


def _named(value: Any, table: list[Any]) -> Any:
    if isinstance(value, int):
        if value < 0:
            raise FormatError("a negative number names nothing")
        return table[value]
    table.append(value)
    return value


def _outcome(name: str, outcome: str) -> str:
    """Check an outcome that is a label value against the catalogue."""
    allowed = catalog.IDEMPOTENCY_OUTCOMES if name == events.IDEMPOTENCY else (OUTCOMES[name],)
    if outcome not in allowed:
        raise FormatError("the outcome is not one of this event")
    return outcome


def _job(value: Any) -> Job:
    job_type, job_id, resource_id = value
    return Job(
        _text(job_type) or NO_JOB_TYPE,
        None if job_id is None else _text(job_id),
        None if resource_id is None else _text(resource_id),
    )


def _owner(values: Any) -> Owner:
    host, pid, worker, job_type, job_id, started_at = values
    return Owner(
        host=None if host is None else _text(host),
        pid=None if pid is None else _whole(pid),
        worker=worker if isinstance(worker, str) and _WORKER.fullmatch(worker) else None,
        job_type=None if job_type is None else _text(job_type),
        job_id=None if job_id is None else _text(job_id),
        started_at=None if started_at is None else _number(started_at),
    )


def _losses(value: Any) -> Losses:
    if value is None:
        return Losses()
    dropped, overflowed, errors = value
    return Losses(
        _whole(dropped),
        _whole(overflowed),
        {_text(sink)[:40]: _whole(count) for sink, count in list(errors.items())[:20]},
    )


def _gauges(value: Iterable[Any]) -> dict[tuple[str, str], tuple[int, int]]:
    return {
        (_text(prefix), _text(job_type)): (_whole(held), _whole(waiting))
        for prefix, job_type, held, waiting in value
    }


def _key(value: str) -> bytes:
    if not isinstance(value, str):
        raise FormatError("a key is no text")
    return value[:MAX_KEY].encode("utf-8", "surrogateescape")


def _text(value: str) -> str:
    """Return bounded text that can be written as UTF-8, whatever escapes the JSON held."""
    if not isinstance(value, str):
        raise FormatError("a text is none")
    return value[:MAX_TEXT].encode("utf-8", "replace").decode()


def _number(value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise FormatError("a number is none")
    if abs(value) > _MAX_NUMBER:
        raise FormatError("a number is out of range")
    return float(value)


def _duration(value: float) -> float:
    if _number(value) < 0:
        raise FormatError("a duration is negative")
    return float(value)


def _whole(value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_NUMBER:
        raise FormatError("a whole number is none")
    return value

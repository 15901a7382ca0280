"""Lock events as records of the stdlib logger ``lockscope``, one event a record, fields in ``extra``."""

from __future__ import annotations

import json
import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from lockscope import events
from lockscope.printable import printable
from lockscope.tokens import fingerprint, process
from lockscope.traces import current_trace

if TYPE_CHECKING:
    from lockscope.events import LockEvent
    from lockscope.tokens import Owner

LEVELS: Final = {
    events.ACQUIRED: logging.INFO,
    events.CONTENDED: logging.INFO,
    events.ACQUIRE_TIMEOUT: logging.WARNING,
    events.ACQUIRE_ERROR: logging.ERROR,
    events.WAITING: logging.DEBUG,
    events.RENEWED: logging.DEBUG,
    events.RENEW_LOST: logging.WARNING,
    events.RENEW_ERROR: logging.ERROR,
    events.RELEASED: logging.INFO,
    events.RELEASE_LOST: logging.WARNING,
    events.RELEASE_ERROR: logging.ERROR,
    events.ABANDONED: logging.DEBUG,
    events.RETRY: logging.INFO,
    events.IDEMPOTENCY: logging.DEBUG,
    events.DUPLICATE: logging.INFO,
    events.FORCE_RELEASED: logging.WARNING,
}
_LIMITED = frozenset({events.CONTENDED, events.ACQUIRE_TIMEOUT})
_EVERY = 10.0  # seconds between two records of repeated contention on one key
_MAX_KEYS = 1024

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class LogSink:
    """Writes each event to a logger; call it with the event.

    Repeated contention on one key is written once in ten seconds and says how many refusals it stands for.

    Args:
        logger: where to write; the default is the logger ``lockscope``.
    """

    name = "logs"

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self.logger = logging.getLogger("lockscope") if logger is None else logger
        self._written: dict[bytes, tuple[float, int]] = {}
        self._busy = threading.local()

    def wants(self, name: str) -> bool:
        """Tell whether the logger takes events of this name."""
        return self.logger.isEnabledFor(LEVELS[name])

    def __call__(self, event: LockEvent) -> None:
        """Write ``event`` if the logger takes its level."""
        level = LEVELS.get(event.event, logging.INFO)
        if not self.logger.isEnabledFor(level) or getattr(self._busy, "writing", False):
            return  # a handler that takes a lock itself would write about it, and take it again
        stands_for = 1
        if event.event in _LIMITED:
            stands_for = self._stands_for(event.key)
            if not stands_for:
                return
        fields = fields_of(event)
        if stands_for > 1:
            fields["stands_for"] = stands_for
        # Few templates, all that varies in the arguments: error trackers group records by template.
        template, values = f"{event.event} %s", [fields["lock_key"]]
        blocked_by = fields.get("blocked_by")
        if blocked_by:
            template += ", held by %s/%s"
            values += [blocked_by.get("host", "?"), blocked_by.get("pid", "?")]
        if stands_for > 1:
            template += " (%d refusals)"
            values.append(stands_for)
        self._busy.writing = True
        try:
            self.logger.log(level, template, *values, extra=fields)
        finally:
            self._busy.writing = False

    def _stands_for(self, key: bytes) -> int:
        """Return how many refusals a record about ``key`` stands for, 0 if none is due."""
        now = time.monotonic()
        last, suppressed = self._written.get(key, (None, 0))
        if last is not None and now - last < _EVERY:
            self._written[key] = (last, suppressed + 1)
            return 0
        if len(self._written) >= _MAX_KEYS:
            self._written = {}
        self._written[key] = (now, 0)
        return suppressed + 1


def fields_of(event: LockEvent) -> dict[str, Any]:
    """Return the fields of an event without those that are unknown; seconds, tokens as fingerprints."""
    trace = current_trace()
    fields = {
        "event": event.event,
        "lock_key": printable(event.key),
        "prefix": event.prefix,
        "lock_owner": None if event.token is None else fingerprint(event.token),
        "host": process.host,
        "pid": process.pid,
        "lock_ttl": _rounded(event.ttl),
        "ttl_remaining": _rounded(event.ttl_remaining),
        "wait_seconds": _rounded(event.wait_seconds),
        "hold_seconds": _rounded(event.hold_seconds),
        "unprotected_seconds": _rounded(event.unprotected_seconds or None),
        "attempts": event.attempts or None,
        "outcome": event.outcome or None,
        "reason": _text(event.reason or None),
        "job_id": _text(event.job.job_id),
        "job_type": _text(event.job.job_type),
        "resource_id": _text(event.job.resource_id),
        "blocked_by": None if event.blocked_by is None else _holder(event.blocked_by),
        "error": event.error or None,
        "trace_id": trace and trace.trace_id,
        "span_id": trace and trace.span_id,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _holder(owner: Owner) -> dict[str, Any] | None:
    """Return what is known of who holds a lock: text that others have written into Redis."""
    held_for = None if owner.started_at is None else round(max(time.time() - owner.started_at, 0.0), 3)
    holder = {
        "host": _text(owner.host),
        "pid": owner.pid,
        "job_type": _text(owner.job_type),
        "job_id": _text(owner.job_id),
        "held_for": held_for,
    }
    return {name: value for name, value in holder.items() if value is not None} or None


class JSONFormatter(logging.Formatter):
    """Formats any log record as one line of JSON: time, level, logger, message, and every extra field.

    An extra field that has the name of one of these four is left out. What JSON has no form for becomes text.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one JSON object without line breaks."""
        fields: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in vars(record).items():
            if name not in _STANDARD:
                fields.setdefault(name, value)
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        elif record.exc_text:
            fields["exception"] = record.exc_text
        if record.stack_info:
            fields["stack"] = self.formatStack(record.stack_info)
        try:
            return json.dumps(fields, default=str, allow_nan=False)
        except Exception:  # noqa: BLE001 - keys that are no text, NaN, circles, objects that cannot be shown
            return json.dumps({str(name): _as_json(value) for name, value in fields.items()})


def _as_json(value: object) -> object:
    """Return ``value`` if JSON has a form for it, else its text, else its type."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        try:
            return str(value)
        except Exception:  # noqa: BLE001
            return f"<{type(value).__name__}>"
    return value


def _text(value: str | None) -> str | None:
    return None if value is None else printable(value)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)

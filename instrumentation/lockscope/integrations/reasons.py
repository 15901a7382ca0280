"""Tell from a job's exception whether, and why, a lock made it retry."""

from __future__ import annotations

from asyncio import CancelledError

from redis.exceptions import LockError, LockNotOwnedError

from lockscope import errors, runtime

_LONGEST_CHAIN = 10


def retry_reason(error: BaseException | None) -> tuple[str, str | bytes | None] | None:
    """Return why a lock made a job retry, and the lock's key where the exception names it.

    Looks through what the exception was raised from, and through Celery's ``Retry.exc`` and
    ``Reject.reason``.

    Args:
        error: what the job raised.

    Returns:
        ``contended``, ``lost`` or ``in_progress`` with a key or ``None``; ``None`` if no lock was the reason.
    """
    seen: set[int] = set()
    waiting = [error]
    while waiting and len(seen) < _LONGEST_CHAIN:
        current = waiting.pop(0)
        if not isinstance(current, BaseException) or id(current) in seen:
            continue
        seen.add(id(current))
        reason = _reason(current)
        if reason is not None:
            return reason, getattr(current, "lock_name", None)
        waiting += [current.__cause__, getattr(current, "exc", None), getattr(current, "reason", None)]
        if not current.__suppress_context__:
            waiting.append(current.__context__)
    return None


def count_retry(error: BaseException | None) -> None:
    """Count that the current job is retried because of ``error``, if a lock was behind that."""
    recorder = runtime.recorder
    found = None if recorder is None else retry_reason(error)
    if recorder is not None and found is not None:
        recorder.retried(*found)


def _reason(error: BaseException) -> str | None:
    if isinstance(error, errors.InProgressError):
        return "in_progress"
    if isinstance(error, LockNotOwnedError):
        return "lost"
    if isinstance(error, LockError):
        return "contended"
    if isinstance(error, CancelledError) and error.args and isinstance(error.args[0], errors.LostMessage):
        return "lost"
    for kind, reason in errors.FURTHER.items():
        if isinstance(error, kind):
            return reason
    return None

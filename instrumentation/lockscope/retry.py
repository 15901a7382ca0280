"""Count jobs that are retried or requeued because of a lock."""

from __future__ import annotations

from lockscope import runtime


def retried(reason: str, key: bytes | str | None = None) -> None:
    """Count that the current job is retried or requeued because of a lock.

    For queues whose integration cannot see it; nothing happens while observation is off.

    Args:
        reason: a short word from a small set, such as ``contended``; a metric label.
        key: the lock's key, if one lock is the reason.
    """
    recorder = runtime.recorder
    if recorder is not None:
        recorder.retried(reason, key)

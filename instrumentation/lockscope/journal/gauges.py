"""Locks held and calls waiting by prefix and job type, counted from events. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockscope import events

if TYPE_CHECKING:
    from lockscope.events import LockEvent

Labels = tuple[str, str]


class Gauges:
    """Counts of one process; true only where the count is not 0, false where nothing is held or waits."""

    def __init__(self) -> None:
        self._held: dict[Labels, int] = {}
        self._waiting: dict[Labels, int] = {}

    def __bool__(self) -> bool:
        """Tell whether anything is held or waits."""
        return bool(self._held or self._waiting)

    def count(self, event: LockEvent) -> None:
        """Take in an event; none ever takes a count below 0."""
        labels = event.prefix, event.job.job_type
        if event.event == events.ACQUIRED:
            if not event.ends_lease:
                _add(self._held, labels, 1)
        elif event.ends_lease:
            _add(self._held, labels, -1)
        if event.event == events.WAITING:
            _add(self._waiting, labels, 1)
        elif event.waited:
            _add(self._waiting, labels, -1)

    def by_labels(self) -> dict[Labels, tuple[int, int]]:
        """Return locks held and calls waiting by prefix and job type, without those where both are 0."""
        return {
            labels: (self._held.get(labels, 0), self._waiting.get(labels, 0))
            for labels in {**self._held, **self._waiting}
        }

    def replace(self, gauges: dict[Labels, tuple[int, int]]) -> None:
        """Believe these numbers instead."""
        self._held = {labels: held for labels, (held, _) in gauges.items() if held}
        self._waiting = {labels: waiting for labels, (_, waiting) in gauges.items() if waiting}

    def clear(self) -> None:
        """Count nothing any more."""
        self._held = {}
        self._waiting = {}


def _add(counts: dict[Labels, int], labels: Labels, change: int) -> None:
    count = counts.get(labels, 0) + change
    if count > 0:
        counts[labels] = count
    else:
        counts.pop(labels, None)

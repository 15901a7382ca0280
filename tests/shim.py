"""Observation for one test: its own registry, and every event in order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from prometheus_client import CollectorRegistry

import lockscope
from lockscope import runtime

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from lockscope.events import LockEvent

SHORT = {
    "acquire": "redis_lock_acquire_total",
    "release": "redis_lock_release_total",
    "renew": "redis_lock_renew_total",
    "idempotency": "redis_lock_idempotency_total",
    "retry": "redis_lock_retry_total",
    "held": "redis_lock_held",
    "waiters": "redis_lock_waiters",
    "unprotected": "redis_lock_unprotected_seconds_total",
}


class Observed:
    """A context manager during which locks are observed."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        self.registry = CollectorRegistry()
        self.seen: list[LockEvent] = []

    def __enter__(self) -> Self:
        lockscope.instrument(registry=self.registry, **self.settings)
        assert runtime.recorder is not None
        emit = runtime.recorder.emit
        emit.use((*emit.sinks, self.seen.append))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        lockscope.uninstrument()

    def events(self, *names: str) -> list[LockEvent]:
        """Return the events of these names so far, ``lock.`` left out; all without names."""
        return [event for event in self.seen if not names or event.event.removeprefix("lock.") in names]

    def names(self) -> list[str]:
        """Return the names of all events so far, ``lock.`` left out."""
        return [event.event.removeprefix("lock.") for event in self.seen]

    def total(self, metric: str, **labels: str) -> float:
        """Return the sum of a metric over all series with these labels, 0 if there is none."""
        name = SHORT.get(metric, metric)
        return sum(
            sample.value
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == name and all(sample.labels.get(key) == value for key, value in labels.items())
        )

    def all_totals(self) -> dict[str, dict[str, float]]:
        """Return, by name of the sample, the sums by outcome (or reason, or nothing) that are not 0."""
        found: dict[str, dict[str, float]] = {}
        for family in self.registry.collect():
            for sample in family.samples:
                if sample.value:
                    sums = found.setdefault(sample.name, {})
                    label = sample.labels.get("outcome", sample.labels.get("reason", ""))
                    sums[label] = sums.get(label, 0) + sample.value
        return found

    def outcomes(self, metric: str) -> dict[str, float]:
        """Return the counts of ``acquire``, ``release``, ``renew`` or ``idempotency`` that are not 0."""
        return self.all_totals().get(SHORT[metric], {})


def run_python(
    code: str, *arguments: str, env: Mapping[str, str] | None = None, timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run a script in a fresh interpreter that can import what tests import; return when it has ended."""
    path = os.pathsep.join(
        [*((env or {}).get("PYTHONPATH", "").split(os.pathsep)), str(Path(__file__).parent)]
    )
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **(env or {}), "PYTHONPATH": path.strip(os.pathsep)},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )

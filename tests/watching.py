"""Observe locks with a registry and a sink of the test's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from prometheus_client import CollectorRegistry

import lockscope
from lockscope import runtime

if TYPE_CHECKING:
    from lockscope import LockEvent


class Watch:
    """``instrument`` for the length of a block, with all it tells at hand.

    Events are taken where they are made, before any thread of a sink's, so there is nothing to wait for.

    Args:
        options: for ``instrument``; OpenTelemetry and presence are off unless asked for.
    """

    def __init__(self, **options: Any) -> None:
        self.registry = options.pop("registry", None) or CollectorRegistry()
        self.options = {"otel": False, "presence": False, **options}
        self.all: list[LockEvent] = []

    def __enter__(self) -> Self:
        lockscope.instrument(registry=self.registry, **self.options)
        emit = runtime.recorder.emit
        emit.use((*emit.sinks, self.all.append))
        return self

    def __exit__(self, *_: object) -> None:
        lockscope.uninstrument()

    def events(self, *names: str) -> list[LockEvent]:
        """Return the events of these names so far, or all."""
        return [event for event in self.all if not names or event.event in names]

    @property
    def names(self) -> list[str]:
        """Names of all events so far, without the ``lock.`` they all begin with."""
        return [event.event.removeprefix("lock.") for event in self.all]

    def clear(self) -> None:
        """Forget the events so far; what was counted stays."""
        self.all.clear()

    def value(self, name: str, **labels: str) -> float | None:
        """Return a sample of the registry; ``None`` if there is none."""
        return value(self.registry, name, **labels)


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    """Return the sum of the samples of that name and these labels; ``None`` if there is none."""
    found = [
        sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    return sum(found) if found else None

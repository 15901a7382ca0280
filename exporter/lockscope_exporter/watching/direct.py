"""Watching at Redis itself: a sampler and the journals."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lockscope_exporter.journal import JournalFeed
from lockscope_exporter.sampling import open_source
from lockscope_exporter.watching.tail import Tail
from lockscope_exporter.watching.watched import Look

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockscope_exporter.targets import SamplingOptions, Target
    from lockscope_exporter.watching.tail import Heard


class Direct:
    """A ``Watched`` that asks Redis.

    Args:
        targets: what to watch.
        sampling: how.
        journal: read the journals, too.
    """

    def __init__(self, targets: Sequence[Target], sampling: SamplingOptions, *, journal: bool) -> None:
        self._source = open_source(targets, sampling)
        self._tail = Tail(since=time.time())
        self._feed = JournalFeed(targets if journal else (), sampling.max_prefixes, self._tail)

    def start(self) -> None:
        """Begin in the background."""
        self._source.start()
        self._feed.start()

    def stop(self) -> None:
        """End, and close every connection."""
        self._source.stop()
        self._feed.stop()

    def wait_ready(self, timeout: float) -> bool:
        """Wait until everything was read once; return whether it was."""
        return self._source.wait_ready(timeout)

    def look(self) -> Look:
        """Return everything as it is now."""
        locks = self._source.locks()
        families = self._source.families()
        return Look(locks, families, self._source.nodes())

    def after(self, number: int | None) -> Heard:
        """Return what the journals told after a number."""
        return self._tail.after(number)

    def notes(self) -> tuple[str, ...]:
        """Return why a journal is silent."""
        return tuple(f"journal: {error}" for error in self._feed.errors())

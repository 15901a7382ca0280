"""The live locks of every target, kept by threads and answered from memory: the ``Source``."""

from __future__ import annotations

import copy
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from lockscope.prefixes import Prefixes
from lockscope_exporter.garbage import without_collections
from lockscope_exporter.sampling.expectations import Expectations
from lockscope_exporter.sampling.target import TargetMirror

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockscope_exporter.state import Family, LockState, NodeStatus, ProgressFamily
    from lockscope_exporter.targets import SamplingOptions, Target

_SAVE = 60.0  # seconds between two writes of the state file
_AT_ONCE = 500  # locks judged without a pause
_POLL = 0.01  # seconds between two looks whether everything is ready


class Mirror:
    """A ``Source`` over one or more targets.

    Args:
        targets: what to sample.
        options: how.

    Raises:
        UrlError: a target's URL cannot be used.
    """

    def __init__(self, targets: Sequence[Target], options: SamplingOptions) -> None:
        self._prefixes = Prefixes(options.prefix_patterns, options.max_prefixes)
        self._expectations = Expectations(options.expected_hold, options.state_file)
        self._targets = [
            TargetMirror(members, options, self._prefixes, self._expectations) for members in grouped(targets)
        ]
        self._stopping = threading.Event()
        self._saver: threading.Thread | None = None
        if options.state_file is not None:
            self._saver = threading.Thread(target=self._save, name="lockscope-state", daemon=True)

    def start(self) -> None:
        """Begin sampling in background threads."""
        self._expectations.load(time.time())
        if self._saver is not None:
            self._saver.start()
        for target in self._targets:
            target.start()

    def stop(self) -> None:
        """Stop the threads and close the connections; idempotent."""
        self._stopping.set()
        for target in self._targets:
            target.stop()
        for target in self._targets:
            target.join()
        if self._saver is not None and self._saver.is_alive():
            self._saver.join()

    def ready(self) -> bool:
        """Tell whether every target was sampled completely at least once, or found unreachable."""
        return all(target.settled() for target in self._targets)

    def wait_ready(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for ``ready``; return it."""
        deadline = time.monotonic() + timeout
        while not self.ready():
            if self._stopping.wait(_POLL) or time.monotonic() > deadline:
                return self.ready()
        return True

    def nodes(self) -> Sequence[NodeStatus]:
        """Return how sampling of each node stands."""
        return [status for target in self._targets for status in target.status()]

    def families(self) -> Sequence[Family]:
        """Return the running counts by prefix; cost grows with the prefixes, not with the locks."""
        families: list[Family] = []
        for target in self._targets:
            with target.shared.guard:
                found = target.shared.ledger.families(target.now())
            known = target.known()
            families += found if known else [replace(family, known=False) for family in found]
        return families

    def progress(self) -> Sequence[ProgressFamily]:
        """Return the job-progress keys by prefix, judged within the last second."""
        families: list[ProgressFamily] = []
        for target in self._targets:
            book = target.shared.book
            if book is not None and target.known():
                with target.shared.guard:
                    families += book.families(target.now())
        return families

    def locks(self) -> Sequence[LockState]:
        """Return every live lock, classified now; cost grows with the locks."""
        states: list[LockState] = []
        for target in self._targets:
            with target.shared.guard:
                target.shared.ledger.tick(target.now())
                entries = target.shared.ledger.entries()
            with without_collections():
                for start in range(0, len(entries), _AT_ONCE):  # sampling and scrapes go on in between
                    with target.shared.guard:
                        states += target.shared.ledger.states(entries[start : start + _AT_ONCE], target.now())
        return states

    def lock(self, key: bytes, field: bytes | None = None) -> LockState | None:
        """Return one live lock, or ``None`` if no lock of that key is known."""
        for target in self._targets:
            with target.shared.guard:
                for state in target.shared.ledger.find(key, target.now()):
                    if state.field == field:
                        return state
        return None

    def names(self) -> Sequence[str]:
        """Return the names of the targets, and of the Redlock groups in place of their members."""
        return [target.name for target in self._targets]

    def part(self, name: str) -> Mirror | None:
        """Return a view of one target or group, to read and not to start; ``None`` if there is none."""
        found = [target for target in self._targets if target.name == name]
        if not found:
            return None
        view = copy.copy(self)
        view._targets = found  # noqa: SLF001 - its own class
        return view

    def overflowed(self) -> int:
        """Return how many times a key was folded into the prefix ``other``, in all targets."""
        return self._prefixes.overflowed

    def _save(self) -> None:
        while not self._stopping.wait(_SAVE):
            self._expectations.save(time.time())
        self._expectations.save(time.time())


def grouped(targets: Sequence[Target]) -> list[list[Target]]:
    """Return the targets one by one, and those of a Redlock group together."""
    groups: dict[tuple[str, str], list[Target]] = {}
    for number, target in enumerate(targets):
        place = ("group", target.quorum_group) if target.quorum_group else ("target", str(number))
        groups.setdefault(place, []).append(target)
    return list(groups.values())

"""What the nodes of one target have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockscope_exporter.presence import Attendance
    from lockscope_exporter.sampling.ledger import Ledger
    from lockscope_exporter.sampling.progress import ProgressBook
    from lockscope_exporter.sampling.quorum import QuorumLedger
    from lockscope_exporter.sampling.watch import Watch
    from lockscope_exporter.targets import SamplingOptions


@dataclass(frozen=True, slots=True)
class Shared:
    """What every node of a target reads and writes.

    Attributes:
        options: how to sample.
        watch: which keys may be locks.
        ledger: what is live.
        attendance: which holders are present.
        book: the progress of jobs; ``None`` if no such keys are watched.
        guard: held around every use of ``ledger``, ``attendance`` and ``book``.
    """

    options: SamplingOptions
    watch: Watch
    ledger: Ledger | QuorumLedger
    attendance: Attendance
    book: ProgressBook | None = None
    guard: RLock = field(default_factory=RLock)

"""The nouns of the journal, and what bounds them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from lockscope import events

if TYPE_CHECKING:
    from lockscope.events import LockEvent

KEY: Final = "lockscope:journal"
DB: Final = 0  # one journal a server, whatever databases its locks are in
VERSION: Final = b"1"
MAX_EVENTS: Final = 100  # events in an entry
MAX_ENTRY: Final = 262_144  # bytes of an entry that a reader looks at; writers stay far below
MAX_KEY: Final = 1024  # bytes of a key; a longer one is cut
MAX_TEXT: Final = 300  # characters of any other text

# The outcome that goes with an event without saying; idempotency checks say theirs.
OUTCOMES: Final = {
    events.ACQUIRED: "acquired",
    events.CONTENDED: "contended",
    events.ACQUIRE_TIMEOUT: "timeout",
    events.ACQUIRE_ERROR: "error",
    events.WAITING: "",
    events.RENEWED: "renewed",
    events.RENEW_LOST: "lost",
    events.RENEW_ERROR: "error",
    events.RELEASED: "released",
    events.RELEASE_LOST: "lost",
    events.RELEASE_ERROR: "error",
    events.ABANDONED: "",
    events.RETRY: "",
    events.IDEMPOTENCY: "",
    events.DUPLICATE: "duplicate",
    events.FORCE_RELEASED: "",
}
# Short names of the seconds that an event may carry.
NUMBERS: Final = {
    "ttl": "ttl",
    "left": "ttl_remaining",
    "wait": "wait_seconds",
    "hold": "hold_seconds",
    "unprotected": "unprotected_seconds",
}
# What is told of the holder that a refused call met, in this order.
BLOCKED_BY: Final = ("host", "pid", "worker", "job_type", "job_id", "started_at")


class FormatError(ValueError):
    """An entry is no entry of a journal; the text says why."""


class Writer(NamedTuple):
    """The process that wrote an entry.

    Attributes:
        host: its host.
        pid: its process id there.
        worker: its random name, the same as in its tokens.
        db: the database in which it takes its locks.
    """

    host: str
    pid: int
    worker: str
    db: int = 0


class Recorded(NamedTuple):
    """One event as the journal tells it.

    Attributes:
        event: what happened; ``at`` is the server's clock, and there is no token.
        owner: fingerprint of the token, empty where there is none.
        writer: the process that it happened in.
    """

    event: LockEvent
    owner: str
    writer: Writer


@dataclass(frozen=True, slots=True)
class Losses:
    """What a process could not keep so far, all told.

    Attributes:
        dropped: events that the journal dropped.
        overflowed: keys that the cap on prefixes folded.
        sink_errors: events that a sink failed to take, by sink.
    """

    dropped: int = 0
    overflowed: int = 0
    sink_errors: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the stream.

    Attributes:
        writer: who wrote it.
        sequence: 1 for the writer's first entry, and so on; a second copy has the same number.
        at: unix time in seconds by the server's clock when it was written.
        events: what happened, in order.
        losses: what the writer could not keep so far.
        gauges: locks held and calls waiting by prefix and job type, where the writer says; else ``None``.
        last: the process ends, nothing follows.
        skipped: events that could not be read.
    """

    writer: Writer
    sequence: int
    at: float
    events: tuple[Recorded, ...] = ()
    losses: Losses = Losses()
    gauges: dict[tuple[str, str], tuple[int, int]] | None = None
    last: bool = False
    skipped: int = 0

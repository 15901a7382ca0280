"""What a script did to locks, told by the commands that it called. Pure.

A script's answer is not shown. What it wrote is: one that made the key took the lock, one that deleted it
released it. One that only looked was refused, or found somebody else's lock, or was asked about one: which,
another run of the same script tells that did make the key.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from lockscope_exporter.contention.replay import Lock

if TYPE_CHECKING:
    from lockscope_exporter.contention.monitor import Command

RUNNERS = frozenset({b"eval", b"evalsha", b"eval_ro", b"evalsha_ro", b"fcall", b"fcall_ro"})

Verdict = Literal["counted", "acquired", "unknown", "renewed", "released", "refused", "looked"]

_MAX_KEYS = 100


@dataclass(slots=True)
class Touch:
    """What one run did to one lock.

    Attributes:
        before: whether the lock was there when the script began, ``None`` if that is not known.
        attempted: the script used SET NX or the like, which was counted by itself.
        wrote: it stored something.
        retimed: it changed the expiry.
        deleted: it deleted the lock.
        last: the last command that it called on the key.
    """

    before: bool | None
    attempted: bool = False
    wrote: bool = False
    retimed: bool = False
    deleted: bool = False
    last: bytes = b""

    def verdict(self) -> Verdict:
        """Return what this was."""
        if self.attempted:
            return "counted"
        if self.deleted:
            return "released"
        if self.wrote:
            return {True: "renewed", False: "acquired", None: "unknown"}[self.before]  # type: ignore[return-value]
        if self.retimed:
            return "renewed"
        # Who is told how long the lock will stay was told that it is somebody else's: Redisson and others.
        return "refused" if self.last == b"pttl" and self.before else "looked"


@dataclass(slots=True)
class Run:
    """One run of a script, and what it did so far.

    Attributes:
        script: tells scripts apart.
        db: database number.
        client: who sent it.
        at: unix time in seconds.
        keys: the keys it was given.
        touched: what it did to each lock.
        calls: commands that it called. One that called none did not run: the server did not know it yet
            (NOSCRIPT), and its text follows.
    """

    script: bytes
    db: int
    client: str
    at: float
    keys: tuple[bytes, ...]
    touched: dict[Lock, Touch] = field(default_factory=dict)
    calls: int = 0

    def called(self, command: Command) -> None:
        """Take note of a command that it calls."""
        self.calls += 1
        touch = self.touched.get(Lock(command.db, command.first))
        if touch is not None:
            touch.last = command.name


def begin(command: Command) -> Run | None:
    """Return the run that a command begins, ``None`` if it is not a proper call of a script."""
    arguments = command.arguments
    if len(arguments) < 2 or not arguments[1].isdigit() or len(arguments[1]) > 4:  # noqa: PLR2004
        return None
    script = arguments[0]
    if command.name in (b"eval", b"eval_ro"):
        script = hashlib.sha1(script, usedforsecurity=False).hexdigest().encode()  # as EVALSHA names it
    elif command.name in (b"evalsha", b"evalsha_ro"):
        script = script.lower()
    keys = tuple(arguments[2 : 2 + min(int(arguments[1]), _MAX_KEYS)])
    return Run(script, command.db, command.client, command.at, keys)

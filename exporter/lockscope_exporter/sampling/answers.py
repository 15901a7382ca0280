"""What Redis says when it does not say a value: moved, forbidden, refused. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redis.exceptions import AskError, NoPermissionError, ResponseError


@dataclass(slots=True)
class Abilities:
    """What a server can do and lets this user do; narrowed as it refuses.

    Attributes:
        pexpiretime: it knows ``PEXPIRETIME`` (Redis 7.0).
        script: the command that runs a read-only script, ``None`` where scripts are refused.
        memory_usage: ``MEMORY USAGE`` answers.
        exists: ``EXISTS`` is granted.
        cluster: keys of one command must share a slot.
    """

    pexpiretime: bool = True
    script: bytes | None = b"EVAL_RO"
    memory_usage: bool = True
    exists: bool = True
    cluster: bool = False

    @property
    def expiry(self) -> bytes:
        """The command that asks when a key expires."""
        return b"PEXPIRETIME" if self.pexpiretime else b"PTTL"

    def deadline(self, answer: int, at: float) -> float | None:
        """Return the deadline behind an answer to ``expiry``.

        Args:
            answer: milliseconds; negative without expiry.
            at: unix time in seconds when it was asked, by the server's clock.
        """
        if answer < 0:
            return None
        return answer / 1000 if self.pexpiretime else at + answer / 1000

    @property
    def jitter(self) -> float:
        """Seconds by which two looks at one deadline may differ; relative ones (PTTL) by the way there."""
        return 0.0 if self.pexpiretime else 0.05

    def same(self, before: float | None, after: float | None) -> bool:
        """Tell whether two looks at one deadline agree."""
        if before is None or after is None:
            return before == after
        return abs(before - after) <= self.jitter


def moved(answer: Any) -> tuple[str, int] | None:
    """Return host and port of the cluster node that serves a key now, if this is what the answer says.

    The host is empty where the server means its own.
    """
    return (answer.host, answer.port) if isinstance(answer, AskError) else None


def forbidden(answer: Any) -> bool:
    """Tell whether this user may not touch this key, while the command as such is granted."""
    return isinstance(answer, NoPermissionError) and "command" not in str(answer)


def refused(answer: Any) -> bool:
    """Tell whether the server does not know a command or does not grant it."""
    if not isinstance(answer, ResponseError) or forbidden(answer):
        return False
    return isinstance(answer, NoPermissionError) or "unknown" in str(answer).lower()


def value(answer: Any) -> Any:
    """Return an answer that is a value.

    Raises:
        redis.ResponseError: it is an error of the server.
    """
    if isinstance(answer, ResponseError):
        raise answer
    return answer

"""What lockscope's own helpers raise: each is a redis-py ``LockError``, so existing handlers catch it."""

from __future__ import annotations

from redis.exceptions import LockError


class LockRefusedError(LockError):
    """A ``locked`` function did not run, because somebody else holds its lock."""


class InProgressError(LockError):
    """An ``idempotent`` function did not run, because another run with the same key has not ended."""


# Exceptions of further lock libraries that say "somebody else has the lock", and the reason to count them
# under; their seams add them.
FURTHER: dict[type[BaseException], str] = {}


class LostMessage(str):
    """The message with which ``keep_alive`` cancels a task, so that a queue's retry can be told to be its."""

    __slots__ = ()

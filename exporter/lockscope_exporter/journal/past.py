"""Read what the journal still holds, once: for a command that does not stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockscope.journal import KEY
from lockscope_exporter.journal.books import Books
from lockscope_exporter.journal.ledger import JournalLedger

if TYPE_CHECKING:
    import redis

_BATCH = 200
_MOST = 10_000  # entries; what a stream keeps by default


def read_past(client: redis.Redis, *, most: int = _MOST) -> JournalLedger:
    """Return all that the newest entries of the journal tell.

    Args:
        client: a client that returns bytes.
        most: entries to read at most.

    Returns:
        A ledger with ``history``, ``takeovers`` and ``found`` overlaps; an empty one without a journal.

    Raises:
        redis.RedisError: the key holds something else, may not be read, or the server does not answer.
    """
    entries: list[tuple[bytes, dict[bytes, bytes]]] = []
    before: Any = "+"
    while len(entries) < most:
        answer: Any = client.xrevrange(KEY, max=before, count=min(_BATCH, most - len(entries)))
        if not answer:
            break
        entries += answer
        before = b"(" + answer[-1][0]
    ledger = JournalLedger(Books())
    for _, fields in reversed(entries):
        ledger.take(fields or {})
    ledger.tick(float("inf"))
    return ledger

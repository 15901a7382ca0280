"""The past of one lock, read once from journal and audit trail; what cannot be read is said, not raised."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import redis
from redis.exceptions import RedisClusterException, ResponseError

from lockscope_exporter.explain import explain
from lockscope_exporter.journal import read_past
from lockscope_exporter.release import read_audit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockscope.journal import Recorded
    from lockscope_exporter.journal import Overlap, Takeover
    from lockscope_exporter.release import AuditEntry, Client

_ENTRIES = 2_000  # of the journal
_ATTEMPTS = 200  # of the audit trail


class Past(NamedTuple):
    """What is recorded of one lock.

    Attributes:
        events: of the journal, oldest first.
        overlaps: two holders at once.
        takeovers: went to another owner without having been released.
        releases: attempts to free it, newest first.
        journal: there is a journal that could be read.
        heard: when each worker last wrote, in unix seconds.
        trouble: why something could not be read, empty if all could.
    """

    events: tuple[Recorded, ...] = ()
    overlaps: tuple[Overlap, ...] = ()
    takeovers: tuple[Takeover, ...] = ()
    releases: tuple[AuditEntry, ...] = ()
    journal: bool = False
    heard: Mapping[str, float] = MappingProxyType({})
    trouble: str = ""


def past_of(journal: Client, audit: Client, key: bytes, db: int) -> Past:
    """Read what is recorded of a key.

    Args:
        journal: a client of the database that the journal is in.
        audit: a client of the database that the lock is in.
        key: the lock's key.
        db: its database.
    """
    found = Past()
    troubles = []
    try:
        ledger = read_past(journal, most=_ENTRIES)  # type: ignore[arg-type]
    except (redis.RedisError, RedisClusterException, OSError) as error:
        troubles.append(f"the journal cannot be read: {_reason(error)}")
    else:
        found = Past(
            events=ledger.history.of(key, db),
            overlaps=tuple(one for one in ledger.found if (one.key, one.db) == (key, db)),
            takeovers=tuple(one for one in ledger.takeovers if (one.key, one.db) == (key, db)),
            journal=ledger.read > 0,
            heard=ledger.books.heard(),
        )
        if ledger.malformed:
            entries = "entry" if ledger.malformed == 1 else "entries"
            troubles.append(f"{ledger.malformed} {entries} of the journal cannot be read, left out here")
    try:
        attempts = read_audit(audit, _ATTEMPTS)
    except (redis.RedisError, RedisClusterException, OSError) as error:
        troubles.append(f"the audit trail cannot be read: {_reason(error)}")
    else:
        releases = tuple(one for one in attempts if one.key == key[: len(one.key)] and one.key)
        found = found._replace(releases=releases)
    return found._replace(trouble="; ".join(troubles))


def _reason(error: BaseException) -> str:
    if isinstance(error, ResponseError) and str(error).startswith("WRONGTYPE"):
        return "its key holds something else"
    return explain(error).what

"""The audit trail: every attempt to free a lock, in a stream of its own and in the log.

A stream of its own, since the journal is trimmed by how much the workers have to say. Before anything is
freed an entry says that somebody tries; a second one with the same ``attempt`` says what came of it.
"""

from __future__ import annotations

import getpass
import logging
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from lockscope import events
from lockscope.printable import printable
from lockscope.tokens import fingerprint
from lockscope_exporter.evidence import holder_name
from lockscope_exporter.release.planning import exact_token

if TYPE_CHECKING:
    from lockscope_exporter.release.model import Client, Outcome, ReleasePlan

STREAM = b"lockscope:audit"
KEPT = 10_000  # entries, about; two for a release

_log = logging.getLogger("lockscope")
VERSION = b"1"
_LONGEST_KEY = 1024  # bytes
LONGEST = 1024  # characters of any other text


@dataclass(frozen=True, slots=True)
class Attempt:
    """Who wants to free a lock.

    Attributes:
        user: name of the person.
        reason: what the person gave as the reason.
        forced: whether the person insisted.
        id: joins the entries of one attempt.
        host: where the person works.
        pid: process id there.
    """

    user: str
    reason: str = ""
    forced: bool = False
    id: str = ""
    host: str = ""
    pid: int = 0


def operator() -> str:
    """Return the name of the person at this terminal, behind ``sudo`` too."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        name = f"uid {os.getuid()}"
    behind = os.environ.get("SUDO_USER")
    return f"{behind} as {name}" if behind and behind != name else name


def attempt(user: str, reason: str = "", *, forced: bool = False) -> Attempt:
    """Begin an attempt by a person, from this process."""
    return Attempt(user, reason, forced, uuid4().hex, socket.gethostname(), os.getpid())


def log(plan: ReleasePlan, by: Attempt, outcome: Outcome, detail: str) -> None:
    """Write one log record, as the shim's lock events are written."""
    lock = plan.lock
    fields = {
        "event": events.FORCE_RELEASED,
        "lock_key": printable(lock.key),
        "lock_field": None if lock.field is None else printable(lock.field),
        "prefix": printable(lock.prefix),
        "lock_owner": _owners(plan) or None,
        "host": by.host,
        "pid": by.pid,
        "ttl_remaining": _rounded(lock.ttl_seconds),
        "hold_seconds": _rounded(lock.age_seconds),
        "outcome": outcome,
        "reason": printable(by.reason) or None,
        "job_id": plan.holders[0].job_id if plan.holders else None,
        "job_type": plan.holders[0].job_type if plan.holders else None,
        "holder": _holder(plan) or None,
        "user": printable(by.user),
        "forced": by.forced,
        "lock_state": lock.state,
        "detail": detail,
        "attempt": by.id,
    }
    _log.log(
        logging.INFO if outcome == "attempted" else logging.WARNING,
        "%s %s: %s by %s",
        events.FORCE_RELEASED,
        fields["lock_key"],
        outcome,
        fields["user"],
        extra={name: value for name, value in fields.items() if value is not None},
    )


def write(client: Client, plan: ReleasePlan, by: Attempt, outcome: Outcome, detail: str) -> str:
    """Add an entry to the stream.

    Returns:
        The id of the entry.

    Raises:
        redis.RedisError, OSError: it could not be written.
    """
    answer = client.xadd(
        STREAM, cast("Any", entry_fields(plan, by, outcome, detail)), maxlen=KEPT, approximate=True
    )
    return answer.decode() if isinstance(answer, bytes) else str(answer)


def entry_fields(plan: ReleasePlan, by: Attempt, outcome: Outcome, detail: str) -> dict[bytes, bytes]:
    """Return the fields of an entry: exact bytes of key and field up to a KiB, bounded text for the rest."""
    lock = plan.lock
    texts = {
        "attempt": by.id,
        "outcome": outcome,
        "db": str(lock.db),
        "target": lock.target,
        "prefix": lock.prefix,
        "dialect": lock.dialect,
        "state": lock.state,
        "evidence": "; ".join(lock.evidence),
        "owner": _owners(plan),
        "holder": _holder(plan),
        "way": plan.way.value,
        "user": by.user,
        "reason": by.reason,
        "forced": "1" if by.forced else "0",
        "detail": detail,
        "host": by.host,
        "pid": str(by.pid),
    }
    fields = {b"v": VERSION, b"key": lock.key[:_LONGEST_KEY]}
    if lock.field is not None:
        fields[b"field"] = lock.field[:_LONGEST_KEY]
    fields.update((name.encode(), printable(text, LONGEST).encode()) for name, text in texts.items() if text)
    return fields


def _owners(plan: ReleasePlan) -> str:
    if plan.holders:
        return ",".join(holder.fingerprint for holder in plan.holders)
    token = exact_token(plan.lock)
    return fingerprint(token) if token else ""


def _holder(plan: ReleasePlan) -> str:
    return ", ".join(holder_name(holder) for holder in plan.holders[:5])


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)

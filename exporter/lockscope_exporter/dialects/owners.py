"""From the bytes that name an owner to a holder: what a token says, and nothing that it does not say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lockscope import tokens
from lockscope.tokens import Owner
from lockscope_exporter.dialects import values
from lockscope_exporter.moments import moment
from lockscope_exporter.state import Holder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NOBODY = Owner()

_PAIR = re.compile(rb"([A-Za-z][\w.-]{0,30})=([\x21-\x2b\x2d-\x3a\x3c-\x7e]{1,120})")
_MEDALLION = re.compile(rb"(?P<host>.{1,255})_(?P<pid>\d{1,10})_[0-9a-f]{32}(?:_WRITERWAITING)?", re.DOTALL)
_SHEDLOCK = re.compile(rb"ADDED:(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z)@(.{1,255})", re.DOTALL)
_NAMES = {
    "host": ("host", "hostname", "node", "server", "machine", "instance", "pod"),
    "pid": ("pid", "process_id", "processid", "process"),
    "job_type": ("job_type", "jobtype", "task", "task_name", "taskname", "type", "class", "worker", "job"),
    "job_id": ("job_id", "jobid", "task_id", "taskid", "jid", "run_id", "runid"),
    "at": (
        "acquired_at", "acquiredat", "locked_at", "lockedat", "started_at", "startedat", "created_at",
        "createdat", "at", "since", "timestamp", "time",
    ),
}  # fmt: skip
_TOKENS = (
    "token",
    "owner",
    "owner_id",
    "ownerid",
    "lock_id",
    "lockid",
    "holder",
    "locked_by",
    "lockedby",
    "uuid",
    "id",
)


def holder(token: bytes, owner: Owner = NOBODY, count: int = 1) -> Holder:
    """Return the holder of this token.

    Args:
        token: the exact bytes in Redis.
        owner: what the token says.
        count: re-entrancy count or permits.
    """
    return Holder(
        token=token,
        fingerprint=tokens.fingerprint(token),
        host=owner.host,
        pid=owner.pid,
        worker=owner.worker,
        job_type=owner.job_type,
        job_id=owner.job_id,
        started_at=owner.started_at,
        count=count,
        presence=owner.presence,
        namespace=owner.namespace,
        born=owner.born,
    )


def described(_key: bytes, token: bytes) -> Owner:
    """Read what a token says by itself: self-describing, UUIDv1, ``host:pid``, ``host=… pid=…``, JSON."""
    if values.is_self_describing(token):
        return tokens.parse(token) or NOBODY
    return (
        (tokens.uuid1_owner(token) if values.is_uuid1(token) else None)
        or medallion_owner(token)
        or host_pid_owner(token)
        or _json_owner(token)
        or pairs_owner(token)
        or NOBODY
    )


def host_pid_owner(token: bytes) -> Owner | None:
    """Read ``host:pid``, ``host:pid:job`` or Java's ``pid@host``.

    The host of the first two must have a digit, dash or dot, so that ``order:4711`` is none.
    """
    if (b":" not in token and b"@" not in token and b"/" not in token) or values.is_random(token):
        return None
    found = values.HOST_PID.fullmatch(token)
    if found is None:
        found = values.PID_HOST.fullmatch(token)
        return Owner(host=values.text(found["host"]), pid=int(found["pid"])) if found is not None else None
    rest = found["rest"]
    nonce = not rest or values.has_random_part(rest) or values.is_random(rest)
    job_id = None if nonce else values.text(rest)
    return Owner(host=values.text(found["host"]), pid=int(found["pid"]), job_id=job_id)


def medallion_owner(token: bytes) -> Owner | None:
    """Read ``machine_pid_guid``, the lock id of DistributedLock.Redis."""
    found = _MEDALLION.fullmatch(token) if b"_" in token else None
    return Owner(host=values.text(found["host"]), pid=int(found["pid"])) if found is not None else None


def shedlock_owner(token: bytes) -> Owner | None:
    """Read ``ADDED:<instant>@<host>``, the value of ShedLock's Redis providers."""
    found = _SHEDLOCK.fullmatch(token)
    if found is None:
        return None
    return Owner(host=values.text(found[2]), started_at=moment(found[1].decode()))


def pairs_owner(text: bytes) -> Owner | None:
    """Read ``host=web-1 pid=42``: what users write into free-form metadata."""
    if b"=" not in text:
        return None
    found = {name.decode().lower(): values.text(value) for name, value in _PAIR.findall(text)}
    owner = from_fields(found) if found else None
    return owner if owner is not None and (owner.host is not None or owner.pid is not None) else None


def from_fields(fields: Mapping[str, Any]) -> Owner | None:
    """Read an owner from named fields, of JSON or of a hash, by the names that people give them.

    Args:
        fields: values by name; names are compared in lower case.

    Returns:
        The owner, or ``None`` if no field says anything.
    """
    given = {name.lower(): value for name, value in fields.items() if isinstance(value, (str, int, float))}
    at = _first(given, _NAMES["at"])
    owner = Owner(
        host=_text(_first(given, _NAMES["host"])),
        pid=_integer(_first(given, _NAMES["pid"])),
        job_type=_text(_first(given, _NAMES["job_type"])),
        job_id=_text(_first(given, _NAMES["job_id"])),
        started_at=moment(at) if at is not None else None,
    )
    return owner if owner != NOBODY else None


def token_field(names: Iterable[str]) -> str | None:
    """Return the name of the field that holds the owner token, by the names that people give it."""
    given = {name.lower(): name for name in names}
    return next((given[name] for name in _TOKENS if name in given), None)


def _json_owner(token: bytes) -> Owner | None:
    fields = values.json_object(token)
    return from_fields(fields) if fields is not None else None


def _first(given: Mapping[str, Any], names: Iterable[str]) -> Any:
    return next((given[name] for name in names if name in given), None)


def _text(value: Any) -> str | None:
    return str(value)[:120] if value not in (None, "") else None


def _integer(value: Any) -> int | None:
    text = str(value) if value is not None else ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None  # noqa: PLR2004

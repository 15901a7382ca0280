"""Self-describing owner tokens: who holds a lock, readable from the lock's own value."""

from __future__ import annotations

import hashlib
import os
import random
import re
import socket
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

from lockscope.jobs import NO_JOB_TYPE, Job
from lockscope.prefixes import key_bytes

VERSION = "ls1"
MAX_BYTES = 512

_SAFE = "/:@+,.-_~"
_MAX_HOST = 96
_MAX_TYPE = 120
_MAX_ID = 120
_UUID_HEX = re.compile(rb"[0-9a-f]{12}[1-5][0-9a-f]{3}[89ab][0-9a-f]{15}", re.IGNORECASE)
_WORKER = re.compile(r"[0-9a-f]{6,32}").fullmatch
# Nothing but the job and the time follows after what names the process.
_DESCRIBED = re.compile(
    r"(ls1;[^;]*(?:;(?!type=|id=|at=)[^;]*)*?)(?:;type=([^;]*))?(?:;id=([^;]*))?;at=([^;]*);n=[^;]*", re.ASCII
).fullmatch
_TIMESTAMP = re.compile(r"\d{1,12}(\.\d{1,9})?", re.ASCII).fullmatch
_UUID_EPOCH = 0x01B21DD213814000  # 100 ns intervals from 1582-10-15 to 1970-01-01 (RFC 9562, section 5.1)
_MULTICAST = 0x010000000000
_REDIS_ERA = 1.2e9  # unix time in 2008: a UUID from before Redis is no acquire attempt
_A_DAY = 86400.0
_MAX_DIGITS = 19
_PRESENCE = {"1": True, "0": False}


@dataclass(frozen=True, slots=True)
class Owner:
    """What an owner token says of its holder; ``None`` where it says nothing.

    Attributes:
        host: host name of the holder.
        pid: its process id.
        worker: random name of the process, the key of its presence channel.
        job_type: bounded name of the task.
        job_id: the queue's id of the run.
        started_at: unix time in seconds when the call to acquire began.
        presence: whether the process was present on its presence channel by then: ``True`` confirmed,
            ``False`` not there, so that absence says nothing, ``None`` not known yet.
        namespace: the PID namespace in which the process has its id, and the boot of its host.
        born: when the process started, in clock ticks since that boot.
    """

    host: str | None = None
    pid: int | None = None
    worker: str | None = None
    job_type: str | None = None
    job_id: str | None = None
    started_at: float | None = None
    presence: bool | None = None
    namespace: str | None = None
    born: int | None = None


class Process:
    """This process as tokens name it; renewed in a forked child."""

    def __init__(self) -> None:
        self.refresh()

    def refresh(self) -> None:
        """Take host and pid anew and draw a new worker name."""
        self.host = socket.gethostname()
        self.pid = os.getpid()
        self.worker = os.urandom(6).hex()
        self.random = random.Random(os.urandom(32))
        self.namespace, self.born = _identity(self.pid)
        host = _quoted(self.host, _MAX_HOST)
        self.shown_host = _unquoted(host.encode())  # as it reads in a token, maybe cut
        seen = f";ns={self.namespace};st={self.born}" if self.namespace is not None else ""
        self.head = f"{VERSION};host={host};pid={self.pid};worker={self.worker}{seen}"
        _job_part.cache_clear()


def fingerprint(token: bytes) -> str:
    """Return the only form in which a token is ever shown: the first 8 hex digits of its SHA-256."""
    return hashlib.sha256(token).hexdigest()[:8]


def describe(job: Job, started_at: float, presence: str = "") -> bytes:
    """Make a fresh owner token that says who holds the lock.

    Args:
        job: the job that the lock is taken for.
        started_at: unix time in seconds when the call to acquire began.
        presence: ``;p=1`` or ``;p=0``, see ``lockscope.presence``.

    Returns:
        ``ls1;host=…;pid=…;worker=…;ns=…;st=…;p=…;type=…;id=…;at=…;n=…``, percent-encoded ASCII, at most 512
        bytes. The nonce has 128 random bits, so two tokens never agree. ``ns`` and ``st`` are there on Linux:
        with them a reader on the same host can tell whether the process runs.
    """
    nonce = process.random.getrandbits(128)
    job_part = _job_part(job.job_type, job.job_id)
    return f"{process.head}{presence}{job_part};at={started_at:.3f};n={nonce:032x}".encode()


def parse(token: bytes) -> Owner | None:
    """Read an owner token that ``describe`` made.

    Args:
        token: the exact bytes found in Redis.

    Returns:
        The owner, or ``None`` if these are not the bytes of such a token. Unknown fields are ignored, a
        field that cannot be read is left out.
    """
    if len(token) > MAX_BYTES or not token.startswith(VERSION.encode() + b";"):
        return None
    known = _of_known_process(token)
    if known is not None:
        return known
    fields = _fields(token)
    if "host" not in fields and "worker" not in fields:
        return None
    return _owner(fields)


def _of_known_process(token: bytes) -> Owner | None:
    """Read a token as ``describe`` writes it: what names the process is the same in all tokens of one.

    Returns:
        The owner; ``None`` for any other order of fields, and for text that is percent-encoded.
    """
    if b"%" in token or not token.isascii():
        return None
    found = _DESCRIBED(token.decode())
    if found is None:
        return None
    head, job_type, job_id, at = found.groups()
    owner = _process(head)
    if owner is None:
        return None
    return Owner(
        owner.host, owner.pid, owner.worker, job_type or None, job_id or None, _timestamp(at),
        owner.presence, owner.namespace, owner.born,
    )  # fmt: skip


@lru_cache(maxsize=1024)
def _process(head: str) -> Owner | None:
    """Read the beginning of a token, up to the job; ``None`` if it says anything of a job, too."""
    fields = _fields(head.encode())
    if "host" not in fields or {"type", "id", "at"} & fields.keys():
        return None
    return _owner(fields)


def _owner(fields: dict[str, str]) -> Owner:
    return Owner(
        host=fields.get("host") or None,
        pid=_integer(fields.get("pid")),
        worker=_worker_name(fields.get("worker")),
        job_type=fields.get("type") or None,
        job_id=fields.get("id") or None,
        started_at=_timestamp(fields.get("at")),
        presence=_PRESENCE.get(fields.get("p", "")),
        namespace=fields.get("ns") or None,
        born=_integer(fields.get("st")),
    )


def _fields(token: bytes) -> dict[str, str]:
    """Return the fields of a token by their names; the first counts of those that come twice."""
    if b"%" not in token and token.isascii():  # nearly all, and lists have many thousand
        parts = token.decode().split(";")
        return dict(part.split("=", 1) for part in reversed(parts) if "=" in part)
    fields: dict[str, str] = {}
    for raw in token.split(b";")[1:]:
        name, separator, value = raw.partition(b"=")
        if separator:
            fields.setdefault(name.decode("ascii", "replace"), _unquoted(value))
    return fields


@lru_cache(maxsize=256)  # a reader asks first whether it is one, and then for the owner
def uuid1_owner(token: bytes) -> Owner | None:
    """Read what the UUIDv1 that redis-py draws by default gives away: when the acquire attempt started.

    Args:
        token: 32 hex digits, or the same with dashes.

    Returns:
        An owner with ``started_at``, and with ``host`` as ``mac:…`` unless the node's multicast bit says
        that it is random; ``None`` if it is no UUIDv1 of a believable time.
    """
    digits = token.replace(b"-", b"")
    if _UUID_HEX.fullmatch(digits) is None:
        return None
    if digits[12:13] != b"1":
        return None
    # By hand: a UUID object costs several times more, and lists have many thousand tokens.
    ticks = int(digits[13:16] + digits[8:12] + digits[:8], 16)
    started_at = (ticks - _UUID_EPOCH) / 1e7
    if not _REDIS_ERA < started_at < time.time() + _A_DAY:
        return None
    node = int(digits[20:], 16)
    return Owner(host=None if node & _MULTICAST else f"mac:{node:012x}", started_at=started_at)


def _identity(pid: int) -> tuple[str | None, int]:
    """Return what names a process on this host beyond doubt: its PID namespace and boot, and its start.

    The first namespace of every Linux has the same number, and hosts may share a name, hence the boot.
    """
    try:
        if str(Path("/proc/self").readlink()) != str(pid):  # a /proc of another namespace counts otherwise
            return None, 0
        inode = Path("/proc/self/ns/pid").stat().st_ino
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii")[:8]
        line = Path("/proc/self/stat").read_bytes()
        return f"{inode}.{boot}", int(line[line.rindex(b")") + 1 :].split()[19])
    except (OSError, ValueError, IndexError):
        return None, 0


@lru_cache(maxsize=1024)
def _job_part(job_type: str, job_id: str | None) -> str:
    part = "" if job_type == NO_JOB_TYPE else f";type={_quoted(job_type, _MAX_TYPE)}"
    return part if job_id is None else f"{part};id={_quoted(job_id, _MAX_ID)}"


def _quoted(text: str, limit: int) -> str:
    """Percent-encode ``text`` and cut it to ``limit`` bytes, between two characters."""
    encoded = quote(key_bytes(text[: limit + 1]), safe=_SAFE)
    if len(encoded) <= limit:
        return encoded
    encoded = ""
    for char in text:
        more = quote(key_bytes(char), safe=_SAFE)
        if len(encoded) + len(more) > limit:
            break
        encoded += more
    return encoded


def _unquoted(value: bytes) -> str:
    return unquote_to_bytes(value).decode("utf-8", "replace")


def _integer(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS else None


def _timestamp(text: str | None) -> float | None:
    if not text or not _TIMESTAMP(text):
        return None
    return float(text)


def _worker_name(text: str | None) -> str | None:
    return text if text and _WORKER(text) else None


process = Process()
os.register_at_fork(after_in_child=process.refresh)

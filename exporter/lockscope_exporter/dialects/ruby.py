"""Lock formats of Ruby libraries."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

from lockscope.tokens import Owner
from lockscope_exporter.dialects import owners, values
from lockscope_exporter.dialects.model import REDLOCK_RELEASE, Dialect, Finding, Form, Release
from lockscope_exporter.dialects.shapes import (
    beside,
    constant,
    deadline_in_value,
    hash_holders,
    token,
)
from lockscope_exporter.moments import moment

if TYPE_CHECKING:
    from lockscope_exporter.dialects.model import Reading

_PACKED_LISTS = frozenset(bytes((0x90 + count,)) for count in range(16))
# A pair of a double and 24 characters, the base64 of 16 bytes.
_PACKED_HOLDER = re.compile(rb"\x92\xcb(?P<time>.{8})\xb8(?P<token>[A-Za-z0-9+/]{22}==)", re.DOTALL)
_NAME = re.compile(rb"[\x21-\x7e]{1,128}")


def _sidekiq_job(jid: bytes, value: bytes) -> Owner:
    """The field is the job id; the value is the time of locking, or from version 9 JSON with the worker."""
    fields = values.json_object(value)
    if fields is None:
        return Owner(job_id=values.text(jid), started_at=moment(value.decode("ascii", "replace")))
    worker = fields.get("worker")
    return Owner(
        job_type=worker[:120] if isinstance(worker, str) else None,
        job_id=values.text(jid),
        started_at=moment(fields.get("time")),
    )


def _grabbed(_slot: bytes, value: bytes) -> Owner:
    return Owner(started_at=moment(value.decode("ascii", "replace")))


def _host_pid(_key: bytes, value: bytes) -> Owner:
    host, _, pid = value.partition(b":")
    digits = re.match(rb"\d{1,9}", pid)
    return Owner(host=values.text(host) or None, pid=int(digits[0]) if digits else None)


_HOST_PID = token(lambda value: owners.host_pid_owner(value) is not None)


def _owner_key(reading: Reading, forced: bool) -> tuple[Finding, ...] | None:
    """The owner of a lock whose end is in another key: the library never sets an expiry of this one."""
    return _HOST_PID(reading, forced) if reading.deadline is None else None


def _suo(reading: Reading, _forced: bool) -> tuple[Finding, ...] | None:
    """A MessagePack list of a time and a token for each who holds it."""
    value = reading.value
    if not isinstance(value, bytes) or value[:1] not in _PACKED_LISTS:
        return None
    held = []
    rest = value[1:]
    for _ in range(value[0] & 0x0F):
        found = _PACKED_HOLDER.match(rest)
        since = moment(struct.unpack(">d", found["time"])[0]) if found is not None else None
        if found is None or since is None:
            return None
        held.append(owners.holder(found["token"], Owner(started_at=since)))
        rest = rest[found.end() :]
    if rest:
        return None
    held.sort(key=lambda one: one.token)
    identity = b"\0".join(one.token for one in held)
    return (Finding(tuple(held), identity=identity, value=value, deadline=reading.deadline),) if held else ()


def _true_or_time(value: bytes) -> bool:
    return value == b"true" or values.is_number(value)


DIALECTS = (
    Dialect(
        "sidekiq-unique-jobs",
        "sidekiq-unique-jobs 6 to 9",
        "Ruby",
        (
            Form(
                "hash",
                hash_holders(_NAME, owner=_sidekiq_job),
                keys=(
                    b"uniquejobs:*:LOCKED",
                    b"uniquejobs:*:GRABBED",
                    b"*:uniquejobs:*:LOCKED",
                    b"*:uniquejobs:*:GRABBED",
                ),
                forced_keys=(b"*:LOCKED", b"*:GRABBED"),
                ttl_expected=False,
                release=Release.NONE,
                example="uniquejobs:8b7ca18b795d69a3c3d5734c13c73223:LOCKED",
            ),
        ),
        companions=(b"uniquejobs:*",),
        ttl="None unless `lock_ttl` is set, which is normal for it: the job frees it, a reaper clears up.",
        release="Not by hand: a digest is spread over several keys. Use "
        "`SidekiqUniqueJobs::Digests.new.delete_by_digest(digest)` or the web page.",
    ),
    Dialect(
        "activejob-uniqueness",
        "activejob-uniqueness",
        "Ruby",
        (
            Form(
                "string",
                token(values.is_uuid),
                keys=(b"activejob_uniqueness:*",),
                example="activejob_uniqueness:my_job:143654a5f0a059a178924baf9b815ea6",
            ),
        ),
        ttl="Always set, a day by default. Never renewed.",
        release="Compare and delete, as `unlock!` does.",
    ),
    Dialect(
        "resque-scheduler",
        "resque-scheduler, node-resque: which scheduler leads",
        "Ruby",
        (
            Form(
                "string",
                token(values.is_token, _host_pid),
                keys=(b"*resque_scheduler_master_lock", b"*resque_scheduler_leader_lock"),
                renews=True,
                example="resque:resque_scheduler_master_lock",
            ),
        ),
        ttl="Always set, 3 min by default, renewed at every poll of the leader.",
    ),
    Dialect(
        "resque-lock",
        "resque-lock and its kin",
        "Ruby",
        (
            Form(
                "string",
                constant(_true_or_time, note="the library stores no owner"),
                keys=(b"resque:lock:*", b"resque:*:lock:*", b"*:resque:lock:*"),
                ttl_expected=False,
                example="resque:lock:UpdateNetworkGraph-[42]",
            ),
        ),
        ttl="None, which is normal for it: the job deletes the key when it ends, a killed one never does.",
        release="Compare and delete. No owner is stored, so nobody can tell whose lock it was.",
    ),
    Dialect(
        "redis-mutex",
        "redis-mutex",
        "Ruby",
        (
            Form(
                "string",
                deadline_in_value,
                keys=(b"RedisMutex:*",),
                ttl_expected=False,
                example="RedisMutex:history_worker",
            ),
        ),
        ttl="The key has none, which is normal: its value is the time from when others may take it over.",
    ),
    Dialect(
        "redis-semaphore",
        "redis-semaphore",
        "Ruby",
        (
            Form(
                "hash",
                hash_holders(_NAME, owner=_grabbed, slots=True),
                keys=(b"SEMAPHORE:*:GRABBED",),
                forced_keys=(b"*:GRABBED",),
                ttl_expected=False,
                release=Release.NONE,
                example="SEMAPHORE:pool:GRABBED",
            ),
        ),
        companions=(b"SEMAPHORE:*",),
        ttl="None unless `expiration` is set, which is normal: `stale_client_timeout` decides instead.",
        release="Not by hand: the slot must also go back to the list `…:AVAILABLE`. Use `signal(token)`.",
    ),
    Dialect(
        "redis-lock(rb)",
        "redis-lock for Ruby (mlanett)",
        "Ruby",
        (
            Form(
                "string",
                _owner_key,
                keys=(b"lock:owner:*",),
                ttl_expected=False,
                example="lock:owner:report",
            ),
            Form(
                "string",
                beside(values.is_number),
                keys=(b"lock:expire:*",),
                ttl_expected=False,
                example="lock:expire:report (no lock)",
            ),
        ),
        ttl="The key has none, which is normal: `lock:expire:<name>` says when it may be taken over.",
        release="Compare and delete; the library then clears `lock:expire:<name>` by itself.",
        aliases=("redis-lock-rb",),
    ),
    Dialect(
        "suo",
        "suo",
        "Ruby",
        (Form("string", _suo, ttl_expected=False, example="report"),),
        ttl="None while it is held, which is normal: a holder is passed over an hour after its last sign. "
        "A minute by default once it is free.",
        release="Compare and delete: everyone who holds the semaphore loses it.",
    ),
    Dialect(
        "gitlab",
        "GitLab exclusive leases",
        "Ruby",
        (
            Form(
                "string",
                token(values.is_uuid),
                keys=(b"gitlab:exclusive_lease:*",),
                example="gitlab:exclusive_lease:projects/housekeeping:42",
            ),
        ),
        ttl="Always set. Renewed by `renew`, never by itself; often left to run out on purpose, as a pause.",
        release="Compare and delete, as `cancel` does.",
    ),
    Dialect(
        "redlock-rb",
        "redlock for Ruby",
        "Ruby",
        (Form("string", token(values.is_uuid), only_forced=True, example="resource_key"),),
        ttl="Always set. Renewed by `lock(extend:)`, never by itself.",
        release=REDLOCK_RELEASE,
        aliases=("redlock-ruby",),
    ),
)

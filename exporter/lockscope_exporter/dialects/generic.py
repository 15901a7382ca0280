"""Locks of no known library: what is plausible by key, type and value. One entry, tried last."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lockscope_exporter.dialects import owners, values
from lockscope_exporter.dialects.model import MAX_MEMBERS, MAX_VALUE, Dialect, Finding, Form, Release
from lockscope_exporter.dialects.shapes import expiring, hash_holders, set_holders, small_count
from lockscope_exporter.moments import moment

if TYPE_CHECKING:
    from lockscope_exporter.dialects.model import Reading

# "lock" but no block, clock, unlock, lockout or locker; and the other words people use for such keys.
_LOCKISH = re.compile(
    rb"(?<![bc])(?<!un)lock(?!out|er|box|down|screen|smith|step|ed[:._-]?(?:out|user|account|login))"
    rb"|mutex|singleton|(?<![a-z])lease(?![a-z])|(?<![a-z])leader(?![a-z]|[-_]?board)",
    re.IGNORECASE,
)
_LOCKED_OUT = re.compile(
    rb"(?<![a-z])(?:account|login|user|card)s?[:._-]?(?:is[:._-]?)?locked", re.IGNORECASE
)
_RUNNING = re.compile(rb"in[-_]?progress|(?<![a-z])running(?![a-z])", re.IGNORECASE)
_POOL = re.compile(rb"semaphore|(?<![a-z])(?:permits?|sem)(?![a-z])", re.IGNORECASE)
# What stands beside a lock: waiters, fencing counters, settings.
_BESIDE = re.compile(
    rb"[:._-](?:queue|wait(?:ers|ing)?|signal|notify|events?|channel|info|meta|config|settings|stats|metrics"
    rb"|history|log|fenc(?:e|ing)|counter|count|attempts|failures|tokens?)$",
    re.IGNORECASE,
)
# A small number under such a name counts, whatever the name says of locks.
_COUNTS = re.compile(
    rb"(?<![a-z])(?:rate[-_]?limit(?:s|er|ing)?|throttl(?:e|ed|ing)|attempts?|tries|failures|hits|counters?|count|total"
    rb"|quotas?|fenc(?:e|ing))(?![a-z])|(?<![a-z])(?:version|sequence|seq|epoch|generation)$",
    re.IGNORECASE,
)
# Sets under such names list the locks that there are, or who ever had one.
_INDEX = re.compile(
    rb"(?:locks|mutexes|semaphores|(?<![a-z])(?:index|all|list|registry|keys|names))$", re.IGNORECASE
)
# A word or what is drawn at random is the thing itself under such names, of which some only sound like locks.
_OTHERS = re.compile(
    rb"lock|^caches?[:._/-]|(?<![a-z])(?:sess(?:ion)?s?|[cx]srf|nonces?|otp|etags?|cookies?|jwt|oauth2?|captcha|passwords?|secrets?"
    rb"|(?:[a-z]+[-_])?tokens?|api[-_]?keys?|checksums?|md5|sha\d{0,3})(?![a-z])",
    re.IGNORECASE,
)
# Who waits, of hashes and sets.
_WAITING = re.compile(rb"(?<![a-z])(?:queue[ds]?|wait(?:ers|ing|list)?|pending)(?![a-z])", re.IGNORECASE)
# Names of fields that an object has which stands for a lock, beside those that name its owner.
_TELLS = re.compile(r"lock|own|hold|token|expir|until|ttl|lease|(?<![a-z])by$|By$")
_SAYS_LOCK = re.compile(r"lock(?:ed)?_?(?:id|by|owner|holder|token)", re.IGNORECASE)
_SMALL = re.compile(rb"\d{1,9}")
_MEMBER = re.compile(rb"[\x21-\x7e]{1,200}")
_TOKEN_WITH_COUNT = re.compile(rb".{0,100}(?:" + values.UUID.pattern + rb"|[0-9a-f]{32}).{0,100}", re.DOTALL)
_UUID_NOTE = (
    "a random UUID is what many libraries write; name the dialect to say which (--locks PATTERN=DIALECT)"
)
_SINCE_NOTE = "the scores lie in the past: taken as the times since when each holds"
_WEAK_NOTE = "anyone would write this value: a release cannot be verified"


def lockish(key: bytes) -> bool:
    """Tell whether the key's name says that it is a lock."""
    return _LOCKISH.search(key) is not None and _LOCKED_OUT.search(key) is None


def _string(reading: Reading, forced: bool, *, named: bool = False) -> tuple[Finding, ...] | None:
    value = reading.value
    if not isinstance(value, bytes) or not _plausible(reading, value, forced, named=named):
        return None
    token = values.scalar(value)
    if token is None:
        token = value
    weak = values.is_weak(token)
    held = () if values.is_constant(token) else (owners.holder(value, owners.described(reading.key, token)),)
    note = _WEAK_NOTE if weak else _UUID_NOTE if values.is_uuid(token, 4) else ""
    return (Finding(held, weak, value, value, deadline=reading.deadline, note=note),)


def _named_string(reading: Reading, forced: bool) -> tuple[Finding, ...] | None:
    """A string under a pattern that the user named: as if the key said that it is a lock."""
    return _string(reading, forced, named=True)


def _plausible(reading: Reading, value: bytes, forced: bool, *, named: bool = False) -> bool:
    """Tell whether a string is plausibly a lock.

    A 0 never is: a flag that is off. Under a name that says lock, everything else is but counts and cached
    data; a token that only a serialiser wrapped is none of these. Elsewhere a token drawn at random or a word
    that expires is, unless the name says that it is a session or the like; numbers, truth values and text are
    counters, flags and caches.
    """
    named = named or forced or lockish(reading.key)
    wrapped = values.scalar(value)
    if wrapped is not None:
        plain = values.is_word(wrapped) or values.is_constant(wrapped)
        return named and plain and _plain(reading, wrapped, forced, named)
    if values.is_serialised(value):
        fields = values.json_object(value) or {}
        return any(map(_SAYS_LOCK.fullmatch, fields)) or (named and _describes(fields))
    return _plain(reading, value, forced, named)


def _describes(fields: dict[str, Any]) -> bool:
    """Tell whether a JSON object says anything that one does which stands for a lock."""
    told = owners.from_fields(fields) is not None or owners.token_field(fields) is not None
    return told or any(_TELLS.search(name) is not None for name in fields)


def _plain(reading: Reading, value: bytes, forced: bool, named: bool) -> bool:
    """Tell whether a string that no serialiser wrote is plausibly a lock."""
    described = values.is_self_describing(value) or owners.host_pid_owner(value) is not None
    counts = _COUNTS.search(reading.key) is not None and _SMALL.fullmatch(value) is not None
    if value == b"0" or forced or described or counts:
        return value != b"0" and (forced or described)
    expires = reading.deadline is not None
    if values.is_random(value) or (expires and values.is_random_bytes(value)):
        return named or _OTHERS.search(reading.key) is None
    if _BESIDE.search(reading.key) is not None or (values.is_number(value) and _POOL.search(reading.key)):
        return False
    if named or _RUNNING.search(reading.key) is not None:
        return True
    word = values.is_word(value) and values.is_token(value)
    return expires and word and _OTHERS.search(reading.key) is None


def _named(key: bytes, forced: bool) -> bool:
    """Tell whether the key's name allows a hash, sorted set or set to be a lock."""
    if forced:
        return True
    other = any(words.search(key) is not None for words in (_BESIDE, _COUNTS, _WAITING))
    return not other and (lockish(key) or _POOL.search(key) is not None)


def _hash(reading: Reading, forced: bool) -> tuple[Finding, ...] | None:
    """A hash whose fields describe its one holder, or whose fields are holders with counts."""
    fields = reading.value
    if not isinstance(fields, dict) or not 0 < len(fields) <= MAX_MEMBERS or not _named(reading.key, forced):
        return None
    words = {values.text(name): value for name, value in fields.items()}
    owner = owners.from_fields({name: values.text(value) for name, value in words.items()})
    named = owners.token_field(words)
    if named is None and (owner is None or (owner.host is None and owner.pid is None)):
        return _COUNTED(reading, forced)
    token = words[named] if named is not None else b"\0".join(value for _, value in sorted(fields.items()))
    if not 0 < len(token) <= MAX_VALUE:
        return None
    said = owner or owners.described(reading.key, token)
    return (Finding((owners.holder(token, said),), identity=token, deadline=reading.deadline),)


def _each(reading: Reading, _forced: bool) -> tuple[Finding, ...] | None:
    """A hash called locks whose fields are locks of their own, each with its owner's token."""
    fields = reading.value
    if not isinstance(fields, dict) or not 0 < len(fields) <= MAX_MEMBERS:
        return None
    if not all(map(_owns, fields.values())):
        return None
    return tuple(
        Finding(
            (owners.holder(token, owners.described(reading.key, token)),),
            identity=token,
            field=name,
            deadline=reading.deadline,
        )
        for name, token in sorted(fields.items())
    )


def _owns(value: bytes) -> bool:
    return values.is_random(value) or owners.described(b"", value) != owners.NOBODY


def _zset(reading: Reading, forced: bool) -> tuple[Finding, ...] | None:
    """A sorted set of holders: scores ahead of now are ends; if all lie behind it, they say since when."""
    members = reading.value
    if (
        not isinstance(members, tuple)
        or not 0 < len(members) <= MAX_MEMBERS
        or not _named(reading.key, forced)
    ):
        return None
    ends, since = [], []
    for name, score in members:
        at = moment(score)
        if at is None or _MEMBER.fullmatch(name) is None:
            return None
        said = owners.described(reading.key, name)
        if reading.read_at is None or at > reading.read_at:
            ends.append((at, owners.holder(name, said)))
        else:
            since.append(owners.holder(name, replace(said, started_at=at)))
    if ends:
        return expiring(ends, reading)
    held = tuple(sorted(since, key=lambda one: one.token))
    identity = b"\0".join(one.token for one in held)
    return (Finding(held, identity=identity, deadline=reading.deadline, note=_SINCE_NOTE),)


def _set(reading: Reading, forced: bool) -> tuple[Finding, ...] | None:
    if not _named(reading.key, forced) or (not forced and _INDEX.search(reading.key) is not None):
        return None
    return _MEMBERS(reading, forced)


_COUNTED = hash_holders(_TOKEN_WITH_COUNT, count=small_count)
_MEMBERS = set_holders(lambda name: _MEMBER.fullmatch(name) is not None)

# What nothing but the user's pattern speaks for; whether it should have an expiry nobody knows.
NAMED = (Form("string", _named_string, ttl_expected=False),)

DIALECTS = (
    Dialect(
        "generic",
        "any other: a token, a holder's description or a set of holders that is plausibly a lock",
        "any",
        (
            Form("string", _string, example="app:lock:nightly"),
            Form(
                "hash",
                _each,
                keys=(b"*locks", b"*mutexes", b"*leases"),
                ttl_expected=False,
                release=Release.NONE,
                example="app:locks, field nightly",
            ),
            Form("hash", _hash, release=Release.NONE, example="app:lock:nightly"),
            Form("zset", _zset, release=Release.NONE, example="app:semaphore"),
            Form("set", _set, release=Release.NONE, example="app:lock:readers"),
        ),
        ttl="One is expected where the name says lock, but of fields of a hash; otherwise it is not known.",
        release="Compare and delete the exact bytes of a string; of other types no safe way is known.",
    ),
)

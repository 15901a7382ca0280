"""From key, type and value to locks: which formats may apply, how to read, what it means. Pure."""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING

from lockscope.globs import compile_glob, fixed_part
from lockscope.idempotency.markers import DONE
from lockscope_exporter.dialects import dotnet, generic, go, java, node, php, python, ruby
from lockscope_exporter.dialects.model import MAX_FIELDS, MAX_MEMBERS, MAX_VALUE, Decoded, ReadPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lockscope_exporter.dialects.model import Dialect, Finding, Form, Reading
    from lockscope_exporter.state import Holder

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for module in (python, node, php, java, ruby, go, dotnet, generic)
    for dialect in module.DIALECTS
}
ANY = "any"
"""In place of a dialect: whatever is recognised and, as the user named such keys, what else may be a lock."""
OWN = b"lockscope:"
"""Whatever lockscope itself writes begins with this, and is never a lock."""

NAMES: dict[str, Dialect] = {
    name: dialect for dialect in DIALECTS.values() for name in (*dialect.aliases, dialect.name)
}
"""Every name that the user may say, aliases too."""
_FORMS = tuple((dialect, form) for dialect in DIALECTS.values() for form in dialect.forms)
_ANY_KEY = tuple(pair for pair in _FORMS if not pair[1].keys and not pair[1].only_forced)
_NAMED = tuple((DIALECTS["generic"], form) for form in generic.NAMED)
_CACHED_KEY = 200  # bytes; longer keys are rare and would make the cache large
_DIGITS = re.compile(rb"[0-9]+")
_HEAD = 3  # bytes that globs are looked up by


_Match = tuple[int, int]
"""What a glob stands for, and the length of its fixed part: how much it says about a key."""


class _Index:
    """Globs by what they begin with, so that a key is tried against few of them.

    Args:
        globs: each with what it stands for.
    """

    def __init__(self, globs: Iterable[tuple[bytes, int]]) -> None:
        self._by_head: defaultdict[bytes, list[tuple[bytes, Callable[[bytes], object], _Match]]]
        self._by_head = defaultdict(list)
        self._others: list[tuple[bytes, Callable[[bytes], object], _Match]] = []
        needles = []
        for glob, meaning in globs:
            fixed = fixed_part(glob)
            entry = (_needle(glob), compile_glob(glob).fullmatch, (meaning, len(fixed)))
            if len(fixed) >= _HEAD:
                self._by_head[fixed[:_HEAD]].append(entry)
            else:
                self._others.append(entry)
                needles.append(re.escape(entry[0]))
        self._any_needle = re.compile(b"|".join(needles) if needles else b"(?!)").search

    def find(self, key: bytes) -> set[_Match]:
        """Return what the globs that match ``key`` stand for, each with the length of its fixed part."""
        found: set[_Match] = set()
        near = self._by_head.get(key[:_HEAD])
        if near is not None:
            found.update(what for needle, match, what in near if needle in key and match(key) is not None)
        if self._any_needle(key) is not None:
            found.update(
                what for needle, match, what in self._others if needle in key and match(key) is not None
            )
        return found


def _needle(glob: bytes) -> bytes:
    """Return the longest run of literal bytes in a glob: a cheap test before the pattern."""
    return max(re.split(rb"\[[^]]*\]|[*?\\]", glob), key=len)


_CLAIMS = _Index((glob, at) for at, (_, form) in enumerate(_FORMS) for glob in form.keys)
_COMPANIONS = _Index((glob, 0) for dialect in DIALECTS.values() for glob in dialect.companions)


def dialect(name: str) -> Dialect:
    """Return the dialect of that name or alias.

    Raises:
        ValueError: there is none; the message names the nearest.
    """
    found = NAMES.get(name)
    if found is None:
        near = difflib.get_close_matches(name, NAMES, 3, 0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(sorted(DIALECTS))}"
        raise ValueError(f"no dialect is called {name!r}: {hint}")
    return found


def wants(key: bytes, forced: str | None = None) -> bool:
    """Tell by the key alone whether it could be a lock; cheap, for every key that changed.

    Args:
        key: a key under one of the watched patterns.
        forced: the dialect that the pattern names.

    Returns:
        ``False`` for companions of known libraries and for lockscope's own keys.
    """
    return bool(_candidates(key, forced))


def plan(key: bytes, type: str, forced: str | None = None) -> ReadPlan | None:  # noqa: A002 - Redis calls it so
    """Say how to read a key.

    Args:
        key: a key that is wanted.
        type: what the Redis command TYPE says.
        forced: the dialect that the pattern names.

    Returns:
        One bounded command, or ``None`` if no lock of this key has this type: never read it.
    """
    form = next((form for _, form in _candidates(key, forced) if form.type == type), None)
    if form is None:
        return None
    if type == "hash":
        if form.match is not None:
            return ReadPlan("HSCAN", (0, b"MATCH", form.match, b"COUNT", 1000), MAX_FIELDS)
        return ReadPlan("HSCAN", (0, b"COUNT", MAX_MEMBERS + 1), MAX_MEMBERS + 1)
    if type == "zset":
        return ReadPlan("ZRANGE", (0, MAX_MEMBERS, b"WITHSCORES"), MAX_MEMBERS + 1)
    if type == "set":
        return ReadPlan("SSCAN", (0, b"COUNT", MAX_MEMBERS + 1), MAX_MEMBERS + 1)
    return ReadPlan("GETRANGE", (0, MAX_VALUE), MAX_VALUE + 1)


def decode(reading: Reading, forced: str | None = None) -> tuple[Decoded, ...]:
    """Return the locks in what was read.

    The formats that the key's name speaks for are tried first, then those known by the value alone, then
    what is plausible at all; the first that takes the value decides. Never raises, whatever the bytes.

    Args:
        reading: one key.
        forced: the dialect that the pattern names; nothing else is tried then, unless it is ``ANY``.

    Returns:
        The locks: mostly one, several where fields of a hash are locks, none if nobody holds it or it is
        no lock.
    """
    value = reading.value
    if isinstance(value, bytes) and (len(value) > MAX_VALUE or value.startswith(DONE)):
        return ()  # no lock is as large; work that is done is remembered, and held by nobody
    for dialect_, form in _candidates(reading.key, forced):
        if form.type == reading.type:
            findings = form.shape(reading, forced not in (None, ANY))
            if findings is not None:
                return tuple(_decoded(dialect_, form, finding) for finding in findings)
    return ()


def form_of(name: str, key: bytes, type: str) -> Form | None:  # noqa: A002
    """Return the form of a dialect that a lock of this key and type has, ``None`` if there is none.

    Args:
        name: the dialect that the lock was decoded as.
        key: the lock's key.
        type: the Redis type of the key.
    """
    forms = [form for form in dialect(name).forms if form.type == type]
    named = [form for form in forms if any(compile_glob(glob).fullmatch(key) for glob in form.keys)]
    forced = [form for form in forms if any(compile_glob(glob).fullmatch(key) for glob in form.forced_keys)]
    return next(iter(named or forced or forms), None)


def _candidates(key: bytes, forced: str | None) -> tuple[tuple[Dialect, Form], ...]:
    """Return the forms that may apply to a key, in the order in which they are tried."""
    if forced == ANY:
        found = _candidates(key, None)
        return (*found, *_NAMED) if found else ()
    if forced is not None:
        return _forced_cached(key, forced) if len(key) <= _CACHED_KEY else _forced(key, forced)
    return _recognised_cached(key) if len(key) <= _CACHED_KEY else _recognised(key)


def _recognised(key: bytes) -> tuple[tuple[Dialect, Form], ...]:
    if key.startswith(OWN):
        return ()
    claims = _CLAIMS.find(key)
    beside = _COMPANIONS.find(key)
    if beside:
        # The glob that says more about the key wins; a draw goes to the lock: companion globs may be broad.
        # One that begins with a wildcard says nothing against a library's own name.
        strongest = max((fixed for _, fixed in claims), default=0)
        if not strongest or strongest < max(fixed for _, fixed in beside):
            return ()
    named = sorted({at for at, _ in claims})
    return (*(_FORMS[at] for at in named), *_ANY_KEY) if named else _ANY_KEY


def _forced(key: bytes, name: str) -> tuple[tuple[Dialect, Form], ...]:
    if key.startswith(OWN):
        return ()
    chosen = dialect(name)
    beside = any(compile_glob(glob).fullmatch(key) for glob in chosen.companions)
    return tuple((chosen, form) for form in chosen.forms if _may_be(form, key, beside=beside))


def _may_be(form: Form, key: bytes, *, beside: bool) -> bool:
    """Tell whether a key can be of this form when the user named its dialect."""
    if any(compile_glob(glob).fullmatch(key) for glob in form.keys):
        return True
    if form.forced_keys:
        return any(compile_glob(glob).fullmatch(key) for glob in form.forced_keys)
    return not beside


@lru_cache(maxsize=16_384)
def _recognised_cached(key: bytes) -> tuple[tuple[Dialect, Form], ...]:
    return _recognised_shape(_DIGITS.sub(b"0", key))


_recognised_shape = lru_cache(maxsize=4096)(_recognised)
"""By a key with each number in it written as 0: a digit is like any other to every glob of a dialect."""
_forced_cached = lru_cache(maxsize=16_384)(_forced)


def _decoded(dialect_: Dialect, form: Form, finding: Finding) -> Decoded:
    return Decoded(
        dialect=dialect_.name,
        field=finding.field,
        holders=finding.holders,
        ttl_expected=form.ttl_expected,
        weak_owner=finding.weak_owner,
        value=finding.value,
        deadline=finding.deadline,
        owner_identity=finding.identity,
        started_at=_started(finding.holders),
        renews=form.renews,
        next_change=finding.next_change,
        note=finding.note,
        type=form.type,
    )


def _started(holders: tuple[Holder, ...]) -> float | None:
    if len(holders) == 1:
        return holders[0].started_at
    return min((one.started_at for one in holders if one.started_at is not None), default=None)

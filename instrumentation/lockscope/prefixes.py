"""The bounded name of a family of keys, and the cap that keeps the number of names bounded."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockscope.globs import compile_glob, escape
from lockscope.guards import guard

if TYPE_CHECKING:
    from collections.abc import Iterable

OTHER = "other"
MAX_LENGTH = 160  # characters of a derived prefix; a longer one is cut and ends in "*"

_CACHE_KEYS = 4096
_CACHE_KEY_BYTES = 256

# Segments that vary from key to key, most specific first. A boundary is anything but a letter or a digit.
# Looking ahead is bounded and an e-mail begins where its run of characters does, so that no key is slow.
_VARIABLE = re.compile(
    r"""
      (?<![\w.+%-])[\w.+%-]+@[\w-]+(?:\.[\w-]+)+                                         # e-mail
    | (?<![A-Za-z0-9])(?:
        [0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}   # UUID
      | \d{4}-\d{2}-\d{2}(?:[T\x20_]\d{2}:?\d{2}(?::?\d{2})?(?:\.\d+)?(?:Z|[+-]\d{2}:?\d{2})?)?  # date, time
      | (?=[0-9A-Fa-f]*\d)[0-9A-Fa-f]{8,}                                    # long hex
      | [0-7][0-9A-HJKMNP-TV-Z]{25}                                          # ULID
      | (?=[A-Za-z0-9+/_-]{0,64}\d)(?=[A-Za-z0-9+/_-]{0,64}[a-z])(?=[A-Za-z0-9+/_-]{0,64}[A-Z])
        (?![A-Za-z0-9+/_-]{0,64}(?:[a-z]{6}|[A-Z]{6}))                       # a word in it: no random id
        [A-Za-z0-9][A-Za-z0-9+/_-]{15,}={0,2}                                # long base64, nano ids
      | \d+                                                                  # digits
      )(?![A-Za-z0-9])
    | (?<=[A-Za-z])\d{3,}(?![A-Za-z0-9])                                     # digits glued to a word
    | [^\x20-\x7e\u00a0-\u024f\u0370-\uffdc]+                                # characters that no one typed
    """,
    re.VERBOSE,
)
_PLACE = "\x00"
_RUNS = re.compile(r"\x00(?:[_;\x20-\x2e]?\x00)+")


def plain(key: object) -> bytes | str:
    """Return a key of any type that redis-py takes as plain text or bytes of the same meaning.

    Raises:
        TypeError: redis-py would not take it either.
    """
    if isinstance(key, str):
        return str.__str__(key)  # an enumeration's own __str__ gives its name, Redis gets its value
    if isinstance(key, int | float):
        return repr(key)
    return memoryview(key).tobytes()  # type: ignore[arg-type]  # raises for what is no buffer


def key_bytes(key: bytes | str) -> bytes:
    """Return ``key`` as the bytes that Redis sees, also where text holds stray surrogates."""
    if type(key) is not str:
        if type(key) is bytes:
            return key
        key = plain(key)
        if isinstance(key, bytes):
            return key
    try:
        return key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return key.encode("utf-8", "replace")


def prefix_of(key: bytes | str, patterns: Iterable[str] = ()) -> str:
    """Return the name of the family of keys that ``key`` belongs to, written as a Redis glob.

    The caller's patterns come first, in order; the first that matches is the name. Otherwise segments that
    look variable (digits, UUID, ULID, long hex or base64, e-mail, dates, bytes that are no text) become
    ``*`` and the rest is quoted, so the result can be pasted into ``redis-cli --scan --pattern``.

    Args:
        key: a full Redis key, as the client library names it.
        patterns: Redis globs in order of preference.

    Returns:
        A Redis glob that matches ``key``: one of ``patterns``, or one of 1 to ``MAX_LENGTH`` characters.

    >>> prefix_of(b"lock:order:4711")
    'lock:order:*'
    """
    raw = key_bytes(key)
    for pattern in patterns:
        if compile_glob(pattern.encode()).fullmatch(raw):
            return pattern
    cut = len(raw) > MAX_LENGTH * 4
    text = raw[: MAX_LENGTH * 4].decode("utf-8", "replace").replace("\ufffd", _PLACE)
    if not text.isprintable():
        text = "".join(char if char.isprintable() else _PLACE for char in text)
    text = _VARIABLE.sub(_PLACE, text)
    if text.count(_PLACE) > 1:
        text = _RUNS.sub(_PLACE, text)
    family = escape(text).replace(_PLACE, "*")
    if cut or len(family) > MAX_LENGTH:
        family = family[: MAX_LENGTH - 1].rstrip("\\*") + "*"
    return family or "*"  # the empty key: an empty label would be no label


class Prefixes:
    """``prefix_of`` with memory: cached, and capped at ``limit`` distinct names a process.

    Names beyond the cap fold into ``other``; each time that happens ``overflowed`` goes up. Safe to share
    between threads; memory is bounded whatever the keys are.

    Args:
        patterns: Redis globs in order of preference; they never count as overflow.
        limit: distinct names that may exist beside the patterns.
    """

    def __init__(self, patterns: Iterable[str] = (), limit: int = 200) -> None:
        self.patterns = tuple(patterns)
        self.limit = limit
        self.overflowed = 0
        self._known = {pattern: pattern for pattern in self.patterns}
        self._cache: dict[bytes | str, str] = {}
        self._lock = guard()

    def of(self, key: bytes | str) -> str:
        """Return the bounded prefix of ``key``, or ``other`` once the cap is reached."""
        found = self._cache.get(key)
        if found is not None and found is not OTHER:
            return found
        if found is None:
            found = self._admit(prefix_of(key, self.patterns))
            if len(key) <= _CACHE_KEY_BYTES:
                if len(self._cache) >= _CACHE_KEYS:
                    self._cache = {}
                self._cache[key] = found
        if found is OTHER:
            with self._lock:
                self.overflowed += 1
        return found

    def known(self) -> frozenset[str]:
        """Return the names handed out so far."""
        return frozenset(self._known)

    def _admit(self, family: str) -> str:
        """Return one string for all keys of a family, or ``other``."""
        known = self._known.get(family)
        if known is not None:
            return known
        with self._lock:
            if len(self._known) >= self.limit + len(self.patterns):
                return OTHER
            return self._known.setdefault(family, family)

"""Counting keys: locks that are watched, keys that match and are none, locks that nothing watches. Pure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from lockscope.globs import compile_glob, fixed_part
from lockscope.prefixes import prefix_of
from lockscope_exporter.dialects import DIALECTS, KNOWN_GLOBS, decode, wants
from lockscope_exporter.dialects.generic import lockish
from lockscope_exporter.doctor.evidence import PatternCount, Unwatched

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockscope_exporter.dialects import Reading
    from lockscope_exporter.targets import LockPattern

MAX_FAMILIES = 200
_WILD = re.compile(r"(?<!\\)\*")
_TELLING = 3  # bytes of fixed text with which a known library's glob says something about a key


class Census:
    """Sorts keys.

    Args:
        patterns: what is watched, in order.

    Attributes:
        beyond: families of unwatched locks that were left out, because there were too many.
    """

    def __init__(self, patterns: Iterable[LockPattern]) -> None:
        self.beyond = 0
        self._patterns = tuple(patterns)
        self._matchers = [compile_glob(pattern.glob).fullmatch for pattern in self._patterns]
        self._known = [
            compile_glob(glob).fullmatch for glob in KNOWN_GLOBS if len(fixed_part(glob)) >= _TELLING
        ]
        self._counts = [PatternCount(pattern.glob) for pattern in self._patterns]
        self._unwatched: dict[tuple[str, str], Unwatched] = {}

    def wants(self, key: bytes) -> tuple[bool, str | None]:
        """Tell whether a key has to be read to be counted, and as which dialect.

        Keys that a library keeps beside its locks are counted by this, as their names tell.
        """
        place = self._place(key)
        if place is None:
            telling = lockish(key) or any(match(key) is not None for match in self._known)
            return telling and wants(key), None
        dialect = self._patterns[place].dialect
        if wants(key, dialect):
            return True, dialect
        self._counts[place] = replace(self._counts[place], beside=self._counts[place].beside + 1)
        return False, None

    def count(self, reading: Reading, dialect: str | None) -> None:
        """Take in what a key holds."""
        found = decode(reading, dialect)
        place = self._place(reading.key)
        if place is not None:
            count = self._counts[place]
            if found:
                self._counts[place] = replace(count, locks=count.locks + 1)
            else:
                self._counts[place] = replace(
                    count, others=count.others + 1, example=count.example or reading.key
                )
        elif found:
            self._add(reading.key, found[0].dialect)

    def skip(self, key: bytes) -> None:
        """Take in a key that is too much to be read."""
        place = self._place(key)
        if place is not None:
            self._counts[place] = replace(self._counts[place], unread=self._counts[place].unread + 1)

    def patterns(self) -> tuple[PatternCount, ...]:
        """Return what each watched pattern matches."""
        return tuple(self._counts)

    def unwatched(self) -> tuple[Unwatched, ...]:
        """Return the locks that no pattern matches, the largest families first."""
        return tuple(sorted(self._unwatched.values(), key=lambda one: (-one.count, one.pattern)))

    def _add(self, key: bytes, dialect: str) -> None:
        pattern = _library_glob(dialect, key) or family(key)
        known = self._unwatched.get((pattern, dialect))
        if known is not None:
            self._unwatched[pattern, dialect] = replace(known, count=known.count + 1)
        elif len(self._unwatched) < MAX_FAMILIES:
            self._unwatched[pattern, dialect] = Unwatched(pattern, dialect, 1, key)
        else:
            self.beyond += 1

    def _place(self, key: bytes) -> int | None:
        return next((place for place, match in enumerate(self._matchers) if match(key) is not None), None)


def family(key: bytes) -> str:
    """Return a glob for a key and its likes, for somebody to watch.

    Where no segment looks variable, the one beside the word that says lock is taken to be: ``app:lock:*`` for
    ``app:lock:nightly``, ``app:*:lock`` for ``app:nightly:lock``.
    """
    prefix = prefix_of(key)
    segments = re.split(r"([:/.|])", prefix)
    if len(segments) == 1 or _WILD.search(prefix) or not lockish(key):
        return prefix
    place = -1
    if lockish(segments[-1].encode("utf-8", "surrogateescape")):
        place = -3  # the one before, across the separator
    segments[place] = "*"
    found = "".join(segments)
    return found if compile_glob(found.encode("utf-8", "surrogateescape")).fullmatch(key) else prefix


def _library_glob(dialect: str, key: bytes) -> str | None:
    """Return the glob by which a library's keys are known, if it says something about this one."""
    for form in DIALECTS[dialect].forms:
        for glob in form.keys:
            if len(fixed_part(glob)) >= _TELLING and compile_glob(glob).fullmatch(key) is not None:
                return glob.decode()
    return None

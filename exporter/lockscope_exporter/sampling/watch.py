"""Which keys may be locks: the target's patterns as the hot path, the server and SCAN need them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockscope.globs import compile_glob, fixed_part
from lockscope_exporter.dialects import DEFAULT_PATTERNS, wants

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockscope_exporter.targets import LockPattern

_ALWAYS = b"lock"  # the one default prefix that is worth tracking before any key with it was seen
MAX_TRACKED = 8  # distinct prefixes; every write costs the server more with each (50 prefixes: twice as much)


class Watch:
    """The families that a target watches.

    Args:
        patterns: in order of preference; empty means the well-known prefixes of all dialects.

    Attributes:
        lazy: prefixes of the defaults that need not be tracked before a key with one of them was seen. Most
            servers know none of these libraries, and each prefix costs them a little at every write; those
            that do keep keys of theirs, which the first sweep finds.
    """

    def __init__(self, patterns: Iterable[LockPattern] = ()) -> None:
        patterns = tuple(patterns)
        self.patterns = patterns or DEFAULT_PATTERNS
        prefixes, _ = tracked_prefixes(self.globs)
        mine, _ = tracked_prefixes(pattern.glob for pattern in patterns)
        self.lazy = tuple(prefix for prefix in prefixes if not (prefix.startswith(_ALWAYS) or prefix in mine))
        self._matchers = [
            (compile_glob(pattern.glob).fullmatch, pattern.dialect) for pattern in self.patterns
        ]

    @property
    def globs(self) -> tuple[bytes, ...]:
        """Every glob watched."""
        return tuple(pattern.glob for pattern in self.patterns)

    def lock(self, key: bytes) -> tuple[bool, str | None]:
        """Tell whether a key may be a lock, and the dialect it is to be read as.

        Args:
            key: any key of the server.

        Returns:
            Whether its name fits, and the dialect of the first pattern that matches (``None``: recognise).
        """
        for match, dialect in self._matchers:
            if match(key) is not None:
                return wants(key, dialect), dialect
        return False, None


def tracked_prefixes(globs: Iterable[bytes]) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """Return the prefixes to give to ``CLIENT TRACKING … BCAST``, and the globs that have none.

    A prefix that another one covers is left out, as the server refuses overlapping ones.

    Args:
        globs: Redis globs.

    Returns:
        Distinct prefixes, none of which begins another, and the globs that begin with a wildcard.
    """
    globs = tuple(globs)
    untrackable = tuple(glob for glob in globs if not fixed_part(glob))
    prefixes: list[bytes] = []
    for prefix in sorted({fixed_part(glob) for glob in globs} - {b""}):
        if not (prefixes and prefix.startswith(prefixes[-1])):
            prefixes.append(prefix)
    return tuple(prefixes), untrackable


def covering_glob(globs: Sequence[bytes]) -> bytes | None:
    """Return one glob that matches every key that any of ``globs`` matches, for ``SCAN … MATCH``.

    One glob is returned as it is. Of several, position by position the bytes that their fixed parts begin
    with become a character class, so the server need not send a million foreign keys to be dropped here.

    Args:
        globs: Redis globs.

    Returns:
        A glob, or ``None`` if nothing narrower than every key covers them all.
    """
    if len(set(globs)) == 1:
        return globs[0]
    fixed = [fixed_part(glob) for glob in globs]
    shortest = min((len(part) for part in fixed), default=0)
    if not shortest:
        return None
    pieces = [sorted({part[index : index + 1] for part in fixed}) for index in range(shortest)]
    return b"".join(_either(piece) for piece in pieces) + b"*"


def _either(choices: Sequence[bytes]) -> bytes:
    """Return a glob for one byte out of ``choices``."""
    if len(choices) == 1:
        return b"\\" + choices[0] if choices[0] in b"*?[]\\" else choices[0]
    return b"[" + b"".join(b"\\" + choice if choice in b"]^-\\" else choice for choice in choices) + b"]"

"""Do the watched patterns match locks, all of them, and nothing else? Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from lockscope_exporter.doctor.finding import Finding
from lockscope_exporter.text import shown_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockscope_exporter.doctor.evidence import Evidence, Keyspace, PatternCount, Unwatched

FEW = 10  # keys that are no locks, up to which nobody is bothered
SHARE = 0.5  # of the keys that a pattern matches
_MAX_PATTERN = 1000  # characters
_SHOWN = 10  # families that are named one by one


def matching(evidence: Evidence) -> Iterator[Finding]:
    """Do the patterns match keys that are no locks, or nothing at all?"""
    for space in evidence.keyspaces:
        if space.error:
            text = f"keys could not be looked at: {space.error}"
            yield Finding("patterns", "unknown", text, "", _place(space))
        for count in space.patterns:
            yield from _pattern(space, count, explicit=evidence.explicit)
        matched = sum(count.locks for count in space.patterns)
        if matched:
            what = "1 key matches and is a lock" if matched == 1 else f"{matched:,} keys match and are locks"
            text = f"{what}{_part(space)}"
            yield Finding("patterns", "ok", text, "", _place(space))


def missing(evidence: Evidence) -> Iterator[Finding]:
    """Are there locks that no pattern watches?"""
    for space in evidence.keyspaces:
        if space.error and not space.visited:
            continue
        groups: defaultdict[str, list[Unwatched]] = defaultdict(list)
        for one in space.unwatched:
            groups[one.pattern].append(one)
        ordered = sorted(groups.items(), key=lambda item: -sum(one.count for one in item[1]))
        for pattern, found in ordered[:_SHOWN]:
            yield _unwatched(space, pattern, found, explicit=evidence.explicit)
        if len(ordered) > _SHOWN:
            text = f"and {len(ordered) - _SHOWN} more families of locks that no pattern watches"
            yield Finding("unwatched", "warning", text, "", _place(space))
        if not ordered:
            yield Finding("unwatched", "ok", f"no lock is missed{_part(space)}", "", _place(space))


def _pattern(space: Keyspace, count: PatternCount, *, explicit: bool) -> Iterator[Finding]:
    pattern = shown_key(count.glob, 60)
    read = count.locks + count.others
    data = {
        "pattern": shown_key(count.glob, 200),
        "locks": count.locks,
        "others": count.others,
        "beside": count.beside,
        "not_read": count.unread,
        "complete": space.complete,
    }
    example = shown_key(count.example, 60)
    what = f"{count.others:,} of {read:,} keys that {pattern} matches are no locks, such as {example}"
    if count.others > FEW and count.others > SHARE * read:
        text = f"{what}: each change of them is work for the server and the sampler"
        fix = "watch a narrower pattern, or name its dialect if they are locks after all (PATTERN=DIALECT)"
        yield Finding("patterns", "warning", text, fix, _place(space), data)
    elif count.others:
        yield Finding("patterns", "note", what, "", _place(space), data)
    elif not read and not count.unread and explicit and space.complete:
        yield Finding("patterns", "note", f"no key matches {pattern} now", "", _place(space), data)


def _unwatched(space: Keyspace, pattern: str, found: list[Unwatched], *, explicit: bool) -> Finding:
    count = sum(one.count for one in found)
    dialects = list(dict.fromkeys(one.dialect for one in found))
    what = f"{count:,} lock{'' if count == 1 else 's'} of {', '.join(dialects)} that no pattern watches"
    data = {
        "pattern": pattern,
        "locks": count,
        "dialects": dialects,
        "example": shown_key(found[0].example, 200),
    }
    fix = f"add {_option(pattern)}"
    if not explicit:
        fix += ", and name the others that you use as well: naming any replaces the default patterns"
    return Finding("unwatched", "warning", what, fix, _place(space), data)


def _option(pattern: str) -> str:
    """Return the option to paste; a ``=`` in the pattern must not be taken for the one before a dialect."""
    if not pattern.isprintable() or len(pattern) > _MAX_PATTERN:
        return "a pattern for them with --locks"
    return f"--locks {_always_quoted(pattern.replace('=', chr(92) + '='))}"


def _always_quoted(word: str) -> str:
    return "'" + word.replace("'", "'\"'\"'") + "'"


def _part(space: Keyspace) -> str:
    """Say how much was looked at, where that is not everything."""
    if space.complete:
        return ""
    total = "" if space.total is None else f" of {space.total:,}"
    return f", as far as {space.visited:,}{total} keys were looked at; --scan-keys looks at more"


def _place(space: Keyspace) -> str:
    return f"{space.where} db{space.db}" if space.db else space.where

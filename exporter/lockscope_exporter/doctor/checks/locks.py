"""The locks that are live now. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from lockscope_exporter.dialects import DIALECTS
from lockscope_exporter.doctor.finding import Finding
from lockscope_exporter.text import shown, shown_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lockscope_exporter.doctor.evidence import Evidence
    from lockscope_exporter.state import LockState

_BAD = {
    "orphaned": (
        "whose holder is gone",
        "lockscope why KEY says when it frees itself, lockscope release KEY frees it",
    ),
    "stalled": (
        "whose holder has stopped renewing",
        "look at the process: it is paused, blocked or cut off, and may soon work without its lock",
    ),
}


def states(evidence: Evidence) -> Iterator[Finding]:
    """Is a holder gone, or has one stopped renewing?"""
    fine = True
    for state, (what, fix) in _BAD.items():
        found = [lock for lock in evidence.locks if lock.state == state]
        if found:
            fine = False
            example = f"such as {shown_key(found[0].key, 80)}: {found[0].evidence[0]}"
            data = {"state": state, "locks": len(found)}
            yield Finding("states", "warning", f"{_number(found)} {what}, {example}", fix, "", data)
    if fine:
        text = f"{_number(evidence.locks)} live, none orphaned or stalled"
        yield Finding("states", "ok", text, data={"locks": len(evidence.locks)})


def without_ttl(evidence: Evidence) -> Iterator[Finding]:
    """Which locks never expire, and is that normal for their library?"""
    lasting = [lock for lock in evidence.locks if lock.ttl_seconds is None]
    for prefix, dialect, found in _grouped(lasting):
        expected = found[0].ttl_expected
        data = {"prefix": prefix, "dialect": dialect, "locks": len(found), "expected": expected}
        says = "" if dialect == "generic" or dialect not in DIALECTS else f" {DIALECTS[dialect].ttl}"
        what = f"{_number(found)} of {dialect} without expiry"
        if expected:
            text = f"{what}: if the holder dies it stays for ever"
            fix = f"take them with an expiry.{says}"
            yield Finding("no_ttl", "warning", text, fix, shown(prefix, 80), data)
        else:
            text = f"{what}, which is normal for it.{says}"
            yield Finding("no_ttl", "note", text, "", shown(prefix, 80), data)
    if not lasting and evidence.locks:
        yield Finding("no_ttl", "ok", "every lock expires")


def weak_owners(evidence: Evidence) -> Iterator[Finding]:
    """Which locks have an owner value that anybody could have written?"""
    weak = [lock for lock in evidence.locks if lock.weak_owner]
    for prefix, dialect, found in _grouped(weak):
        yield Finding(
            "weak_owner",
            "warning",
            f"{_number(found)} of {dialect} with a value that others would write, too: whoever releases it "
            "cannot know whether it still is the holder, and may free somebody else's",
            "use a library that writes a random token for each holder and compares it at release",
            shown(prefix, 80),
            {"prefix": prefix, "dialect": dialect, "locks": len(found)},
        )
    if not weak and evidence.locks:
        yield Finding("weak_owner", "ok", "every owner value is one holder's own")


def _grouped(locks: Iterable[LockState]) -> list[tuple[str, str, list[LockState]]]:
    """Return locks by prefix and dialect, the largest groups first."""
    groups: defaultdict[tuple[str, str], list[LockState]] = defaultdict(list)
    for lock in locks:
        groups[lock.prefix, lock.dialect].append(lock)
    return [(*names, found) for names, found in sorted(groups.items(), key=lambda item: -len(item[1]))]


def _number(locks: Sequence[LockState]) -> str:
    return f"{len(locks):,} lock{'' if len(locks) == 1 else 's'}"

"""Is the TTL of each family right for how long its locks are held? Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockscope_exporter.doctor.finding import Finding
from lockscope_exporter.moments import span
from lockscope_exporter.text import shown
from lockscope_exporter.ttl_advice import recommend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockscope_exporter.doctor.evidence import Evidence, Holds


def advice(evidence: Evidence) -> Iterator[Finding]:
    """Is the TTL of each family right for how long its locks are held?"""
    judged = [found for _, holds in sorted(evidence.holds.items()) if (found := _judged(holds)) is not None]
    yield from judged
    if not judged and evidence.families:
        after = f" after {span(evidence.watched)}" if evidence.watched else ""
        text = f"no advice yet: fewer than 20 holds are known of any prefix{after}"
        fix = "give the exporter's --state-file, turn the journal on, or watch for longer (--observe 60s)"
        yield Finding("ttl", "unknown", text, fix)
    for source, why in evidence.unread.items():
        yield Finding("ttl", "unknown", f"{source} cannot be read: {why}")


def _judged(holds: Holds) -> Finding | None:
    renewed = holds.headroom is not None or holds.interval is not None
    found = recommend(
        holds.p99,
        holds.ttl,
        renewed=renewed,
        headroom=holds.headroom,
        interval=holds.interval,
        ended=holds.ended,
        expired=holds.expired,
    )
    data = {
        "prefix": holds.prefix,
        "verdict": found.verdict,
        "recommended_seconds": found.seconds,
        "ttl_seconds": holds.ttl,
        "p99_seconds": holds.p99,
        "longest_seconds": holds.longest,
        "holds": holds.count,
        "source": holds.source,
    }
    where = shown(holds.prefix, 80)
    why = f"{found.why} ({holds.count:,} holds, {holds.source})" if holds.p99 is not None else found.why
    if found.verdict == "good":
        return Finding("ttl", "ok", f"the TTL is right: {why}", "", where, data)
    if found.verdict != "unknown" and found.seconds is not None:
        fix = f"use a TTL of {span(found.seconds)}"
        return Finding("ttl", "warning", f"the TTL is {found.verdict}: {why}", fix, where, data)
    if found.seconds is not None and not renewed:
        text = f"a TTL of {span(found.seconds)} would fit: {why}; the one in use was not seen"
        return Finding("ttl", "note", text, "", where, data)
    return None

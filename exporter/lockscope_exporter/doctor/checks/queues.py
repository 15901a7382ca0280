"""Does the queue deliver a job again while it still holds its lock? Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockscope.globs import compile_glob
from lockscope_exporter.doctor.finding import Finding
from lockscope_exporter.moments import span
from lockscope_exporter.text import shown, shown_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockscope_exporter.doctor.evidence import Broker, Evidence

CELERY_DEFAULT = 3600.0  # seconds; kombu.transport.redis.Channel.visibility_timeout of kombu 5
CLOSE = 0.8  # share of the visibility timeout that leaves no room for a slow day


def visibility(evidence: Evidence) -> Iterator[Finding]:
    """Is any lock held for longer than the queue waits before it delivers the job again?"""
    brokers = [(space.where, broker) for space in evidence.keyspaces for broker in space.brokers]
    for node, broker in brokers:
        yield _broker(node, broker, told=bool(evidence.visibility))
    if not evidence.visibility and not brokers:
        return
    longest = _longest(evidence)
    bad = False
    for prefix, seconds in sorted(longest.items()):
        timeout, told = _timeout(evidence, prefix)
        if seconds > CLOSE * timeout:
            bad = True
            yield _too_long(prefix, seconds, timeout, told=told)
    if bad:
        return
    if any(holds.longest is not None for holds in evidence.holds.values()):
        text = f"the longest hold known, {span(max(longest.values()))}, fits the visibility timeout"
        yield Finding("visibility", "ok", text)
    else:
        yield Finding(
            "visibility",
            "unknown",
            "whether holds fit the visibility timeout is not known: only the locks that are live now are",
            "give the exporter's --state-file, or turn the journal on",
        )


def _too_long(prefix: str, seconds: float, timeout: float, *, told: bool) -> Finding:
    source = "as told" if told else "Celery's default; --visibility-timeout tells another"
    verb = "is longer than" if seconds > timeout else "comes close to"
    data = {
        "prefix": prefix,
        "longest_seconds": seconds,
        "visibility_timeout_seconds": timeout,
        "told": told,
    }
    return Finding(
        "visibility",
        "warning",
        f"the longest hold known, {span(seconds)}, {verb} the visibility timeout of {span(timeout)} "
        f"({source}): the queue delivers such a job again while it still runs",
        f"raise the visibility timeout above {span(2 * seconds)}, or make the job shorter",
        shown(prefix, 80),
        data,
    )


def _broker(node: str, broker: Broker, *, told: bool) -> Finding:
    where = f"{node} {shown_key(broker.key, 60)}"
    data = {
        "unacknowledged": broker.waiting,
        "oldest_seconds": None if broker.oldest is None else round(broker.oldest, 1),
    }
    if broker.oldest is None:
        text = "a Celery broker, but how long its messages wait is not known"
        return Finding("visibility", "unknown", text, "let the user read this key", where, data)
    text = (
        f"a Celery broker: {broker.waiting:,} messages unacknowledged, the oldest for {span(broker.oldest)}"
    )
    if not told and broker.oldest > CELERY_DEFAULT:
        text = (
            f"{text}; so its visibility timeout is longer than the default of {span(CELERY_DEFAULT)}, "
            "or no worker looks after it"
        )
    return Finding("visibility", "note", text, "", where, data)


def _longest(evidence: Evidence) -> dict[str, float]:
    """Return the longest hold known of each prefix: past ones, and those that go on."""
    found = {prefix: holds.longest for prefix, holds in evidence.holds.items() if holds.longest is not None}
    for lock in evidence.locks:
        if lock.age_seconds is not None:
            found[lock.prefix] = max(found.get(lock.prefix, 0.0), lock.age_seconds)
    return found


def _timeout(evidence: Evidence, prefix: str) -> tuple[float, bool]:
    """Return the visibility timeout of a prefix in seconds, and whether the user told it."""
    if prefix in evidence.visibility:
        return evidence.visibility[prefix], True
    for glob, seconds in evidence.visibility.items():
        if glob != "*" and compile_glob(glob.encode()).fullmatch(prefix.encode()):
            return seconds, True
    general = evidence.visibility.get("*")
    return (CELERY_DEFAULT, False) if general is None else (general, True)

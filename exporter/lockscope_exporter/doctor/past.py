"""How long locks were held before this moment: from the exporter's state file, and from the journal."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from lockscope import events
from lockscope.journal import KEY, FormatError, decode
from lockscope_exporter.doctor.evidence import Holds
from lockscope_exporter.holds import HoldLearner

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from lockscope.journal import Entry
    from lockscope_exporter.state import Family

ENOUGH = 20  # holds that make a quantile
MAX_ENTRIES = 5000
_BATCH = 200
_MAX_VALUES = 20_000  # of one prefix
_MAX_PREFIXES = 1000
_FIVE_PERCENT = 0.05


def from_state_file(path: Path, now: float) -> dict[str, Holds]:
    """Return what an exporter has learned; the file is only read.

    Args:
        path: the file.
        now: unix time in seconds.

    Raises:
        OSError, ValueError: it cannot be read, or is no such file.
    """
    text = path.read_text(encoding="utf-8")
    usual, longest = HoldLearner(), HoldLearner(enough=1, share=1.0)
    usual.loads(text, now)
    longest.loads(text, now)
    found = {}
    for prefix in json.loads(text)["holds"]:
        most, p99 = longest.expected(prefix, now), usual.expected(prefix, now)
        if most is not None:
            found[prefix] = Holds(
                prefix, "learned by the exporter", most[1], None if p99 is None else p99[0], most[0]
            )
    return found


@dataclass(slots=True)
class _Seen:
    holds: list[float] = field(default_factory=list)
    ttls: list[float] = field(default_factory=list)
    headroom: list[float] = field(default_factory=list)
    lost: int = 0


def from_journal(client: Any, most: int = MAX_ENTRIES) -> dict[str, Holds]:
    """Return what the newest entries of the journal say; nothing without a journal.

    Args:
        client: a client that returns bytes.
        most: entries to read at most.

    Raises:
        redis.RedisError: it may not be read, is no stream, or the server does not answer.
    """
    entries: list[Mapping[bytes, bytes]] = []
    before: Any = "+"
    while len(entries) < most:
        answer: Any = client.xrevrange(KEY, max=before, count=min(_BATCH, most - len(entries)))
        entries += [fields or {} for _, fields in answer]
        if len(answer) < _BATCH:
            break
        before = b"(" + answer[-1][0]
    return summed_up(_readable(entries))


def summed_up(entries: Iterable[Entry]) -> dict[str, Holds]:
    """Return holds by prefix from entries of the journal."""
    seen: defaultdict[str, _Seen] = defaultdict(_Seen)
    for entry in entries:
        for recorded in entry.events:
            event = recorded.event
            if not event.prefix or (event.prefix not in seen and len(seen) >= _MAX_PREFIXES):
                continue
            mine = seen[event.prefix]
            if event.ttl:
                _add(mine.ttls, event.ttl)
            if event.event == events.RELEASED and event.hold_seconds is not None:
                _add(mine.holds, event.hold_seconds)
            elif event.event == events.RENEWED and event.headroom is not None:
                _add(mine.headroom, event.headroom)
            elif event.event in (events.RELEASE_LOST, events.RENEW_LOST):
                mine.lost += 1
                if event.hold_seconds is not None:
                    _add(mine.holds, event.hold_seconds)
    return {
        prefix: Holds(
            prefix, "from the journal", len(one.holds),
            p99=_quantile(one.holds, 0.99) if len(one.holds) >= ENOUGH else None,
            longest=max(one.holds, default=None),
            ttl=median(one.ttls) if one.ttls else None,
            headroom=_quantile(one.headroom, _FIVE_PERCENT) if one.headroom else None,
            ended=len(one.holds), expired=one.lost,
        )
        for prefix, one in seen.items()
        if one.holds or one.headroom
    }  # fmt: skip


def from_families(families: Iterable[Family]) -> dict[str, Holds]:
    """Return what was observed just now."""
    found = {}
    for family in families:
        expired, released = (family.ended.get(how, 0) for how in ("expired", "released"))
        found[family.prefix] = Holds(
            family.prefix, "seen just now", released, family.usual_hold, None, family.usual_ttl,
            None, family.renewal_interval, released + expired, expired,
        )  # fmt: skip
    return found


def together(*sources: Mapping[str, Holds]) -> dict[str, Holds]:
    """Merge sources by prefix; for each fact the first that knows it wins, and the longest hold is of all.

    Args:
        sources: the best first.
    """
    merged: dict[str, Holds] = {}
    for prefix in dict.fromkeys(prefix for source in sources for prefix in source):
        known = [source[prefix] for source in sources if prefix in source]
        best = next((one for one in known if one.p99 is not None), known[0])
        longest = [one.longest for one in known if one.longest is not None]
        ends = max(known, key=lambda one: one.ended)
        merged[prefix] = Holds(
            prefix, best.source, best.count, best.p99, max(longest, default=None),
            ttl=_first(one.ttl for one in known),
            headroom=_first(one.headroom for one in known),
            interval=_first(one.interval for one in known),
            ended=ends.ended, expired=ends.expired,
        )  # fmt: skip
    return merged


def _readable(entries: Iterable[Mapping[bytes, bytes]]) -> Iterable[Entry]:
    for fields in entries:
        try:
            yield decode(fields)
        except FormatError:
            continue


def _add(values: list[float], value: float) -> None:
    if len(values) < _MAX_VALUES:
        values.append(value)


def _quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def _first(values: Iterable[float | None]) -> float | None:
    return next((value for value in values if value is not None), None)

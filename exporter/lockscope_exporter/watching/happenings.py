"""Something that happened to locks, as one line for people and one object for programs. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lockscope_exporter.text import key_text, label_text, shown, shown_key

if TYPE_CHECKING:
    from collections.abc import Iterable

BAD = frozenset(
    {
        "expired", "taken over", "evicted", "flushed", "orphaned", "stalled", "no expiry", "renewal lost",
        "release lost", "renewal failed", "release failed", "overlap", "acquire failed",
    }
)  # fmt: skip
"""What nobody wants to happen."""

CONTENTION = frozenset({"refused", "gave up", "retried", "duplicate"})
"""What happens to those who wait."""

FREE = 5  # happenings of one kind and family in one look that are told one by one
_KEY = 80
_TEXT = 300


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened, or several of a kind.

    Attributes:
        at: unix time in seconds.
        what: the kind, in a word or two.
        prefix: family of the lock.
        key: the lock, ``None`` where this is about several; ``field`` the hash field that is the lock.
        text: who and how long, often empty.
        count: how many.
    """

    at: float
    what: str
    prefix: str
    key: bytes | None = None
    field: bytes | None = None
    text: str = ""
    count: int = 1

    @property
    def bad(self) -> bool:
        """Whether nobody wants this to happen."""
        return self.what in BAD

    @property
    def routine(self) -> bool:
        """Whether this is the normal life of a lock."""
        return not self.bad and self.what not in CONTENTION

    def parts(self) -> tuple[str, str, str, str]:
        """Return time of day, what, which lock and who, each without control characters."""
        name = shown(self.prefix, _KEY) if self.key is None else shown_key(self.key, _KEY)
        if self.field is not None:
            name = f"{name} [{shown_key(self.field, _KEY // 2)}]"
        times = f" x{self.count:,}" if self.count > 1 else ""
        return _clock(self.at), self.what + times, name, shown(self.text, _TEXT)

    def line(self) -> str:
        """Return one line without control characters: time of day, what, which lock, who."""
        clock, what, name, text = self.parts()
        return f"{clock}  {what:<14}  {name}  {text}".rstrip()

    def to_object(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            "at": round(self.at, 3),
            "what": self.what,
            "bad": self.bad,
            "prefix": label_text(self.prefix),
            "key": None if self.key is None else key_text(self.key),
            "field": None if self.field is None else key_text(self.field),
            "count": self.count,
            "text": label_text(self.text),
        }


def folded(happened: Iterable[Happening]) -> list[Happening]:
    """Fold what happened many times at once to locks of one family, so that nothing else is drowned.

    What is bad is told one by one for longer: four times as many. Of notes only those that say the same are.

    Args:
        happened: in order.
    """
    groups: dict[tuple[str, str, str], list[Happening]] = {}
    for one in happened:
        said = one.text if one.what == "note" else ""
        groups.setdefault((one.what, one.prefix, said), []).append(one)
    found: list[Happening] = []
    for (_, _, said), group in groups.items():
        free = 4 * FREE if group[0].bad else FREE
        if len(group) <= free:
            found += group
        else:
            count = sum(one.count for one in group)
            found.append(replace(group[-1], key=None, field=None, text=said, count=count))
    return sorted(found, key=lambda one: one.at)


def _clock(at: float) -> str:
    """Return the time of day; a writer of the journal may say any number."""
    try:
        return datetime.fromtimestamp(at).astimezone().strftime("%H:%M:%S")
    except (ValueError, OverflowError, OSError):  # beyond the calendar, in the words of each platform
        return "??:??:??"

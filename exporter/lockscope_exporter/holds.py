"""How long locks of each prefix are usually held: learned, forgetful, bounded, kept over restarts. Pure."""

from __future__ import annotations

import json
import math
from typing import Any, Final

_VERSION: Final = 1
_GROWTH: Final = 1.1  # ratio of neighbouring bucket bounds: a quantile is at most 10 % too high
_SMALLEST: Final = 0.001  # seconds
_LARGEST: Final = 90 * 86400.0  # seconds
_LOG: Final = math.log(_GROWTH)
_LAST: Final = math.ceil(math.log(_LARGEST / _SMALLEST) / _LOG)  # highest bucket index, 240
_RESCALE_AT: Final = 1e12  # weights are relative to the time of the first; beyond this they are divided
_HIGHEST: Final = 1e15  # no time or weight in a state file is higher
_NEGLIGIBLE: Final = 1e-6  # weight in present holds below which a bucket is dropped


class Holds:
    """The past holds of one prefix, as a histogram in which old holds fade.

    A hold counts 1 when it is observed and half as much after every ``half_life``. Memory: at most 241
    buckets, whatever is observed.

    Args:
        half_life: seconds.
    """

    __slots__ = ("_buckets", "_half_life", "_newest", "_zero")

    def __init__(self, half_life: float) -> None:
        self._half_life = half_life
        self._buckets: dict[int, float] = {}
        self._zero = 0.0  # unix time in seconds at which a hold has the weight 1
        self._newest = 0.0  # unix time in seconds of the latest hold: no clock may go behind it

    def observe(self, seconds: float, at: float) -> None:
        """Take in one hold.

        Args:
            seconds: how long the lock was held.
            at: unix time in seconds when it ended.
        """
        if not self._buckets:
            self._zero = at
        self._newest = max(self._newest, at)
        index = _index(seconds)
        self._buckets[index] = self._buckets.get(index, 0.0) + self._weight(at)
        if self._buckets[index] > _RESCALE_AT:
            self._rescale(self._newest)

    def count(self, now: float) -> float:
        """Return how many holds still count, faded ones as the fraction they are worth."""
        return sum(self._buckets.values()) / self._weight(max(now, self._newest))

    def quantile(self, share: float) -> float | None:
        """Return the duration in seconds that this share of the holds did not exceed; ``None`` without any.

        Args:
            share: between 0 and 1.
        """
        total = sum(self._buckets.values())
        if total <= 0:
            return None
        reached = 0.0
        for index in sorted(self._buckets):
            reached += self._buckets[index]
            if reached >= share * total * (1 - 1e-12):
                return _upper(index)
        return _upper(max(self._buckets))

    def to_json(self, now: float) -> dict[str, Any]:
        """Return the holds with weights as of ``now``, without what has faded away."""
        now = max(now, self._newest)
        self._rescale(now)
        return {
            "at": now,
            "buckets": {str(key): round(w, 6) for key, w in self._buckets.items()},
        }

    @classmethod
    def from_json(cls, raw: object, half_life: float, now: float) -> Holds:
        """Return the holds that ``to_json`` wrote; those of a clock that was ahead count from ``now``.

        Raises:
            ValueError: these are not such holds.
        """
        holds = cls(half_life)
        if not isinstance(raw, dict) or not isinstance(raw.get("buckets"), dict):
            raise ValueError("a prefix has no holds")  # noqa: TRY004 - the content of a file, not an argument
        holds._zero = holds._newest = min(_number(raw.get("at")), now)
        for key, weight in raw["buckets"].items():
            if not (isinstance(key, str) and key.isascii() and key.isdecimal() and int(key) <= _LAST):
                raise ValueError(f"no bucket is numbered {key!r}")
            if _number(weight) > 0:
                holds._buckets[int(key)] = _number(weight)
        return holds

    def _weight(self, at: float) -> float:
        """Return what a hold at that time counts, relative to one at ``_zero``; always above 0 and finite."""
        return float(2.0 ** max(-500.0, min((at - self._zero) / self._half_life, 500.0)))

    def _rescale(self, now: float) -> None:
        """Make ``now`` the time at which a hold has the weight 1, and drop what has faded away."""
        factor = self._weight(now)
        self._buckets = {
            index: weight / factor for index, weight in self._buckets.items() if weight / factor > _NEGLIGIBLE
        }
        self._zero = now


class HoldLearner:
    """Past holds by prefix: what ``overdue`` is measured against where nothing is configured.

    Teach it only holds that ended well: a lock that expired says how long its TTL was, not its job. Not safe
    between threads.

    Args:
        half_life: seconds after which a hold counts half; a week keeps daily jobs and forgets last month.
        enough: holds that must count before a threshold is told.
        share: the quantile that is the threshold.
        limit: prefixes remembered; the one not observed for longest is forgotten first.
    """

    def __init__(
        self, half_life: float = 7 * 86400.0, enough: int = 20, share: float = 0.99, limit: int = 1000
    ) -> None:
        self.half_life = half_life
        self.enough = enough
        self.share = share
        self.limit = limit
        self._prefixes: dict[str, Holds] = {}

    def observe(self, prefix: str, seconds: float, at: float) -> None:
        """Take in one hold.

        Args:
            prefix: the lock's family.
            seconds: how long it was held; what is not finite or negative is left out.
            at: unix time in seconds when it ended.
        """
        if not (math.isfinite(seconds) and seconds >= 0):
            return
        holds = self._prefixes.pop(prefix, None)
        if holds is None:
            holds = Holds(self.half_life)
            while len(self._prefixes) >= self.limit:
                del self._prefixes[next(iter(self._prefixes))]
        self._prefixes[prefix] = holds  # the last in order is the one observed last
        holds.observe(seconds, at)

    def expected(self, prefix: str, now: float) -> tuple[float, int] | None:
        """Return the threshold in seconds and the holds it rests on; ``None`` while there are too few."""
        holds = self._prefixes.get(prefix)
        if holds is None:
            return None
        count = holds.count(now)
        seconds = holds.quantile(self.share)
        return (seconds, int(count)) if seconds is not None and count >= self.enough else None

    def dumps(self, now: float) -> str:
        """Return everything learned as JSON, for a state file."""
        prefixes = {prefix: holds.to_json(now) for prefix, holds in self._prefixes.items()}
        return json.dumps({"version": _VERSION, "holds": prefixes}, ensure_ascii=True)

    def loads(self, text: str, now: float) -> None:
        """Replace everything learned by what ``dumps`` wrote; nothing changes if it cannot be read.

        Args:
            text: JSON.
            now: unix time in seconds.

        Raises:
            ValueError: the text was not written by ``dumps``; the message says what is wrong with it.
        """
        try:
            raw = json.loads(text)
        except RecursionError:
            raise ValueError("nested too deeply") from None
        if (
            not isinstance(raw, dict)
            or raw.get("version") != _VERSION
            or not isinstance(raw.get("holds"), dict)
        ):
            raise ValueError(f"not learned holds of version {_VERSION}")
        items = list(raw["holds"].items())[-self.limit :]
        self._prefixes = {prefix: Holds.from_json(holds, self.half_life, now) for prefix, holds in items}


def _index(seconds: float) -> int:
    if seconds <= _SMALLEST:
        return 0
    if seconds >= _LARGEST:
        return _LAST
    return min(math.ceil(math.log(seconds / _SMALLEST) / _LOG - 1e-9), _LAST)


def _upper(index: int) -> float:
    return float(_SMALLEST * _GROWTH**index)


def _number(raw: object) -> float:
    if isinstance(raw, bool) or not isinstance(raw, (int, float)) or not 0 <= raw <= _HIGHEST:
        raise ValueError(f"{raw!r} is no count or time")
    return float(raw)

"""How a holder renews its lock, learned from the renewals seen. Values only."""

from __future__ import annotations

from dataclasses import dataclass

_SMOOTHING = 0.3  # weight of the newest interval
_FORGET = 0.8  # of the jitter at every renewal: a late one is forgotten after about ten on time
_SLACK = 0.25  # share of an interval by which a renewal may be late without being missed
_ENOUGH = 2  # intervals that make a cadence: one renewal, or one gap, may be chance


@dataclass(frozen=True, slots=True)
class Cadence:
    """The renewals of one lock so far.

    Attributes:
        renewals: renewals seen since the lock was taken (or first seen).
        last: unix time in seconds of the last renewal, or of the acquisition before the first.
        interval: seconds between renewals, smoothed; ``None`` before the first full interval.
        jitter: largest deviation from ``interval`` seen lately, seconds.
        intervals: full intervals that ``interval`` was learned from.
    """

    renewals: int = 0
    last: float = 0.0
    interval: float | None = None
    jitter: float = 0.0
    intervals: int = 0

    def renewed(self, at: float, *, complete: bool = True) -> Cadence:
        """Return the cadence after one more renewal.

        Args:
            at: unix time in seconds of the renewal.
            complete: no renewal between ``last`` and this one can have been missed; without that the time
                between them says nothing.
        """
        since = at - self.last
        if not complete or since <= 0:
            return Cadence(self.renewals + 1, at, self.interval, self.jitter, self.intervals)
        if self.interval is None:
            return Cadence(self.renewals + 1, at, since, 0.0, 1)
        return Cadence(
            self.renewals + 1,
            at,
            self.interval + _SMOOTHING * (since - self.interval),
            max(abs(since - self.interval), self.jitter * _FORGET),
            self.intervals + 1,
        )

    def missed_two_at(self) -> float | None:
        """Return the unix time in seconds from when two renewals in a row count as missed.

        Returns:
            ``None`` while too few renewals were seen to speak of a cadence.
        """
        if self.interval is None or self.renewals < _ENOUGH or self.intervals < _ENOUGH:
            return None
        return self.last + 2 * self.interval + max(2 * self.jitter, _SLACK * self.interval)

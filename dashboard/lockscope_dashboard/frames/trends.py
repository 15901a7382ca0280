"""The explorer's own memory of the last hour, as short series for sparklines."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockscope_dashboard.board import Tick

POINTS: Final = 60


def course(ticks: Sequence[Tick], state: str) -> list[float]:
    """Return the counts of a state, oldest first, thinned to ``POINTS`` by taking the highest of a slice."""
    return _thin([float(tick.states[state]) for tick in ticks])


def losses(ticks: Sequence[Tick]) -> list[float]:
    """Return how many locks were lost between one tick and the next, thinned by adding up."""
    steps = [float(max(0, after.lost - before.lost)) for before, after in pairwise(ticks)]
    return _thin(steps, total=True)


def lost_within(ticks: Sequence[Tick], seconds: float) -> int:
    """Count the losses of the last ``seconds``, as far as the ticks reach back."""
    start = ticks[-1].at - seconds if ticks else 0.0
    return sum(max(0, after.lost - before.lost) for before, after in pairwise(ticks) if after.at >= start)


def span(ticks: Sequence[Tick], seconds: float) -> float:
    """Return how many of the last ``seconds`` the ticks cover."""
    return min(seconds, ticks[-1].at - ticks[0].at) if ticks else 0.0


def _thin(values: list[float], *, total: bool = False) -> list[float]:
    if len(values) <= POINTS:
        return values
    size = -(-len(values) // POINTS)
    first = len(values) % size
    slices = ([values[:first]] if first else []) + [
        values[start : start + size] for start in range(first, len(values), size)
    ]
    return [sum(part) if total else max(part) for part in slices]

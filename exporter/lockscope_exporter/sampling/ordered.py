"""Which of many items comes first, when their positions change often and most of them leave early."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

_SLACK = 64  # entries; below this a rebuild is not worth its call


class Ordered(Generic[T]):
    """A heap whose entries may go stale: cheap to add to, never searched, cleaned when read.

    An item that moves is added again; its old entries are recognised because they disagree with its present
    position and are dropped when they surface. A heap of mostly stale entries is rebuilt, so that memory
    stays proportional to the items alive.

    Args:
        position: where an item stands now, such as its deadline; ``None`` once it has left.
    """

    __slots__ = ("_heap", "_limit", "_position", "_tie")

    def __init__(self, position: Callable[[T], float | None]) -> None:
        self._position = position
        self._heap: list[tuple[float, int, T]] = []
        self._tie = count()
        self._limit = _SLACK

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, item: T) -> None:
        """Take an item in at its present position, or at its new one after it moved."""
        position = self._position(item)
        if position is None:
            return
        if len(self._heap) >= self._limit:
            self._rebuild()
        heappush(self._heap, (position, next(self._tie), item))

    def first(self) -> T | None:
        """Return the item that stands first, or ``None``; it stays."""
        heap = self._heap
        while heap:
            position, _, item = heap[0]
            if self._position(item) == position:
                return item
            heappop(heap)
        return None

    def due(self, limit: float) -> Iterator[T]:
        """Take out and yield the items that stand at ``limit`` or before; add back those that stay."""
        heap = self._heap
        while heap and heap[0][0] <= limit:
            position, _, item = heappop(heap)
            if self._position(item) == position:
                yield item

    def next_position(self) -> float | None:
        """Return a lower bound of the first item's position, without cleaning."""
        return self._heap[0][0] if self._heap else None

    def _rebuild(self) -> None:
        seen: set[int] = set()
        kept = []
        for entry in self._heap:
            if id(entry[2]) not in seen and self._position(entry[2]) == entry[0]:
                seen.add(id(entry[2]))
                kept.append(entry)
        heapify(kept)
        self._heap = kept
        self._limit = max(_SLACK, 2 * len(kept))

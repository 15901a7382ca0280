"""Work that is put off: it ends, and what cannot be done yet waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockscope.backlog import Backlog

if TYPE_CHECKING:
    from collections import deque


def test_draining_ends_although_more_and_more_comes() -> None:
    """Draining, as at exit, works off what waited when it began, however fast others go on putting."""
    done: list[int] = []

    def work(items: deque[int]) -> None:
        while items and len(done) < 1000:
            done.append(items.popleft())
            backlog.put(len(done))  # as another thread would that is as fast

    backlog: Backlog[int] = Backlog("test", work, linger=60.0)
    for number in (-3, -2, -1):
        backlog.put(number)
    assert not backlog.drain()
    assert done == [-3, -2, -1]
    assert list(backlog.take()) == [1, 2, 3]
    backlog.close()


def test_what_cannot_be_done_yet_keeps_its_place() -> None:
    """Items that the work leaves are the first of the next time."""
    seen: list[list[int]] = []

    def work(items: deque[int]) -> None:
        seen.append(list(items))
        if len(seen) > 1:
            items.clear()

    backlog: Backlog[int] = Backlog("test", work, linger=60.0)
    backlog.put(1)
    backlog.put(2)
    assert not backlog.drain()
    backlog.put(3)
    assert backlog.drain()
    assert seen == [[1, 2], [1, 2, 3]]
    backlog.close()

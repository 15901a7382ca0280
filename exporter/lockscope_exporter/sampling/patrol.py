"""Everything that looks for what no feed told of: sweeps, glances at known locks, progress keys."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from lockscope.globs import compile_glob
from lockscope_exporter.sampling.progress import ProgressLook, look_every
from lockscope_exporter.sampling.resync import ROUND, THOROUGH, THOROUGH_SCAN, Finder, Verifier
from lockscope_exporter.sampling.sweep import Sweep
from lockscope_exporter.sampling.watch import covering_glob

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockscope_exporter.sampling.feeds.changes import Feed
    from lockscope_exporter.sampling.feeds.choose import Chosen
    from lockscope_exporter.sampling.intake import Intake
    from lockscope_exporter.sampling.progress import ProgressBook
    from lockscope_exporter.sampling.resync import Repair
    from lockscope_exporter.sampling.shared import Shared

ASK_AGAIN = 30.0  # seconds between two questions for keys that may not be read
_CHECK = 10.0  # seconds between two questions whether the server still tells of changes


class Chore(Protocol):
    """Something to do now and then."""

    @property
    def due(self) -> float:
        """Monotonic time in seconds when to run next."""

    def run(self) -> None:
        """Do the next piece."""


class FeedCheck:
    """Asks now and then whether the server still tells of changes.

    Args:
        feed: the feed.

    Attributes:
        due: monotonic time in seconds when to ask next.
    """

    def __init__(self, feed: Feed) -> None:
        self.due = time.monotonic() + _CHECK
        self._feed = feed

    def run(self) -> None:
        """Ask.

        Raises:
            redis.RedisError: it does not: begin anew.
        """
        self.due = time.monotonic() + _CHECK
        self._feed.verify()


class Refused:
    """Asks now and then for keys that this user was not allowed to read: permissions change.

    Args:
        intake: reads the keys.

    Attributes:
        due: monotonic time in seconds when to ask next.
    """

    def __init__(self, intake: Intake) -> None:
        self.due = time.monotonic() + ASK_AGAIN
        self._intake = intake

    def run(self) -> None:
        """Ask."""
        self.due = time.monotonic() + ASK_AGAIN
        if self._intake.unreadable:
            self._intake.ask_again()


class Patrol:
    """The chores of one session that find and verify keys.

    Args:
        node: name of the node.
        shared: what the nodes of the target have in common.
        fits: tells of a key that a sweep found whether it may be a lock.
        look: reads keys at a time when differences are what is expected.
        repair: reads keys that the feed should have told of, had they changed.
    """

    def __init__(
        self, node: str, shared: Shared, fits: Callable[[bytes], bool], look: Repair, repair: Repair
    ) -> None:
        self.chores: list[Chore] = []
        self._node = node
        self._shared = shared
        self._fits = fits
        self._look = look
        self._repair = repair
        self._finders: list[Finder] = []
        self._progress: list[ProgressLook] = []

    @property
    def complete(self) -> bool:
        """Whether every key was visited since the beginning or the last ``hurry``."""
        return all(one.complete for one in self._finders) and all(one.complete for one in self._progress)

    def add(self, intake: Intake, chosen: Chosen) -> None:
        """Look after one database.

        Args:
            intake: reads and knows its keys.
            chosen: the feed in use, and what it is blind to.
        """
        globs, interval = self._shared.watch.globs, self._shared.options.interval
        if chosen.feed.mode == "scan":
            self._sweep(intake, globs, fed=False, period=interval)
            if not self._shared.options.once:
                self.chores.append(Verifier(intake, self._look, interval, THOROUGH_SCAN, gentle=False))
        else:
            self._sweep(intake, globs, fed=True, period=0.0)
            # No notification tells of a flush: what nobody else told of is looked for more often then.
            round_ = ROUND if chosen.feed.mode == "tracking" else interval
            self.chores.append(Verifier(intake, self._repair, round_, THOROUGH, gentle=True))
            if chosen.blind:
                self._sweep(intake, chosen.blind, fed=False, period=interval)
        self.chores.append(Refused(intake))
        if self._shared.book is not None:
            self._add_progress(intake, self._shared.book)

    def relax(self, period: float) -> None:
        """Go on gently where a feed tells of changes; ``period``: seconds between passes, at least."""
        for finder in self._finders:
            finder.relax(self._repair, period)

    def hurry(self) -> None:
        """Visit every key again, quickly."""
        for finder in self._finders:
            finder.hurry(self._look)

    def _sweep(self, intake: Intake, globs: Sequence[bytes], *, fed: bool, period: float) -> None:
        budget = self._shared.options.scan_budget
        sweep = Sweep(intake.reader.line, covering_glob(globs), self._fits, budget, period)
        finder = Finder(intake, sweep, self._look, fed=fed)
        self._finders.append(finder)
        self.chores.append(finder)

    def _add_progress(self, intake: Intake, book: ProgressBook) -> None:
        options = self._shared.options
        globs = [glob.encode("utf-8", "surrogateescape") for glob in options.progress]
        matchers = [compile_glob(glob).fullmatch for glob in globs]

        def fits(key: bytes) -> bool:
            return any(match(key) is not None for match in matchers)

        every = look_every(options.progress_stale_after)
        sweep = Sweep(intake.reader.line, covering_glob(globs), fits, options.scan_budget, every)
        look = ProgressLook(self._node, intake, sweep, book, self._shared.guard)
        self._progress.append(look)
        self.chores.append(look)

"""What a feed tells: keys that may have changed, never what they hold. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockscope_exporter.sampling.news import How


@dataclass(slots=True)
class Change:
    """What happened to one key since the feed was last asked.

    Attributes:
        overwrite: if its owner changed, no release came between: one write did it.
        end: how a lock on it ended, if the feed says so.
    """

    overwrite: bool = False
    end: How | None = None


@dataclass(slots=True)
class Changes:
    """What happened since the feed was last asked.

    Attributes:
        anywhere: keys of any database, for feeds that do not tell which; how many turns of the server's
            event loop wrote each.
        keys: by database and key.
        flushed: a database was emptied.
    """

    anywhere: dict[bytes, int] = field(default_factory=dict)
    keys: dict[tuple[int, bytes], Change] = field(default_factory=dict)
    flushed: bool = False

    def of(self, db: int) -> dict[bytes, Change]:
        """Return what happened to the keys of one database."""
        found = {key: Change(overwrite=turns == 1) for key, turns in self.anywhere.items()}
        found.update({key: change for (number, key), change in self.keys.items() if number == db})
        return found


class Feed(Protocol):
    """A running stream of changes of one server, over a connection of its own."""

    mode: str

    def drain(self, wait: float) -> Changes:
        """Return what was told since the last call.

        Args:
            wait: seconds to wait for the first change.

        Raises:
            redis.ConnectionError, redis.TimeoutError: the feed is lost; what it did not tell is unknown.
        """

    def settle(self) -> None:
        """Wait until everything is in that the server told before this call; ``drain`` returns it.

        Raises:
            redis.ConnectionError, redis.TimeoutError: the feed is lost.
        """

    def told_again(self, keys: Iterable[bytes]) -> set[bytes]:
        """Return which of these keys were written again since the last ``drain``, up to this call.

        Raises:
            redis.ConnectionError, redis.TimeoutError: the feed is lost.
        """

    def verify(self) -> None:
        """Ask the server whether it still tells of changes.

        Raises:
            redis.RedisError: it does not, or the feed is lost.
        """

    def heard(self) -> float:
        """Return the monotonic time in seconds when the server was last heard from over this feed."""

    def close(self) -> None:
        """Close the connection."""

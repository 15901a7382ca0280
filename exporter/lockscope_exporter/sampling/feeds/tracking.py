"""Changes by ``CLIENT TRACKING … BCAST``: the server pushes the names of keys under a few prefixes.

Measured on Redis 7.0: a push names keys only, no database and no event. A key comes once for each turn of the
server's event loop that wrote it, however often: a pipeline or a script that deletes and sets it is one turn,
a release and the next owner's acquire are two. A flush comes as null.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError

from lockscope_exporter.sampling.feeds.changes import Change, Changes
from lockscope_exporter.sampling.feeds.pushes import PUSHED, Pushes
from lockscope_exporter.sampling.wire import pack

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from redis.connection import AbstractConnection


CHANNEL = b"lockscope:mirror"
"""Where mirrors subscribe for the sake of being subscribers."""

EVICTIONS = b"__keyevent@*__:evicted"
"""Where a server publishes what it evicts, if its operator wants that."""


class TrackingFeed:
    """Follows prefixes.

    Args:
        connection: a connection of its own, speaking RESP3.
        prefixes: what the keys begin with; none may begin another.
        timeout: seconds of silence after which the server counts as lost.

    Raises:
        redis.ResponseError: the server cannot or may not do this.
        redis.ConnectionError, redis.TimeoutError: the connection is lost.
    """

    mode = "tracking"

    def __init__(self, connection: AbstractConnection, prefixes: Sequence[bytes], timeout: float) -> None:
        self.tells_evictions = False
        self._changes = Changes()
        self._pushes = Pushes(connection, timeout)
        parser: Any = connection._parser  # noqa: SLF001 - redis-py's own client-side cache does the same
        parser.set_invalidation_push_handler(self._take)
        parser.set_pubsub_push_handler(self._take_message)
        self.add(prefixes)
        self.verify()

    def add(self, prefixes: Sequence[bytes]) -> None:
        """Follow further prefixes, too.

        Raises:
            redis.ResponseError: the server cannot or may not do this, or they overlap others.
        """
        arguments = [part for prefix in prefixes for part in (b"PREFIX", prefix)]
        self._pushes.command(b"CLIENT", b"TRACKING", b"ON", b"BCAST", *arguments)

    def limit_buffer(self) -> None:
        """Have the server cut this connection off rather than buffer pushes without end.

        Were this process paused, the server would keep every push for it: for plain connections there is no
        limit by default. Subscribers have one (``client-output-buffer-limit pubsub``), so it becomes one, of
        a channel on which nobody speaks.

        Raises:
            redis.ResponseError: this user may not subscribe.
        """
        self._pushes.send([pack(b"SUBSCRIBE", CHANNEL)])
        self._pushes.settle()

    def also_evictions(self) -> None:
        """Have evictions told as such, if the server's operator has turned such notifications on.

        Without, the subscription costs nothing and stays silent; it is worth its permission only where the
        server evicts at all.

        Raises:
            redis.ResponseError: this user may not subscribe.
        """
        self._pushes.send([pack(b"PSUBSCRIBE", EVICTIONS)])
        self._pushes.settle()

    def verify(self) -> None:
        """Ask the server whether it still tracks for this connection.

        Raises:
            redis.ResponseError: it does not.
        """
        try:
            info = self._pushes.command(b"CLIENT", b"TRACKINGINFO")
        except ResponseError:
            return  # Redis below 6.2 and some proxies cannot tell; that is no reason to give up
        flags = info[b"flags"] if isinstance(info, dict) else info[1]
        if b"bcast" not in flags or b"on" not in flags:
            raise ResponseError(f"tracking is not on: {sorted(flags)}")

    def drain(self, wait: float) -> Changes:
        """Return the keys told of since the last call."""
        if not (self._changes.anywhere or self._changes.keys or self._changes.flushed):
            self._pushes.drain(wait)
        changes, self._changes = self._changes, Changes()
        return changes

    def settle(self) -> None:
        """Wait until everything is in that the server told before this call."""
        self._pushes.settle()

    def told_again(self, keys: Iterable[bytes]) -> set[bytes]:
        """Return which of these keys were written again since the last ``drain``, up to this call."""
        self._pushes.settle()
        return {key for key in keys if key in self._changes.anywhere}

    def heard(self) -> float:
        """Return the monotonic time in seconds when the server was last heard from."""
        return self._pushes.last

    def close(self) -> None:
        """Close the connection."""
        self._pushes.close()

    def _take_message(self, push: list[Any]) -> object:
        found = re.fullmatch(rb"__keyevent@(\d+)__:evicted", push[2]) if push[0] == b"pmessage" else None
        if found is not None:
            self._changes.keys[int(found[1]), push[3]] = Change(end="evicted")
            self.tells_evictions = True
        return PUSHED

    def _take(self, push: list[Any]) -> object:
        keys = push[1]
        if keys is None:
            self._changes.flushed = True
        else:
            anywhere = self._changes.anywhere
            for key in keys:
                anywhere[key] = anywhere.get(key, 0) + 1
        return PUSHED

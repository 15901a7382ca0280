"""Changes by keyspace notifications, where the server's operator has turned them on already."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lockscope.globs import compile_glob
from lockscope_exporter.sampling.feeds.changes import Change, Changes
from lockscope_exporter.sampling.feeds.pushes import PUSHED, Pushes
from lockscope_exporter.sampling.wire import pack

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from redis.connection import AbstractConnection

    from lockscope_exporter.sampling.news import How

# What `A` stands for in notify-keyspace-events, and which classes tell of the types that locks have.
_ALL = "g$lshzxetd"
_NEEDED = {
    "g": "generic commands",
    "$": "strings",
    "s": "sets",
    "h": "hashes",
    "z": "sorted sets",
    "x": "expiry",
    "e": "eviction",
}
_ENDS: dict[bytes, How] = {b"expired": "expired", b"evicted": "evicted", b"del": "released"}
_CHANNEL = re.compile(rb"__key(space|event)@(\d+)__:(.*)", re.DOTALL)


def missing_classes(setting: str) -> list[str]:
    """Return what a ``notify-keyspace-events`` setting lacks, in words; empty if it tells of every change."""
    classes = set(setting.replace("A", _ALL))
    lacks = [] if classes & {"K", "E"} else ["K or E (channels)"]
    return lacks + [f"{letter} ({words})" for letter, words in _NEEDED.items() if letter not in classes]


class NotificationFeed:
    """Follows keyspace notifications.

    Args:
        connection: a connection of its own.
        globs: which keys.
        dbs: database numbers.
        setting: the server's ``notify-keyspace-events``.
        timeout: seconds of silence after which the server counts as lost.

    Raises:
        redis.ResponseError: this user may not subscribe.
        redis.ConnectionError, redis.TimeoutError: the connection is lost.
    """

    mode = "notifications"

    def __init__(
        self,
        connection: AbstractConnection,
        globs: Sequence[bytes],
        dbs: Sequence[int],
        setting: str,
        timeout: float,
    ) -> None:
        self._changes = Changes()
        self._pushes = Pushes(connection, timeout, self._take)
        self._wanted = [compile_glob(glob).fullmatch for glob in globs]
        connection._parser.set_pubsub_push_handler(self._pushed)  # noqa: SLF001 - redis-py's PubSub does it
        if "K" in setting:  # one channel a key: the server filters
            patterns = [b"__keyspace@%d__:%b" % (db, glob) for db in dbs for glob in globs]
        else:
            patterns = [b"__keyevent@%d__:*" % db for db in dbs]
        self._confirmed = 0
        self._pushes.send([pack(b"PSUBSCRIBE", *patterns)])
        while self._confirmed < len(patterns):
            self._pushes.settle()

    def drain(self, wait: float) -> Changes:
        """Return the keys told of since the last call."""
        if not self._changes.keys:
            self._pushes.drain(wait)
        changes, self._changes = self._changes, Changes()
        return changes

    def settle(self) -> None:
        """Wait until everything is in that the server told before this call."""
        self._pushes.settle()

    def told_again(self, keys: Iterable[bytes]) -> set[bytes]:  # noqa: ARG002
        """Return nothing: a release is told as such here."""
        return set()

    def verify(self) -> None:
        """Do nothing: a subscription lasts as long as its connection."""

    def heard(self) -> float:
        """Return the monotonic time in seconds when the server was last heard from."""
        return self._pushes.last

    def close(self) -> None:
        """Close the connection."""
        self._pushes.close()

    def _pushed(self, message: list[Any]) -> object:
        self._take(message)
        return PUSHED

    def _take(self, message: Any) -> bool:
        """Take a message of the subscription; tell whether it was one."""
        if not isinstance(message, list) or not message:
            return False
        kind = message[0]
        if kind == b"psubscribe":
            self._confirmed += 1
            return True
        if kind != b"pmessage":
            return False
        found = _CHANNEL.fullmatch(message[2])
        if found is not None:
            by_key = found[1] == b"space"
            key, event = (found[3], message[3]) if by_key else (message[3], found[3])
            if by_key or any(wanted(key) is not None for wanted in self._wanted):
                self._note(int(found[2]), key, event)
        return True

    def _note(self, db: int, key: bytes, event: bytes) -> None:
        change = self._changes.keys.setdefault((db, key), Change(overwrite=True))
        end = _ENDS.get(event)
        if end is not None:
            change.end = end
            change.overwrite = False

r"""The lines that MONITOR prints, read back. Pure.

A line is ``+1795986243.408810 [0 127.0.0.1:36966] "SET" "lock:a" "tok\"x"``: unix time, database, client,
and the command as it was sent. Measured alike on Redis 6.2, 7.0 and Valkey 9: lines come in the order in
which commands take effect, what a script calls follows the script with ``lua`` for a client, all connections
through a socket file share one name, and neither what the ACL refuses nor administrative commands appear.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LUA = "lua"
LONGEST = 1 << 20  # bytes of a line that is looked at; no lock command is longer

_TEXT = rb'"([^"\\]*(?:\\.[^"\\]*)*)"'
_HEAD = re.compile(rb"\+?(\d{1,12}\.\d{1,6}) \[(\d{1,6}) ([^\r\n]*?)\] " + _TEXT, re.DOTALL)
_ARGUMENT = re.compile(rb" " + _TEXT, re.DOTALL)
_ESCAPE = re.compile(rb"\\(?:x([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_NAMED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b"}


class Command:
    """One command that a server was given.

    Attributes:
        at: unix time in seconds, by the server's clock.
        db: database number.
        client: ``host:port``, ``unix:/path`` or ``lua``.
        sent: the command's name as it was spelled.
        name: the same in lower case.
    """

    __slots__ = ("_raw", "_start", "at", "client", "db", "name", "sent")

    def __init__(self, at: float, db: int, client: str, sent: bytes, raw: bytes, start: int) -> None:
        self.at = at
        self.db = db
        self.client = client
        self.sent = sent
        self.name = sent.lower()
        self._raw = raw
        self._start = start

    @property
    def first(self) -> bytes:
        """The first argument, mostly the key; empty if there is none. Cheap."""
        found = _ARGUMENT.match(self._raw, self._start)
        return _plain(found[1]) if found is not None else b""

    @property
    def arguments(self) -> list[bytes]:
        """Every argument after the name."""
        return [_plain(text) for text in _ARGUMENT.findall(self._raw, self._start)]


def parse(line: bytes) -> Command | None:
    """Read one line.

    Args:
        line: with or without the leading ``+``.

    Returns:
        The command, or ``None`` if this is no line of MONITOR.
    """
    found = _HEAD.match(line)
    if found is None:
        return None
    at, db, client, name = found.groups()
    return Command(float(at), int(db), client.decode("utf-8", "replace"), _plain(name), line, found.end())


class Lines:
    """Cuts a stream of bytes into lines, whatever pieces it comes in.

    Attributes:
        skipped: lines that were too long to be looked at.
    """

    def __init__(self) -> None:
        self.skipped = 0
        self._tail = b""
        self._skipping = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that are complete now."""
        *lines, tail = chunk.split(b"\n")
        if lines:
            lines[0] = self._tail + lines[0]
            self._tail = b""
            if self._skipping:
                del lines[0]
                self._skipping = False
        if not self._skipping:
            self._tail += tail
            if len(self._tail) > LONGEST:
                self._tail = b""
                self._skipping = True
                self.skipped += 1
        for line in lines:
            if len(line) > LONGEST:
                self.skipped += 1
            else:
                yield line.removesuffix(b"\r")


def _plain(text: bytes) -> bytes:
    return _ESCAPE.sub(_unescape, text) if b"\\" in text else text


def _unescape(found: re.Match[bytes]) -> bytes:
    if found[1] is not None:
        return bytes([int(found[1], 16)])
    char: bytes = found[2]
    return _NAMED.get(char, char)

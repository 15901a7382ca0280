"""Many small commands at once over one connection: packed by hand, errors returned as values."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError

from lockscope_exporter.sampling.answers import value
from lockscope_exporter.sampling.facts import parse_info

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redis.connection import AbstractConnection

    from lockscope_exporter.sampling.answers import Abilities
    from lockscope_exporter.sampling.clock import ServerClock

_FLUSH = 32 * 1024  # bytes sent before answers are read; socket buffers on both sides take that
_BURST = 512  # commands sent before answers are read


def pack(*parts: bytes) -> bytes:
    """Return one command in the Redis wire format (an array of bulk strings).

    redis-py's own packer costs several times as much for commands of a few short arguments.
    """
    return b"*%d\r\n" % len(parts) + b"".join([b"$%d\r\n%b\r\n" % (len(part), part) for part in parts])


_TIME = pack(b"TIME")
_ASKING = pack(b"ASKING")


class Line:
    """A connection to one database of a server, with what is known of that server.

    Every method may raise ``redis.ConnectionError`` or ``redis.TimeoutError``: the connection is lost then,
    and closed.

    Args:
        connection: a connection of redis-py, used by this line alone and from one thread.
        abilities: what the server can do; shared by the lines to it.
        clock: learns the server's time; shared by the lines to it.

    Attributes:
        asking: every command asks for a slot that a cluster node is about to take over.
    """

    def __init__(self, connection: AbstractConnection, abilities: Abilities, clock: ServerClock) -> None:
        self.connection = connection
        self.abilities = abilities
        self.clock = clock
        self.asking = False

    def ask(self, commands: Sequence[bytes]) -> list[Any]:
        """Send packed commands and return their answers, in bursts that cannot fill both socket buffers.

        Args:
            commands: packed commands.

        Returns:
            One answer each; an error of the server is returned as the exception, not raised.
        """
        if self.asking:
            return self._ask([one for command in commands for one in (_ASKING, command)])[1::2]
        return self._ask(commands)

    def ask_at(self, commands: Sequence[bytes]) -> tuple[float, list[Any]]:
        """Like ``ask``, and say when: unix time in seconds by the server's clock, just before the first."""
        asked = time.monotonic()
        answers = self.ask([_TIME, *commands])
        seconds, micros = value(answers[0])
        server_time = int(seconds) + int(micros) / 1e6
        self.clock.observe(server_time, asked, time.monotonic())
        return server_time, answers[1:]

    def ask_one(self, *parts: bytes) -> Any:
        """Send one command and return its answer.

        Raises:
            redis.ResponseError: the server refused it.
        """
        return value(self._exchange([pack(*parts)])[0])

    def info(self) -> dict[str, str]:
        """Return the fields of ``INFO``.

        Raises:
            redis.ResponseError: the server refused it.
        """
        text: bytes = self.ask_one(b"INFO")
        return parse_info(text.decode("utf-8", "replace"))

    def close(self) -> None:
        """Close the connection."""
        self.connection.disconnect()  # type: ignore[no-untyped-call]

    def _ask(self, commands: Sequence[bytes]) -> list[Any]:
        answers: list[Any] = []
        burst: list[bytes] = []
        size = 0
        for command in commands:
            burst.append(command)
            size += len(command)
            if size >= _FLUSH or len(burst) >= _BURST:
                answers += self._exchange(burst)
                burst, size = [], 0
        if burst:
            answers += self._exchange(burst)
        return answers

    def _exchange(self, commands: list[bytes]) -> list[Any]:
        self.connection.send_packed_command([b"".join(commands)])  # type: ignore[no-untyped-call]
        answers: list[Any] = []
        take, read = answers.append, self.connection.read_response
        for _ in commands:
            try:
                take(read())
            except ResponseError as error:
                take(error)
        return answers

"""What a connection of the web server may cost: time to ask, time to take the answer, a place among others.

A connection that asks nothing holds up nobody: the quietest one makes room for a new one. What is bounded
is the requests in work.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from starlette.responses import PlainTextResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

logger = logging.getLogger("lockscope.exporter")

FAREWELL = 0.2  # seconds that a client has to close a connection that is closed from here

_MAX_CONNECTIONS = 500  # of the 1024 files that a process may usually have open
_MAX_REQUESTS = 200  # in work at a time
_PATIENCE = 30.0


class Connection(H11Protocol):
    """uvicorn's protocol, which would wait for ever for a request, and for an answer to be taken.

    Attributes:
        patience: seconds in which a request has to be complete, and some more of an answer to be taken.
        most: connections at a time.
    """

    patience = _PATIENCE
    most = _MAX_CONNECTIONS

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._watch: asyncio.TimerHandle | None = None
        self._quiet_since = 0.0
        self._unsent = 0

    @property
    def asked(self) -> bool:
        """Whether a request is in work."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def busy(self) -> bool:
        """Whether a request is in work, or its answer on the way."""
        return self.asked or self.transport.get_write_buffer_size() > 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock of a new connection, and make room for it."""
        super().connection_made(transport)
        self._quiet_since = self.loop.time()
        self._look_later()
        if len(self.connections) > self.most:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._stop_looking()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take in a part of a request; what is incomplete has to be completed in time."""
        super().data_received(data)
        self._quiet_since = self.loop.time()
        if self.asked:
            self._stop_looking()
        else:
            self._look_later()

    def on_response_complete(self) -> None:
        """Wait for the next request, but not for ever for the answer to be taken."""
        super().on_response_complete()
        self._quiet_since = self.loop.time()
        begun, _ = self.conn.trailing_data  # of the next request
        if not self.asked and (begun or self.busy):
            self._look_later()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection on which nothing was asked for long."""
        if self.busy:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
        else:
            self.end()

    def shutdown(self) -> None:
        """Close the connection, after the answer under way if there is one."""
        if self.asked:
            self.cycle.keep_alive = False
        elif self.busy:
            self.transport.close()  # what is not sent yet still goes out
        else:
            self.end()

    def end(self) -> None:
        """Close the connection, whether or not the client does its part."""
        self.transport.close()
        self.loop.call_later(FAREWELL, self.transport.abort)

    def _look_later(self) -> None:
        if self._watch is None:
            self._unsent = self.transport.get_write_buffer_size()
            self._watch = self.loop.call_later(self.patience, self._look)

    def _stop_looking(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _look(self) -> None:
        """Close the connection unless a request is in work, or an answer is being taken."""
        self._watch = None
        if self.asked:
            return
        unsent = self.transport.get_write_buffer_size()
        if not unsent:
            self.end()
        elif unsent < self._unsent:
            self._look_later()
        else:
            self.transport.abort()

    def _make_room(self) -> None:
        """Drop the connection that has been quiet for longest, those that never asked anything first."""
        quiet = [one for one in self.connections if isinstance(one, Connection) and not one.busy]
        if quiet:
            victim = min(quiet, key=lambda one: (one.cycle is not None, one._quiet_since))  # noqa: SLF001
            victim.connections.discard(victim)
            victim.transport.abort()


class Bounded:
    """ASGI middleware: so many requests at a time, and no more.

    Args:
        app: what answers.
        most: requests in work at a time; others are answered 503.
    """

    def __init__(self, app: ASGIApp, most: int = _MAX_REQUESTS) -> None:
        self._app = app
        self._most = most
        self._now = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 503."""
        app = self._app
        if self._now >= self._most:
            logger.warning("%d requests are in work; one more was answered 503", self._now)
            app = PlainTextResponse("too many requests at a time\n", 503, headers={"Retry-After": "1"})
        self._now += 1
        try:
            await app(scope, receive, send)
        except asyncio.CancelledError:  # the server stops, and has waited as long as it does
            logger.warning("stopped before an answer was ready: %s", scope.get("path", ""))
        finally:
            self._now -= 1

"""Runs the web application: the listening socket, TLS, signals, a quick and clean end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import logging
import math
import signal
import socket
import threading
from typing import TYPE_CHECKING, Any

import uvicorn

from lockscope_exporter.redis_url import format_address
from lockscope_exporter.text import shown
from lockscope_exporter.webconnections import FAREWELL, Bounded, Connection
from lockscope_exporter.webguard import LiveWebConfig, WebGuard

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

    from starlette.types import ASGIApp

logger = logging.getLogger("lockscope.exporter")

_KEEP_ALIVE = 75  # seconds; longer than the usual scrape interval, so that Prometheus keeps its connection
_LAST_ANSWERS = 1.5  # seconds for answers under way when the server is told to stop
_BACKLOG = 256  # connections that wait to be accepted
_HANDSHAKE = 10.0  # seconds that a client may take for TLS, before it counts as a connection


class ListenError(OSError):
    """The address cannot be listened on; the text is one line that says why and what to do."""


def parse_listen(text: str) -> tuple[str, int]:
    """Read ``HOST:PORT``, ``:PORT``, ``PORT`` or ``[IPv6]:PORT``; port 0 means any free one.

    Raises:
        ValueError: it is none of them.
    """
    host, colon, port = text.strip().rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    bracketed = host.startswith("[") and host.endswith("]")
    if not (port.isascii() and port.isdecimal() and int(port) < 65536):  # noqa: PLR2004 - 16 bits
        raise ValueError(f'"{shown(text, 60)}" is not HOST:PORT, as in 127.0.0.1:9963 or [::1]:9963')
    if (":" in bare) != bracketed or any(char.isspace() for char in bare):
        raise ValueError(f'"{shown(text, 60)}" is not HOST:PORT; an IPv6 address needs [brackets]')
    if not colon:
        return "127.0.0.1", int(port)
    return bare, int(port)


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Args:
        host: address or name; empty for every address of the host, IPv4 and IPv6.
        port: port, 0 for any free one.

    Raises:
        ListenError: the port is in use, not allowed, or the host is not this one.
    """
    where = format_address(host or "*", port)
    try:
        sock = _create(host, port)
    except socket.gaierror as error:
        raise ListenError(f"cannot listen on {where}: the host name is not known; check --listen") from error
    except OSError as error:
        raise ListenError(f"cannot listen on {where}: {_why(error)}") from error
    # Connections inherit it. asyncio does not set it on them, and each answer but the first over a connection
    # would wait 40 ms for the client's delayed acknowledgement.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _create(host: str, port: int) -> socket.socket:
    if not host and socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG)
    family, _, _, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    return socket.create_server(address, family=family, backlog=_BACKLOG)


def url_of(sock: socket.socket, *, tls: bool) -> str:
    """Return the URL at which a listening socket is reached from its own host."""
    host, port = sock.getsockname()[:2]
    if host in ("::", "0.0.0.0"):  # noqa: S104 - compared, not bound
        host = "localhost"
    return f"{'https' if tls else 'http'}://{format_address(host, port)}"


def serve(app: ASGIApp, sock: socket.socket, live: LiveWebConfig) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        app: what to serve.
        sock: where; closed in the end.
        live: TLS, authentication and headers in force.
    """
    make_server(app, live).run(sockets=[sock])


def make_server(app: ASGIApp, live: LiveWebConfig, **limits: float) -> uvicorn.Server:
    """Return a server that is not yet running.

    Args:
        app: what to serve.
        live: TLS, authentication and headers in force.
        limits: attributes of ``Connection`` that are to be other than usual.
    """
    context = live.server_context()
    given = functools.partial(_given, context) if context is not None else None
    config = uvicorn.Config(
        Bounded(WebGuard(app, live)),
        http=type("LimitedConnection", (Connection,), limits),
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=math.ceil(_LAST_ANSWERS + FAREWELL),
        ssl_context_factory=given,
    )
    return _Server(config)


class _Server(uvicorn.Server):
    """uvicorn's server; a signal that ends it counts as the wished end, so the exit status can be 0."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; a client that drags out its TLS handshake is cut off."""
        loop = asyncio.get_running_loop()
        tls = self.config.ssl
        self.servers = [
            await loop.create_server(
                self._connection,
                sock=sock,
                backlog=_BACKLOG,
                ssl=tls,
                ssl_handshake_timeout=_HANDSHAKE if tls else None,
            )
            for sock in sockets or ()
        ]
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let answers under way go out, for a moment, and end."""
        cut = asyncio.get_running_loop().call_later(_LAST_ANSWERS, self._cut)
        await super().shutdown(sockets)
        cut.cancel()

    def _connection(self) -> asyncio.Protocol:
        made: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state={}
        )
        return made

    def _cut(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        for task in self.server_state.tasks:
            task.cancel()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at SIGINT and SIGTERM; a second SIGINT stops without waiting for answers under way."""
        if threading.current_thread() is not threading.main_thread():
            yield  # signals are the main thread's own
            return
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _given(context: ssl.SSLContext, config: uvicorn.Config, default: Any) -> ssl.SSLContext:
    del config, default
    return context


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the port is in use; stop what listens there or choose another with --listen"
    if error.errno == errno.EACCES:
        return "no permission for this port; choose one above 1023 with --listen"
    if error.errno == errno.EADDRNOTAVAIL:
        return "this host has no such address; check --listen"
    return f"{error.strerror or error}; check --listen"

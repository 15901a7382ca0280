"""A web configuration in force: read again when its files change, applied to every request and handshake."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import logging
import os
import threading
import time
from typing import TYPE_CHECKING

import bcrypt
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse

from lockscope_exporter.webconfig import WebConfig, WebConfigError, load_web_config

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from pathlib import Path

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

logger = logging.getLogger("lockscope.exporter")

_CHALLENGE = 'Basic realm="lockscope", charset="UTF-8"'
_MAX_REMEMBERED = 100
_MAX_PASSWORD = 72  # bytes; bcrypt looks at no more, and newer implementations refuse longer ones
# What an unknown user's password is compared with, so that the answer takes as long as for a known one.
_NOBODY = bcrypt.hashpw(os.urandom(16).hex().encode(), bcrypt.gensalt(10))


class LiveWebConfig:
    """A web configuration file that may change while the server runs.

    A change that cannot be read is logged once and the last good one stays in force. Whether TLS is on, and
    whether client certificates are wanted, is decided at the start; certificates are taken up as they change.

    Args:
        path: the file, ``None`` for no configuration.
        every: seconds between two looks at the files.
        clock: monotonic seconds.

    Raises:
        WebConfigError: the file cannot be used.
    """

    def __init__(
        self, path: Path | None, every: float = 1.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = path
        self._every = every
        self._clock = clock
        self._lock = threading.Lock()
        self._config = WebConfig() if path is None else load_web_config(path)
        self._context = self._config.tls.context() if self._config.tls else None
        self._stamp = self._look()
        self._looked_at = clock()

    def config(self) -> WebConfig:
        """Return the configuration in force."""
        self._refresh()
        return self._config

    def server_context(self) -> ssl.SSLContext | None:
        """Return the context to serve TLS with, ``None`` for plain HTTP; each handshake gets the newest."""
        first = self._context
        if first is None:
            return None

        def choose(connection: ssl.SSLObject, name: str, old: ssl.SSLContext) -> None:
            del name, old
            self._refresh()
            if self._context is not None and self._context is not first:
                connection.context = self._context

        first.sni_callback = choose
        return first

    def _refresh(self) -> None:
        if self._path is None or self._clock() - self._looked_at < self._every:
            return
        with self._lock:
            self._looked_at = self._clock()
            stamp = self._look()
            if stamp == self._stamp:
                return
            self._stamp = stamp
            try:
                config = load_web_config(self._path)
                context = config.tls.context() if config.tls else None
            except WebConfigError as error:
                logger.error("%s; the configuration read before stays in force", error)  # noqa: TRY400 - one line
                return
            if (context is None) != (self._context is None):
                logger.error("TLS cannot be switched on or off without a restart: %s", self._path)
                return
            self._config, self._context = config, context
            self._stamp = self._look()
            logger.info("web configuration read again: %s", self._path)

    def _look(self) -> tuple[object, ...]:
        """Return what changes when one of the files does."""
        if self._path is None:
            return ()
        tls = self._config.tls
        files = [self._path, *([tls.cert_file, tls.key_file, tls.client_ca_file] if tls else [])]
        return tuple(_stamp(file) for file in files if file is not None)


class WebGuard:
    """ASGI middleware: basic authentication and response headers of a web configuration.

    Args:
        app: what is guarded.
        live: the configuration in force.
    """

    def __init__(self, app: ASGIApp, live: LiveWebConfig) -> None:
        self._app = app
        self._live = live
        self._remembered: dict[bytes, bool] = {}
        self._salt = os.urandom(16)
        self._one_at_a_time = asyncio.Lock()  # a hash takes a tenth of a second of a core

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401, or pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        config = self._live.config()

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(config.headers)
            await send(message)

        app = self._app
        if config.users and not await self._admits(config, Headers(scope=scope).get("authorization", "")):
            app = PlainTextResponse(
                "Unauthorized\n",
                401,
                headers={"WWW-Authenticate": 'Basic realm="lockscope", charset="UTF-8"'},
            )
        await app(scope, receive, send_with_headers if config.headers else send)

    async def _admits(self, config: WebConfig, authorization: str) -> bool:
        credentials = _credentials(authorization)
        if credentials is None:
            return False
        user, password = credentials
        known = config.users.get(user)
        digest = _NOBODY if known is None else known.encode()
        mark = hmac.digest(self._salt, b"\0".join((user.encode(), digest, password)), hashlib.sha256)
        right = self._remembered.get(mark)
        if right is None:
            async with self._one_at_a_time:
                right = self._remembered.get(mark)
                if right is None:
                    right = await asyncio.to_thread(_matches, password, digest)
                    if len(self._remembered) >= _MAX_REMEMBERED:
                        self._remembered.clear()
                    self._remembered[mark] = right
        return known is not None and right


def _credentials(authorization: str) -> tuple[str, bytes] | None:
    """Read a Basic ``Authorization`` header (RFC 7617)."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        return (user.decode(), password) if colon else None
    except (binascii.Error, ValueError):
        return None


def _matches(password: bytes, digest: bytes) -> bool:
    if len(password) > _MAX_PASSWORD or b"\0" in password:
        return False
    return bcrypt.checkpw(password, digest)


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino

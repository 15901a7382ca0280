"""The address of an exporter to watch through, and one question to it. HTTP, TLS and basic authentication."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import ssl
import zlib
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from lockscope_exporter.configuration import OptionError
from lockscope_exporter.redis_url import format_address, hide_passwords
from lockscope_exporter.text import shown

_MOST = 512 << 20  # bytes of an answer, unpacked
_PORTS = {"http": 9963, "https": 443}
_AS_IN = "write it as in http://exporter.internal:9963"


class AnswerError(Exception):
    """An exporter gave no answer that can be used; the text is one line that says why and what to do."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where an exporter serves.

    Attributes:
        host, port: where to connect.
        tls: whether to speak TLS.
        path: what goes before the paths of the exporter, behind a proxy; often empty.
        user, password: for basic authentication; empty for none.
    """

    host: str
    port: int
    tls: bool = False
    path: str = ""
    user: str = ""
    password: str = field(default="", repr=False)

    @property
    def shown(self) -> str:
        """``host:port`` and path, fit for printing."""
        return shown(format_address(self.host, self.port) + self.path, 200)


def parse_address(text: str) -> Address:
    """Read ``http://[user:password@]host[:port][/path]``, or the same with ``https``.

    Raises:
        OptionError: it is none of these.
    """
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError as error:
        raise OptionError(f'"{hide_passwords(text)}" is no address: {error}; {_AS_IN}') from None
    if parts.scheme not in _PORTS or not parts.hostname or parts.query or parts.fragment:
        raise OptionError(f'"{hide_passwords(text)}" is no address of an exporter; {_AS_IN}')
    return Address(
        parts.hostname,
        _PORTS[parts.scheme] if port is None else port,
        parts.scheme == "https",
        parts.path.rstrip("/"),
        unquote(parts.username or ""),
        unquote(parts.password or ""),
    )


class Asker:
    """Asks one exporter, over a connection that is kept. Not safe between threads.

    Args:
        address: whom.
        timeout: seconds for one answer.
    """

    def __init__(self, address: Address, timeout: float) -> None:
        self.address = address
        kind = http.client.HTTPSConnection if address.tls else http.client.HTTPConnection
        more: dict[str, Any] = {"context": ssl.create_default_context()} if address.tls else {}
        self._connection = kind(address.host, address.port, timeout=timeout, **more)
        self._headers = {"Accept-Encoding": "gzip", "Accept": "application/json"}
        if address.user or address.password:
            both = base64.b64encode(f"{address.user}:{address.password}".encode()).decode()
            self._headers["Authorization"] = f"Basic {both}"

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def ask(self, path: str) -> Any:
        """Return what the exporter answers, as JSON values.

        Raises:
            AnswerError: it did not, or with something else.
        """
        try:
            return self._ask(path)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise AnswerError(_why(error, self.address)) from error
        except AnswerError:
            self.close()
            raise

    def _ask(self, path: str) -> Any:
        connection = self._connection
        kept = connection.sock is not None
        try:
            connection.request("GET", self.address.path + path, headers=self._headers)
            answer = connection.getresponse()
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            if not kept:
                raise
            connection.close()  # a connection that was kept may have been closed since
            connection.request("GET", self.address.path + path, headers=self._headers)
            answer = connection.getresponse()
        body = answer.read(_MOST)
        if answer.getheader("Content-Encoding") == "gzip":
            body = _unpacked(body)
        if answer.status != http.client.OK:
            raise AnswerError(_refusal(answer, body))
        try:
            return json.loads(body)
        except ValueError:
            raise AnswerError("answers with no JSON; is this a lockscope exporter?") from None


def _unpacked(body: bytes) -> bytes:
    packed = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        found = packed.decompress(body, _MOST)
    except zlib.error:
        raise AnswerError("answers with something that cannot be unpacked") from None
    if not packed.eof:
        raise AnswerError("answers with more than can be taken in, or with a part only")
    return found


def _refusal(answer: http.client.HTTPResponse, body: bytes) -> str:
    status = answer.status
    if status == http.client.UNAUTHORIZED:
        return "asks for a user and a password, as in http://USER:PASSWORD@host:9963"
    if status == http.client.NOT_FOUND:
        return "knows nothing of watching; it is something else, or a lockscope exporter that is too old"
    if status in {301, 302, 303, 307, 308}:
        return f"sends on to {hide_passwords(answer.getheader('Location', 'nowhere'))}; give that address"
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return shown(str(json.loads(body)["error"]), 200)
    return f"answers with HTTP status {status}"


def _why(error: Exception, address: Address) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message}); SSL_CERT_FILE names authorities"
    if isinstance(error, ssl.SSLError):
        return "does not speak TLS here; try http://"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused; check that an exporter listens there"
    if isinstance(error, http.client.HTTPException):
        return f"does not speak HTTP{'' if address.tls else '; try https://'}"
    return shown(getattr(error, "strerror", None) or str(error) or type(error).__name__, 200)

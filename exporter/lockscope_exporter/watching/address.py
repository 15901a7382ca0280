"""The address of an exporter to watch through, and one question to it. HTTP, TLS and basic authentication."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket
import ssl
import threading
import zlib
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from lockscope_exporter.configuration import OptionError
from lockscope_exporter.redis_url import format_address, hide_passwords
from lockscope_exporter.text import shown

_MOST = 512 << 20  # bytes of an answer, unpacked
_WHOLE = 20.0  # seconds for one answer from end to end, however it trickles in
_IN_A_PATH = "/%:@!$&'()*+,;=~"  # stays as it is in a path
_PORTS = {"http": 9963, "https": 443}
_WHY: dict[type[Exception], str] = {
    ssl.SSLError: "does not speak TLS here; try http://",
    TimeoutError: "no answer in time",
    ConnectionRefusedError: "connection refused; check that an exporter listens there",
}
_AS_IN = "write it as in http://exporter.internal:9963"


class AnswerError(Exception):
    """An exporter gave no answer that can be used; the text is one line that says why and what to do."""


class NotYetError(AnswerError):
    """It cannot answer now, and asks to be asked again."""


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
    host = parts.hostname or ""
    if parts.scheme not in _PORTS or not _is_host(host) or parts.query or parts.fragment:
        raise OptionError(f'"{hide_passwords(text)}" is no address of an exporter; {_AS_IN}')
    return Address(
        host,
        _PORTS[parts.scheme] if port is None else port,
        parts.scheme == "https",
        quote(parts.path.rstrip("/"), safe=_IN_A_PATH),
        unquote(parts.username or ""),
        unquote(parts.password or ""),
    )


def _is_host(name: str) -> bool:
    """Tell whether a name may be one of a host: a resolver refuses others with errors of its own."""
    try:
        name.encode("idna")
    except UnicodeError:
        return False
    return bool(name) and not any(char.isspace() or not char.isprintable() for char in name)


class Asker:
    """Asks one exporter, over a connection that is kept. Not safe between threads, but for ``cut``.

    Args:
        address: whom.
        timeout: seconds for a connection.
        whole: seconds for one answer from end to end, most of which an exporter of very many locks may take
            before it says the first word.
    """

    def __init__(self, address: Address, timeout: float, whole: float = _WHOLE) -> None:
        self.address = address
        self._whole = whole
        self._late = self._ended = False
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

    def cut(self) -> None:
        """End for good, from any thread: whoever waits for an answer gets an error at once."""
        self._ended = True
        self._break_off()

    def ask(self, path: str) -> Any:
        """Return what the exporter answers, as JSON values.

        Raises:
            AnswerError: it did not, or with something else.
        """
        self._late = False
        watch = threading.Timer(self._whole, self._be_late)
        watch.daemon = True
        watch.start()
        try:
            return self._ask(path)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise AnswerError(_why(TimeoutError() if self._late else error, self.address)) from error
        except AnswerError as error:
            self.close()
            if self._late:
                raise AnswerError(_why(TimeoutError(), self.address)) from error
            raise
        finally:
            watch.cancel()

    def _be_late(self) -> None:
        self._late = True
        self._break_off()

    def _break_off(self) -> None:
        sock = self._connection.sock
        if sock is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)  # not TLS' own, which is for its thread alone

    def _ask(self, path: str) -> Any:
        kept = self._is_connected()
        try:
            answer = self._answer(path)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError, ssl.SSLEOFError):
            if not kept or self._late:
                raise
            self._connection.close()  # a connection that was kept may have been closed since
            answer = self._answer(path)
        body = answer.read(_MOST)
        if len(body) >= _MOST:
            raise AnswerError("answers with more than can be taken in")
        if answer.length:
            raise AnswerError("broke off in the middle of an answer")
        if answer.getheader("Content-Encoding", "").lower() == "gzip":
            body = _unpacked(body)
        if answer.status == http.client.SERVICE_UNAVAILABLE:
            raise NotYetError(_refusal(answer, body))
        if answer.status != http.client.OK:
            raise AnswerError(_refusal(answer, body))
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise AnswerError("answers with no JSON; is this a lockscope exporter?") from None

    def _is_connected(self) -> bool:
        return self._connection.sock is not None

    def _answer(self, path: str) -> http.client.HTTPResponse:
        if self._ended:
            raise AnswerError("is not asked any more")
        if not self._is_connected():
            self._connection.connect()
            self._connection.sock.settimeout(self._whole)
        self._connection.request("GET", self.address.path + path, headers=self._headers)
        return self._connection.getresponse()


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
    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        return shown(str(json.loads(body)["error"]), 200)
    return f"answers with HTTP status {status}"


def _why(error: Exception, address: Address) -> str:
    if isinstance(error, http.client.IncompleteRead):
        return "broke off in the middle of an answer"
    if isinstance(error, http.client.RemoteDisconnected | ssl.SSLEOFError):
        again = "" if address.tls else "; try https://"
        return f"closes the connection: it is ending, or does not speak HTTP{again}"
    if isinstance(error, http.client.HTTPException):
        return f"does not speak HTTP{'' if address.tls else '; try https://'}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message}); SSL_CERT_FILE names authorities"
    for kind, why in _WHY.items():
        if isinstance(error, kind):
            return why
    return shown(getattr(error, "strerror", None) or str(error) or type(error).__name__, 200)

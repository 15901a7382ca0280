"""Redis URLs as values: parse, check, and show them without their passwords. No sockets."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote

from lockscope_exporter.redis_url_options import IRRELEVANT, OPTIONS
from lockscope_exporter.text import shown

Kind = Literal["standalone", "sentinel", "cluster"]

DEFAULT_PORT = 6379
SENTINEL_PORT = 26379
HIDDEN = "***"

# Scheme -> kind of deployment, TLS. The long forms are other clients' own, so their URLs can be pasted.
_SCHEMES: dict[str, tuple[Kind, bool]] = {
    "redis": ("standalone", False),
    "valkey": ("standalone", False),
    "rediss": ("standalone", True),
    "valkeys": ("standalone", True),
    "sentinel": ("sentinel", False),
    "redis+sentinel": ("sentinel", False),
    "sentinels": ("sentinel", True),
    "rediss+sentinel": ("sentinel", True),
    "cluster": ("cluster", False),
    "redis+cluster": ("cluster", False),
    "clusters": ("cluster", True),
    "rediss+cluster": ("cluster", True),
}
_TLS_SCHEMES: dict[Kind, str] = {
    "standalone": "rediss://",
    "sentinel": "sentinels://",
    "cluster": "clusters://",
}
SCHEMES = ("redis://", "rediss:// (TLS)", "unix://", "sentinel://", "cluster://")

_MAY_HOLD_AT = frozenset({"username", "password", "sentinel_username", "sentinel_password"})
_SECRET_OPTION = re.compile(r"(?i)([?&;](?:sentinel_|ssl_)?password=)[^&#\s]*")
_MAX_SHOWN = 200


class UrlError(ValueError):
    """A Redis URL that cannot be used; the text is one line that says why and what to write instead."""


@dataclass(frozen=True, slots=True)
class RedisUrl:
    """What a Redis URL says.

    Attributes:
        kind: one server, a master named to Sentinels, or a cluster.
        shown: the URL with its passwords hidden; the only form to print.
        addresses: host and port of the server, the Sentinels or the cluster's seeds; empty for a socket file.
        path: socket file, empty for TCP.
        db: database number.
        tls: whether connections are encrypted.
        username: ACL user, ``None`` for the default user.
        password: its password.
        service: name of the master that Sentinels watch.
        sentinel_username: ACL user on the Sentinels themselves.
        sentinel_password: its password.
        options: further redis-py connection arguments.
    """

    kind: Kind
    shown: str
    addresses: tuple[tuple[str, int], ...] = ()
    path: str = ""
    db: int = 0
    tls: bool = False
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    service: str = ""
    sentinel_username: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)
    options: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def node(self) -> str:
        """``host:port`` or socket path of the first address, as the ``node`` label names it."""
        return self.path or format_address(*self.addresses[0])


def format_address(host: str, port: int) -> str:
    """Return ``host:port``, with the brackets that IPv6 needs."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def hide_passwords(text: str) -> str:
    """Return a URL fit for printing: no password, no control characters, not longer than a line.

    Also works on text that is no proper URL: everything before the last ``@`` counts as credentials, because
    a password with an unescaped ``/``, ``?`` or ``#`` is the usual reason why a URL cannot be read.
    """
    scheme, separator, rest = _scheme(text)
    credentials, at, location = rest.rpartition("@")
    if at:
        user, colon, _ = credentials.partition(":")
        rest = f"{user if colon else ''}{':' if colon else ''}{HIDDEN}@{location}"
    hidden = _SECRET_OPTION.sub(rf"\1{HIDDEN}", f"{scheme}{separator}{rest}")
    return shown(hidden, _MAX_SHOWN)


def parse_redis_url(text: str) -> RedisUrl:
    """Read a Redis URL.

    ``redis://[user:password@]host[:port][/db]``, ``rediss://`` for TLS, ``unix:///path[?db=0]``,
    ``sentinel://[user:password@]host[:port][,host[:port]…]/master-name[/db]``, ``cluster://host[:port][,…]``.
    Options in the query are those of redis-py; ``sentinel_username`` and ``sentinel_password`` are for the
    Sentinels themselves.

    Args:
        text: the URL; space around it is ignored.

    Returns:
        Its parts, percent-decoded.

    Raises:
        UrlError: the URL is of no known form; passwords do not appear in the text.
    """
    text = text.strip()
    masked = hide_passwords(text)
    scheme, separator, rest = _scheme(text)
    scheme = scheme.lower()
    if not separator or (scheme != "unix" and scheme not in _SCHEMES):
        what = f"scheme {_quoted(scheme)} is not known" if separator else "it has no scheme"
        raise UrlError(f'Redis URL "{masked}": {what}; write one of {", ".join(SCHEMES)}')
    try:
        authority, path, options, db = _split(rest)
        if scheme == "unix":
            return _socket_url(authority, path, options, db=db, shown=masked)
        return _network_url(scheme, authority, path, options, db=db, shown=masked)
    except _FaultError as error:
        raise UrlError(f'Redis URL "{masked}": {error}') from None


def _scheme(text: str) -> tuple[str, str, str]:
    """Split ``scheme://rest``; both first parts are empty if there is no scheme."""
    found = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)(://)", text)
    return (found[1], found[2], text[found.end() :]) if found else ("", "", text)


class _FaultError(Exception):
    """What is wrong with a URL, without the URL."""


def _split(rest: str) -> tuple[str, str, dict[str, Any], int | None]:
    """Split what follows ``://`` into authority, path, connection options and the database of the query."""
    location, _, query = rest.partition("?")
    authority, slash, path = location.partition("/")
    pairs = parse_qsl(query, keep_blank_values=True)
    stray = any("@" in name + value for name, value in pairs if name not in _MAY_HOLD_AT)
    if "#" in rest or stray or (authority and "@" not in authority and "@" in path):
        raise _FaultError("write # ? / @ in a user name or password percent-encoded (%23 %3F %2F %40)")
    options: dict[str, Any] = {}
    db: int | None = None
    for name, value in pairs:
        if name == "db":
            db = _db_number(value)
        elif name in OPTIONS:
            try:
                options[name] = OPTIONS[name](value)
            except ValueError:
                raise _FaultError(f"option {name} cannot be {_quoted(value)}") from None
        elif name not in IRRELEVANT:
            raise _FaultError(f"option {_quoted(name)} is not known; known are db, {', '.join(OPTIONS)}")
    return authority, slash + path, options, db


def _socket_url(
    authority: str, path: str, options: dict[str, Any], *, db: int | None, shown: str
) -> RedisUrl:
    username, password, host = _credentials(authority)
    path = unquote(path)
    options.pop("socket_keepalive", None)
    if options.pop("ssl", False) or any(name.startswith("ssl_") for name in options):
        raise _FaultError("a socket file has no TLS; leave the ssl options out")
    if host or path in ("", "/"):
        raise _FaultError("name the socket file by its full path, as in unix:///run/redis/redis.sock?db=0")
    return RedisUrl(
        kind="standalone",
        shown=shown,
        path=path,
        db=db or 0,
        username=options.pop("username", username),
        password=options.pop("password", password),
        options=_without_sentinel(options),
    )


def _network_url(
    scheme: str, authority: str, path: str, options: dict[str, Any], *, db: int | None, shown: str
) -> RedisUrl:
    kind, tls = _SCHEMES[scheme]
    username, password, hosts = _credentials(authority)
    tls = bool(options.pop("ssl", False)) or tls
    for name in options:
        if name.startswith("ssl_") and not tls:
            raise _FaultError(f"option {name} needs TLS; write {_TLS_SCHEMES[kind]}")
    port = SENTINEL_PORT if kind == "sentinel" else DEFAULT_PORT
    addresses = tuple(_address(part, port) for part in hosts.split(","))
    if kind == "standalone" and len(addresses) > 1:
        raise _FaultError("several hosts need sentinel://…/master-name or cluster://…")
    segments = [unquote(segment) for segment in path.split("/") if segment]
    service = ""
    if kind == "sentinel":
        if not segments:
            raise _FaultError("name the master, as in sentinel://host:26379/mymaster/0")
        service = segments.pop(0)
    if len(segments) > 1:
        raise _FaultError(f"{_quoted(path)} is no database number")
    if segments and db is None:
        db = _db_number(segments[0])
    if kind == "cluster" and db:
        raise _FaultError("a cluster has database 0 only")
    return RedisUrl(
        kind=kind,
        shown=shown,
        addresses=addresses,
        db=db or 0,
        tls=tls,
        username=options.pop("username", username),
        password=options.pop("password", password),
        service=service,
        sentinel_username=options.pop("sentinel_username", None),
        sentinel_password=options.pop("sentinel_password", None),
        options=_without_sentinel(options),
    )


def _credentials(authority: str) -> tuple[str | None, str | None, str]:
    """Split ``user:password@rest``; a missing part is ``None``."""
    credentials, at, rest = authority.rpartition("@")
    if not at:
        return None, None, authority
    username, _, password = credentials.partition(":")
    return unquote(username) or None, unquote(password) or None, rest


def _address(part: str, default_port: int) -> tuple[str, int]:
    found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\[\]:]*))(?::(.*))?", part)
    if found is None:
        raise _FaultError(f"{_quoted(part)} is not host:port; an IPv6 address needs [brackets]")
    host = unquote(found[1] or found[2] or "") or "localhost"
    if re.search(r"[\s\x00-\x1f]", host):
        raise _FaultError(f"{_quoted(host)} is no host name")
    if not found[3]:
        return host, default_port
    if not (found[3].isascii() and found[3].isdecimal() and 0 < int(found[3]) < 65536):  # noqa: PLR2004 - 16 bits
        raise _FaultError(f"port {_quoted(found[3])} is not a number from 1 to 65535")
    return host, int(found[3])


def _db_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 6):  # noqa: PLR2004 - far beyond any `databases`
        raise _FaultError(f"database {_quoted(text)} is not a number")
    return int(text)


def _without_sentinel(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if not name.startswith("sentinel_")}


def _quoted(text: str) -> str:
    return f'"{shown(text, 60)}"'

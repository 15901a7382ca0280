"""Why Redis could not be used, in words that a person can act on. No sockets."""

from __future__ import annotations

import errno
import re
import socket
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import redis
from redis.exceptions import AuthenticationError, InvalidResponse, RedisClusterException
from redis.sentinel import MasterNotFoundError

from lockscope_exporter.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_ANSWER = "no answer in time"

_MAX_REASON = 200


class Reason(NamedTuple):
    """Why Redis cannot be used, in words.

    Attributes:
        what: what happened.
        fix: what to do about it.
    """

    what: str
    fix: str


def explain(error: BaseException) -> Reason:
    """Put the failure of a connection or a command into words.

    Args:
        error: what redis-py or the operating system raised; its causes are looked at too.

    Returns:
        What happened and what to do; single lines without control characters, credentials or tracebacks.
    """
    causes = list(_causes(error))
    text = _line(str(error))
    for rule in _RULES:
        for cause in causes:
            found = rule.says.search(str(cause)) if isinstance(cause, rule.kind) else None
            if found is not None:
                named = {name: _line(value or "") for name, value in found.groupdict().items()}
                return Reason(rule.what.format(**named), rule.fix)
    for cause in causes:
        if isinstance(cause, OSError) and cause.errno in _ERRNO:
            return _ERRNO[cause.errno]
    return Reason(text or type(error).__name__, "check the URL and the server's log")


@dataclass(frozen=True, slots=True)
class _Rule:
    kind: type[BaseException] | tuple[type[BaseException], ...]
    says: re.Pattern[str]
    what: str
    fix: str


def _rule(
    kind: type[BaseException] | tuple[type[BaseException], ...], says: str, what: str, fix: str
) -> _Rule:
    return _Rule(kind, re.compile(says, re.IGNORECASE | re.DOTALL), what, fix)


_ANY = BaseException
_CLOSED = Reason(
    "the server closed the connection",
    "check that it runs; if it does so at once, that this is a Redis port, and whether it wants TLS (rediss://)",
)
_RULES = (
    _rule(
        socket.gaierror, "", "the host name is not known", "check the host in the URL and the name service"
    ),
    _rule(
        ssl.SSLCertVerificationError,
        r"hostname mismatch|doesn't match|IP address mismatch",
        "the server's certificate is for another name",
        "connect by the name in the certificate, or add ?ssl_check_hostname=false",
    ),
    _rule(
        ssl.SSLCertVerificationError,
        "",
        "the server's certificate is not trusted",
        "add ?ssl_ca_certs=/path/to/ca.pem to the URL",
    ),
    _rule(
        ssl.SSLError,
        "wrong.version.number|record layer failure",
        "there is no TLS on this port",
        "write redis:// instead of rediss://, or use the TLS port",
    ),
    _rule(
        (ssl.SSLError, redis.ConnectionError),
        "certificate required|handshake failure",
        "the server wants a client certificate",
        "add ?ssl_certfile=…&ssl_keyfile=… to the URL",
    ),
    _rule(
        (ssl.SSLError, redis.ConnectionError),
        "eof occurred in violation|unexpected eof",
        "the server broke off the TLS session",
        "check that this is its TLS port, and whether it wants a client certificate (?ssl_certfile=…)",
    ),
    _rule(
        _ANY,
        "wrongpass|invalid password|invalid username-password|authentication failed",
        "the server refused the user name or password",
        "check both, and percent-encode special characters in the URL",
    ),
    _rule(
        _ANY,
        "noauth|authentication required|client already authenticated",
        "the server wants a password",
        "write it in the URL, as in redis://:PASSWORD@host:6379/0, best through LOCKSCOPE_REDIS_URL",
    ),
    _rule(
        _ANY,
        "without any password configured|called without any password",
        "the server has no password, but the URL gives one",
        "take the password out of the URL, or set one on the server",
    ),
    _rule(AuthenticationError, "", "the server refused the user name or password", "check both in the URL"),
    _rule(
        _ANY,
        r"protected.mode|-?DENIED",
        "the server runs in protected mode and refuses other hosts",
        "set a password on the server, or connect from its own host",
    ),
    _rule(
        redis.exceptions.NoPermissionError,
        r"the '(?P<command>[^']*)' command",
        'the user may not run "{command}"',
        "grant the command to the ACL user, see the recipe in the documentation",
    ),
    _rule(
        redis.exceptions.NoPermissionError,
        "",
        "the user may not read these keys",
        "grant the key patterns to the ACL user, see the recipe in the documentation",
    ),
    _rule(
        _ANY,
        "DB index is out of range|invalid DB index",
        "the server has no such database",
        "check the number",
    ),
    _rule(
        _ANY,
        "cluster support disabled|cluster mode is not enabled",
        "this server is no cluster",
        "write redis:// instead of cluster://",
    ),
    _rule(
        MasterNotFoundError,
        r"No master found for '(?P<name>[^']*)'",
        'no Sentinel answers or knows a master "{name}"',
        "check the Sentinels' addresses and the master's name in the URL",
    ),
    _rule(
        _ANY,
        "unknown command.*hello",
        "the server is older than Redis 6 and speaks no RESP3",
        "add ?protocol=2 to the URL",
    ),
    _rule(redis.exceptions.BusyLoadingError, "", "the server is loading its data", "wait until it is done"),
    _rule(
        _ANY,
        "^WRONGTYPE",
        "the key holds something of another type",
        "look at it with the Redis command TYPE, and move it if it is not wanted",
    ),
    _rule(
        redis.exceptions.OutOfMemoryError,
        "",
        "the server is out of memory and takes no writes",
        "free keys, or raise maxmemory",
    ),
    _rule(
        redis.exceptions.ReadOnlyError,
        "",
        "this server is a replica and takes no writes",
        "connect to its master, or to the Sentinels with sentinel://",
    ),
    _rule(
        redis.ResponseError,
        "^(MISCONF|NOREPLICAS) ",
        "the server takes no writes for now",
        "see its log and INFO: it cannot save to its disk, or has too few replicas",
    ),
    _rule(
        (redis.exceptions.ClusterDownError, redis.exceptions.MasterDownError),
        "",
        "the server is cut off from its cluster or its master",
        "see INFO replication and CLUSTER INFO there",
    ),
    _rule(_ANY, "^BUSY ", "the server is busy with a long script", "wait, or see SCRIPT KILL"),
    _rule(_ANY, "max number of clients", "the server has no free connection", "raise maxclients"),
    _rule(
        InvalidResponse,
        "",
        "what listens there does not speak the Redis protocol",
        "check host and port in the URL",
    ),
    _rule(
        _ANY,
        "protocol error|invalid response",
        "what listens there does not speak the Redis protocol",
        "check host and port in the URL",
    ),
    _rule(
        (redis.TimeoutError, TimeoutError),
        "",
        NO_ANSWER,
        "check address, firewall and the server's load, or raise the timeout",
    ),
    _rule(
        redis.ConnectionError,
        "connection closed by server",
        _CLOSED.what,
        _CLOSED.fix,
    ),
    _rule(
        RedisClusterException,
        "cannot be connected",
        "no node of the cluster answers",
        "check that the servers run and the addresses in the URL",
    ),
)
_ERRNO = {
    errno.ECONNREFUSED: Reason(
        "connection refused", "check that the server runs there, and the address in the URL"
    ),
    errno.ENOENT: Reason(
        "there is no such socket file", "check that the server runs, and the path in the URL"
    ),
    errno.ENOTSOCK: Reason("this file is no socket", "check the path in the URL"),
    errno.EACCES: Reason("no permission for the socket file", "run as a user who may write to it"),
    errno.EHOSTUNREACH: Reason("the host cannot be reached", "check the address and the route to it"),
    errno.ENETUNREACH: Reason("the network cannot be reached", "check the address and the route to it"),
    errno.ETIMEDOUT: Reason(NO_ANSWER, "check address and firewall"),
    errno.ECONNRESET: _CLOSED,
    errno.EPIPE: Reason("the server closed the connection", "check the server's log"),
}


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those it came from, innermost last."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _line(text: str) -> str:
    return shown(" ".join(text.split()).rstrip("."), _MAX_REASON)

"""Asking one server about itself and about what this user may do, without changing anything."""

from __future__ import annotations

import math
import re
import secrets
import time
from typing import TYPE_CHECKING, Any

import redis
from redis.exceptions import NoPermissionError, ResponseError

from lockscope.globs import matches
from lockscope.journal import KEY as JOURNAL
from lockscope_exporter.connect import own_connection
from lockscope_exporter.doctor.evidence import Answer, ServerEvidence
from lockscope_exporter.explain import explain
from lockscope_exporter.permissions import CLUSTER_COMMANDS, COMMANDS, NOTIFICATION_COMMANDS
from lockscope_exporter.sampling.clock import ServerClock
from lockscope_exporter.sampling.facts import parse_info, server_facts
from lockscope_exporter.sampling.wire import pack

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from redis.connection import AbstractConnection

    from lockscope_exporter.nodes import Server

SETTINGS = (
    "appendonly",
    "appendfsync",
    "save",
    "maxmemory",
    "maxmemory-policy",
    "min-replicas-to-write",
    "notify-keyspace-events",
)
OPTIONAL = {"monitor": "lockscope contention", "xrevrange": "read the journal"}
"""Commands that only some features need, and which."""

_CLOCK_SAMPLES = 5
_NEVER_ASKED = frozenset({"hello", "auth", "select"})  # having connected answers these
_PIECE = re.compile(rb"(\\.|[^*?\[])|([*?])|\[((?:\\.|[^\]]-.|[^\]])*)\]?", re.DOTALL)
_ANSWERS: Mapping[str, tuple[bytes, ...]] = {
    "ping": (b"PING",),
    "time": (b"TIME",),
    "info": (b"INFO", b"server"),
    "scan": (b"SCAN", b"0", b"COUNT", b"1"),
    "client|tracking": (b"CLIENT", b"TRACKING", b"OFF"),
    "client|trackinginfo": (b"CLIENT", b"TRACKINGINFO"),
    "client|list": (b"CLIENT", b"LIST", b"TYPE", b"master"),
    "pubsub|numsub": (b"PUBSUB", b"NUMSUB", b"lockscope:alive:0"),
    "config|get": (b"CONFIG", b"GET", b"maxmemory-policy"),
    "cluster|slots": (b"CLUSTER", b"SLOTS"),
    "asking": (b"ASKING",),
    "xrevrange": (b"XREVRANGE", JOURNAL.encode(), b"+", b"-", b"COUNT", b"1"),
}
_ON_A_KEY: Mapping[str, tuple[bytes, ...]] = {
    "type": (b"TYPE", b"%b"),
    "pttl": (b"PTTL", b"%b"),
    "pexpiretime": (b"PEXPIRETIME", b"%b"),
    "memory|usage": (b"MEMORY", b"USAGE", b"%b"),
    "mget": (b"MGET", b"%b"),
    "exists": (b"EXISTS", b"%b"),
    "hscan": (b"HSCAN", b"%b", b"0"),
    "zrange": (b"ZRANGE", b"%b", b"0", b"0"),
    "sscan": (b"SSCAN", b"%b", b"0"),
    "eval": (b"EVAL", b"return 1", b"1", b"%b"),
    "eval_ro": (b"EVAL_RO", b"return 1", b"1", b"%b"),
}


def probe(server: Server, kind: str, globs: Iterable[bytes]) -> ServerEvidence:
    """Ask one server; never raises for what it answers or does not answer.

    Args:
        server: where.
        kind: standalone, sentinel or cluster.
        globs: the watched patterns.
    """
    try:
        connection = own_connection(server.open())
    except (redis.RedisError, OSError) as error:
        return ServerEvidence(server.name, kind, error=_line(error))
    try:
        return _Probe(connection, server.name, kind, tuple(globs)).ask()
    except (redis.RedisError, OSError) as error:
        return ServerEvidence(server.name, kind, error=_line(error))
    finally:
        connection.disconnect()  # type: ignore[no-untyped-call]


def sample_key(glob: bytes, nonce: bytes) -> bytes:
    """Return a key that a glob matches and that surely does not exist.

    Args:
        glob: a Redis glob.
        nonce: text that no key contains.
    """
    key = bytearray()
    starred = False
    for literal, wildcard, members in _PIECE.findall(glob):
        if wildcard == b"*":
            key += b"" if starred else nonce
            starred = True
        elif members:
            key += _member(members)
        else:
            key += b"x" if wildcard else literal[-1:]
    return bytes(key)


def _member(members: bytes) -> bytes:
    """Return one byte that a character class, without its brackets, admits."""
    for number in range(33, 127):
        one = bytes([number])
        if matches(b"[" + members + b"]", one):
            return one
    return b"x"


class _Probe:
    """Questions over one connection.

    Args:
        connection: a fresh connection.
        name: the server.
        kind: how the URL names it.
        globs: the watched patterns.
    """

    def __init__(
        self, connection: AbstractConnection, name: str, kind: str, globs: tuple[bytes, ...]
    ) -> None:
        self._connection = connection
        self._name = name
        self._kind = kind
        self._globs = globs
        self._login = str(getattr(connection, "username", None) or "")
        self._nonce = b"lockscope-doctor-" + secrets.token_hex(8).encode()

    def ask(self) -> ServerEvidence:
        """Ask everything."""
        clock = self._clock()
        answer = self._one(b"INFO")
        info = None if isinstance(answer, ResponseError) else parse_info(answer.decode("utf-8", "replace"))
        user = self._one(b"ACL", b"WHOAMI")
        return ServerEvidence(
            name=self._name,
            kind=self._kind,
            info=info,
            facts=None if info is None else server_facts(info, clock.ahead()),
            config={name: self._setting(name) for name in SETTINGS},
            commands=self._commands(user),
            patterns={glob: self._pattern(glob) for glob in self._globs},
            clock_ahead=clock.ahead() if math.isfinite(clock.round_trip) else None,
            round_trip=clock.round_trip if math.isfinite(clock.round_trip) else 0.0,
            user=user.decode("utf-8", "replace") if isinstance(user, bytes) else self._login,
        )

    def _clock(self) -> ServerClock:
        clock = ServerClock()
        for _ in range(_CLOCK_SAMPLES):
            asked = time.monotonic()
            answer = self._one(b"TIME")
            if isinstance(answer, ResponseError):
                break
            clock.observe(int(answer[0]) + int(answer[1]) / 1e6, asked, time.monotonic())
        return clock

    def _setting(self, name: str) -> str | None:
        answer = self._one(b"CONFIG", b"GET", name.encode())
        if isinstance(answer, ResponseError):
            return None
        pairs = answer if isinstance(answer, dict) else dict(zip(answer[::2], answer[1::2], strict=True))
        found = pairs.get(name.encode())
        return None if found is None else found.decode("utf-8", "replace")

    def _commands(self, user: Any) -> dict[str, Answer]:
        names = {**COMMANDS, **NOTIFICATION_COMMANDS, "xrevrange": "", "eval": ""}
        if self._kind == "cluster":
            names |= CLUSTER_COMMANDS
        key = sample_key(self._globs[0], self._nonce) if self._globs else self._nonce
        found: dict[str, Answer] = {}
        for name in names:
            if name in _ANSWERS:
                found[name] = answer_to(self._one(*_ANSWERS[name]))
            elif name in _ON_A_KEY:
                found[name] = answer_to(
                    self._one(*(key if part == b"%b" else part for part in _ON_A_KEY[name]))
                )
        found["monitor"] = self._dry_run(user, b"MONITOR")
        found["psubscribe"] = self._dry_run(user, b"PSUBSCRIBE", b"__keyevent@*__:evicted")
        return found

    def _dry_run(self, user: Any, *command: bytes) -> Answer:
        """Ask whether a command is granted that would take the connection over if it were tried."""
        if not isinstance(user, bytes):
            return "unclear"
        answer = self._one(b"ACL", b"DRYRUN", user, *command)
        if isinstance(answer, ResponseError):
            return "unclear"
        return "granted" if answer == b"OK" else "denied"

    def _pattern(self, glob: bytes) -> Answer:
        answer = self._one(b"TYPE", sample_key(glob, self._nonce))
        if isinstance(answer, NoPermissionError):
            return "unclear" if _about_command(answer) else "denied"
        return "granted"

    def _one(self, *parts: bytes) -> Any:
        self._connection.send_packed_command([pack(*parts)])  # type: ignore[no-untyped-call]
        try:
            return self._connection.read_response()
        except ResponseError as error:
            return error


def answer_to(answer: Any) -> Answer:
    """Judge the answer to a command: was it granted?"""
    if isinstance(answer, NoPermissionError):
        # About the key it was tried on: the command as such is granted.
        return "denied" if _about_command(answer) or "channel" in str(answer) else "granted"
    if isinstance(answer, ResponseError) and "unknown" in str(answer).lower():
        return "not known to the server"
    return "granted"


def _about_command(answer: Any) -> bool:
    return isinstance(answer, NoPermissionError) and "command" in str(answer)


def _line(error: BaseException) -> str:
    reason = explain(error)
    return f"{reason.what}; {reason.fix}"

"""``redis-cli`` lines that show what Redis holds for a lock, safe to paste whatever its key holds. Pure."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from lockscope_exporter.cli.keytext import keys_of
from lockscope_exporter.redis_url import hide_passwords
from lockscope_exporter.text import shown_key

if TYPE_CHECKING:
    from lockscope_exporter.redis_url import RedisUrl
    from lockscope_exporter.state import LockState

_PLAIN = re.compile(rb"[\x21-\x7e][\x20-\x7e]*")
_READS = {
    "string": (b"GET",),
    "hash": (b"HGETALL",),
    "zset": (b"ZRANGE", b"0", b"-1", b"WITHSCORES"),
    "set": (b"SMEMBERS",),
}


def inspect(lock: LockState, url: RedisUrl | None = None) -> list[str]:
    """Return the lines that read a lock's expiry and its owner.

    Args:
        lock: the lock.
        url: where it is; its password is left out, ``redis-cli`` takes it from ``REDISCLI_AUTH``.
    """
    base = _base(lock, url)
    read, *rest = _READS.get(lock.type, (b"TYPE",))
    if lock.field is not None:
        read, rest = b"HGET", [lock.field]
    return [_line(base, b"PTTL", lock.key), _line(base, read, lock.key, *rest)]


def lockscope(command: str, lock: LockState, url: str | None = None, target: str | None = None) -> list[str]:
    """Return a ``lockscope`` line about a lock, or none where its key cannot be a word that leads back to it.

    Args:
        command: such as ``why``.
        lock: the lock.
        url: where it is, if not at the default; one with a password is left to ``LOCKSCOPE_REDIS_URL``.
        target: its name in the file of targets, instead of a URL.
    """
    name = shown_key(lock.key)
    if lock.key not in keys_of(name):
        return []
    words = ["lockscope", command]
    if target is not None:
        words += ["--target", target]
    elif url is not None and hide_passwords(url) == url:
        words += ["--redis-url", url]
    line = shlex.join(words)
    if target is None and url is not None and hide_passwords(url) != url:
        line += ' --redis-url "$LOCKSCOPE_REDIS_URL"'
    field = [] if lock.field is None else ["--field", shown_key(lock.field)]
    end = ["--"] if name.startswith("-") else []
    return [f"{line} {shlex.join([*field, *end, name])}"]


def _base(lock: LockState, url: RedisUrl | None) -> str:
    words = ["redis-cli"]
    if lock.node.startswith("/"):
        words += ["-s", lock.node]
    elif lock.node:
        host, _, port = lock.node.rpartition(":")
        words += [*(["-h", host.strip("[]")] if host not in ("127.0.0.1", "localhost") else [])]
        words += [*(["-p", port] if port != "6379" else [])]
    if lock.db:
        words += ["-n", str(lock.db)]
    if url is not None and url.tls:
        words.append("--tls")
    if url is not None and url.username:
        words += ["--user", url.username]
    return " ".join(map(shlex.quote, words))


def _line(base: str, *words: bytes) -> str:
    """Return a shell line; a word with other than printable ASCII goes through standard input, escaped."""
    if all(_PLAIN.fullmatch(word) for word in words):
        return f"{base} {' '.join(shlex.quote(word.decode('ascii')) for word in words)}"
    command = " ".join([words[0].decode("ascii"), *map(_escaped, words[1:])])
    return f"printf '%s\\n' {shlex.quote(command)} | {base}"


def _escaped(word: bytes) -> str:
    r"""Return a word as ``redis-cli`` reads it from standard input: quoted, ``\xNN`` for the odd byte."""
    pieces = []
    for byte in word:
        char = chr(byte)
        if char in '"\\':
            pieces.append("\\" + char)
        else:
            pieces.append(char if char.isascii() and char.isprintable() else f"\\x{byte:02x}")
    return f'"{"".join(pieces)}"'

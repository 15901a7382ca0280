"""Commands to copy: what a page shows, for a terminal. Pure functions."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockscope_exporter.state import LockState

_PLAIN = re.compile(rb"[\x20-\x7e]+")


def redis_quoted(raw: bytes) -> str:
    r"""Write bytes as ``redis-cli`` reads them on standard input: double quotes, ``\xNN`` for the odd."""
    pieces = []
    for byte in raw:
        char = chr(byte)
        if char in '"\\':
            pieces.append("\\" + char)
        elif char.isascii() and char.isprintable():
            pieces.append(char)
        else:
            pieces.append(f"\\x{byte:02x}")
    return f'"{"".join(pieces)}"'


def redis_cli(command: str, key: bytes, db: int, *rest: bytes) -> str:
    """Write a ``redis-cli`` line that is safe to paste, whatever the key holds.

    Args:
        command: Redis command name.
        key: the exact key.
        db: database number.
        rest: further arguments.

    Returns:
        A shell line; keys with other than printable ASCII go through standard input, which takes escapes.
    """
    base = "redis-cli" + (f" -n {db}" if db else "")
    if all(_PLAIN.fullmatch(argument) for argument in (key, *rest)):
        return " ".join([base, command, *(shlex.quote(part.decode("ascii")) for part in (key, *rest))])
    line = " ".join([command, *(redis_quoted(part) for part in (key, *rest))])
    return f"printf '%s\\n' {shlex.quote(line)} | {base}"


def inspect(lock: LockState) -> list[str]:
    """Return the lines that show what Redis holds for a lock."""
    lines = [redis_cli("PTTL", lock.key, lock.db)]
    if lock.field is not None:
        lines.append(redis_cli("HGET", lock.key, lock.db, lock.field))
    elif lock.value is not None:
        lines.append(redis_cli("GET", lock.key, lock.db))
    else:
        lines.append(redis_cli("TYPE", lock.key, lock.db))
    return lines


def lockscope(command: str, lock: LockState) -> str | None:
    """Write a ``lockscope`` line about a lock, or nothing where its key cannot be an argument."""
    try:
        key = lock.key.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if not key.isprintable():
        return None
    end_of_options = "-- " if key.startswith("-") else ""
    return f"lockscope {command} {end_of_options}{shlex.quote(key)}"

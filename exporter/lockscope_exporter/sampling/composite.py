"""Reading hashes, sorted sets and sets without ever causing WRONGTYPE: type and value in one step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError

from lockscope_exporter.dialects.model import Reading
from lockscope_exporter.sampling.answers import forbidden, moved, refused, value
from lockscope_exporter.sampling.wire import pack

if TYPE_CHECKING:
    from lockscope_exporter.dialects.model import ReadPlan, Value
    from lockscope_exporter.sampling.wire import Line

_PAGE = 1000  # fields that one HSCAN of a plan visits

# KEYS[1]; its expected type, then a command and its arguments after the key.
_GUARDED = b"""
if redis.call('TYPE', KEYS[1])['ok'] ~= ARGV[1] then return false end
return {redis.call('%b', KEYS[1]), redis.call(ARGV[2], KEYS[1], unpack(ARGV, 3))}
"""


def read_composite(line: Line, key: bytes, type_name: str, how: ReadPlan) -> Reading | ResponseError | None:
    """Read one key of a type other than string.

    Args:
        line: where to ask; its abilities are narrowed if the server refuses scripts.
        key: the key.
        type_name: what TYPE said of it a moment ago.
        how: the command to read it by; scans go on until their end or the plan's limit.

    Returns:
        The reading; ``None`` if the key changed its type meanwhile; the error if the key is forbidden or
        another node's.

    Raises:
        redis.ResponseError: the server refuses the command as such.
    """
    pieces: list[Any] = []
    arguments = [argument if isinstance(argument, bytes) else b"%d" % argument for argument in how.args]
    width = 2 if how.command == "HSCAN" else 1
    pages = 0
    while True:
        at, answer = _guarded(line, key, type_name, [how.command.encode(), *arguments])
        if answer is None or isinstance(answer, ResponseError):
            return answer
        expires, reply = answer
        deadline = line.abilities.deadline(expires, at)
        if how.command not in ("HSCAN", "SSCAN"):
            pieces = reply
            break
        cursor, members = reply
        pieces += members
        pages += 1
        if int(cursor) == 0 or max(len(pieces) // width, (pages - 1) * _PAGE) >= how.limit:
            break
        arguments[0] = b"%d" % int(cursor)
    return Reading(key, type_name, shaped(how.command, pieces), deadline, at)


def shaped(command: str, pieces: Any) -> Value:
    """Bring the reply to a read command into the shape of ``Reading.value``, from RESP2 or RESP3."""
    if command == "HSCAN":
        return dict(zip(pieces[::2], pieces[1::2], strict=True))
    if command == "ZRANGE":
        if pieces and isinstance(pieces[0], list):
            return tuple((member, float(score)) for member, score in pieces)
        return tuple((member, float(score)) for member, score in zip(pieces[::2], pieces[1::2], strict=True))
    return frozenset(pieces)


def _guarded(line: Line, key: bytes, type_name: str, command: list[bytes]) -> tuple[float, Any]:
    """Run one read on a key only if it still has its type; the answer is ``None`` if it has not."""
    abilities = line.abilities
    while abilities.script is not None:
        script = abilities.script
        body = _GUARDED % abilities.expiry
        at, [answer] = line.ask_at([pack(script, body, b"1", key, type_name.encode(), *command)])
        if not refused(answer):
            return at, answer if moved(answer) is not None or forbidden(answer) else value(answer)
        abilities.script = b"EVAL" if script == b"EVAL_RO" else None
    name, *arguments = command
    at, [expires, reply] = line.ask_at([pack(abilities.expiry, key), pack(name, key, *arguments)])
    if isinstance(reply, ResponseError) and str(reply).startswith("WRONGTYPE"):
        return at, None
    if moved(reply) is not None or forbidden(reply):
        return at, reply
    return at, [value(expires), value(reply)]

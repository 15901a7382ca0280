"""What one command does to lock keys, as far as the command alone tells. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockscope_exporter.contention.monitor import Command

Kind = Literal[
    "attempt", "put", "replace", "delete", "shrink", "expire", "persist", "look", "unsure",
    "flush_db", "flush_all", "unsure_all",
]  # fmt: skip

NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect on one key.

    Attributes:
        kind: ``attempt`` creates the key only if it is not there (SET NX, SETNX, HSETNX), ``put`` in any
            case, ``replace`` only if it is; ``delete``, ``expire``, ``persist`` as their commands; ``look``
            asks whether the key is there; ``shrink`` takes something out of it, and the key with it if that
            was all; ``unsure`` may do anything to it; ``flush_db``, ``flush_all`` and ``unsure_all`` are
            about every key of the database or the server.
        key: the key, empty where it is about all.
        field: the hash field that is the lock, ``None`` for a whole key.
        value: what would be stored.
        until: unix time in seconds when the key expires then; infinite for never, ``None`` for no change.
    """

    kind: Kind
    key: bytes
    field: bytes | None = None
    value: bytes = b""
    until: float | None = NEVER


def effects(command: Command) -> tuple[Effect, ...]:
    """Return what a command does to keys; nothing for commands that only read or have no key.

    Args:
        command: any command but those that run scripts, whose own commands come as lines of their own.
    """
    if command.name in _HARMLESS:
        return ()
    rule = _RULES.get(command.name)
    if rule is not None:
        found = rule(command, command.arguments)
        return found if found is not None else (Effect("unsure", command.first),)
    if command.name in _SEVERAL_KEYS:
        return tuple(Effect("unsure", key) for key in command.arguments[:100])
    key = command.first
    return (Effect("unsure", key),) if key else ()


_Found = tuple[Effect, ...] | None


def _set(command: Command, arguments: Sequence[bytes]) -> _Found:
    if len(arguments) < 2:  # noqa: PLR2004 - key and value
        return ()
    key, value, *options = arguments
    words = [option.lower() for option in options]
    until: float | None = NEVER
    for place, word in enumerate(words):
        if word in _EXPIRY and place + 1 < len(words):
            until = _EXPIRY[word](command.at, words[place + 1])
            if until is None:
                return ()  # the server refuses what is no number
        elif word == b"keepttl":
            until = None
        elif word in (b"ifeq", b"ifne", b"ifdeq", b"ifdne"):
            return None
    kind: Kind = "attempt" if b"nx" in words else "replace" if b"xx" in words else "put"
    return (Effect(kind, key, value=value, until=until),)


def _setnx(_: Command, arguments: Sequence[bytes]) -> _Found:
    return (Effect("attempt", arguments[0], value=arguments[1]),) if len(arguments) == 2 else ()  # noqa: PLR2004


def _hsetnx(_: Command, arguments: Sequence[bytes]) -> _Found:
    if len(arguments) != 3:  # noqa: PLR2004 - key, field, value
        return ()
    key, field, value = arguments
    return (Effect("attempt", key, field, value),)


def _setex(command: Command, arguments: Sequence[bytes]) -> _Found:
    if len(arguments) != 3:  # noqa: PLR2004 - key, time, value
        return ()
    key, amount, value = arguments
    until = _EXPIRY[b"ex" if command.name == b"setex" else b"px"](command.at, amount)
    return None if until is None else (Effect("put", key, value=value, until=until),)


def _expire(command: Command, arguments: Sequence[bytes]) -> _Found:
    if len(arguments) != 2:  # noqa: PLR2004 - with NX, XX, GT or LT it depends on what was there
        return None
    until = _EXPIRE[command.name](command.at, arguments[1])
    return None if until is None else (Effect("expire", arguments[0], until=until),)


def _delete(_: Command, arguments: Sequence[bytes]) -> _Found:
    return tuple(Effect("delete", key) for key in arguments)


def _hdel(_: Command, arguments: Sequence[bytes]) -> _Found:
    key, *fields = arguments or (b"",)
    return (*(Effect("delete", key, field) for field in fields), Effect("shrink", key))


def _grow(command: Command, arguments: Sequence[bytes]) -> _Found:
    """What adds to a key makes it if need be, and leaves its expiry alone."""
    if len(arguments) < 2:  # noqa: PLR2004 - key and something to add
        return ()
    if command.name == b"zadd" and any(option.lower() == b"xx" for option in arguments[1:4]):
        return None
    return (Effect("put", arguments[0], until=None),)


def _persist(_: Command, arguments: Sequence[bytes]) -> _Found:
    return (Effect("persist", arguments[0]),) if arguments else ()


def _look(_: Command, arguments: Sequence[bytes]) -> _Found:
    return (Effect("look", arguments[0]),) if arguments else ()


def _look_at_one(_: Command, arguments: Sequence[bytes]) -> _Found:
    return (Effect("look", arguments[0]),) if len(arguments) == 1 else ()


def _all(kind: Kind) -> Callable[[Command, Sequence[bytes]], _Found]:
    return lambda _command, _arguments: (Effect(kind, b""),)


def _after(unit: float) -> Callable[[float, bytes], float | None]:
    def until(at: float, amount: bytes) -> float | None:
        number = _number(amount)
        return None if number is None else at + number * unit

    return until


def _at(unit: float) -> Callable[[float, bytes], float | None]:
    def until(_: float, amount: bytes) -> float | None:
        number = _number(amount)
        return None if number is None else number * unit

    return until


def _number(text: bytes) -> int | None:
    digits = text.removeprefix(b"-")
    return int(text) if digits.isdigit() and len(digits) < 19 else None  # noqa: PLR2004 - 64 bits


_EXPIRY = {b"ex": _after(1.0), b"px": _after(0.001), b"exat": _at(1.0), b"pxat": _at(0.001)}
_EXPIRE = {
    b"expire": _EXPIRY[b"ex"],
    b"pexpire": _EXPIRY[b"px"],
    b"expireat": _EXPIRY[b"exat"],
    b"pexpireat": _EXPIRY[b"pxat"],
}
_RULES: dict[bytes, Callable[[Command, Sequence[bytes]], _Found]] = {
    b"set": _set,
    b"setnx": _setnx,
    b"hsetnx": _hsetnx,
    b"setex": _setex,
    b"psetex": _setex,
    **dict.fromkeys(_EXPIRE, _expire),
    b"persist": _persist,
    **dict.fromkeys((b"hset", b"hmset", b"hincrby", b"hincrbyfloat", b"zadd", b"zincrby", b"sadd"), _grow),
    **dict.fromkeys((b"incrby", b"incrbyfloat", b"decrby", b"append", b"lpush", b"rpush", b"xadd"), _grow),
    b"del": _delete,
    b"unlink": _delete,
    b"getdel": _delete,
    b"hdel": _hdel,
    b"flushall": _all("flush_all"),
    b"flushdb": _all("flush_db"),
    b"swapdb": _all("unsure_all"),
    # What waiters poll with. Readers of many keys and samplers use others (MGET, TYPE, PEXPIRETIME) or
    # name several keys.
    b"get": _look,
    b"exists": _look_at_one,
    b"ttl": _look,
    b"hget": _look,
    b"hexists": _look,
}
_SEVERAL_KEYS = frozenset(
    {b"rename", b"renamenx", b"copy", b"mset", b"msetnx", b"msetex", b"smove", b"bitop", b"migrate", b"lmove"}
)
_HARMLESS = frozenset(
    b"""
    acl asking auth bitcount bitpos client cluster command config dbsize debug discard dump echo exec
    expiretime getbit getrange hello hgetall hkeys hlen hmget hrandfield hscan hstrlen hvals info keys
    lastsave latency lcs lindex llen lolwut lpos lrange memory mget module monitor multi object
    pexpiretime pfcount ping psubscribe psync pttl publish pubsub punsubscribe quit randomkey readonly
    readwrite replconf reset role scan scard script sdiff select sinter sintercard sismember slowlog
    smembers smismember spublish srandmember sscan ssubscribe strlen subscribe substr sunion
    sunsubscribe sync time touch type unsubscribe unwatch wait waitaof watch xinfo xlen xpending xrange
    xread xrevrange zcard zcount zdiff zinter zintercard zlexcount zmscore zrandmember zrange
    zrangebylex zrangebyscore zrank zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan zscore
    zunion
    """.split()
)

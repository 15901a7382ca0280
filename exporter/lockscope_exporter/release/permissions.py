"""What a Redis user must be allowed to do for a release, and which of it an error says is missing. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from redis.exceptions import NoPermissionError, ReadOnlyError

from lockscope_exporter.dialects import Release
from lockscope_exporter.explain import explain
from lockscope_exporter.release.audit import STREAM
from lockscope_exporter.text import shown_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockscope_exporter.release.model import ReleasePlan

_READS = {
    Release.COMPARE_AND_DELETE: ("getrange",),
    Release.COMPARE_AND_DELETE_AND_SIGNAL: ("getrange",),
    Release.REDISSON_HASH: ("exists", "hlen", "hget", "hscan"),
    Release.HASH_FIELD: ("hexists", "hscan"),
    Release.ZSET_MEMBER: ("zscore", "zrange"),
}
_REMOVES = {Release.ZSET_MEMBER: "zrem", Release.HASH_FIELD: "hdel"}
_DENIED = re.compile(r"can't run this command|can't access|no permissions", re.IGNORECASE)  # 6.2 and later
_COMMAND = re.compile(r"permissions to run the .* command", re.IGNORECASE)
_READONLY = "the server is a read-only replica; name the master"
_WIDEST = 80


class Needs(NamedTuple):
    """What a release needs, as ``ACL SETUSER`` takes it.

    Attributes:
        commands: names of commands.
        keys: exact keys, the audit stream last.
        channels: exact channels.
    """

    commands: tuple[str, ...]
    keys: tuple[bytes, ...]
    channels: tuple[bytes, ...]


def needs(plan: ReleasePlan) -> Needs:
    """Return what a user needs to carry out a plan that nothing blocks."""
    commands = ["eval", "type", "pexpiretime", "pttl", "time", "pubsub|numsub", "xadd"]
    commands += [*_READS[plan.way], _REMOVES.get(plan.way, "del")]
    keys = [plan.lock.key]
    channels = []
    if plan.must_be_absent is not None:
        keys.append(plan.must_be_absent)
    if plan.wake is not None and plan.wake.how == "push":
        commands += ["del", "lpush", "ltrim", "pexpire"]
        keys.append(plan.wake.where)
    elif plan.wake is not None:
        commands += ["publish", "spublish"]
        channels.append(plan.wake.where)
    return Needs(tuple(dict.fromkeys(commands)), (*keys, STREAM), tuple(channels))


def denied(command: str, text: str, plan: ReleasePlan) -> str:
    """Put the server's refusal of a command inside the script into words.

    Args:
        command: the command.
        text: what the server said.
        plan: what was to be done.
    """
    if _DENIED.search(text):
        wanted = needs(plan)
        places = wanted.channels if command.lower() in ("publish", "spublish") else wanted.keys[:-1]
        name = command.lower()
        return (
            f"the Redis user may not run {name.upper()} there; grant it +{name} and access to {_list(places)}"
        )
    if text.startswith("READONLY"):
        return _READONLY
    return f"the server refused {command.upper()}: {shown_key(text.encode(), 200)}"


def refused(error: BaseException, plan: ReleasePlan, command: str = "eval") -> str:
    """Put the failure of a command into words.

    Args:
        error: what redis-py raised.
        plan: what was to be done.
        command: the command, ``eval`` for the script as a whole or ``xadd`` for the audit entry.
    """
    if isinstance(error, NoPermissionError):
        if _COMMAND.search(str(error)):
            return f"the Redis user may not run {command.upper()}; grant it +{command}"
        places = needs(plan).keys
        return f"the Redis user may not write to {_list(places[-1:] if command == 'xadd' else places[:-1])}"
    if isinstance(error, ReadOnlyError):
        return _READONLY
    reason = explain(error)
    return f"{reason.what}; {reason.fix}"


def _list(places: Sequence[bytes]) -> str:
    return ", ".join(shown_key(place, _WIDEST) for place in places)

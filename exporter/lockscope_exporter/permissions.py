"""The least that a Redis user needs so that lockscope can read locks, as an ACL rule. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lockscope_exporter.sampling.feeds.tracking import CHANNEL, EVICTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# What every sampled server is asked, and why. Nothing here can change a key.
COMMANDS: dict[str, str] = {
    "hello": "speak RESP3",
    "auth": "log in",
    "select": "choose the database",
    "ping": "notice that the server hangs",
    "time": "know its clock, in which deadlines are",
    "info": "eviction policy, replicas, restarts",
    "scan": "find locks",
    "type": "know how to read a key; leaves its idle time alone",
    "pttl": "know when a lock ends, before Redis 7.0",
    "pexpiretime": "know when a lock ends",
    "memory|usage": "leave large values alone",
    "mget": "read locks that are strings",
    "exists": "tell of many keys at once that they are gone",
    "hscan": "read locks that are hashes",
    "zrange": "read locks that are sorted sets",
    "sscan": "read locks that are sets",
    "eval_ro": "look at the type and read in one step, so that no error is caused",
    "client|tracking": "be told which keys change",
    "client|trackinginfo": "check that this still works",
    "subscribe": "be cut off, rather than have the server buffer without end, should lockscope hang",
    "psubscribe": "tell evictions from releases for sure, where the server evicts and publishes that",
    "client|list": "see whether a holder's connection is silent",
    "pubsub|numsub": "see whether holders live",
}
CLUSTER_COMMANDS: dict[str, str] = {
    "cluster|slots": "know which node serves which keys",
    "asking": "read keys of slots that are moving",
}
NOTIFICATION_COMMANDS: dict[str, str] = {
    "config|get": "know whether keyspace notifications are on, where tracking is not to be had",
}
_OLD = 7  # the first version that knows EVAL_RO, PEXPIRETIME and read-only key patterns


def acl_rule(
    user: str,
    globs: Iterable[str],
    *,
    cluster: bool = False,
    notifications: bool = False,
    dbs: Sequence[int] = (0,),
    version: int = 7,
) -> str:
    """Return the ``ACL SETUSER`` command for a user that may read these keys and nothing else.

    Args:
        user: its name; the password is left to be filled in.
        globs: the patterns that are watched.
        cluster: the server is part of a cluster.
        notifications: the user may follow keyspace notifications, too.
        dbs: databases whose notifications those are.
        version: major version of the server.

    Returns:
        One line, as ``redis-cli`` takes it.
    """
    chosen = {**COMMANDS, **(CLUSTER_COMMANDS if cluster else {})}
    globs = tuple(globs)
    channels = [CHANNEL.decode(), EVICTIONS.decode()]
    if notifications:
        chosen |= NOTIFICATION_COMMANDS
        # Redis grants a subscription to a pattern only if the very same pattern is granted.
        channels += [f"__keyspace@{db}__:{glob}" for db in dbs for glob in globs]
        channels += [f"__keyevent@{db}__:*" for db in dbs]
    if version < _OLD:
        chosen = {name: why for name, why in chosen.items() if name not in ("eval_ro", "pexpiretime")}
        chosen["eval"] = COMMANDS["eval_ro"]
    keys = " ".join(f"{'%R' if version >= _OLD else ''}~{glob}" for glob in globs)
    commands = " ".join(f"+{name}" for name in chosen)
    granted = " ".join(f"&{channel}" for channel in channels)
    return f"ACL SETUSER {user} reset on >PASSWORD resetchannels {granted} {keys} -@all {commands}"


def main() -> None:
    """Write the recipes into the documentation."""
    path = Path(__file__).parents[2] / "docs" / "mirror.md"
    path.write_text(documented(path.read_text(encoding="utf-8")), encoding="utf-8")


def documented(page: str) -> str:
    """Return a page of documentation with the recipes in their places."""
    plain = acl_rule("lockscope", ["lock:*"])
    followed = acl_rule("lockscope", ["lock:*"], notifications=True)
    more = [word for word in followed.split() if word not in plain.split()]
    for name, text in (("recipe", plain), ("notifications", " ".join(more))):
        begin, end = f"<!-- {name} -->\n```\n", "\n```"
        head, separator, tail = page.partition(begin)
        page = head + separator + text + tail[tail.index(end) :] if separator else page
    return page


if __name__ == "__main__":
    main()

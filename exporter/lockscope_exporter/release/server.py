"""Put the script's question to the server and read its answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import redis
from redis.cluster import RedisCluster
from redis.crc import key_slot
from redis.exceptions import RedisClusterException, ResponseError

from lockscope.presence import CHANNEL
from lockscope_exporter.presence import runs_here
from lockscope_exporter.presence.attendance import VANISHED
from lockscope_exporter.presence.roll_call import parse_clients
from lockscope_exporter.release.model import ReleaseResult
from lockscope_exporter.release.permissions import denied, refused
from lockscope_exporter.release.scripts import SCRIPT, call

if TYPE_CHECKING:
    from collections.abc import Collection

    from lockscope_exporter.release.model import Client, ReleasePlan

LOST = (redis.ConnectionError, redis.TimeoutError, RedisClusterException, OSError)
"""No answer came, so what the server did is not known."""

_CHANGED = {
    "type": "the key is of another type now",
    "owner": "somebody else holds it now",
    "count": "its holder took it once more or gave it back once: it works",
    "renewed": "its expiry was prolonged since it was seen: its holder works",
    "persisted": "it lost its expiry since it was seen: somebody wrote to it",
    "expiry": "its expiry is another one than was seen: somebody wrote to it",
    "queue": "it is a fair lock, whose waiters listen on channels of their own; use forceUnlock()",
    "alive": "its holder is there again: its presence connection is open",
    "runs": "its holder's process runs on this host",
}


def run(client: Client, plan: ReleasePlan, *, free: bool, strict: bool) -> ReleaseResult:
    """Look whether a lock is as it was seen, and free it if so.

    Args:
        client: where it is.
        plan: a plan that nothing blocks.
        free: free it; else only look.
        strict: its holders must not have prolonged their hold, nor have come back.

    Returns:
        ``released``, ``ready``, ``changed``, ``gone`` or ``failed``.

    Raises:
        redis.ConnectionError, redis.TimeoutError, RedisClusterException, OSError: no answer, see ``LOST``.
    """
    if strict and any(runs_here(holder) for holder in plan.holders):
        return ReleaseResult("changed", _CHANGED["runs"])
    try:
        if strict and isinstance(client, RedisCluster) and _present(client, plan):
            return ReleaseResult("changed", _CHANGED["alive"])
        answer = _evaluate(client, plan, free=free, strict=strict)
        if answer == [b"changed", b"alive"]:
            silent = _silent(client, plan)
            answer = _evaluate(client, plan, free=free, strict=strict, silent=silent) if silent else answer
    except ResponseError as error:
        return ReleaseResult("failed", refused(error, plan))
    result = _result(answer, plan)
    if result.freed and not _signal_here(client, plan):
        return replace(result, warnings=_signal(client, plan))
    return result


def _result(answer: list[Any], plan: ReleasePlan) -> ReleaseResult:
    """Put the script's answer into words."""
    word, *rest = answer
    if word == b"denied":
        command, text = (part.decode("utf-8", "replace") for part in rest)
        return ReleaseResult("failed", denied(command, text, plan))
    if word == b"gone":
        return ReleaseResult("gone", "it is not held any more")
    if word == b"changed":
        return ReleaseResult("changed", _CHANGED[rest[0].decode()])
    if word == b"same":
        return ReleaseResult("ready", "everything is as it was seen")
    woken = int(rest[0])
    if woken < 0:
        return ReleaseResult("released", "it was freed")
    return ReleaseResult("released", f"it was freed, {woken} listener{'' if woken == 1 else 's'} told", woken)


def _evaluate(
    client: Client, plan: ReleasePlan, *, free: bool, strict: bool, silent: Collection[str] = ()
) -> list[Any]:
    what = call(plan, free=free, strict=strict, signal_here=_signal_here(client, plan), silent=silent)
    words: list[Any] = [*what.keys, *what.arguments]
    answer: Any = client.eval(cast("Any", SCRIPT), len(what.keys), *words)
    return list(answer)


def _signal_here(client: Client, plan: ReleasePlan) -> bool:
    """Tell whether the list that waiters block on can be written in one step with the key."""
    wake = plan.wake
    if wake is None or wake.how == "publish" or not isinstance(client, RedisCluster):
        return True
    return bool(key_slot(wake.where) == key_slot(plan.lock.key))


def _signal(client: Client, plan: ReleasePlan) -> tuple[str, ...]:
    """Push to a list in another slot of the cluster, which cannot be one step with the delete."""
    wake = plan.wake
    if wake is None:
        return ()
    where, message = cast("Any", wake.where), cast("Any", wake.message)
    try:
        if wake.reset:
            client.delete(where)
        client.lpush(where, message)
        client.ltrim(where, 0, 0)
        if wake.ttl_ms is not None:
            client.pexpire(where, wake.ttl_ms)
    except (redis.RedisError, *LOST) as error:
        return (f"its waiters could not be woken: {refused(error, plan)}",)
    return ()


def _present(client: RedisCluster, plan: ReleasePlan) -> bool:
    """Tell whether any node of the cluster counts a holder's presence connection."""
    channels = [CHANNEL + holder.worker for holder in plan.holders if holder.worker is not None]
    if not channels:
        return False
    counts: Any = client.pubsub_numsub(*channels)  # asks every node and adds up
    return any(int(count) > 0 for _, count in counts)


def _silent(client: Client, plan: ReleasePlan) -> set[str]:
    """Return the holders whose connection is open only because their host vanished without closing it."""
    if isinstance(client, RedisCluster):
        return set()
    connection = client.connection_pool.get_connection()
    try:
        connection.send_command("CLIENT", "LIST", "TYPE", "PUBSUB")  # type: ignore[no-untyped-call]
        idle = parse_clients(connection.read_response())
    except ResponseError:
        return set()
    finally:
        client.connection_pool.release(connection)
    workers = {holder.worker for holder in plan.holders if holder.worker is not None}
    return {worker for worker in workers if idle.get(worker, 0.0) >= VANISHED}

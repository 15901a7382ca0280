"""Look at one key with an ordinary client: who holds it now. For what became of a lock that was freed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast

from redis.exceptions import ResponseError

from lockscope_exporter.dialects import Reading, decode
from lockscope_exporter.dialects import plan as read_plan
from lockscope_exporter.dialects.model import MAX_VALUE

if TYPE_CHECKING:
    from lockscope_exporter.dialects.model import Value
    from lockscope_exporter.release.model import Client
    from lockscope_exporter.state import Holder, LockState


def holders_now(client: Client, lock: LockState) -> tuple[Holder, ...] | None:
    """Return who holds a lock now.

    Args:
        client: reads bytes.
        lock: the lock as it was seen.

    Returns:
        Its holders, empty where the format names nobody, ``None`` if nobody holds it or it cannot be read.

    Raises:
        redis.ConnectionError, redis.TimeoutError: the server did not answer.
    """
    try:
        kind = cast("bytes", client.type(lock.key)).decode()
        value = _value(client, lock, kind)
    except ResponseError:  # not granted, or the key changed its type between the two looks
        return None
    reading = Reading(lock.key, kind, value, None, time.time())
    found = decode(reading, lock.dialect) or decode(reading)  # another library may have taken it
    same = next((one for one in found if one.field == lock.field), None)
    return None if same is None else same.holders


def _value(client: Client, lock: LockState, kind: str) -> Value:
    if kind == "string":
        return cast("bytes", client.getrange(lock.key, 0, MAX_VALUE))
    how = read_plan(lock.key, kind, lock.dialect) or read_plan(lock.key, kind)
    if kind == "hash" and lock.field is not None:
        there = client.hexists(lock.key, cast("Any", lock.field))
        return {lock.field: b""} if there else None
    if how is None:
        return None
    if kind == "hash":
        _, fields = cast("tuple[int, dict[bytes, bytes]]", client.hscan(lock.key, count=how.limit))
        return fields
    if kind == "zset":
        return tuple(
            cast("list[tuple[bytes, float]]", client.zrange(lock.key, 0, how.limit, withscores=True))
        )
    return None

"""The commands of a run on their way to Redis, blocking and asyncio, whatever interrupts them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from redis.client import NEVER_DECODE
from redis.exceptions import RedisError, ResponseError

from lockscope.interrupts import interrupts

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from lockscope.idempotency.run import Marking, Run

_PATIENCE = 1.0  # seconds for which a task that is cancelled waits for what must not be left half done
_under_way: set[asyncio.Task[None]] = set()  # an event loop alone does not keep its tasks alive


def enter(marking: Marking, client: Any) -> Run:
    """Begin the run; if that fails, try to leave nothing behind."""
    try:
        answer = _evaluate(client, marking.begin())
    except BaseException as error:
        marking.not_begun(error)
        if _perhaps_begun(error):
            _forget(marking, client)
        raise
    return marking.begun(answer)


async def enter_async(marking: Marking, client: Any) -> Run:
    """Begin the run; if that fails or is cancelled, try to leave nothing behind."""
    try:
        answer = await _evaluate(client, marking.begin())
    except BaseException as error:
        marking.not_begun(error)
        if _perhaps_begun(error):
            await _in_spite_of_cancellation(_forget_async(marking, client))
        raise
    return marking.begun(answer)


def leave(marking: Marking, client: Any, error: BaseException | None) -> None:
    """End the run, whose work raised ``error``."""
    if not marking.run.first:
        return
    try:
        answer = _evaluate(client, marking.end(error))
    except (RedisError, OSError) as failure:
        marking.not_ended(failure)
        if interrupts(failure):
            raise
    else:
        marking.ended(answer, error)


async def leave_async(marking: Marking, client: Any, error: BaseException | None) -> None:
    """End the run, whose work raised ``error``; work that is done is marked so, cancelled or not."""
    if marking.run.first:
        await _in_spite_of_cancellation(_end_async(marking, client, error))


def _evaluate(client: Any, arguments: tuple[Any, ...]) -> Any:
    # The stored result may be any bytes, so a client that decodes responses must not try it on this one.
    return client.execute_command("EVAL", *arguments, **{NEVER_DECODE: True})


def _perhaps_begun(error: BaseException) -> bool:
    """Tell whether the mark may be there: an answer of Redis that refuses the script leaves no doubt."""
    return not isinstance(error, ResponseError)


def _forget(marking: Marking, client: Any) -> None:
    try:
        _evaluate(client, marking.forget())
    except Exception as failure:  # noqa: BLE001 - why the run did not begin is what the caller must hear
        marking.not_forgotten(failure)


async def _forget_async(marking: Marking, client: Any) -> None:
    try:
        async with asyncio.timeout(_PATIENCE):
            await _evaluate(client, marking.forget())
    except Exception as failure:  # noqa: BLE001 - why the run did not begin is what the caller must hear
        marking.not_forgotten(failure)


async def _end_async(marking: Marking, client: Any, error: BaseException | None) -> None:
    try:
        answer = await _evaluate(client, marking.end(error))
    except (RedisError, OSError) as failure:
        marking.not_ended(failure)
    else:
        marking.ended(answer, error)


async def _in_spite_of_cancellation(work: Coroutine[Any, Any, None]) -> None:
    """Await ``work``; a cancellation meanwhile comes through after it, or after ``_PATIENCE`` seconds."""
    task = asyncio.create_task(work)
    _under_way.add(task)
    task.add_done_callback(_under_way.discard)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task}, timeout=_PATIENCE)
        raise

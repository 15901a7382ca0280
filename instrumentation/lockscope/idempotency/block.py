"""``idempotent``: the block or function whose work is done once per key."""

from __future__ import annotations

import functools
import inspect
import json
from typing import TYPE_CHECKING, Any, TypeVar, cast

from redis.exceptions import RedisError

from lockscope.clients import asyncio_client, blocking_client
from lockscope.errors import InProgressError
from lockscope.idempotency.run import Marking, Run
from lockscope.templates import KeyTemplate

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

F = TypeVar("F", bound="Callable[..., Any]")


class idempotent:  # noqa: N801 - reads as a function, as contextlib's own classes do
    """Do the work of a block or a function once per key: a context manager and a decorator, also for asyncio.

    ::

        with idempotent(f"charge:{order.id}", ttl=86400, client=client) as run:
            if run.first:
                run.result = charge(order)


        @idempotent("charge:{order_id}", ttl=86400, client=client, store=True)
        def charge(order_id): ...

    A marker is set atomically before the work and turned into a finished one after it. If the work raises,
    the marker goes and the work may be tried again; if the process dies, the marker frees itself after
    ``running_ttl``. A decorated function returns the stored result (or ``None``) for a duplicate and raises
    ``InProgressError`` while another run is at it; a block asks ``run`` and decides for itself.

    Once the work is done, a failure to mark it as done is counted and logged and not raised: failing work
    that is done would invite its repetition.

    Args:
        key: the Redis key; for a decorator a ``str.format`` template over the function's parameters.
        ttl: seconds for which a duplicate is recognised.
        client: a Redis client (an asyncio one in async code) or a function that returns one; the default
            connects to ``LOCKSCOPE_REDIS_URL``.
        running_ttl: seconds after which an unfinished run counts as dead; longer than the work ever takes.
            The default is ``ttl``.
        store: store what the decorated function returns, for later duplicates.
        dumps: turns a result into bytes or text.
        loads: reads that again.

    Raises:
        ValueError: a TTL is not above 0, or the template names what is no parameter.
        RedisError: the marker could not be set; the work was not begun.
    """

    def __init__(
        self,
        key: str,
        ttl: float,
        client: Any = None,
        *,
        running_ttl: float | None = None,
        store: bool = False,
        dumps: Callable[[Any], bytes | str] = json.dumps,
        loads: Callable[[bytes], Any] = json.loads,
    ) -> None:
        self._key = key
        self._client = client
        self._store = store
        ttl_ms = _milliseconds(ttl, "ttl")
        running_ms = ttl_ms if running_ttl is None else _milliseconds(running_ttl, "running_ttl")

        def new(key: str) -> Marking:
            return Marking(Run(key, loads), ttl_ms, running_ms, dumps)

        self._new = new

    def __call__(self, function: F) -> F:
        """Decorate a function, blocking or async."""
        template = KeyTemplate(self._key, function)
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"idempotent takes no generator function such as {function.__qualname__}")
        make = self._decorated_async if inspect.iscoroutinefunction(function) else self._decorated
        return cast("F", make(function, template))

    def __enter__(self) -> Run:
        self._marking, self._redis = self._new(self._key), blocking_client(self._client)
        return _enter(self._marking, self._redis)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _leave(self._marking, self._redis, error)

    async def __aenter__(self) -> Run:
        self._marking, self._redis = self._new(self._key), asyncio_client(self._client)
        return await _enter_async(self._marking, self._redis)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await _leave_async(self._marking, self._redis, error)

    def _decorated(self, function: Callable[..., Any], template: KeyTemplate) -> Callable[..., Any]:
        @functools.wraps(function)
        def once(*args: Any, **kwargs: Any) -> Any:
            marking, client = self._new(template.key(args, kwargs)), blocking_client(self._client)
            run = _enter(marking, client)
            if not run.first:
                return _answer(run, function)
            try:
                answer = function(*args, **kwargs)
            except BaseException as error:
                _leave(marking, client, error)
                raise
            if self._store:
                run.result = answer
            _leave(marking, client, None)
            return answer

        return once

    def _decorated_async(self, function: Callable[..., Any], template: KeyTemplate) -> Callable[..., Any]:
        @functools.wraps(function)
        async def once(*args: Any, **kwargs: Any) -> Any:
            marking, client = self._new(template.key(args, kwargs)), asyncio_client(self._client)
            run = await _enter_async(marking, client)
            if not run.first:
                return _answer(run, function)
            try:
                answer = await function(*args, **kwargs)
            except BaseException as error:
                await _leave_async(marking, client, error)
                raise
            if self._store:
                run.result = answer
            await _leave_async(marking, client, None)
            return answer

        return once


def _enter(marking: Marking, client: Any) -> Run:
    try:
        answer = client.eval(*marking.begin())
    except BaseException as error:
        marking.not_begun(error)
        raise
    return marking.begun(answer)


async def _enter_async(marking: Marking, client: Any) -> Run:
    try:
        answer = await client.eval(*marking.begin())
    except BaseException as error:
        marking.not_begun(error)
        raise
    return marking.begun(answer)


def _leave(marking: Marking, client: Any, error: BaseException | None) -> None:
    if not marking.run.first:
        return
    try:
        answer = client.eval(*marking.end(error))
    except (RedisError, OSError) as failure:
        marking.not_ended(failure)
    else:
        marking.ended(answer, error)


async def _leave_async(marking: Marking, client: Any, error: BaseException | None) -> None:
    if not marking.run.first:
        return
    try:
        answer = await client.eval(*marking.end(error))
    except (RedisError, OSError) as failure:
        marking.not_ended(failure)
    else:
        marking.ended(answer, error)


def _answer(run: Run, function: Callable[..., Any]) -> Any:
    if run.duplicate:
        return run.result
    raise InProgressError(
        f"{function.__qualname__} did not run: {run.key!r} is in progress", lock_name=run.key
    )


def _milliseconds(seconds: float, name: str) -> int:
    if not seconds > 0:
        raise ValueError(f"{name} takes seconds above 0, not {seconds!r}")
    return max(round(seconds * 1000), 1)

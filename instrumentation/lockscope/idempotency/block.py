"""``idempotent``: the block or function whose work is done once per key."""

from __future__ import annotations

import functools
import inspect
import json
from typing import TYPE_CHECKING, Any, TypeVar, cast

from lockscope.clients import asyncio_client, blocking_client
from lockscope.durations import seconds
from lockscope.entries import Entries
from lockscope.errors import InProgressError
from lockscope.idempotency import sending
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
    ``InProgressError`` while another run is at it; a block asks ``run`` and decides for itself. One object
    may be entered again while it is entered, nested or by other threads and tasks: each entry is a run.

    A beginning that fails without an answer (timeout, lost connection, cancelled task) may have set the
    marker all the same, so its removal is tried once, by owner. If that fails too, because Redis stalls for
    longer than two of the client's timeouts (for asyncio at most a second), or if the command still travels
    and arrives after the removal, the marker stays and others find the work ``in_progress`` until
    ``running_ttl`` has passed: keep that as short as the work allows.

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
        ValueError: a TTL is no number of seconds above 0, or the template names what is no parameter.
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
        self._entries: Entries[tuple[Marking, Any]] = Entries()
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
        marking, client = self._new(self._key), blocking_client(self._client)
        run = sending.enter(marking, client)
        self._entries.push((marking, client))
        return run

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        sending.leave(*self._entries.pop(), error)

    async def __aenter__(self) -> Run:
        marking, client = self._new(self._key), asyncio_client(self._client)
        run = await sending.enter_async(marking, client)
        self._entries.push((marking, client))
        return run

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await sending.leave_async(*self._entries.pop(), error)

    def _decorated(self, function: Callable[..., Any], template: KeyTemplate) -> Callable[..., Any]:
        @functools.wraps(function)
        def once(*args: Any, **kwargs: Any) -> Any:
            marking, client = self._new(template.key(args, kwargs)), blocking_client(self._client)
            run = sending.enter(marking, client)
            if not run.first:
                return _answer(run, function)
            try:
                answer = function(*args, **kwargs)
            except BaseException as error:
                sending.leave(marking, client, error)
                raise
            if self._store:
                run.result = answer
            sending.leave(marking, client, None)
            return answer

        return once

    def _decorated_async(self, function: Callable[..., Any], template: KeyTemplate) -> Callable[..., Any]:
        @functools.wraps(function)
        async def once(*args: Any, **kwargs: Any) -> Any:
            marking, client = self._new(template.key(args, kwargs)), asyncio_client(self._client)
            run = await sending.enter_async(marking, client)
            if not run.first:
                return _answer(run, function)
            try:
                answer = await function(*args, **kwargs)
            except BaseException as error:
                await sending.leave_async(marking, client, error)
                raise
            if self._store:
                run.result = answer
            await sending.leave_async(marking, client, None)
            return answer

        return once


def _answer(run: Run, function: Callable[..., Any]) -> Any:
    if run.duplicate:
        return run.result
    raise InProgressError(
        f"{function.__qualname__} did not run: {run.key!r} is in progress", lock_name=run.key
    )


def _milliseconds(value: Any, name: str) -> int:
    return max(round(seconds(value, name) * 1000), 1)

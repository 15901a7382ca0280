"""``keep_alive``: the block during which a lock is renewed."""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import TYPE_CHECKING, Any

from lockscope.durations import seconds
from lockscope.entries import Entries
from lockscope.errors import LostMessage
from lockscope.renewal.keepers import TaskKeeper, ThreadKeeper
from lockscope.renewal.lease import Keeping, KeptLease
from lockscope.renewal.locks import renewable

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from lockscope.renewal.locks import Renewable

_SHARE = 3  # renewals that fit into a TTL by default
_callbacks: set[asyncio.Future[Any]] = set()  # under way: an event loop alone does not keep its tasks alive


class keep_alive:  # noqa: N801 - reads as a function, as contextlib's own classes do
    """Renew a held lock in the background while the block runs; use ``with`` or, for asyncio, ``async with``.

    Renewals are checked by owner in Redis: a lock that is somebody else's by now is never touched, nor is one
    that was released. A renewal that fails without an answer (Redis slow, gone, restarting) is tried again,
    more often as the deadline comes near. The lease is lost when Redis says so or when the TTL has passed
    without a confirmed renewal; then ``lease.lost`` is true, ``on_lost`` has been called, and with ``cancel``
    the task that runs the block has been cancelled. The block's end raises nothing by itself.

    A forked child does not renew; its parent goes on.

    Args:
        lock: a held lock: redis-py ``Lock`` or ``asyncio.Lock``, or one of python-redis-lock or pottery.
        every: seconds between two renewals; the default is a third of the TTL.
        on_lost: called once on loss, with the lease if it takes an argument: from the renewing thread, or for
            asyncio in the event loop, where it may be a coroutine function.
        cancel: cancel the asyncio task that runs the block.

    Raises:
        TypeError: the lock cannot be renewed, ``on_lost`` takes more than one argument, or ``with`` is used
            for an asyncio lock or the other way round.
        ValueError: the lock has no TTL, or ``every`` is no number of seconds between 0 and it.
        LockError: the lock is not held.
    """

    def __init__(
        self,
        lock: Any,
        every: float | None = None,
        on_lost: Callable[..., object] | None = None,
        cancel: bool = False,
    ) -> None:
        self._lock = lock
        self._every = None if every is None else seconds(every, "every")
        self._on_lost = on_lost
        self._takes_lease = _takes_lease(on_lost)
        self._cancel = cancel
        self._threads: Entries[ThreadKeeper] = Entries()
        self._tasks: Entries[TaskKeeper] = Entries()

    def __enter__(self) -> KeptLease:
        lock = renewable(self._lock)
        if lock.is_async:
            raise TypeError("an asyncio lock is kept alive with `async with keep_alive(...)`")
        if self._cancel or inspect.iscoroutinefunction(self._on_lost):
            raise TypeError("cancel=True and a coroutine on_lost need an asyncio lock and `async with`")
        every = self._interval(lock)
        deadline = _known_deadline(lock)
        if deadline is None:
            sent = time.monotonic()
            lock.renew()
            deadline = sent + lock.ttl
        keeping, lease = self._keep(lock, every, deadline, None)
        thread = ThreadKeeper(keeping)
        thread.start()
        self._threads.push(thread)
        return lease

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._threads.pop().stop()

    async def __aenter__(self) -> KeptLease:
        lock = renewable(self._lock)
        if not lock.is_async:
            raise TypeError("a lock that is not asyncio's is kept alive with `with keep_alive(...)`")
        every = self._interval(lock)
        deadline = _known_deadline(lock)
        if deadline is None:
            sent = time.monotonic()
            await lock.renew()
            deadline = sent + lock.ttl
        keeping, lease = self._keep(lock, every, deadline, asyncio.current_task())
        keeper = TaskKeeper(keeping)
        keeper.start()
        self._tasks.push(keeper)
        return lease

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._tasks.pop().stop()

    def _keep(
        self, lock: Renewable, every: float, deadline: float, task: asyncio.Task[Any] | None
    ) -> tuple[Keeping, KeptLease]:
        keeping = Keeping(lock, every, deadline, lambda: self._tell(lease, task))
        lease = KeptLease(keeping)
        return keeping, lease

    def _interval(self, lock: Renewable) -> float:
        every = lock.ttl / _SHARE if self._every is None else self._every
        if every >= lock.ttl:
            raise ValueError(f"every takes seconds between 0 and the TTL of {lock.ttl:g}, not {every!r}")
        return every

    def _tell(self, lease: KeptLease, task: asyncio.Task[Any] | None) -> None:
        try:
            if self._on_lost is not None:
                answer = self._on_lost(*((lease,) if self._takes_lease else ()))
                if inspect.isawaitable(answer):
                    callback = asyncio.ensure_future(answer)
                    _callbacks.add(callback)
                    callback.add_done_callback(_callbacks.discard)
        finally:
            if self._cancel and task is not None:
                task.cancel(LostMessage(f"lock {lease.key!r} was lost: {lease.reason}"))


def _known_deadline(lock: Renewable) -> float | None:
    """Return when the lease lapses if its acquire was observed; ``None`` where a renewal must find out."""
    lease = lock.lease
    if lease is None or lease.deadline is None or lease.deadline <= time.monotonic():
        return None
    return min(lease.deadline, time.monotonic() + lock.ttl)


def _takes_lease(on_lost: Callable[..., object] | None) -> bool:
    """Tell whether ``on_lost`` takes the lease; refuse now what would fail at the worst of moments."""
    if on_lost is None:
        return False
    try:
        signature = inspect.signature(on_lost)
    except (TypeError, ValueError):  # a builtin without a signature
        return False
    try:
        signature.bind(None)
    except TypeError:
        try:
            signature.bind()
        except TypeError:
            raise TypeError(f"on_lost takes the lease or nothing, not {signature}") from None
        return False
    return True

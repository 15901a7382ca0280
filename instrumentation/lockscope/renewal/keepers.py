"""What renews in the background: a thread for blocking locks, a task for asyncio locks."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockscope.renewal.lease import Keeping

_LAST_CALL = 1.0  # seconds that the end of the block waits for a renewal under way
_RELEASE_UNDER_WAY = 0.05  # seconds in which an asyncio release that won the race becomes visible


class ThreadKeeper:
    """Renews from a thread of its own, in the caller's context: its job, its trace."""

    def __init__(self, keeping: Keeping) -> None:
        self._keeping = keeping
        self._stop = threading.Event()
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._run,), name="lockscope-keep-alive", daemon=True
        )

    def start(self) -> None:
        """Start to renew."""
        self._thread.start()

    def stop(self) -> None:
        """Renew no more; a renewal under way may end first."""
        self._keeping.close()
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join(_LAST_CALL)

    def _run(self) -> None:
        keeping = self._keeping
        try:
            keeping.lock.adopt()
            pause: float | None = keeping.first_pause()
            while pause is not None and not self._stop.wait(pause):
                pause = self._step()
        except BaseException as error:
            keeping.lose(f"the renewing thread failed: {error!r}")
            raise

    def _step(self) -> float | None:
        """Renew once; return seconds until the next time, ``None`` if there is none."""
        keeping = self._keeping
        if _is_over(keeping):
            return None
        sent = time.monotonic()
        context = contextvars.copy_context()
        watch = threading.Timer(keeping.remaining(), context.run, (keeping.lapse,))  # Redis may never answer
        watch.daemon = True
        with contextlib.suppress(RuntimeError):  # no more threads, or the interpreter ends
            watch.start()
        try:
            keeping.lock.renew()
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the lease must not lapse unseen
            return _judge(keeping, error)
        finally:
            watch.cancel()
        keeping.renewed(sent)
        return keeping.every


class TaskKeeper:
    """Renews from a task beside the one that runs the block."""

    def __init__(self, keeping: Keeping) -> None:
        self._keeping = keeping
        self._stop = asyncio.Event()

    def start(self) -> None:
        """Start to renew."""
        self._task = asyncio.create_task(self._run(), name="lockscope-keep-alive")

    async def stop(self) -> None:
        """Renew no more; a renewal under way may end first."""
        self._keeping.close()
        self._stop.set()
        try:
            await asyncio.wait({self._task}, timeout=_LAST_CALL)
        finally:
            self._task.cancel()

    async def _run(self) -> None:
        keeping = self._keeping
        try:
            pause: float | None = keeping.first_pause()
            while pause is not None and not await self._stopped_within(pause):
                pause = await self._step()
        except BaseException as error:
            keeping.lose(f"the renewing task ended: {error!r}")
            raise

    async def _stopped_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._stop.wait(), seconds)
        except TimeoutError:
            return False
        return True

    async def _step(self) -> float | None:
        keeping = self._keeping
        if _is_over(keeping):
            return None
        sent = time.monotonic()
        try:
            async with asyncio.timeout(keeping.remaining()):
                await keeping.lock.renew()
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the lease must not lapse unseen
            if keeping.lock.is_loss(error):
                await asyncio.sleep(_RELEASE_UNDER_WAY)
            return _judge(keeping, error)
        keeping.renewed(sent)
        return keeping.every


def _is_over(keeping: Keeping) -> bool:
    """Tell whether nothing is left to renew, because the lock was released or its deadline has passed."""
    if keeping.lock.released():
        keeping.close()
    elif keeping.is_lost():
        keeping.lapse()
    else:
        return False
    return True


def _judge(keeping: Keeping, error: Exception) -> float | None:
    """Take note of a failed renewal; return seconds until the next try, ``None`` if there is none."""
    if keeping.lock.released():
        keeping.close()
        return None
    if keeping.lock.is_loss(error):
        keeping.lose(f"Redis says that the lock is not ours any more: {error}")
        return None
    keeping.failed(error)
    return None if _is_over(keeping) else keeping.pause_after_failure()

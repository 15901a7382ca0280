"""What the paths of the exporter share: work done once for all who ask at the same time, answers in JSON."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

_ENCODE = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode


def encoded(content: dict[str, Any]) -> bytes:
    """Return an object as compact JSON."""
    return _ENCODE(content).encode()


def json_answer(content: dict[str, Any], status: int = 200) -> Response:
    """Return an answer that holds an object."""
    return Response(encoded(content), status, media_type="application/json")


class Shared:
    """Runs work in threads of its own, once for all who ask for the same at the same time.

    A client that hangs up takes nothing with it, and a hundred clients cost what one costs.

    Args:
        threads: different pieces of work at a time; more of them wait.
    """

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="lockscope-web")
        self._running: dict[Hashable, asyncio.Future[Any]] = {}

    async def run(self, key: Hashable, work: Callable[[], Any], seconds: float) -> Any:
        """Return what ``work`` returns, or what the same work that already runs does.

        Raises:
            TimeoutError: it takes longer than ``seconds``; the work goes on for others.
        """
        running = self._running.get(key)
        if running is None:
            running = asyncio.get_running_loop().run_in_executor(self._threads, work)
            self._running[key] = running
            running.add_done_callback(partial(self._done, key))
        return await asyncio.wait_for(asyncio.shield(running), seconds)

    def _done(self, key: Hashable, running: asyncio.Future[Any]) -> None:
        self._running.pop(key, None)
        if not running.cancelled():
            running.exception()  # looked at even if every client has hung up

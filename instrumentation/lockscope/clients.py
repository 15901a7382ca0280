"""Which Redis client lockscope's own helpers use."""

from __future__ import annotations

import asyncio
import inspect
import os
import weakref
from typing import Any

import redis
import redis.asyncio

from lockscope.guards import guard

_URL = "LOCKSCOPE_REDIS_URL"
_gate = guard()
_blocking: dict[str, redis.Redis] = {}
# Connections of an asyncio client belong to the event loop that opened them.
_by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Any]] = weakref.WeakKeyDictionary()


def is_async(client: Any) -> bool:
    """Tell whether a client's commands are awaited."""
    return inspect.iscoroutinefunction(getattr(client, "execute_command", None))


def blocking_client(client: Any) -> Any:
    """Return the client for blocking code.

    Args:
        client: a client, a function that returns one, or ``None`` for one to ``LOCKSCOPE_REDIS_URL``.

    Raises:
        TypeError: no client was given and the variable is not set, or the client is an asyncio one.
    """
    found = _made(client)
    if found is None:
        url = _url()
        with _gate:
            found = _blocking.get(url)
            if found is None:
                found = _blocking[url] = redis.Redis.from_url(url)
    if is_async(found):
        raise TypeError(f"blocking code needs a blocking Redis client, not {type(found).__module__}")
    return found


def asyncio_client(client: Any) -> Any:
    """Return the client for code that runs in the current event loop.

    Args:
        client: an asyncio client, a function that returns one, or ``None`` for one to
            ``LOCKSCOPE_REDIS_URL``.

    Raises:
        TypeError: no client was given and the variable is not set, or the client is a blocking one.
    """
    found = _made(client)
    if found is None:
        url = _url()
        clients = _by_loop.setdefault(asyncio.get_running_loop(), {})
        found = clients.get(url)
        if found is None:
            found = clients[url] = redis.asyncio.Redis.from_url(url)
    if not is_async(found):
        raise TypeError(f"asyncio code needs a client of redis.asyncio, not {type(found).__module__}")
    return found


def _made(client: Any) -> Any:
    return client() if callable(client) and not hasattr(client, "execute_command") else client


def _url() -> str:
    url = os.environ.get(_URL)
    if not url:
        raise TypeError(f"pass client=, or set {_URL}")
    return url

"""Do something before this process ends, also where it ends by ``os._exit``, as forked workers do.

RQ work-horses, Celery's pool and ``multiprocessing`` end their children with ``os._exit``, which runs no
``atexit`` function. While anybody has asked for it, ``os._exit`` is wrapped by a function that calls them
first. Whatever they raise is swallowed; how long they may take is up to them.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

_callbacks: list[Callable[[], None]] = []
_guard = threading.RLock()
_original: Any = None


def before_exit(callback: Callable[[], None]) -> None:
    """Have ``callback`` called before this process or a forked child of it ends, once in each.

    Args:
        callback: takes nothing; must tell by itself whether there is anything to do in this process.
    """
    global _original  # noqa: PLW0603 - one interpreter, one os._exit
    with _guard:
        _callbacks.append(callback)
        atexit.register(callback)
        if _original is None:
            _original = os._exit
            os._exit = _exit


def forget(callback: Callable[[], None]) -> None:
    """Call ``callback`` no more; put ``os._exit`` back when nobody is left and nobody wrapped it since."""
    global _original
    with _guard:
        if callback in _callbacks:
            _callbacks.remove(callback)
            atexit.unregister(callback)
        if not _callbacks and os._exit is _exit:
            os._exit, _original = _original, None


def _exit(status: int) -> NoReturn:
    for callback in tuple(_callbacks):
        with contextlib.suppress(BaseException):
            callback()
    original = _original
    if original is None:  # put back meanwhile, by somebody who holds on to this function
        os._exit(status)
    original(status)
    raise AssertionError("os._exit returned")


def _in_child() -> None:
    global _guard  # noqa: PLW0603 - another thread may have held it at the fork
    _guard = threading.RLock()


os.register_at_fork(after_in_child=_in_child)

"""Tell the application's interruptions from failures of the shim.

Time limits of jobs (RQ, Celery's soft limit, ``signal.alarm``) are ordinary exceptions that a signal handler
raises wherever the main thread is, also in the shim, which swallows its own failures. These must come
through: nobody raises them a second time.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import FrameType

_INTO_THREADS: Final = frozenset({"rq.timeouts"})  # whose exceptions are set in a thread without any handler


def interrupts(error: BaseException | None) -> bool:
    """Tell whether a signal handler or a time limit raised ``error``, whatever code was running.

    What is no ``Exception`` (Ctrl-C, cancellation, a greenlet's timeout) always interrupts.

    Args:
        error: an exception that was caught.
    """
    if error is None:
        return False
    if not isinstance(error, Exception) or any(
        kind.__module__ in _INTO_THREADS for kind in type(error).__mro__
    ):
        return True
    traceback = error.__traceback__
    while traceback is not None:
        if _is_handler(traceback.tb_frame):
            return True
        traceback = traceback.tb_next
    return False


def _is_handler(frame: FrameType) -> bool:
    """Tell whether a frame is a signal handler's: nobody else is passed the frame that it interrupts."""
    code, values = frame.f_code, frame.f_locals
    positional = [values.get(name) for name in code.co_varnames[: code.co_argcount]]
    if code.co_flags & 0x04:  # CO_VARARGS
        rest = values.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount])
        positional += rest if isinstance(rest, tuple) else ()
    return any(
        value is frame.f_back and isinstance(number, int)
        for number, value in pairwise(positional)
        if value is not None
    )

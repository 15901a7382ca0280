"""Locks for short critical sections that survive what a worker does to itself.

A signal handler may enter one that its own thread is in; and where a thread was in one at a fork, the child,
which has no such thread, finds it open.
"""

from __future__ import annotations

import os
import threading
from weakref import WeakSet

_all: WeakSet[threading.RLock] = WeakSet()


def guard() -> threading.RLock:
    """Return a new lock of this kind."""
    made = threading.RLock()
    _all.add(made)
    return made


def _in_child() -> None:
    for each in list(_all):
        each._at_fork_reinit()  # type: ignore[attr-defined]  # noqa: SLF001 - as logging and concurrent.futures do


os.register_at_fork(after_in_child=_in_child)

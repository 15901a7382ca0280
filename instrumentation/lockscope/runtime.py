"""The one recorder of this process, present while anything is observed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import lockscope.guards  # noqa: F401 - a child opens them before it does what is registered here

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockscope.record import Recorder


class Everywhere:
    """The recorder for locks that nobody named: present between ``instrument`` and ``uninstrument`` only.

    Wrappers of classes ask here, not the module: where another tool keeps one of ours in place, it must stay
    silent when ``uninstrument`` is followed by ``observe`` of one lock.
    """

    recorder: Recorder | None = None


recorder: Recorder | None = None
everywhere = Everywhere()
describe_owner = True


def not_announced(_client: object) -> str:
    """Return what tokens say where presence is switched off."""
    return ";p=0"


announce: Callable[[object], str] = not_announced
meet: Callable[[object], None] | None = None  # told of clients before they take a lock, while anybody asks


def _in_child() -> None:
    if recorder is not None:
        recorder.abandoned.clear()  # the parent reports them
        recorder.forget()


os.register_at_fork(after_in_child=_in_child)

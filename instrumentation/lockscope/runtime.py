"""The one recorder of this process, present while observation is on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockscope.record import Recorder

recorder: Recorder | None = None
describe_owner = True


def not_announced(_client: object) -> str:
    """Return what tokens say where presence is switched off."""
    return ";p=0"


announce: Callable[[object], str] = not_announced


def _in_child() -> None:
    if recorder is not None:
        recorder.forget()


os.register_at_fork(after_in_child=_in_child)

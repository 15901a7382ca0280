"""The search for cyclic garbage, left alone while very much is made at once."""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """Leave cyclic garbage alone for a while: the search for it among ten thousand new locks is dear."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()

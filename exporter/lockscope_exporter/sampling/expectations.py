"""How long locks are expected to be held: configured by the user, else learned from past holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockscope.globs import compile_glob
from lockscope_exporter.classify import Expected

if TYPE_CHECKING:
    from collections.abc import Mapping


class Expectations:
    """Expected hold by prefix.

    Args:
        configured: seconds by prefix glob; the first that is or matches a prefix wins.
    """

    def __init__(self, configured: Mapping[str, float]) -> None:
        self._configured = dict(configured)

    def of(self, prefix: str) -> Expected | None:
        """Return what is expected of a prefix, ``None`` while nothing is known."""
        for glob, seconds in self._configured.items():
            if glob == prefix or compile_glob(glob.encode()).fullmatch(prefix.encode()):
                return Expected(seconds, "configured")
        return None

    def learn(self, prefix: str, hold: float, now: float) -> None:
        """Take in how long one lock of a prefix was held."""

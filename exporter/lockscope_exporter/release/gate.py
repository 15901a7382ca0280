"""Whether releases are switched on at all. Off unless somebody decided otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "LOCKSCOPE_ALLOW_RELEASE"
OFF = f"releasing locks is off; set {VARIABLE}=1 to allow it"

_TRUE = frozenset({"1", "true", "yes", "on"})


def allowed(environ: Mapping[str, str]) -> bool:
    """Tell whether the environment allows releases."""
    return environ.get(VARIABLE, "").strip().lower() in _TRUE

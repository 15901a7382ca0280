"""What the explorer reads from its environment: the same ``LOCKSCOPE_…`` variables as the commands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SHORTEST, DEFAULT, LONGEST = 0.5, 2.0, 60.0
_TRUE = frozenset({"1", "true", "yes", "on"})


@dataclass(frozen=True, slots=True)
class Settings:
    """Options of the explorer itself; what to sample is read by ``lockscope_exporter``.

    Attributes:
        prometheus_url: base URL of a Prometheus server with the exporter's and workers' series, or ``None``.
        trace_url: link to a trace, with ``{trace_id}`` where the id goes, or ``None``.
        allow_release: an operator may free a lock from a page.
        release_roles: roles, of the signed-in user's ``roles`` or ``groups`` claim, that may do so.
        refresh: seconds between refreshes of a page.
        environment: the variables that were read, for the readers of other rooms.
    """

    prometheus_url: str | None = None
    trace_url: str | None = None
    allow_release: bool = False
    release_roles: tuple[str, ...] = ()
    refresh: float = DEFAULT
    environment: Mapping[str, str] = field(default_factory=dict)


def from_environment(env: Mapping[str, str]) -> Settings:
    """Read the explorer's options.

    Args:
        env: environment variables.

    Returns:
        The settings; a refresh interval that is no number from 0.5 to 60 falls back to 2 seconds.
    """
    return Settings(
        prometheus_url=env.get("LOCKSCOPE_PROMETHEUS_URL", "").strip().rstrip("/") or None,
        trace_url=env.get("LOCKSCOPE_TRACE_URL", "").strip() or None,
        allow_release=env.get("LOCKSCOPE_ALLOW_RELEASE", "").strip().lower() in _TRUE,
        release_roles=tuple(env.get("LOCKSCOPE_RELEASE_ROLES", "").replace(",", " ").split()),
        refresh=_seconds(env.get("LOCKSCOPE_REFRESH", "")),
        environment=dict(env),
    )


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return DEFAULT
    return value if SHORTEST <= value <= LONGEST else DEFAULT

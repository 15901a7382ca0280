"""What the explorer reads from its environment, beside what to sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_TRUE = frozenset({"1", "true", "yes", "on"})


@dataclass(frozen=True, slots=True)
class Settings:
    """Options of the explorer itself; ``lockscope_exporter.configuration`` has those of the sampler.

    Attributes:
        prometheus_url: base URL of a Prometheus server with the exporter's and workers' series, or ``None``.
        trace_url: link to traces of a lock, see ``commands.trace``, or ``None``.
        allow_release: an operator may free a lock from a page.
        release_roles: roles, of the signed-in user's ``roles`` or ``groups`` claim, that may do so.
    """

    prometheus_url: str | None = None
    trace_url: str | None = None
    allow_release: bool = False
    release_roles: tuple[str, ...] = ()


def from_environment(env: Mapping[str, str]) -> Settings:
    """Read the explorer's options from environment variables; unset and empty ones mean the default."""
    return Settings(
        prometheus_url=env.get("LOCKSCOPE_PROMETHEUS_URL", "").strip().rstrip("/") or None,
        trace_url=env.get("LOCKSCOPE_TRACE_URL", "").strip() or None,
        allow_release=env.get("LOCKSCOPE_ALLOW_RELEASE", "").strip().lower() in _TRUE,
        release_roles=tuple(env.get("LOCKSCOPE_RELEASE_ROLES", "").replace(",", " ").split()),
    )

"""The shim's settings: arguments of ``instrument`` first, then environment variables, then defaults."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class Settings:
    """What ``instrument`` was told.

    Attributes:
        prefixes: Redis globs that name families of keys, in order (``LOCKSCOPE_PREFIXES``, comma-separated).
        max_prefixes: cap on distinct prefixes a process (``LOCKSCOPE_MAX_PREFIXES``).
        describe_owner: pass owner tokens that say who holds the lock (``LOCKSCOPE_DESCRIBE_OWNER``).
        blocked_by: read who holds a lock that was refused (``LOCKSCOPE_BLOCKED_BY``).
        prometheus: count in Prometheus metrics (``LOCKSCOPE_PROMETHEUS``).
        logs: write log records (``LOCKSCOPE_LOGS``).
        presence: keep a connection that shows that this process lives (``LOCKSCOPE_PRESENCE``).
        otel: use OpenTelemetry; ``"auto"`` as soon as the application has configured it (``LOCKSCOPE_OTEL``).
    """

    prefixes: tuple[str, ...] = ()
    max_prefixes: int = 200
    describe_owner: bool = True
    blocked_by: bool = True
    prometheus: bool = True
    logs: bool = True
    presence: bool = True
    otel: bool | Literal["auto"] = "auto"


def read(environ: Mapping[str, str] = os.environ, **given: object) -> Settings:
    """Put settings together.

    Args:
        environ: the environment.
        given: arguments; ``None`` means not given.

    Returns:
        The settings in force.

    Raises:
        ValueError: a variable or an argument cannot be used; the message names it.
    """
    values: dict[str, object] = {}
    if "LOCKSCOPE_PREFIXES" in environ:
        values["prefixes"] = tuple(
            item.strip() for item in environ["LOCKSCOPE_PREFIXES"].split(",") if item.strip()
        )
    if "LOCKSCOPE_MAX_PREFIXES" in environ:
        values["max_prefixes"] = _whole(environ["LOCKSCOPE_MAX_PREFIXES"], "LOCKSCOPE_MAX_PREFIXES")
    for name in ("describe_owner", "blocked_by", "prometheus", "logs", "presence"):
        variable = f"LOCKSCOPE_{name.upper()}"
        if variable in environ:
            values[name] = _switch(environ[variable], variable)
    if environ.get("LOCKSCOPE_OTEL", "auto").strip().lower() != "auto":
        values["otel"] = _switch(environ["LOCKSCOPE_OTEL"], "LOCKSCOPE_OTEL")
    values.update((name, value) for name, value in given.items() if value is not None)
    if isinstance(values.get("prefixes"), str):
        raise ValueError("prefixes takes a list of Redis globs, not one string")  # noqa: TRY004 - one error type
    settings = Settings(**values)  # type: ignore[arg-type]  # checked field by field above and below
    if not isinstance(settings.max_prefixes, int) or settings.max_prefixes < 1:
        raise ValueError(f"max_prefixes takes a whole number from 1, not {settings.max_prefixes!r}")
    if settings.otel not in (True, False, "auto"):
        raise ValueError(f'otel takes True, False or "auto", not {settings.otel!r}')
    return settings


def _whole(text: str, name: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name} takes a whole number, not {text!r}") from None


def _switch(text: str, name: str) -> bool:
    lowered = text.strip().lower()
    if lowered in _TRUE or lowered in _FALSE:
        return lowered in _TRUE
    raise ValueError(f"{name} takes 1 or 0, not {text!r}")

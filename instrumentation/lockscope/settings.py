"""The shim's settings: arguments of ``instrument`` first, then environment variables, then defaults."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})
_SWITCHES = ("describe_owner", "blocked_by", "prometheus", "logs", "presence")


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
        journal: write the journal, and where (``LOCKSCOPE_JOURNAL``: 1 or a URL).
        otel: use OpenTelemetry; ``"auto"`` as soon as the application has configured it (``LOCKSCOPE_OTEL``).
    """

    prefixes: tuple[str, ...] = ()
    max_prefixes: int = 200
    describe_owner: bool = True
    blocked_by: bool = True
    prometheus: bool = True
    logs: bool = True
    presence: bool = True
    journal: object = False
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
    environ = {name: text for name, text in environ.items() if text.strip()}  # ``NAME=`` is not given
    if "LOCKSCOPE_PREFIXES" in environ:
        items = (item.strip() for item in environ["LOCKSCOPE_PREFIXES"].split(","))
        values["prefixes"] = _globs([item for item in items if item], "LOCKSCOPE_PREFIXES")
    if "LOCKSCOPE_MAX_PREFIXES" in environ:
        values["max_prefixes"] = _whole(environ["LOCKSCOPE_MAX_PREFIXES"], "LOCKSCOPE_MAX_PREFIXES")
    for name in _SWITCHES:
        variable = f"LOCKSCOPE_{name.upper()}"
        if variable in environ:
            values[name] = _switch(environ[variable], variable, "1 or 0")
    if "LOCKSCOPE_JOURNAL" in environ:
        values["journal"] = _switch_or_url(environ["LOCKSCOPE_JOURNAL"], "LOCKSCOPE_JOURNAL")
    if environ.get("LOCKSCOPE_OTEL", "auto").strip().lower() != "auto":
        values["otel"] = _switch(environ["LOCKSCOPE_OTEL"], "LOCKSCOPE_OTEL", "1, 0 or auto")
    values.update((name, _checked(name, value)) for name, value in given.items() if value is not None)
    return Settings(**values)  # type: ignore[arg-type]  # each was checked by its name


def _checked(name: str, value: object) -> object:
    """Return an argument that can be used, or say why it cannot."""
    if name == "prefixes":
        return _globs(value, name)
    if name == "max_prefixes":
        if type(value) is not int or value < 1:
            raise ValueError(f"{name} takes a whole number from 1, not {value!r}")
    elif name == "otel":
        if value is not True and value is not False and value != "auto":
            raise ValueError(f'{name} takes True, False or "auto", not {value!r}')
    elif name == "journal":
        return value  # a client or a URL is looked at where it is used
    elif value is not True and value is not False:
        raise ValueError(f"{name} takes True or False, not {value!r}")
    return value


def _globs(value: object, name: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{name} takes a list of Redis globs, not {value!r}")  # noqa: TRY004 - one error type
    for item in value:
        if not isinstance(item, str) or not item:
            raise ValueError(f"{name} takes Redis globs as text, not {item!r}")
        try:
            item.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{name} takes Redis globs in UTF-8, not {item!r}") from None
    return tuple(value)


def _whole(text: str, name: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise ValueError(f"{name} takes a whole number from 1, not {text!r}")
    return number


def _switch(text: str, name: str, choices: str) -> bool:
    lowered = text.strip().lower()
    if lowered in _TRUE or lowered in _FALSE:
        return lowered in _TRUE
    raise ValueError(f"{name} takes {choices}, not {text!r}")


def _switch_or_url(text: str, name: str) -> bool | str:
    return text.strip() if "://" in text else _switch(text, name, "1, 0 or a Redis URL")

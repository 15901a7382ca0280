"""Where the journal is, by the option ``--journal``, which is on, off or a URL. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockscope_exporter.redis_url import parse_redis_url
from lockscope_exporter.targets import Target

if TYPE_CHECKING:
    from collections.abc import Sequence

_ON = frozenset({"1", "true", "yes", "on"})
_OFF = frozenset({"", "0", "false", "no", "off"})


def journal_targets(setting: str, targets: Sequence[Target]) -> tuple[Target, ...]:
    """Return where to read journals.

    Args:
        setting: ``1`` for every target's own, ``0`` for none, or the URL of the one that all workers write.
        targets: what is sampled.

    Raises:
        ValueError: it is none of these; the text is one line.
    """
    word = setting.strip().lower()
    if word in _OFF:
        return ()
    if word in _ON:
        return tuple(targets)
    if "://" not in setting:
        raise ValueError(f'"{setting[:60]}" is neither 1, 0 nor a Redis URL')
    parse_redis_url(setting)
    return (Target(setting.strip(), name="journal"),)


def check_setting(setting: str) -> None:
    """Raise ``ValueError`` if ``journal_targets`` could not use it."""
    journal_targets(setting, ())

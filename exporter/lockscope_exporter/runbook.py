"""What the shipped runbooks say about a lock in a certain state."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from lockscope_exporter.alerts.options import RUNBOOK_BASE_URL
from lockscope_exporter.shipped import ShippedFileError, folder

if TYPE_CHECKING:
    from lockscope_exporter.state import State

ALERTS: dict[State, str] = {
    "orphaned": "RedisLockOrphaned",
    "no_ttl": "RedisLockNoTTL",
    "stalled": "RedisLockStalled",
    "overdue": "RedisLockHeldTooLong",
}
"""The alert, and so the runbook, of each state that is a finding."""

_SECTION = re.compile(r"^## Mitigation\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r"^- (.*(?:\n  .*)*)", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


class Advice(NamedTuple):
    """What to do about a lock.

    Attributes:
        steps: sentences, in order.
        url: the runbook, empty where there is nothing to mend.
    """

    steps: tuple[str, ...]
    url: str


def advice(state: State, base_url: str = RUNBOOK_BASE_URL) -> Advice:
    """Return what the runbook of a state says.

    Args:
        state: the lock's state.
        base_url: URL of the folder that holds ``<AlertName>.md``.
    """
    name = ALERTS.get(state)
    if name is None:
        return Advice(("nothing looks wrong; whoever waits for it has to wait for its holder",), "")
    try:
        text = (folder("runbooks") / f"{name}.md").read_text(encoding="utf-8")
    except (ShippedFileError, OSError):
        text = ""
    return Advice(mitigation(text), f"{base_url.rstrip('/')}/{name}.md")


def mitigation(text: str) -> tuple[str, ...]:
    """Return the items under "Mitigation" of a runbook in Markdown, as plain sentences."""
    section = _SECTION.search(text)
    items = _ITEM.findall(section[1]) if section else []
    return tuple(_LINK.sub(r"\1", " ".join(item.split())).replace("`", "") for item in items)

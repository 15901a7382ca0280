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

# What the runbook says of waiting for the TTL, and of a shorter one, is no help without any.
_FOR_EVER = (
    "It never frees itself: release it; lockscope checks the exact token again while it does.",
    "Have the code that takes it give it a TTL, and renew, so that a crash cannot make it eternal.",
    "Give workers time to stop (SIGTERM before SIGKILL).",
)
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


def advice(state: State, base_url: str = RUNBOOK_BASE_URL, *, expires: bool = True) -> Advice:
    """Return what the runbook of a state says.

    Args:
        state: the lock's state.
        base_url: URL of the folder that holds ``<AlertName>.md``.
        expires: the lock has a TTL.
    """
    name = ALERTS.get(state)
    if name is None:
        return Advice(("nothing looks wrong; whoever waits for it has to wait for its holder",), "")
    url = f"{base_url.rstrip('/')}/{name}.md"
    if state == "orphaned" and not expires:
        return Advice(_FOR_EVER, url)
    try:
        text = (folder("runbooks") / f"{name}.md").read_text(encoding="utf-8")
    except (ShippedFileError, OSError):
        text = ""
    return Advice(mitigation(text), url)


def mitigation(text: str) -> tuple[str, ...]:
    """Return the items under "Mitigation" of a runbook in Markdown, as plain sentences."""
    section = _SECTION.search(text)
    items = _ITEM.findall(section[1]) if section else []
    return tuple(_LINK.sub(r"\1", " ".join(item.split())).replace("`", "") for item in items)

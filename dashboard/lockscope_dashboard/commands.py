"""Commands to copy and links to follow: what a page shows, elsewhere. Pure functions."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING
from urllib.parse import quote

from lockscope_dashboard import text
from lockscope_exporter.cli.keytext import keys_of
from lockscope_exporter.redis_cli import inspect
from lockscope_exporter.state import LockState
from lockscope_exporter.text import shown_key

if TYPE_CHECKING:
    from lockscope_exporter.redis_url import RedisUrl


_PLACEHOLDER = re.compile(r"\{(key|prefix|host|pid|job_type|job_id)\}")


def of(lock: LockState, url: RedisUrl | None = None) -> list[str]:
    """Return the lines about one lock: what lockscope and Redis say of it, and how to free it.

    Args:
        lock: the lock.
        url: where it is; its password is left out.
    """
    lines = [*_lockscope("why", lock), *inspect(lock, url), *_lockscope("release", lock)]
    return [line for line in lines if line]


def look(key: bytes, node: str = "", db: int = 0) -> str:
    """Return the line that tells whether a key exists on a node."""
    return inspect(LockState(key, "", "generic", "held", (), None, 0.0, node=node, db=db))[0]


def trace(template: str | None, lock: LockState) -> str | None:
    """Return a link to the traces of a lock.

    Args:
        template: an http or https URL in which ``{key}``, ``{prefix}``, ``{host}``, ``{pid}``, ``{job_type}``
            and ``{job_id}`` stand for what is known of the lock, such as a search for its span attributes.
        lock: the lock.

    Returns:
        The link, or ``None`` without a template that is such a URL.
    """
    if not template or not template.startswith(("http://", "https://")):
        return None
    holder = lock.holder
    values = {
        "key": text.cut(shown_key(lock.key), 400),
        "prefix": lock.prefix,
        "host": (holder and holder.host) or "",
        "pid": str((holder and holder.pid) or ""),
        "job_type": (holder and holder.job_type) or "",
        "job_id": (holder and holder.job_id) or "",
    }
    return _PLACEHOLDER.sub(
        lambda found: quote(values[found[1]].encode("utf-8", "replace"), safe=""), template
    )


def _lockscope(command: str, lock: LockState) -> list[str]:
    """Return a ``lockscope`` line, or none where the key cannot be an argument that leads back to it."""
    name = shown_key(lock.key)
    if lock.key not in keys_of(name):
        return []
    field = [] if lock.field is None else ["--field", shown_key(lock.field)]
    end = ["--"] if name.startswith("-") else []
    return [shlex.join(["lockscope", command, *field, *end, name])]

"""Commands to copy and links to follow: what a page shows, elsewhere. Pure functions."""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from lockscope import globs
from lockscope_dashboard import text
from lockscope_exporter.redis_cli import inspect, lockscope
from lockscope_exporter.redis_url import parse_redis_url
from lockscope_exporter.state import LockState
from lockscope_exporter.text import shown_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockscope_exporter.targets import Target

LONGEST: Final = 2000  # bytes of a key in a line to copy
_PLACEHOLDER = re.compile(r"\{(key|prefix|host|pid|job_type|job_id)\}")


def of(lock: LockState, targets: Sequence[Target], targets_file: str = "") -> list[str]:
    """Return the lines about one lock: what lockscope and Redis say of it, and how to free it.

    Args:
        lock: the lock.
        targets: what is sampled.
        targets_file: the file that names the targets, empty where there is none.

    Returns:
        Shell lines that reach the very server and database. No password is among them: where one is needed, a
        comment comes first that says how to hand it over. A key too long for a line to copy leaves a comment.
    """
    where = _where(lock.target, targets)
    if len(lock.key) + len(lock.field or b"") > LONGEST:
        return [f"# a key of {len(lock.key):,} bytes is too long for a line to copy"]
    return [
        *_secrets(where, named=bool(targets_file)),
        *_lockscope("why", lock, where, targets_file),
        *_redis(lock, where),
        *_lockscope("release", lock, where, targets_file),
    ]


def look(
    key: bytes, db: int | None, target: str, targets: Sequence[Target], targets_file: str = ""
) -> list[str]:
    """Return the lines that tell what is known of a key that is not held.

    Args:
        key: its exact bytes.
        db: database number, the first watched one if not given.
        target: name of its target, empty for any.
        targets: what is sampled.
        targets_file: the file that names the targets, empty where there is none.
    """
    if targets_file and not target and len({one.quorum_group or one.name for one in targets}) > 1:
        lock = LockState(key, "", "generic", "held", (), None, 0.0, db=0 if db is None else db)
        chosen_db = [] if db is None else ["--db", str(db)]
        return _with("why", ["--targets", targets_file, *chosen_db], lockscope("why", lock))
    first = _where(target, targets)[0]
    url = parse_redis_url(first.url)
    chosen = (first.dbs or (url.db,))[0] if db is None else db
    alone = url.kind == "standalone"  # which node of a cluster it would be is known only while it is held
    name = target if target in (first.name, first.quorum_group) else first.quorum_group or first.name
    lock = LockState(key, "", "generic", "held", (), None, 0.0, db=chosen, target=name)
    lines = of(lock._replace(node=url.node) if alone else lock, targets, targets_file)
    wanted = ("#", "lockscope why", "redis-cli", "printf") if alone else ("#", "lockscope why")
    return [line for line in lines if line.startswith(wanted)]


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


def _where(name: str, targets: Sequence[Target]) -> list[Target]:
    """Return the target of a name or the members of a Redlock group, the first target if there is neither."""
    return [one for one in targets if name in (one.name, one.quorum_group)] or list(targets[:1])


def _redis(lock: LockState, where: Sequence[Target]) -> list[str]:
    """Return ``redis-cli`` lines for the server that has the lock, or for each that has a copy."""
    if len(where) == 1:
        return inspect(lock, parse_redis_url(where[0].url))
    urls = [parse_redis_url(one.url) for one in where]
    return [line for url in urls for line in inspect(lock._replace(node=url.node), url)]


def _lockscope(command: str, lock: LockState, where: Sequence[Target], targets_file: str) -> list[str]:
    """Return a ``lockscope`` line, or none where the key cannot be an argument that leads back to it."""
    first = where[0]
    options = ["--targets", targets_file] if targets_file else []
    if lock.db != parse_redis_url(first.url).db:
        options += ["--db", str(lock.db)]
    named = next((one for one in first.patterns if globs.matches(one.glob, lock.key)), None)
    if named is not None and named.dialect and not targets_file:
        options += ["--locks", f"{os.fsdecode(named.glob)}={named.dialect}"]
    return _with(command, options, lockscope(command, lock, first.url, lock.target if targets_file else None))


def _with(command: str, options: Sequence[str], lines: Sequence[str]) -> list[str]:
    """Return lines of a command with options before those that they have."""
    start = shlex.join(["lockscope", command])
    return [shlex.join(["lockscope", command, *options]) + line.removeprefix(start) for line in lines]


def _secrets(where: Sequence[Target], *, named: bool) -> list[str]:
    """Return the comment that says where passwords come from, if there are any."""
    urls = [parse_redis_url(one.url) for one in where]
    if not any(url.password or url.sentinel_password for url in urls):
        return []
    line = "# the password is left out: redis-cli takes it from REDISCLI_AUTH"
    return [line if named else f"{line}, lockscope from the URL in LOCKSCOPE_REDIS_URL"]

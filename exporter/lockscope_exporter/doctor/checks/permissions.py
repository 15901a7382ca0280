"""What this user may not do, and what lockscope cannot see because of that. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockscope_exporter.doctor.finding import Finding
from lockscope_exporter.doctor.probe import OPTIONAL
from lockscope_exporter.permissions import COMMANDS, NOTIFICATION_COMMANDS, acl_rule
from lockscope_exporter.text import shown, shown_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockscope_exporter.doctor.evidence import Evidence, ServerEvidence
    from lockscope_exporter.doctor.finding import Severity

# Of these one is enough: newer servers have the first.
_INSTEAD = {"pttl": "pexpiretime", "pexpiretime": "pttl", "eval": "eval_ro", "eval_ro": "eval"}
_ESSENTIAL = frozenset({"scan", "type", "mget"})


def commands(evidence: Evidence) -> Iterator[Finding]:
    """May this user run everything that lockscope runs?"""
    for server in evidence.servers:
        if server.error or not server.commands:
            continue
        missing = [name for name in COMMANDS if _missing(server, name)]
        for name in missing:
            severity: Severity = "critical" if name in _ESSENTIAL else "warning"
            text = f'the user may not run "{name}" (wanted: {COMMANDS[name]})'
            yield Finding("permissions", severity, text, _rule(server), server.where, {"command": name})
        for name, why in NOTIFICATION_COMMANDS.items():
            if server.commands.get(name) == "denied":
                text = f'the user may not run "{name}" (would help: {why})'
                yield Finding("permissions", "note", text, "", server.where, {"command": name})
        for name, feature in OPTIONAL.items():
            if server.commands.get(name) == "denied":
                text = f'the user may not run "{name}", which only {feature} needs'
                yield Finding("permissions", "note", text, "", server.where, {"command": name})
        if not missing:
            who = f"user {shown(server.user, 40)}" if server.user else "the user"
            yield Finding("permissions", "ok", f"{who} may run every command needed", "", server.where)


def keys(evidence: Evidence) -> Iterator[Finding]:
    """May this user read the keys that are watched?"""
    for server in evidence.servers:
        for glob, answer in server.patterns.items():
            if answer == "denied":
                text = f"the user may not read keys of {shown_key(glob, 60)}: locks there are not seen"
                data = {"pattern": shown_key(glob, 200)}
                yield Finding("permissions", "warning", text, _rule(server), server.where, data)


def _missing(server: ServerEvidence, name: str) -> bool:
    if server.commands.get(name) != "denied":
        return False
    return server.commands.get(_INSTEAD.get(name, "")) != "granted"


def _rule(server: ServerEvidence) -> str:
    version = (server.info or {}).get("redis_version", "7").partition(".")[0]
    globs = [shown_key(glob) for glob in server.patterns]
    rule = acl_rule(
        shown(server.user, 40) if server.user not in ("", "default") else "lockscope",
        globs,
        cluster=server.kind == "cluster",
        version=int(version) if version.isdigit() else 7,
    )
    return f"as an administrator: {rule}"

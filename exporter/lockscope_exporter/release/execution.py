"""Carry out a plan: ask for nothing that was not seen, record the attempt first, say what became of it."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import redis
from redis.exceptions import OutOfMemoryError

from lockscope_exporter.evidence import holder_name
from lockscope_exporter.release import audit
from lockscope_exporter.release.gate import OFF
from lockscope_exporter.release.model import ReleaseResult
from lockscope_exporter.release.permissions import refused
from lockscope_exporter.release.server import LOST, run
from lockscope_exporter.release.sight import holders_now

if TYPE_CHECKING:
    from lockscope_exporter.release.audit import Attempt
    from lockscope_exporter.release.model import Client, ReleasePlan
    from lockscope_exporter.state import Holder

_SETTLE = 0.3  # seconds in which a woken waiter or a living holder has the lock again
_LOOK_EVERY = 0.05


def rehearse(client: Client, plan: ReleasePlan, *, force: bool = False) -> ReleaseResult:
    """Look on the server whether a plan could be carried out now; write nothing.

    Args:
        client: where the lock is.
        plan: the plan.
        force: the operator would insist, see ``execute``.

    Returns:
        ``ready``, ``changed``, ``gone``, ``refused``, or ``failed`` where a permission is missing.
    """
    refusal = _refusal(plan, force=force)
    if refusal is not None:
        return refusal
    try:
        return run(client, plan, free=False, strict=not plan.needs_force)
    except LOST as error:
        return ReleaseResult("failed", refused(error, plan))


def execute(
    client: Client,
    plan: ReleasePlan,
    *,
    allow: bool,
    user: str,
    reason: str = "",
    force: bool = False,
    confirm: bytes | None = None,
    settle: float = _SETTLE,
) -> ReleaseResult:
    """Free the very lock that a plan was made of, or say why not. Every attempt leaves an audit record.

    Args:
        client: where the lock is.
        plan: made by ``plan`` from what the operator saw.
        allow: releases are switched on, see ``allowed``.
        user: who wants it.
        reason: why.
        force: free it although its holder may work.
        confirm: the key that the operator typed; needed with ``force``.
        settle: seconds to watch whether the lock is taken again.

    Returns:
        What came of it; nothing is raised for what Redis says or does not say.
    """
    forced = force and bool(plan.needs_force)
    by = audit.attempt(user, reason, forced=forced)
    if not allow:
        audit.log(plan, by, "refused", OFF)  # while it is off, not even the stream is written to
        return ReleaseResult("refused", OFF)
    refusal = _refusal(plan, force=force)
    if refusal is None and plan.needs_force and confirm != plan.lock.key:
        refusal = ReleaseResult("refused", "the key that was typed to confirm is not the lock's")
    if refusal is not None:
        return _recorded(client, plan, by, refusal)
    try:
        _announce(client, plan, by)
    except (redis.RedisError, *LOST) as error:
        detail = f"nothing was freed: {refused(error, plan, 'xadd')}, so the attempt cannot be recorded"
        audit.log(plan, by, "failed", detail)
        return ReleaseResult("failed", detail)
    try:
        result = run(client, plan, free=True, strict=not forced)
    except LOST as error:
        result = ReleaseResult("unknown", f"{refused(error, plan)}; whether it was freed is not known")
    if result.freed:
        result = _watched(client, plan, result, settle)
    return _recorded(client, plan, by, result)


def _refusal(plan: ReleasePlan, *, force: bool) -> ReleaseResult | None:
    if plan.blocked is not None:
        return ReleaseResult(plan.blocked.outcome, plan.blocked.reason)
    if plan.needs_force and not force:
        return ReleaseResult("refused", plan.needs_force)
    return None


def _announce(client: Client, plan: ReleasePlan, by: Attempt) -> None:
    """Record that somebody is about to free a lock."""
    with suppress(OutOfMemoryError):  # a full server is a reason to free locks; the log has the attempt
        audit.write(client, plan, by, "attempted", "")
    audit.log(plan, by, "attempted", "")


def _recorded(client: Client, plan: ReleasePlan, by: Attempt, result: ReleaseResult) -> ReleaseResult:
    """Write what came of an attempt to log and stream; a stream that cannot be written is a warning."""
    audit.log(plan, by, result.outcome, result.detail)
    try:
        return replace(result, audit_id=audit.write(client, plan, by, result.outcome, result.detail))
    except (redis.RedisError, *LOST) as error:
        warning = f"the audit entry could not be written: {refused(error, plan, 'xadd')}"
        return replace(result, warnings=(*result.warnings, warning))


def _watched(client: Client, plan: ReleasePlan, result: ReleaseResult, settle: float) -> ReleaseResult:
    """Watch for a moment whether the lock that was just freed is held again."""
    end = time.monotonic() + settle
    while True:
        try:
            holders = holders_now(client, plan.lock)
        except LOST:
            return result
        taken = None if holders is None else _taken(plan, holders)
        if taken is not None:
            detail = f"{result.detail}, and {taken}"
            return replace(result, outcome="resurrected", detail=detail, holders=holders or ())
        if time.monotonic() >= end:
            return result
        time.sleep(_LOOK_EVERY)


def _taken(plan: ReleasePlan, holders: tuple[Holder, ...]) -> str | None:
    """Say who has a lock again that was freed; ``None`` if only those have it who shared it before."""
    there = {holder.token for holder in holders}
    before = {holder.token for holder in plan.lock.holders}
    back = next((holder for holder in plan.holders if holder.token in there), None)
    if back is not None and not plan.weak:
        return f"its owner wrote it again at once: {holder_name(back)} lives"
    new = next((holder for holder in holders if holder.token not in before), None)
    if new is not None:
        return f"{holder_name(new)} took it at once"
    return "somebody took it at once" if plan.weak or not holders else None

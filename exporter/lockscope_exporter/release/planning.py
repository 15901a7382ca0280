"""From a lock as it was seen to the way of freeing it: what to check, to do, and what is against it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockscope.tokens import fingerprint
from lockscope_exporter.dialects import Release, dialect, form_of
from lockscope_exporter.dialects.model import REDLOCK_RELEASE
from lockscope_exporter.dialects.shapes import deadline_in_value
from lockscope_exporter.evidence import holder_name
from lockscope_exporter.release.model import NEVER, Blocked, ReleasePlan, WakeUp
from lockscope_exporter.text import shown_key

if TYPE_CHECKING:
    from lockscope_exporter.dialects import Form
    from lockscope_exporter.state import Holder, LockState

_WIDEST = 120  # characters of a key in a sentence
_LISTED = 5
_FAIR_QUEUE = b"redisson_lock_queue:{%b}"


def plan(lock: LockState, token: str | None = None) -> ReleasePlan:
    """Work out how a lock may be freed, from what was seen of it.

    Args:
        lock: the lock as it was seen; its exact bytes go into the plan.
        token: fingerprint of the owner token that is meant, where several hold the lock or to be sure.

    Returns:
        The plan. Nothing is done by it, and it frees nothing but the very lock that was seen.
    """
    form = form_of(lock.dialect, lock.key, lock.type)
    way = form.release if form is not None else Release.NONE
    name = shown_key(lock.key, _WIDEST)
    if form is None or way is Release.NONE:
        reason = f"{lock.dialect} locks cannot be freed from outside. {dialect(lock.dialect).release}"
        return ReleasePlan(lock, Release.NONE, lock.holders, blocked=Blocked("refused", reason))
    chosen = _chosen(lock, token, way)
    if isinstance(chosen, Blocked):
        return ReleasePlan(lock, way, lock.holders, blocked=chosen)
    wake = _wake(form, lock.key)
    weak = lock.weak_owner or not lock.holders or way is Release.HASH_FIELD
    return ReleasePlan(
        lock=lock,
        way=way,
        holders=chosen,
        expires_ms=_expires(lock, form),
        wake=wake,
        must_be_absent=_fair_queue(lock.key) if way is Release.REDISSON_HASH else None,
        markers=form.markers,
        weak=weak,
        steps=_steps(lock, form, chosen, wake, name),
        warnings=_warnings(lock, weak=weak),
        needs_force=_doubt(lock, chosen, weak=weak),
    )


def exact_token(lock: LockState) -> bytes:
    """Return the bytes that a string lock must still hold."""
    return lock.value if lock.value is not None else b"".join(holder.token for holder in lock.holders[:1])


def _chosen(lock: LockState, token: str | None, way: Release) -> tuple[Holder, ...] | Blocked:
    """Return the holders whose hold is to end."""
    holders = lock.holders
    if token is not None:
        meant = tuple(holder for holder in holders if holder.fingerprint == token.strip().lower())
        unnamed = not holders and lock.value is not None and fingerprint(lock.value) == token.strip().lower()
        if not meant and not unnamed:
            owners = ", ".join(map(_owner, holders[:_LISTED])) or "nobody by name"
            return Blocked(
                "changed", f"token {shown_key(token.encode(), 16)} does not hold it: {owners} does"
            )
        holders = meant
    if way is Release.ZSET_MEMBER and len(holders) > 1 and not _all_gone(holders):
        owners = ", ".join(map(_owner, holders[:_LISTED]))
        more = f" and {len(holders) - _LISTED} more" if len(holders) > _LISTED else ""
        return Blocked(
            "refused", f"{len(holders)} hold it; say whose hold to end by its token: {owners}{more}"
        )
    if way is Release.REDISSON_HASH:
        holders = lock.holders  # the hash goes as a whole, so all of them must be as seen
    return holders


def _owner(holder: Holder) -> str:
    gone = {"gone": ", gone", "alive": ", alive", "unknown": ""}[holder.alive]
    return f"{holder.fingerprint} ({holder_name(holder)}{gone})"


def _all_gone(holders: tuple[Holder, ...]) -> bool:
    return bool(holders) and all(holder.alive == "gone" for holder in holders)


def _expires(lock: LockState, form: Form) -> int | None:
    """Return the key's expiry as it was seen, where a later one would mean that the holder lives."""
    if form.shape is deadline_in_value or form.release in (Release.HASH_FIELD, Release.ZSET_MEMBER):
        return None  # the value carries it, the key is shared, or every member has an end of its own
    if lock.ttl_seconds is None:
        return NEVER
    return round((lock.sampled_at + lock.ttl_seconds) * 1000)


def _wake(form: Form, key: bytes) -> WakeUp | None:
    wake = form.wake
    if wake is None:
        return None
    return WakeUp(wake.how, wake.where(key), wake.message, wake.reset, wake.ttl_ms)


def _fair_queue(key: bytes) -> bytes:
    """Return the list of waiters that only a fair lock has, named as Redisson names it."""
    return b"redisson_lock_queue:%b" % key if b"{" in key else _FAIR_QUEUE % key


def _steps(
    lock: LockState, form: Form, holders: tuple[Holder, ...], wake: WakeUp | None, name: str
) -> tuple[str, ...]:
    owners = ", ".join(holder.fingerprint for holder in holders)
    if form.release is Release.ZSET_MEMBER:
        what = f"remove {owners} from the sorted set {name} if it is still there"
        if form.markers:
            what += f", and {', '.join(shown_key(marker) for marker in form.markers)} with the last holder"
    elif form.release is Release.HASH_FIELD:
        what = f"delete the field {shown_key(lock.field or b'', _WIDEST)} of the hash {name}"
    elif form.release is Release.REDISSON_HASH:
        what = f"delete the hash {name} if it still holds exactly {owners}, as often as now"
    else:
        what = f"delete {name} if it still holds the token {owners or fingerprint(exact_token(lock))}"
    steps = [what]
    if wake is not None and wake.how == "push":
        steps.append(f"wake a waiter: push to the list {shown_key(wake.where, _WIDEST)}")
    elif wake is not None:
        steps.append(f"wake the waiters: publish to the channel {shown_key(wake.where, _WIDEST)}")
    return tuple(steps)


def _warnings(lock: LockState, *, weak: bool) -> tuple[str, ...]:
    found = []
    if weak and lock.ttl_seconds is None:
        found.append("its bytes name no owner, so a lock that somebody takes meanwhile would look the same")
    elif weak:
        found.append(
            "its bytes name no owner; only its expiry tells it from a lock that somebody takes meanwhile"
        )
    if dialect(lock.dialect).release == REDLOCK_RELEASE:
        found.append("this is one copy of a Redlock: free the copies on the other servers too")
    return tuple(found)


def _doubt(lock: LockState, holders: tuple[Holder, ...], *, weak: bool) -> str:
    """Say why nobody should free this lock without thinking twice; empty if its holders are gone for sure."""
    if not holders:
        return "its format names no holder, so nothing tells whether someone works under it"
    alive = [holder for holder in holders if holder.alive == "alive"]
    if alive:
        return f"{holder_name(alive[0])} holds it and lives"
    unknown = [holder for holder in holders if holder.alive != "gone"]
    if unknown:
        kept = {"no_ttl": "it has no expiry, but ", "stalled": "it is no longer renewed, but "}
        kept["overdue"] = "it is held for longer than expected, but "
        return f"{kept.get(lock.state, '')}nothing proves that {holder_name(unknown[0])} is gone"
    return "its owner value is shared by others" if weak else ""

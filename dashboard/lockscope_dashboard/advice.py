"""The verdict on a lock in one sentence; the runbooks say what to do. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockscope_exporter.moments import span

if TYPE_CHECKING:
    from lockscope_exporter.state import LockState


def advise(lock: LockState) -> str:
    """Say what the state of a lock means for whoever waits for it."""
    rest = "" if lock.ttl_seconds is None else span(lock.ttl_seconds)
    if lock.state == "orphaned":
        free = f"It frees itself in {rest}." if rest else "It has no expiry, so it never frees itself."
        return f"The holder is gone, nobody works under this lock any more. {free}"
    if lock.state == "no_ttl":
        return "This lock has no expiry and will never free itself."
    if lock.state == "stalled":
        out = f" It runs out in {rest}." if rest else ""
        return f"The holder has stopped renewing; if it still works, it will soon work without its lock.{out}"
    if lock.state == "overdue":
        usual = "" if lock.expected_hold_seconds is None else span(lock.expected_hold_seconds)
        return (
            f"Held for longer than usual{f' ({usual})' if usual else ''}: the holder may be slow, or stuck."
        )
    out = f" It frees itself in {rest} unless it is renewed." if rest else ""
    return f"Nothing looks wrong with this lock.{out}"

"""What an idempotency key holds in Redis, and the scripts that change it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockscope import runtime, tokens

if TYPE_CHECKING:
    from lockscope.jobs import Job
    from lockscope.tokens import Owner

_RUNNING = b"ls1;"
DONE = b"ls1done;"
"""What the key begins with once the work is done: nobody holds anything any more."""

# Marks the key as running with ARGV[1] for ARGV[2] ms unless it holds something; returns what it holds. Our
# own mark is no obstacle: a client that lost the first answer may send the same call again.
BEGIN = """
local there = redis.call('GET', KEYS[1])
if there and there ~= ARGV[1] then return there end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return false
"""
# Turns our mark ARGV[1] into the finished one ARGV[2] for ARGV[3] ms. 1: done; 2: done, but our mark had
# expired; 0: another run's mark is there, and stays.
COMPLETE = """
local there = redis.call('GET', KEYS[1])
if there and there ~= ARGV[1] and there ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
if there then return 1 end
return 2
"""
# Removes our mark ARGV[1], so that the work may be tried again.
FORGET = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""


@dataclass(frozen=True, slots=True)
class Marker:
    """What an idempotency key holds.

    Attributes:
        done: the work was done; otherwise it is running, or the key holds something else.
        owner: who does it or did it, as far as the marker tells.
        payload: the stored result, ``None`` if none was stored.
    """

    done: bool
    owner: Owner | None
    payload: bytes | None


def running(job: Job, started_at: float) -> bytes:
    """Return a fresh mark of a run: an owner token, so that the holder can be told from the key."""
    # Presence is announced by locks only, so the absence of this process need not mean anything.
    if runtime.describe_owner:
        return tokens.describe(job, started_at, ";p=0")
    return b"%sn=%032x" % (_RUNNING, tokens.process.random.getrandbits(128))


def done(mark: bytes, payload: bytes | None) -> bytes:
    """Return the mark that follows ``mark`` once the work is done, with the result's bytes if any."""
    finished = DONE + mark.removeprefix(_RUNNING)
    return finished if payload is None else finished + b"\n" + payload


def read(value: Any) -> Marker:
    """Read what a key holds, as bytes or as text from a client that decodes."""
    raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)
    if not raw.startswith(DONE):
        return Marker(False, tokens.parse(raw), None)
    head, stored, payload = raw.removeprefix(DONE).partition(b"\n")
    return Marker(True, tokens.parse(_RUNNING + head), payload if stored else None)

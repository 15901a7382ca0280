"""The script that frees a lock: it looks again at everything that was seen, then acts, in one step.

One text for all dialects, since Redis caches scripts for ever. It writes nothing unless the lock is the very
one that was seen; waiters are woken before the delete, so that a server which refuses either changes no lock.
Nobody runs between the two. The answer is a list: ``freed`` or ``same`` (a rehearsal) and the number of
listeners reached, ``gone``, ``changed`` and what changed, or ``denied``, the command and the server's error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lockscope.presence import CHANNEL
from lockscope_exporter.dialects import Release
from lockscope_exporter.release.planning import exact_token

if TYPE_CHECKING:
    from collections.abc import Collection

    from lockscope_exporter.release.model import ReleasePlan

JITTER_MS = 50  # by which relative looks at one expiry (PTTL, before Redis 7.0) may differ

SCRIPT = b"""
local key = KEYS[1]
local position = 0
local function take()
  position = position + 1
  return ARGV[position]
end
local function list()
  local items = {}
  for index = 1, tonumber(take()) do items[index] = take() end
  return items
end

local free, way, kind, expires, jitter = take() == 'free', take(), take(), take(), tonumber(take())
local channels, tokens, details, markers = list(), list(), list(), list()
local wake, where, message, reset, ttl = take(), take(), take(), take(), take()
local absent, signal = take(), take()

local function run(...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then error({'denied', (...), answer.err}) end
  return answer
end

local function now()
  local time = run('TIME')
  return time[1] + time[2] / 1e6
end

-- Scores are epoch seconds, milliseconds, microseconds or nanoseconds.
local function seconds(score)
  score = tonumber(score)
  while score >= 1e10 and score < 1e300 do score = score / 1000 end
  return score
end

local function prolonged()
  if expires == '' then return nil end
  local ends, slack = redis.pcall('PEXPIRETIME', key), 1
  if type(ends) ~= 'number' then
    ends, slack = run('PTTL', key), jitter
    if ends >= 0 then ends = now() * 1000 + ends end
  end
  local seen = tonumber(expires)
  if seen < 0 then return ends >= 0 and 'expiry' or nil end
  if ends < 0 then return 'persisted' end
  if ends > seen + slack then return 'renewed' end
  if ends < seen - slack then return 'expiry' end
  return nil
end

local function live_members()
  local members, found = run('ZRANGE', key, 0, 1023, 'WITHSCORES'), 0
  local ignored, time = {}, now()
  for _, marker in ipairs(markers) do ignored[marker] = true end
  for index = 1, #members, 2 do
    if not ignored[members[index]] and seconds(members[index + 1]) > time then found = found + 1 end
  end
  return found
end

local same = {}

function same.string()
  if run('GETRANGE', key, 0, #tokens[1]) ~= tokens[1] then return 'owner' end
  return nil
end

function same.hash()
  if absent ~= '' and run('EXISTS', absent) == 1 then return 'queue' end
  if run('HLEN', key) ~= #tokens then return 'owner' end
  for index, token in ipairs(tokens) do
    local count = run('HGET', key, token)
    if not count then return 'owner' end
    if details[index] ~= '' and count ~= details[index] then return 'count' end
  end
  return nil
end

function same.field()
  if run('HEXISTS', key, tokens[1]) == 0 then return 'missing' end
  return nil
end

function same.zset()
  for index, token in ipairs(tokens) do
    local score = run('ZSCORE', key, token)
    if not score then return live_members() > 0 and 'owner' or 'missing' end
    if details[index] ~= '' and math.abs(seconds(score) - tonumber(details[index])) > 0.0015 then
      return 'renewed'
    end
  end
  return nil
end

local function waken()
  if wake == 'publish' then
    local reached = run('PUBLISH', where, message)
    local sharded = redis.pcall('SPUBLISH', where, message)
    return type(sharded) == 'number' and reached + sharded or reached
  end
  if wake == 'push' then
    if reset ~= '' then run('DEL', signal) end
    run('LPUSH', signal, message)
    run('LTRIM', signal, 0, 0)
    if ttl ~= '' then run('PEXPIRE', signal, ttl) end
  end
  return -1
end

local function remove()
  if way == 'field' then return run('HDEL', key, tokens[1]) end
  if way ~= 'zset' then return run('DEL', key) end
  run('ZREM', key, unpack(tokens))
  if #markers > 0 and live_members() == 0 then run('ZREM', key, unpack(markers)) end
end

local function main()
  local found = run('TYPE', key).ok
  if found == 'none' then return {'gone'} end
  if found ~= kind then return {'changed', 'type'} end
  local difference = same[way]()
  if difference == 'missing' then return {'gone'} end
  difference = difference or prolonged()
  if difference then return {'changed', difference} end
  for _, channel in ipairs(channels) do
    if run('PUBSUB', 'NUMSUB', channel)[2] > 0 then return {'changed', 'alive'} end
  end
  if not free then return {'same', -1} end
  local reached = waken()
  remove()
  return {'freed', reached}
end

local fine, answer = pcall(main)
if not fine and type(answer) ~= 'table' then error(answer) end
return answer
"""

_WAYS = {
    Release.COMPARE_AND_DELETE: b"string",
    Release.COMPARE_AND_DELETE_AND_SIGNAL: b"string",
    Release.REDISSON_HASH: b"hash",
    Release.HASH_FIELD: b"field",
    Release.ZSET_MEMBER: b"zset",
}


class Call(NamedTuple):
    """What to give to ``EVAL``."""

    keys: list[bytes]
    arguments: list[bytes]


def call(
    plan: ReleasePlan, *, free: bool, strict: bool, signal_here: bool, silent: Collection[str] = ()
) -> Call:
    """Put a plan into keys and arguments of the script.

    Args:
        plan: a plan that nothing blocks.
        free: free the lock; else only look whether everything is as it was seen.
        strict: the holders must not have prolonged their hold, nor have come back. A lock whose bytes name no
            owner is always checked for that, since nothing else tells it from its successor.
        signal_here: the list that waiters block on may be written in one step with the key.
        silent: workers whose connection is open but has been silent for too long to count.
    """
    keys = [plan.lock.key]
    wake = plan.wake if plan.wake is None or plan.wake.how == "publish" or signal_here else None
    if plan.must_be_absent is not None:
        keys.append(plan.must_be_absent)
    if wake is not None and wake.how == "push":
        keys.append(wake.where)
    check = strict or plan.weak
    workers = {holder.worker for holder in plan.holders if holder.worker is not None} if strict else set()
    tokens, details = _tokens(plan, check=check)
    expires = b"" if plan.expires_ms is None or not check else b"%d" % plan.expires_ms
    channels = [(CHANNEL + worker).encode() for worker in sorted(workers.difference(silent))]
    arguments = [b"free" if free else b"look", _WAYS[plan.way], plan.lock.type.encode(), expires]
    arguments.append(b"%d" % JITTER_MS)
    for items in (channels, tokens, details, plan.markers):
        arguments += [b"%d" % len(items), *items]
    if wake is None:
        arguments += [b""] * 5
    else:
        ttl = b"" if wake.ttl_ms is None else b"%d" % wake.ttl_ms
        arguments += [wake.how.encode(), wake.where, wake.message, b"1" if wake.reset else b"", ttl]
    pushed = wake is not None and wake.how == "push"
    arguments += [plan.must_be_absent or b"", wake.where if wake is not None and pushed else b""]
    return Call(keys, arguments)


def _tokens(plan: ReleasePlan, *, check: bool) -> tuple[list[bytes], list[bytes]]:
    """Return what must still be there, and the count or the end that goes with each."""
    if plan.way is Release.HASH_FIELD:
        return [plan.lock.field or b""], [b""]
    if plan.way is Release.REDISSON_HASH:
        return [one.token for one in plan.holders], [b"%d" % one.count for one in plan.holders]
    if plan.way is Release.ZSET_MEMBER:
        ends = [one.until if check else None for one in plan.holders]
        return [one.token for one in plan.holders], [b"" if end is None else b"%.6f" % end for end in ends]
    return [exact_token(plan.lock)], [b""]

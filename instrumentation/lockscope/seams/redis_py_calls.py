"""How the calls of redis-py's locks are read, and what is told of each. The wrappers are in ``redis_py``."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

from redis.exceptions import LockNotOwnedError, RedisError

from lockscope import runtime, tokens
from lockscope.interrupts import interrupts
from lockscope.prefixes import key_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lockscope.record import Attempt, Lease, Recorder
    from lockscope.tokens import Owner


class Parameters(NamedTuple):
    """How a function that acquires takes its arguments.

    Attributes:
        names: names of its positional parameters, without the lock.
        before_token: how many arguments may be passed by position before the token; -1 if it takes none.
    """

    names: tuple[str, ...]
    before_token: int


SYNC_ACQUIRE = Parameters(("sleep", "blocking", "blocking_timeout", "token"), 3)
ASYNC_ACQUIRE = Parameters(("blocking", "blocking_timeout", "token"), 2)


def parameters_of(acquire: Callable[..., Any], usual: Parameters) -> Parameters:
    """Return how ``acquire`` takes its arguments: a subclass may do so in its own way."""
    try:
        _, *parameters = inspect.signature(acquire).parameters.values()
    except (TypeError, ValueError):
        return usual
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return usual  # it passes on what it is given
    names = tuple(parameter.name for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY)
    if not any(parameter.name == "token" for parameter in parameters):
        return Parameters(names, -1)
    return Parameters(names, names.index("token") if "token" in names else len(names))


def will_wait(lock: Any, given: Mapping[str, Any]) -> bool:
    """Tell whether acquire, called with these arguments, sleeps and tries again after a refusal."""
    blocking, limit, sleep = lock.blocking, lock.blocking_timeout, lock.sleep
    if given:
        blocking = blocking if given.get("blocking") is None else given["blocking"]
        limit = limit if given.get("blocking_timeout") is None else given["blocking_timeout"]
        sleep = sleep if given.get("sleep") is None else given["sleep"]
    return bool(blocking) and (limit is None or limit >= sleep)


def begin(
    recorder: Recorder, lock: Any, parameters: Parameters, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Lease:
    """Begin a call to acquire; pass a token that says who holds the lock, unless the caller passes one."""
    describe = runtime.describe_owner and len(args) <= parameters.before_token and kwargs.get("token") is None
    presence = runtime.announce(lock.redis) if describe else ""
    if runtime.meet is not None:
        runtime.meet(lock.redis)
    lease = recorder.begin(lock, lock.name)
    if args or kwargs:
        lease.given = dict(zip(parameters.names, args, strict=False)) | kwargs
    if describe:
        kwargs["token"] = tokens.describe(lease.job, lease.started_at, presence)
    return lease


def got(lease: Lease, lock: Any) -> None:
    """Note the lease beside the lock's token."""
    local = lock.local
    token, timeout = local.token, lock.timeout
    if type(token) is str:
        token = token.encode()
    local.lockscope_lease = lease.recorder.acquired(
        lease, token, int(timeout * 1000) / 1000 if timeout else None
    )


def _extended(
    recorder: Recorder, _lock: Any, lease: Lease, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    additional = kwargs.get("additional_time", args[0] if args else 0)
    replaces = kwargs.get("replace_ttl", args[1] if len(args) > 1 else False)
    recorder.renewed(lease, int(additional * 1000) / 1000, add=not replaces)


def _reacquired(
    recorder: Recorder, lock: Any, lease: Lease, _args: tuple[Any, ...], _kwargs: dict[str, Any]
) -> None:
    recorder.renewed(lease, int(lock.timeout * 1000) / 1000)


def _renewal_failed(recorder: Recorder, _lock: Any, lease: Lease, error: BaseException) -> None:
    if isinstance(error, LockNotOwnedError):
        recorder.renew_lost(lease)
    else:
        recorder.renew_error(lease, error)


def _released(
    recorder: Recorder, lock: Any, lease: Lease, _args: tuple[Any, ...], _kwargs: dict[str, Any]
) -> None:
    _forget(lock, lease)
    recorder.released(lease)


def _forget(lock: Any, lease: Lease) -> None:
    """Take the lease from the lock, unless another task has taken the lock with the same object by now."""
    if getattr(lock.local, "lockscope_lease", None) is lease:
        lock.local.lockscope_lease = None


def _release_failed(recorder: Recorder, lock: Any, lease: Lease, error: BaseException) -> None:
    ended = getattr(lock.local, "token", None) is None  # a thread that never saw the lock has no token at all
    if ended:
        _forget(lock, lease)
    if isinstance(error, LockNotOwnedError):
        recorder.release_lost(lease)
    else:
        recorder.release_error(lease, error, ended=ended)


def _owner(value: Any) -> Owner | None:
    """Read a token that may have been decoded by the client."""
    if value is None:
        return None
    raw = key_bytes(value) if isinstance(value, str | bytes) else b""  # a callback of the client's made it
    return tokens.parse(raw) or tokens.uuid1_owner(raw) or tokens.Owner()


def _has_waited(lock: Any, attempt: Attempt) -> bool:
    """Tell whether a refused call slept; a subclass with tries of its own hides them."""
    if attempt.generation is not attempt.recorder.generation:
        return attempt.waiting  # observation ended meanwhile, further tries were not seen
    return attempt.attempts > 1 if attempt.attempts else will_wait(lock, attempt.given)


def refused(recorder: Recorder, lock: Any, attempt: Attempt) -> None:
    """Tell of a call that did not get the lock, with who holds it where that is to be read."""
    waited = _has_waited(lock, attempt)
    blocked_by = None
    try:
        if recorder.wants_blocked_by(attempt, waited=waited):
            blocked_by = _owner(lock.redis.get(lock.name))
    except (RedisError, OSError, UnicodeError) as error:  # a courtesy; the refusal stands
        if interrupts(error):
            raise
    finally:
        recorder.refused(attempt, waited=waited, blocked_by=blocked_by)


async def refused_async(recorder: Recorder, lock: Any, attempt: Attempt) -> None:
    """Do the same for an asyncio lock."""
    waited = _has_waited(lock, attempt)
    blocked_by = None
    try:
        if recorder.wants_blocked_by(attempt, waited=waited):
            blocked_by = _owner(await lock.redis.get(lock.name))
    except (RedisError, OSError, UnicodeError) as error:
        if interrupts(error):
            raise
    finally:
        recorder.refused(attempt, waited=waited, blocked_by=blocked_by)


class Operation(NamedTuple):
    """What is told of a call that renews or releases."""

    after: Callable[[Recorder, Any, Lease, tuple[Any, ...], dict[str, Any]], None]
    failed: Callable[[Recorder, Any, Lease, BaseException], None]


def lease_of(recorder: Recorder, lock: Any) -> Lease | None:
    """Return the lease that a call is about, ``None`` if the shim itself fails."""
    try:
        lease: Lease | None = getattr(lock.local, "lockscope_lease", None)
        return recorder.unknown_lease(lock, lock.name) if lease is None else lease
    except Exception:  # noqa: BLE001
        recorder.trouble("seam")
        return None


OPERATIONS = {
    "release": Operation(_released, _release_failed),
    "extend": Operation(_extended, _renewal_failed),
    "reacquire": Operation(_reacquired, _renewal_failed),
}

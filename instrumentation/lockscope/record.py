"""What a seam reports and what becomes of it: attempts and leases of this process, turned into events.

A seam (``lockscope.seams``) knows one library's calls; it tells a ``Recorder`` what began and how it ended.
Nothing here talks to Redis.
"""

from __future__ import annotations

import time
from collections import deque
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

from lockscope import events
from lockscope.events import LockEvent
from lockscope.jobs import Job, current, current_job
from lockscope.prefixes import Prefixes, key_bytes, plain
from lockscope.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from weakref import ref

    from lockscope.emit import Emitter
    from lockscope.tally import Cycle
    from lockscope.tokens import Owner
    from lockscope.traces import Trace

_BLOCKED_BY_EVERY = 1.0  # seconds between two reads of one hot key's holder on refused try-locks
_BLOCKED_BY_KEYS = 1024
_ERROR_TEXT = 300
_FLUSH_AT = 256  # noted acquires and releases that are counted in one go, where the code is warm


class Lease:
    """One call to acquire and, once it got the lock, the lease. Times are ``time.monotonic`` seconds.

    One object serves both, and it has class-level defaults: it is made on the caller's path.

    Attributes:
        lock_id: ``id`` of the lock object whose call this is.
        given: the arguments of the call by name, where it has any.
        started_at: unix time when the call began; ``started`` the same on the monotonic clock.
        attempts: tries against Redis so far; ``trying`` while one is under way.
        waiting: it counts in the waiters gauge.
        acquired: when the lock was had, ``None`` if the acquire was not seen.
        ttl: full length of the current lease in seconds, ``None`` if it never expires or is unknown.
        deadline: when it lapses unless renewed, ``None`` likewise.
        held: it counts in the held gauge.
        lapse_reported_at: until when unprotected time has been reported.
        around: what ``Recorder.around`` returned when the lock was acquired.
    """

    given: Mapping[str, Any] = MappingProxyType({})
    attempts = 0
    trying = False
    waiting = False
    held = False
    token: bytes | None = None
    acquired: float | None = None
    ttl: float | None = None
    deadline: float | None = None
    lapse_reported_at: float | None = None
    around: object = None

    def __init__(self, recorder: Recorder, lock: object, name: bytes | str) -> None:
        self.recorder = recorder
        self.generation = recorder.generation
        self.lock_id = id(lock)
        self.name = name
        self.job = current.get()
        self.started_at = time.time()
        self.started = time.monotonic()

    @property
    def key(self) -> bytes:
        """The full Redis key."""
        return key_bytes(self.name)

    @property
    def prefix(self) -> str:
        """The key's bounded family."""
        return self.recorder.prefixes.of(self.name)

    def __del__(self) -> None:
        # May run inside any allocation of any thread, so it only leaves a note for the next caller.
        if (self.held or self.waiting) and self.generation is self.recorder.generation:
            waited = None if self.held else time.monotonic() - self.started
            self.recorder.abandoned.append((self.name, self.job, waited))


Attempt = Lease  # a call that has not got the lock yet


# The lease whose call this context observes: counts tries, stops double observation. Not owned by it: a
# connection that is opened during an asyncio acquire copies the context and would keep the lease alive.
observing: ContextVar[ref[Lease] | None] = ContextVar("lockscope_observing", default=None)


def observed_lease() -> Lease | None:
    """Return the lease whose call this context observes, ``None`` if there is none."""
    found = observing.get()
    return None if found is None else found()


class Recorder:
    """Turns what seams report into events and keeps the books of this process.

    Args:
        emit: where events go.
        prefixes: names the family of each key.
        read_blocked_by: read who holds a lock that was refused.

    Attributes:
        every_second: called at most once a second, when a lock is taken.
        trace: returns the trace that the caller is in, for exemplars; ``None`` while nobody traces.
        around: returns what a sink wants to remember of the moment when a lock is acquired; every event of
            the lease carries it.
    """

    def __init__(self, emit: Emitter, prefixes: Prefixes, *, read_blocked_by: bool = True) -> None:
        self.emit = emit
        self.prefixes = prefixes
        self.read_blocked_by = read_blocked_by
        self.generation = object()
        self.abandoned: deque[tuple[bytes | str, Job, float | None]] = deque()
        self.every_second: tuple[Callable[[], None], ...] = ()
        self.trace: Callable[[], Trace | None] | None = None
        self.around: Callable[[], object] | None = None
        self._cycles: deque[Cycle] = deque()
        self._look_at = 0.0
        self._asked: dict[bytes, float] = {}

    def forget(self) -> None:
        """Count nothing as held or waiting any more: after a fork, or when observation ends."""
        self.generation = object()  # leases of before no longer count, in this recorder or a later one
        self.flush()
        self.abandoned.clear()
        for sink in self.emit.sinks:
            reset = getattr(sink, "reset", None)
            if reset is not None:
                reset()

    def drain(self) -> None:
        """Report leases whose lock object was dropped, and waits that ended in the middle of the shim."""
        while self.abandoned:
            try:
                name, job, waited = self.abandoned.popleft()
            except IndexError:  # another thread was faster
                return
            key, prefix = key_bytes(name), self.prefixes.of(name)
            at = time.time()
            if waited is None:
                self.emit(LockEvent(events.ABANDONED, key, prefix, at, job, ends_lease=True))
                continue
            gave_up = LockEvent(events.ACQUIRE_TIMEOUT, key, prefix, at, job, "timeout", waited=True)
            self.emit(gave_up._replace(wait_seconds=waited))

    def flush(self) -> None:
        """Count what was noted on the callers' paths so far; scrapes call this first."""
        self.drain()
        if self._cycles and self.emit.tally is not None:
            self.emit.tally.add_cycles(_popped(self._cycles), self.prefixes.of, lambda: self.generation)

    def trouble(self, where: str) -> None:
        """Note that the shim itself failed while it handled an exception: counted, logged once a minute."""
        self.emit.failed(where)

    def begin(self, lock: object, key: bytes | str) -> Attempt:
        """Note that a call to acquire begins; it must end in acquired, refused or acquire_failed."""
        if type(key) is not str and type(key) is not bytes:
            key = plain(key)
        lease = Lease(self, lock, key)
        if lease.started >= self._look_at:
            self._look(lease.started)
        return lease

    def waiting(self, attempt: Attempt) -> None:
        """Note that the first try was refused and the call now waits."""
        if attempt.waiting:
            return
        event = LockEvent(events.WAITING, attempt.key, attempt.prefix, time.time(), attempt.job)
        if attempt.generation is self.generation:  # else observation ended meanwhile: nobody counts it out
            try:
                self.emit(event)
            finally:
                attempt.waiting = True

    def acquired(self, attempt: Attempt, token: bytes | None, ttl: float | None) -> Lease:
        """Note that the call got the lock; the lease goes with the lock object until release."""
        lease = attempt
        lease.acquired = now = time.monotonic()
        lease.token = token
        if ttl is not None:
            lease.ttl = ttl
            lease.deadline = lease.lapse_reported_at = now + ttl
        wait = now - lease.started
        emit = self.emit
        if emit.tally is not None:
            trace = self.trace and self.trace()
            made = lease.generation
            cycle: Cycle = (lease.name, lease.job, wait, lease.waiting, None, None, made, now, trace)
            note = self._cycles.append
            lease.held = True  # nothing can interrupt between this and the note of it
            note(cycle)
            if made is not self.generation:
                self.flush()  # no scrape asks this recorder any more
        else:
            lease.held = True
        if emit.wanted(events.ACQUIRED):
            lease.around = self.around and self.around()
            emit.to_others(
                LockEvent(
                    events.ACQUIRED,
                    lease.key,
                    lease.prefix,
                    lease.started_at,
                    lease.job,
                    "acquired",
                    token,
                    ttl,
                    ttl,
                    wait,
                    attempts=lease.attempts,
                    waited=self._waited(lease),
                    ends_lease=lease.generation is not self.generation,
                    around=lease.around,
                )
            )
        if lease.waiting:
            lease.waiting = False
        return lease

    def refused(self, attempt: Attempt, *, waited: bool, blocked_by: Owner | None = None) -> None:
        """Note that the call did not get the lock: it tried once (``waited`` false) or waited and gave up."""
        self._not_acquired(attempt, waited=waited, blocked_by=blocked_by)

    def acquire_failed(self, attempt: Attempt, error: BaseException, *, gave_up: bool | None = None) -> None:
        """Note that the call raised.

        A failure of the server or the network is an error; being cancelled, interrupted or out of time while
        waiting is giving up. A seam that knows better says so.
        """
        if gave_up is None:
            gave_up = attempt.waiting and not isinstance(error, RedisError | OSError)
        self._not_acquired(attempt, waited=gave_up, error=error)

    def wants_blocked_by(self, attempt: Attempt, *, waited: bool) -> bool:
        """Tell whether to read who holds the refused lock: after a wait always, else once a second a key."""
        if not self.read_blocked_by:
            return False
        if waited:
            return True
        now = time.monotonic()
        if now - self._asked.get(attempt.key, -_BLOCKED_BY_EVERY) < _BLOCKED_BY_EVERY:
            return False
        if len(self._asked) >= _BLOCKED_BY_KEYS:
            self._asked = {}
        self._asked[attempt.key] = now
        return True

    def renewed(self, lease: Lease, ttl: float, *, add: bool = False) -> None:
        """Note a renewal: ``ttl`` seconds from now, or added to what was left."""
        now = time.monotonic()
        left = None if lease.deadline is None else lease.deadline - now
        event = self._renewal(events.RENEWED, "renewed", lease, left)
        length = ttl if not add or left is None else max(left, 0.0) + ttl
        lease.lapse_reported_at = lease.deadline = now + length
        lease.ttl = max(length, 0.0)  # a lease can be cut short by a negative extension
        self.emit(event)

    def renew_lost(self, lease: Lease) -> None:
        """Note that a renewal found the lock expired or somebody else's."""
        now = time.monotonic()
        left = None if lease.deadline is None else lease.deadline - now
        event = self._renewal(events.RENEW_LOST, "lost", lease, left)
        self.emit(
            event._replace(
                unprotected_seconds=self._unprotected(lease, now),
                hold_seconds=None if lease.acquired is None else now - lease.acquired,
                ends_lease=self._end(lease),
            )
        )

    def renew_error(self, lease: Lease, error: BaseException) -> None:
        """Note that a renewal failed without an answer about the lock."""
        left = None if lease.deadline is None else lease.deadline - time.monotonic()
        self.emit(self._renewal(events.RENEW_ERROR, "error", lease, left)._replace(error=error_text(error)))

    def released(self, lease: Lease) -> None:
        """Note a release that freed the lock."""
        emit = self.emit
        held = lease.held
        if emit.tally is not None:
            now = time.monotonic()
            ttl = lease.ttl
            hold = None if lease.acquired is None else now - lease.acquired
            used = None if not ttl or lease.deadline is None else (ttl - lease.deadline + now) / ttl
            made = lease.generation if held else None
            trace = self.trace and self.trace()
            cycle: Cycle = (lease.name, lease.job, None, False, hold, used, made, now, trace)
            note = self._cycles.append
            lease.held = False
            note(cycle)
            if len(self._cycles) >= _FLUSH_AT or lease.generation is not self.generation:
                self.flush()
        if emit.wanted(events.RELEASED):
            ends = held and lease.generation is self.generation
            lease.held = False
            event = self._release(events.RELEASED, "released", lease, time.monotonic(), 0.0, ends=ends)
            emit.to_others(event)
        lease.held = False

    def release_lost(self, lease: Lease) -> None:
        """Note that a release found the lock expired or somebody else's."""
        now = time.monotonic()
        unprotected = self._unprotected(lease, now)
        self.emit(self._release(events.RELEASE_LOST, "lost", lease, now, unprotected, ends=self._end(lease)))

    def release_error(self, lease: Lease, error: BaseException, *, ended: bool) -> None:
        """Note that a release failed; ``ended`` if the library gave the lock up all the same."""
        ends = ended and self._end(lease)
        event = self._release(events.RELEASE_ERROR, "error", lease, time.monotonic(), 0.0, ends=ends)
        self.emit(event._replace(error=error_text(error)))

    def unknown_lease(self, lock: object, key: bytes | str) -> Lease:
        """Return a lease for a lock whose acquire was not seen: nothing is known but its name."""
        return self.begin(lock, key)

    def retried(self, reason: str, key: bytes | str | None = None) -> None:
        """Note that the current job is retried or requeued because of a lock."""
        prefix = self.prefixes.of(key) if key else "none"
        self.emit(
            LockEvent(events.RETRY, key_bytes(key or b""), prefix, time.time(), current_job(), reason=reason)
        )

    def idempotency(self, key: bytes | str, outcome: str, *, error: BaseException | None = None) -> None:
        """Note an idempotency check; a duplicate has an event name of its own."""
        name = events.DUPLICATE if outcome == "duplicate" else events.IDEMPOTENCY
        self.emit(
            LockEvent(
                name,
                key_bytes(key),
                self.prefixes.of(key),
                time.time(),
                current_job(),
                outcome,
                error="" if error is None else error_text(error),
            )
        )

    def _look(self, now: float) -> None:
        """Do what is due once a second while locks are taken."""
        self._look_at = now + 1.0
        self.drain()
        for work in self.every_second:
            try:
                work()
            except Exception:  # noqa: BLE001 - it is the caller's lock that comes first
                self.trouble("every_second")

    def _not_acquired(
        self,
        attempt: Attempt,
        *,
        waited: bool,
        blocked_by: Owner | None = None,
        error: BaseException | None = None,
    ) -> None:
        if waited:
            name, outcome = events.ACQUIRE_TIMEOUT, "timeout"
        elif error is not None:
            name, outcome = events.ACQUIRE_ERROR, "error"
        else:
            name, outcome = events.CONTENDED, "contended"
        event = LockEvent(
            name,
            attempt.key,
            attempt.prefix,
            attempt.started_at,
            attempt.job,
            outcome,
            wait_seconds=time.monotonic() - attempt.started,
            attempts=attempt.attempts,
            waited=self._waited(attempt),
            blocked_by=blocked_by,
            error="" if error is None else error_text(error),
        )
        attempt.waiting = False
        self.emit(event)

    def _renewal(self, name: str, outcome: str, lease: Lease, left: float | None) -> LockEvent:
        return LockEvent(
            name,
            lease.key,
            lease.prefix,
            time.time(),
            lease.job,
            outcome,
            lease.token,
            lease.ttl,
            left,
            around=lease.around,
        )

    def _release(
        self, name: str, outcome: str, lease: Lease, now: float, unprotected: float, *, ends: bool
    ) -> LockEvent:
        return LockEvent(
            name,
            lease.key,
            lease.prefix,
            time.time(),
            lease.job,
            outcome,
            lease.token,
            lease.ttl,
            None if lease.deadline is None else lease.deadline - now,
            hold_seconds=None if lease.acquired is None else now - lease.acquired,
            unprotected_seconds=unprotected,
            ends_lease=ends,
            around=lease.around,
        )

    def _unprotected(self, lease: Lease, now: float) -> float:
        """Return seconds worked past the deadline that were not reported yet, and mark them reported."""
        if lease.lapse_reported_at is None or now <= lease.lapse_reported_at:
            return 0.0
        seconds = now - lease.lapse_reported_at
        lease.lapse_reported_at = now
        return seconds

    def _waited(self, attempt: Attempt) -> bool:
        """Tell whether the call was counted as waiting and is to be counted out."""
        return attempt.waiting and attempt.generation is self.generation

    def _end(self, lease: Lease) -> bool:
        """Stop counting the lease as held; tell whether it was."""
        was_held = lease.held and lease.generation is self.generation
        lease.held = False
        return was_held


def _popped(cycles: deque[Cycle]) -> Iterator[Cycle]:
    """Take from the left until nothing is left; other threads may append and take meanwhile."""
    while cycles:
        try:
            yield cycles.popleft()
        except IndexError:
            return


def error_text(error: BaseException) -> str:
    """Return type and text of an exception on one bounded line."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - an exception may be as broken as what it tells of
        said = "(no text)"
    return printable(" ".join(f"{type(error).__name__}: {said}".split()), _ERROR_TEXT)

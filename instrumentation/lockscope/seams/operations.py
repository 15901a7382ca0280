"""One observed call of a further lock library: what is reported of it, from before it until its outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

from lockscope import tokens

if TYPE_CHECKING:
    from lockscope.record import Lease, Recorder
    from lockscope.seams.library import Call, Library
    from lockscope.tokens import Owner


class Operation:
    """One observed call, from before it until its outcome is reported."""

    def __init__(self, library: Library, recorder: Recorder, call: Call) -> None:
        self.library = library
        self.recorder = recorder
        self.call = call
        self.lease = self.begin()

    def begin(self) -> Lease:
        """Return the lease that the call is about."""
        lease = self.library.kept(self.call)
        if lease is None:
            lease = self.recorder.unknown_lease(self.call.lock, self.library.key(self.call))
        return lease

    def raised(self, error: BaseException) -> bool:
        """Report that the call raised; return true if the holder is to be read first."""
        raise NotImplementedError

    def returned(self, result: Any) -> bool:
        """Report that the call returned; return true if the holder is to be read first."""
        raise NotImplementedError

    def told(self, holder: Any) -> None:
        """Report the refusal, now that the key was read."""
        self.recorder.refused(self.lease, waited=self.lease.waiting, blocked_by=_owner(holder))

    def not_told(self, error: BaseException) -> None:
        """Report the refusal, though the key could not be read."""
        if self.library.hides_errors and isinstance(error, RedisError | OSError):
            self.recorder.acquire_failed(self.lease, error, gave_up=False)
        else:
            self.recorder.refused(self.lease, waited=self.lease.waiting)


class Acquire(Operation):
    """A call that acquires a lock."""

    def begin(self) -> Lease:
        """Open an attempt."""
        waits = self.library.waits(self.call)
        attempt = self.recorder.begin(self.call.lock, self.library.key(self.call))
        if waits:
            # The library hides its tries, so whoever is ready to wait counts as waiting from the start.
            self.recorder.waiting(attempt)
        return attempt

    def raised(self, error: BaseException) -> bool:
        """Report a refusal or a failure."""
        if self.library.refused(error):
            return self._refused()
        own = type(error).__module__.partition(".")[0] == self.library.package
        self.recorder.acquire_failed(self.lease, error, gave_up=False if own else None)
        return False

    def returned(self, result: Any) -> bool:
        """Report a lease or a refusal."""
        if not self.library.got(self.call, result):
            return self._refused()
        token = self.library.token(self.call, result)
        raw = token.encode() if isinstance(token, str) else token
        lease = self.recorder.acquired(self.lease, raw, self.library.ttl(self.call))
        self.library.keep(self.call, result, lease)
        return False

    def _refused(self) -> bool:
        hidden = self.library.failure(self.call)
        if hidden is not None:
            self.recorder.acquire_failed(self.lease, hidden, gave_up=False)
            return False
        waits = self.lease.waiting
        if self.library.hides_errors or self.recorder.wants_blocked_by(self.lease, waited=waits):
            return True
        self.recorder.refused(self.lease, waited=waits)
        return False


class Renew(Operation):
    """A call that renews a held lock."""

    def raised(self, error: BaseException) -> bool:
        """Report a loss or a failure."""
        if self.library.lost(error):
            self.recorder.renew_lost(self.lease)
        else:
            self.recorder.renew_error(self.lease, error)
        return False

    def returned(self, result: Any) -> bool:
        """Report a renewal or a loss."""
        if self.library.renewal(self.call, self.lease, result) == "lost":
            self.recorder.renew_lost(self.lease)
        else:
            self.recorder.renewed(self.lease, self.library.renewed_ttl(self.call, self.lease) or 0.0)
        return False


class Release(Operation):
    """A call that releases a held lock."""

    def raised(self, error: BaseException) -> bool:
        """Report a loss or a failure."""
        if self.library.lost(error):
            self.recorder.release_lost(self.lease)
            self.library.drop(self.call)
        else:
            self.recorder.release_error(self.lease, error, ended=False)
        return False

    def returned(self, result: Any) -> bool:
        """Report a release or a loss."""
        if self.library.release_lost(self.call, self.lease, result):
            self.recorder.release_lost(self.lease)
        else:
            self.recorder.released(self.lease)
        self.library.drop(self.call)
        return False


def _owner(value: Any) -> Owner | None:
    """Read a token that may have been decoded by the client; nobody if the key is gone by now."""
    if value is None:
        return None
    raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)
    return tokens.parse(raw) or tokens.uuid1_owner(raw) or tokens.Owner()

"""One run of idempotent work: what the block sees of it, and its commands and what their answers mean."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from lockscope import runtime
from lockscope.idempotency import markers
from lockscope.jobs import current_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockscope.tokens import Owner

_log = logging.getLogger("lockscope")


class Run:
    """One entry into an ``idempotent`` block; true in an ``if`` when the work is to be done.

    Attributes:
        key: the Redis key.
        outcome: ``first``, ``duplicate`` (done already) or ``in_progress`` (another run is at it, or died
            less than ``running_ttl`` ago).
        owner: who did it or is at it, as far as known; ``None`` for ``first``.
        stored: a result is stored with the marker.
    """

    def __init__(self, key: str, loads: Callable[[bytes], Any]) -> None:
        self.key = key
        self.outcome = "first"
        self.owner: Owner | None = None
        self.stored = False
        self._loads = loads
        self._payload: bytes | None = None
        self._result: Any = None

    def __bool__(self) -> bool:
        return self.first

    def __repr__(self) -> str:
        return f"<Run {self.key!r} {self.outcome}>"

    @property
    def first(self) -> bool:
        """The work is to be done now."""
        return self.outcome == "first"

    @property
    def duplicate(self) -> bool:
        """The work was done already."""
        return self.outcome == "duplicate"

    @property
    def in_progress(self) -> bool:
        """Another run is at it."""
        return self.outcome == "in_progress"

    @property
    def result(self) -> Any:
        """The stored result of a duplicate, or ``None``; set it in a first run to store one."""
        if self._payload is not None:
            self._result, self._payload = self._loads(self._payload), None
        return self._result

    @result.setter
    def result(self, value: Any) -> None:
        self._result = value
        self.stored = True

    def found(self, value: Any) -> None:
        """Take over what the key held."""
        marker = markers.read(value)
        self.outcome = "duplicate" if marker.done else "in_progress"
        self.owner = marker.owner
        self._payload = marker.payload
        self.stored = marker.payload is not None


class Marking:
    """The commands of one run and what their answers mean; sends nothing itself."""

    def __init__(self, run: Run, ttl_ms: int, running_ms: int, dumps: Callable[[Any], bytes | str]) -> None:
        self.run = run
        self._ttl_ms = ttl_ms
        self._running_ms = running_ms
        self._dumps = dumps
        self._mark = markers.running(current_job(), time.time())
        self._problem: Exception | None = None

    def begin(self) -> tuple[Any, ...]:
        """Return the arguments of ``EVAL`` that begin the run."""
        return markers.BEGIN, 1, self.run.key, self._mark, self._running_ms

    def begun(self, answer: Any) -> Run:
        """Read the answer to ``begin``."""
        if answer is not None:
            self.run.found(answer)
        _count(self.run.key, self.run.outcome)
        return self.run

    def not_begun(self, error: BaseException) -> None:
        """Take note that ``begin`` failed."""
        _count(self.run.key, "error", error)

    def forget(self) -> tuple[Any, ...]:
        """Return the arguments of ``EVAL`` that take the run's own mark away, if it is there."""
        return markers.FORGET, 1, self.run.key, self._mark

    def not_forgotten(self, error: BaseException) -> None:
        """Take note that nobody knows whether a run that was not begun left its mark."""
        _log.warning(
            "idempotency marker %r may stay for up to %g s although the work was not begun: %r",
            self.run.key,
            self._running_ms / 1000,
            error,
        )

    def end(self, error: BaseException | None) -> tuple[Any, ...]:
        """Return the arguments of ``EVAL`` that end the run, which raised ``error``."""
        if error is not None:
            return self.forget()
        payload = None
        if self.run.stored:
            try:
                dumped = self._dumps(self.run.result)
                payload = dumped.encode() if isinstance(dumped, str) else bytes(dumped)
            except Exception as problem:  # noqa: BLE001 - raised once the work is marked as done
                self._problem = problem
        return markers.COMPLETE, 1, self.run.key, self._mark, markers.done(self._mark, payload), self._ttl_ms

    def ended(self, answer: Any, error: BaseException | None) -> None:
        """Read the answer to ``end``; raise what was wrong with the result."""
        if error is None and answer != 1:
            what = "another run had begun" if answer == 0 else "nobody had begun again"
            lapsed = TimeoutError(f"the marker expired before the work was done; {what}")
            _count(self.run.key, "error", lapsed)
        if self._problem is not None:
            raise self._problem

    def not_ended(self, error: BaseException) -> None:
        """Take note that ``end`` failed."""
        _count(self.run.key, "error", error)
        _log.error("idempotency marker %r could not be updated and stays as it is: %r", self.run.key, error)


def _count(key: str, outcome: str, error: BaseException | None = None) -> None:
    recorder = runtime.recorder
    if recorder is not None:
        recorder.idempotency(key, outcome, error=error)

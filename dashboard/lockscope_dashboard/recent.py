"""The last hour for the figures on top, asked of Prometheus in the background: the list never waits."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
EVERY: Final = 10.0  # seconds
PATIENCE: Final = 0.7  # seconds that whoever asks first waits


@dataclass(slots=True)
class Recent(Generic[T]):
    """A value that is found out slowly and shared by all viewers; it is renewed while they look at it.

    Attributes:
        find: finds it out; whatever it raises is raised where it is asked for.
        every: seconds after which it is found out again.
        clock: monotonic seconds.
    """

    find: Callable[[], T]
    every: float = EVERY
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)
    _found: T | None = field(init=False, default=None)
    _error: Exception | None = field(init=False, default=None)
    _due: float = field(init=False, default=float("-inf"))
    _ended: threading.Event | None = field(init=False, default=None)

    def get(self, patience: float = PATIENCE) -> T | None:
        """Return what was found out last, ``None`` if nothing yet.

        Args:
            patience: seconds to wait where nothing was found out yet.
        """
        with self._lock:
            if self._ended is None and self.clock() >= self._due:
                self._ended = threading.Event()
                threading.Thread(target=self._run, name="lockscope-recent", daemon=True).start()
            ended = self._ended
            waiting = ended is not None and self._due == float("-inf")
        if waiting and ended is not None:
            ended.wait(patience)
        with self._lock:
            if self._error is not None:
                raise self._error
            return self._found

    def _run(self) -> None:
        found: T | None = None
        error: Exception | None = None
        try:
            found = self.find()
        except Exception as caught:  # noqa: BLE001 - handed over to whoever asks
            error = caught
        with self._lock:
            self._found, self._error = found, error
            self._due = self.clock() + self.every
            ended, self._ended = self._ended, None
        if ended is not None:
            ended.set()

"""How long locks are expected to be held: configured by the user, else learned from past holds."""

from __future__ import annotations

import logging
import os
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from lockscope.globs import compile_glob
from lockscope_exporter.classify import Expected
from lockscope_exporter.holds import HoldLearner

if TYPE_CHECKING:
    from collections.abc import Mapping

_log = logging.getLogger(__name__)


class Expectations:
    """Expected hold by prefix. Safe between threads.

    Args:
        configured: seconds by prefix glob; the first that is or matches a prefix wins.
        state_file: where what was learned survives a restart; ``None`` for nowhere.
    """

    def __init__(self, configured: Mapping[str, float], state_file: str | None = None) -> None:
        self._configured = dict(configured)
        self._path = None if state_file is None else Path(state_file)
        self._learner = HoldLearner()
        self._guard = threading.Lock()
        self._complained = False

    def of(self, prefix: str, now: float) -> Expected | None:
        """Return what is expected of a prefix, ``None`` while nothing is known.

        Args:
            prefix: the family.
            now: unix time in seconds.
        """
        for glob, seconds in self._configured.items():
            if glob == prefix or compile_glob(glob.encode()).fullmatch(prefix.encode()):
                return Expected(seconds, "configured")
        with self._guard:
            learned = self._learner.expected(prefix, now)
        return None if learned is None else Expected(learned[0], "learned", learned[1])

    def usual(self, prefix: str, now: float) -> float | None:
        """Return what was learned of a prefix, in seconds, whatever is configured."""
        with self._guard:
            learned = self._learner.expected(prefix, now)
        return None if learned is None else learned[0]

    def learn(self, prefix: str, hold: float, now: float) -> None:
        """Take in how long one lock of a prefix was held, in seconds, that ended at ``now``."""
        with self._guard:
            self._learner.observe(prefix, hold, now)

    def load(self, now: float) -> None:
        """Take up what an earlier process learned; a file that cannot be read is set aside with a warning."""
        if self._path is None or not self._path.exists():
            return
        try:
            text = self._path.read_text(encoding="utf-8")
            with self._guard:
                self._learner.loads(text, now)
        except (OSError, ValueError) as error:
            aside = self._path.with_name(self._path.name + ".unreadable")
            _log.warning("state file %s cannot be read (%s); moved to %s", self._path, error, aside)
            try:
                self._path.replace(aside)
            except OSError:
                _log.warning("state file %s cannot be moved either", self._path)

    def save(self, now: float) -> None:
        """Write what was learned, all or nothing; a failure is logged once."""
        if self._path is None:
            return
        with self._guard:
            text = self._learner.dumps(now)
        try:
            _replace(self._path, text)
        except OSError as error:
            if not self._complained:
                _log.warning("state file %s cannot be written: %s", self._path, error)
            self._complained = True
        else:
            self._complained = False


def _replace(path: Path, text: str) -> None:
    """Write a file so that a reader or a crash never sees half of it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".new")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as sink:
            sink.write(text)
            sink.flush()
            os.fsync(sink.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise

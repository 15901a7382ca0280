"""The terminal as watching needs it: a screen of its own, keys one by one, all put back at the end."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import time
import tty
from typing import TYPE_CHECKING, Any, Self

from rich.console import ConsoleDimensions, Group
from rich.live import Live

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from rich.console import Console
    from rich.text import Text

_NAMES = {
    b"\x1b[A": "up", b"\x1bOA": "up", b"\x1b[B": "down", b"\x1bOB": "down", b"\x1b[5~": "page up",
    b"\x1b[6~": "page down", b"\x1b[H": "home", b"\x1bOH": "home", b"\x1b[1~": "home",
}  # fmt: skip
_END = (signal.SIGTERM, signal.SIGHUP)


class Terminal:
    """Shows frames and reads keys; a context manager that leaves the terminal as it found it.

    Args:
        console: a console on a terminal.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = self._new_live()
        self._input: int | None = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None
        self._saved: Any = None
        self._handlers: dict[int, Any] = {}
        self._suspend = False

    def __enter__(self) -> Self:
        """Take the terminal over."""
        for number in _END:
            self._handlers[number] = signal.signal(number, _end)
        self._handlers[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, self._note_suspend)
        self._take()
        return self

    def __exit__(self, *_: object) -> None:
        """Put everything back."""
        self._give_back()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines, as they are now, whatever COLUMNS and LINES were set to at the start."""
        try:
            size = os.get_terminal_size(sys.stdout.fileno())
        except (OSError, ValueError):
            return self._console.size.width, self._console.size.height
        return max(size.columns, 1), max(size.lines, 1)

    def show(self, lines: Sequence[Text]) -> None:
        """Show a frame."""
        if self._suspend:
            self._stop()
        self._console.size = ConsoleDimensions(*self.size)
        for line in lines:
            line.no_wrap = True
        self._live.update(Group(*lines), refresh=True)

    def keys(self, wait: float) -> list[str]:
        """Return the keys that were pressed, after waiting for one for at most so many seconds."""
        if self._input is None:
            time.sleep(wait)
            return []
        ready, _, _ = select.select([self._input], [], [], wait)
        if not ready:
            return []
        read = os.read(self._input, 1024)
        if not read:  # the terminal is gone
            self._input = None
            return ["q"]
        return names_of(read)

    def _new_live(self) -> Live:
        return Live(
            console=self._console,
            screen=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def _take(self) -> None:
        if self._input is not None:
            self._saved = termios.tcgetattr(self._input)
            tty.setcbreak(self._input)
        self._live.start()

    def _give_back(self) -> None:
        self._live.stop()
        if self._input is not None and self._saved is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._input, termios.TCSADRAIN, self._saved)

    def _note_suspend(self, _number: int, _frame: FrameType | None) -> None:
        self._suspend = True

    def _stop(self) -> None:
        """Stop as Ctrl-Z asks, with the terminal in order, and go on when the shell says so."""
        self._suspend = False
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._live = self._new_live()
        self._take()


def names_of(read: bytes) -> list[str]:
    """Return the keys in what a terminal sent."""
    found = []
    rest = read
    while rest:
        sequence = next((one for one in _NAMES if rest.startswith(one)), None)
        if sequence is not None:
            found.append(_NAMES[sequence])
            rest = rest[len(sequence) :]
        else:
            if rest[:1] != b"\x1b":
                found.append(rest[:1].decode("latin-1"))
            rest = rest[1:]
    return found


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)

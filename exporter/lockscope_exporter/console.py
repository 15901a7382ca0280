"""Where commands print: colours on a terminal, plain text elsewhere."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from rich.console import Console

__all__ = ["CommandConsole", "Console", "console"]


class CommandConsole(Console):
    """Leaves it to the command to end when nobody reads its output any more."""

    def on_broken_pipe(self) -> None:
        """Let the error pass."""
        raise BrokenPipeError


def console(file: TextIO | None = None) -> Console:
    """Return a console for stdout: colours on a terminal only, and never with ``NO_COLOR``."""
    file = file or sys.stdout
    return CommandConsole(
        file=file, force_terminal=file.isatty() and os.environ.get("TERM") != "dumb", soft_wrap=True,
        no_color=bool(os.environ.get("NO_COLOR")) or None, markup=False, highlight=False, emoji=False,
    )  # fmt: skip

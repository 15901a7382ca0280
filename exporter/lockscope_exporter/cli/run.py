"""Runs a command and turns every failure into one line on stderr and an exit status."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from lockscope_exporter.cli.errors import FAILED, INTERRUPTED, OK, CommandError
from lockscope_exporter.cli.group import lockscope
from lockscope_exporter.configuration import OptionError
from lockscope_exporter.connect import ConnectError
from lockscope_exporter.redis_url import UrlError
from lockscope_exporter.text import shown

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(arguments: Sequence[str]) -> int:
    """Run one command.

    Args:
        arguments: words after the program's name.

    Returns:
        The exit status.
    """
    try:
        status = lockscope.main(list(arguments), prog_name="lockscope", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of a pipe has seen enough
        _discard_output()
        return OK
    except (click.Abort, KeyboardInterrupt):
        _complain("lockscope: interrupted")
        return INTERRUPTED
    except Exception as error:
        if os.environ.get("LOCKSCOPE_DEBUG"):
            raise
        _complain(_message(error))
        return FAILED
    return status if isinstance(status, int) else OK


def _message(error: Exception) -> str:
    """Return what to write on stderr."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return error.format_message()
    program = "lockscope"
    text = str(error)
    if isinstance(error, click.UsageError):
        program = error.ctx.command_path if error.ctx else program
        text = f"{error.format_message().rstrip('.')} (see {program} --help)"
    elif isinstance(error, click.ClickException):
        text = error.format_message()
    elif not isinstance(error, CommandError | ConnectError | UrlError | OptionError):
        text = f"unexpected {type(error).__name__}: {error}; this is a defect, LOCKSCOPE_DEBUG=1 shows where"
    return f"{program}: {shown(' '.join(text.split()))}"


def _complain(text: str) -> None:
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except BrokenPipeError:
        pass


def _discard_output() -> None:
    """Point stdout at nothing, so that the interpreter's last flush does not fail too."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

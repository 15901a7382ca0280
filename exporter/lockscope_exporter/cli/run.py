"""Runs a command and turns every failure into one line on stderr and an exit status."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource
from click.shell_completion import shell_complete

from lockscope_exporter.cli import streams
from lockscope_exporter.cli.errors import CUT_OFF, FAILED, INTERRUPTED, OK, CommandError
from lockscope_exporter.cli.group import COMMANDS, COMPLETE_VARIABLE, lockscope
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
    program = _program(arguments)
    streams.complete()
    try:
        status = _invoke(list(arguments))
        sys.stdout.flush()
    except click.exceptions.Exit as error:
        return error.exit_code
    except BrokenPipeError:  # the reader of a pipe has seen enough
        streams.discard_output()
        return CUT_OFF
    except (click.Abort, KeyboardInterrupt):
        # A terminal shows ^C on the line where the cursor is; what was said there stays.
        _complain(f"\n{program}: interrupted" if sys.stderr.isatty() else f"{program}: interrupted")
        return INTERRUPTED
    except Exception as error:
        if streams.is_of_output(error):
            streams.discard_output()
            _complain(f"{program}: the output cannot be written: {error.strerror}")
            return FAILED
        if os.environ.get("LOCKSCOPE_DEBUG"):
            raise
        _complain(_message(error, program))
        return FAILED
    return status if isinstance(status, int) else OK


def _invoke(arguments: list[str]) -> object:
    """Run a command, or answer a shell that asks for completion; errors pass through as they are."""
    asked = os.environ.get(COMPLETE_VARIABLE)
    if asked:
        return shell_complete(lockscope, {}, "lockscope", COMPLETE_VARIABLE, asked)
    with lockscope.make_context("lockscope", arguments) as context:
        return lockscope.invoke(context)


def _program(arguments: Sequence[str]) -> str:
    """Return the program and its command, as the start of a line on stderr."""
    return f"lockscope {arguments[0]}" if arguments and arguments[0] in COMMANDS else "lockscope"


def _message(error: Exception, program: str) -> str:
    """Return what to write on stderr."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return error.format_message()
    text = str(error)
    if isinstance(error, click.UsageError):
        text = f"{_usage(error).rstrip('.')} (see {program} --help)"
    elif isinstance(error, click.ClickException):
        text = error.format_message()
    elif not isinstance(error, _of_ours()):
        text = f"unexpected {type(error).__name__}: {error}; this is a defect, LOCKSCOPE_DEBUG=1 shows where"
    return f"{program}: {shown(' '.join(text.split()))}"


def _usage(error: click.UsageError) -> str:
    """Return what is wrong with an option, called as it was given: on the command line or as a variable."""
    option = error.param if isinstance(error, click.BadParameter) else None
    if not isinstance(option, click.Option) or isinstance(error, click.MissingParameter):
        return error.format_message()
    name = max(option.opts, key=len)
    if (
        error.ctx is not None
        and error.ctx.get_parameter_source(option.name or "") is ParameterSource.ENVIRONMENT
    ):
        name = str(option.envvar)
    return f"{name}: {error.message}"


def _of_ours() -> tuple[type[Exception], ...]:
    """Return the errors whose text is the line to print; what raises them is loaded by now."""
    from lockscope_exporter.configuration import OptionError  # noqa: PLC0415 - --help does without Redis
    from lockscope_exporter.connect import ConnectError  # noqa: PLC0415
    from lockscope_exporter.redis_url import UrlError  # noqa: PLC0415

    return CommandError, ConnectError, UrlError, OptionError


def _complain(text: str) -> None:
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:  # nobody is there to read it; the exit status says the rest
        streams.discard_errors()

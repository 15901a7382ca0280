"""Standard streams that are closed, full or no longer read."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from typing import TYPE_CHECKING, TextIO, TypeGuard

if TYPE_CHECKING:
    from collections.abc import Callable

# What writing to a stream may fail with; reading a file or a socket fails otherwise.
_OF_OUTPUT = frozenset({errno.EBADF, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS})


def complete() -> None:
    """Give the process the three standard streams that it was started without, and ones that write all.

    The next file or connection would get the number of a missing one, and what is printed would go there.
    Reading finds nothing; writing to a missing stdout fails, so that nobody takes it for a success.

    Without a buffer (PYTHONUNBUFFERED, as in many container images) Python writes once and does not look how
    much was taken: a disk that is full in the middle cuts the output off and nobody is told. A buffer writes
    on, or fails.
    """
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            _point(number, mode)
    if sys.stdin is None:
        sys.stdin = _stream(0, "r")
    if sys.stdout is None:
        sys.stdout = _stream(1, "w")
    if sys.stderr is None:
        sys.stderr = _stream(2, "w")
    sys.stdout, sys.stderr = _buffered(sys.stdout), _buffered(sys.stderr)


def is_of_output(error: BaseException) -> TypeGuard[OSError]:
    """Tell whether an error comes from writing to a standard stream."""
    return isinstance(error, OSError) and error.filename is None and error.errno in _OF_OUTPUT


def discard_output() -> None:
    """Point stdout at nothing, so that the interpreter's last flush does not fail too."""
    _discard(lambda: sys.stdout)


def discard_errors() -> None:
    """Point stderr at nothing, for the same reason."""
    _discard(lambda: sys.stderr)


def _discard(stream: Callable[[], TextIO]) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):  # where it is no stream of the system's
        _point(stream().fileno(), os.O_WRONLY)


def _point(number: int, mode: int) -> None:
    opened = os.open(os.devnull, mode)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)


def _buffered(stream: TextIO) -> TextIO:
    """Return a stream that passes on whole lines at once, in place of one that has no buffer."""
    if not isinstance(getattr(stream, "buffer", None), io.RawIOBase):
        return stream
    return open(stream.fileno(), "w", 1, encoding=stream.encoding, errors=stream.errors, closefd=False)


def _stream(number: int, mode: str) -> TextIO:
    # The streams live as long as the process.
    return open(number, mode, encoding="utf-8", errors="backslashreplace", closefd=False)  # type: ignore[return-value]

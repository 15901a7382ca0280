"""How commands end: exit statuses, and the error whose text is the one line that a person reads."""

from __future__ import annotations

OK = 0
FINDING = 1
FAILED = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells report it
CUT_OFF = 141  # 128 + SIGPIPE: the reader of the output went away, as ``head`` does


class CommandError(Exception):
    """A command cannot do its work; the text is one line: what, with which input, and what to do."""

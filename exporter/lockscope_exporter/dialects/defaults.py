"""What is watched when the user names no pattern."""

from __future__ import annotations

from lockscope.globs import fixed_part
from lockscope_exporter.dialects.recognise import DIALECTS
from lockscope_exporter.targets import LockPattern

DEFAULT_PATTERNS: tuple[LockPattern, ...] = (
    LockPattern(b"lock*"),
    LockPattern(b"redlock:*"),
    LockPattern(b"bull:*:lock"),
    LockPattern(b"rq:scheduler-lock:*"),
    LockPattern(b"arq:in-progress:*"),
    LockPattern(b"uniquejobs:*:LOCKED"),
)
KNOWN_GLOBS: tuple[bytes, ...] = tuple(
    sorted(
        {
            glob
            for dialect in DIALECTS.values()
            for form in dialect.forms
            for glob in form.keys
            if fixed_part(glob)
        }
    )
)

"""What is watched when the user names no pattern, and what else is known by its name."""

from __future__ import annotations

from lockscope.globs import fixed_part
from lockscope_exporter.dialects.recognise import DIALECTS
from lockscope_exporter.targets import LockPattern

# Every write to the server, of any key, pays for each distinct beginning of these: about 40 ns on Redis 7.0,
# where a SET costs some 5 microseconds. So there are six: "lock", "red" and "bull:" begin several globs.
DEFAULT_PATTERNS: tuple[LockPattern, ...] = tuple(
    LockPattern(glob)
    for glob in (
        b"lock",
        b"lock[-:._/{A-Z0-9]*",  # lock:order:7, lockOrder:7
        b"locks[-:._/{]*",
        b"red*lock*",  # redlock:…, redbeat::lock
        b"bull:*:lock",
        b"bull:*:de:*",
        b"uniquejobs:*:LOCKED",
        b"uniquejobs:*:GRABBED",
        b"SINGLETONLOCK_*",
        b"rq:scheduler-lock:*",
    )
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
"""Key globs of every dialect that begin with fixed text: what advice on patterns may look for."""

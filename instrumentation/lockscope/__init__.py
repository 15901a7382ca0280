"""lockscope: see who holds which Redis lock, whether the holder lives, and whether exclusivity was broken.

One line at start-up observes every redis-py lock of the process::

    import lockscope

    lockscope.instrument()

Locks behave as before: same values, same exceptions, same timing. What happens to them is counted in
Prometheus metrics and written as structured log records; ``lockscope.job`` says on whose behalf.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from lockscope._version import __version__
from lockscope.catalog import CATALOG
from lockscope.errors import InProgressError, LockRefusedError
from lockscope.events import LockEvent
from lockscope.instrument import instrument, uninstrument
from lockscope.jobs import Job, current_job, job
from lockscope.prefixes import prefix_of
from lockscope.retry import retried
from lockscope.sinks.logs import JSONFormatter
from lockscope.tokens import Owner, fingerprint

if TYPE_CHECKING:
    from lockscope.idempotency import idempotent
    from lockscope.lock_decorator import locked
    from lockscope.renewal import KeptLease, keep_alive
    from lockscope.seams.observe import observe

__all__ = [
    "CATALOG",
    "InProgressError",
    "JSONFormatter",
    "Job",
    "KeptLease",
    "LockEvent",
    "LockRefusedError",
    "Owner",
    "__version__",
    "current_job",
    "fingerprint",
    "idempotent",
    "instrument",
    "job",
    "keep_alive",
    "locked",
    "observe",
    "prefix_of",
    "retried",
    "uninstrument",
]

# What most workers never use is imported when it is first asked for.
_LATER = {
    "KeptLease": "lockscope.renewal",
    "idempotent": "lockscope.idempotency",
    "keep_alive": "lockscope.renewal",
    "locked": "lockscope.lock_decorator",
    "observe": "lockscope.seams.observe",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_LATER[name]), name)
    return value


def __dir__() -> list[str]:
    """Return the public names, also those that are not imported yet."""
    return sorted({*globals(), *__all__})

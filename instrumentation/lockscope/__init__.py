"""lockscope: see who holds which Redis lock, whether the holder lives, and whether exclusivity was broken.

One line at start-up observes every redis-py lock of the process::

    import lockscope

    lockscope.instrument()

Locks behave as before: same values, same exceptions, same timing. What happens to them is counted in
Prometheus metrics and written as structured log records; ``lockscope.job`` says on whose behalf.
"""

from lockscope._version import __version__
from lockscope.catalog import CATALOG
from lockscope.errors import InProgressError, LockRefusedError
from lockscope.events import LockEvent
from lockscope.idempotency import idempotent
from lockscope.instrument import instrument, uninstrument
from lockscope.jobs import Job, current_job, job
from lockscope.locked import locked
from lockscope.prefixes import prefix_of
from lockscope.renewal import KeptLease, keep_alive
from lockscope.retry import retried
from lockscope.seams.observe import observe
from lockscope.sinks.logs import JSONFormatter
from lockscope.tokens import Owner, fingerprint

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

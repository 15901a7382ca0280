"""Free one lock, and only the one that was seen: plan, rehearse, execute, audit.

``plan`` is a pure function of a ``LockState``; ``rehearse`` asks the server whether everything is still as it
was seen; ``execute`` does it in one script and records who did it.
"""

from lockscope_exporter.release.audit import STREAM, operator
from lockscope_exporter.release.clients import open_client, open_journal
from lockscope_exporter.release.execution import execute, rehearse
from lockscope_exporter.release.gate import OFF, VARIABLE, allowed
from lockscope_exporter.release.model import FREED, Client, Outcome, ReleasePlan, ReleaseResult, WakeUp
from lockscope_exporter.release.permissions import Needs, needs
from lockscope_exporter.release.planning import plan
from lockscope_exporter.release.trail import AuditEntry, read_audit

__all__ = [
    "FREED",
    "OFF",
    "STREAM",
    "VARIABLE",
    "AuditEntry",
    "Client",
    "Needs",
    "Outcome",
    "ReleasePlan",
    "ReleaseResult",
    "WakeUp",
    "allowed",
    "execute",
    "needs",
    "open_client",
    "open_journal",
    "operator",
    "plan",
    "read_audit",
    "rehearse",
]

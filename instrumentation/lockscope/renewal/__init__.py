"""Keep a lock alive while a block runs: ``keep_alive`` and the lease that it yields."""

from lockscope.renewal.block import keep_alive
from lockscope.renewal.lease import KeptLease, Lost

__all__ = ["KeptLease", "Lost", "keep_alive"]

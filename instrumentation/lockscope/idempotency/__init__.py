"""Do something once per key, and know when it was done already."""

from lockscope.idempotency.block import idempotent
from lockscope.idempotency.run import Run

__all__ = ["Run", "idempotent"]

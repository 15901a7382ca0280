"""Whether the holders of locks live: what the servers say of presence channels, and what follows from it."""

from lockscope_exporter.presence.attendance import Attendance, Standing
from lockscope_exporter.presence.local import runs_here
from lockscope_exporter.presence.roll_call import RollCall

__all__ = ["Attendance", "RollCall", "Standing", "runs_here"]

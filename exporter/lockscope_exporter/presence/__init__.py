"""Whether the holders of locks live: what the servers say of presence channels, and what follows from it."""

from lockscope_exporter.presence.attendance import Attendance
from lockscope_exporter.presence.roll_call import RollCall

__all__ = ["Attendance", "RollCall"]

"""What listening with MONITOR costs a server, by its own figures. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Meter:
    """A server's counters at one instant.

    Attributes:
        at: monotonic time in seconds when they were read.
        cpu: seconds that the server has worked since its start.
        commands: commands since its start.
        output: bytes sent since its start.
        rate: commands a second just now.
    """

    at: float
    cpu: float
    commands: int
    output: int
    rate: float


@dataclass(frozen=True, slots=True)
class Cost:
    """What listening cost.

    Attributes:
        commands_per_second: commands that the server was given meanwhile.
        monitor_bytes: what MONITOR printed.
        output_bytes: everything that the server sent meanwhile.
        cpu_before: seconds of work a second just before, 1 for a whole core.
        cpu_during: the same meanwhile.
    """

    commands_per_second: float
    monitor_bytes: int
    output_bytes: int
    cpu_before: float
    cpu_during: float

    @property
    def share(self) -> float:
        """Share of MONITOR in what the server sent, 0 to 1."""
        return min(self.monitor_bytes / self.output_bytes, 1.0) if self.output_bytes > 0 else 0.0

    def to_object(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            "commands_per_second": round(self.commands_per_second, 1),
            "monitor_bytes": self.monitor_bytes,
            "output_bytes": self.output_bytes,
            "share_of_output": round(self.share, 4),
            "cpu_before": round(self.cpu_before, 4),
            "cpu_during": round(self.cpu_during, 4),
        }


def meter(info: Mapping[str, str], at: float) -> Meter | None:
    """Read the counters in the fields of INFO; ``None`` if the server does not show them all."""
    try:
        return Meter(
            at,
            float(info["used_cpu_user"]) + float(info["used_cpu_sys"]),
            int(info["total_commands_processed"]),
            int(info["total_net_output_bytes"]),
            float(info["instantaneous_ops_per_sec"]),
        )
    except (KeyError, ValueError):
        return None


def cost(before: Meter, start: Meter, end: Meter, monitor_bytes: int) -> Cost:
    """Return what listening cost.

    Args:
        before: a moment before listening began.
        start: when it began.
        end: when it had ended.
        monitor_bytes: what MONITOR printed.
    """
    while_ = max(end.at - start.at, 1e-6)
    return Cost(
        commands_per_second=(end.commands - start.commands) / while_,
        monitor_bytes=monitor_bytes,
        output_bytes=end.output - start.output,
        cpu_before=(start.cpu - before.cpu) / max(start.at - before.at, 1e-6),
        cpu_during=(end.cpu - start.cpu) / while_,
    )

"""The objective of acquiring, and how fast its error budget burns, over four pairs of windows.

The pairs and factors are those of the multi-window, multi-burn-rate method in the Site Reliability Workbook,
chapter 5: 2 % of a 30-day budget spent in an hour or 5 % in six wakes someone; 10 % in a day or in three is a
ticket.
"""

from __future__ import annotations

from lockscope_exporter.alerts.model import Alert, Group, Severity
from lockscope_exporter.alerts.recording import ACQUIRES_INTERVAL, LAST_HALF_HOUR, SHARE_OF_SAMPLE

# (severity, long window, short window, burn factor)
WINDOWS: tuple[tuple[Severity, str, str, float], ...] = (
    ("critical", "1h", "5m", 14.4),
    ("critical", "6h", "30m", 6),
    ("warning", "1d", "2h", 3),
    ("warning", "3d", "6h", 1),
)


def _burn(severity: Severity, long: str, short: str, factor: float) -> Alert:
    def ratio(window: str) -> str:
        # What wakes someone adds up samples of every two minutes; a ticket may come half an hour later.
        if severity == "warning":
            return f"last_over_time(prefix:redis_lock_acquire_failed:ratio{window}[{LAST_HALF_HOUR}])"
        return (
            f"sum_over_time(prefix:redis_lock_acquire_failed:increase5m[{window}])"
            f" / sum_over_time(prefix:redis_lock_acquire_valid:increase5m[{window}])"
        )

    budget = f"({factor:g} * (1 - prefix:redis_lock_acquire_objective:ratio))"
    return Alert(
        name="RedisLockAcquireSLOBurn",
        severity=severity,
        expr=f"""
            {ratio(long)}
            > {budget}
            and
              {ratio(short)}
              > {budget}
            and
              {SHARE_OF_SAMPLE} * sum_over_time(prefix:redis_lock_acquire_failed:increase5m[{long}])
              >= ${{burn_failures}}
            """,
        pending="2m",
        summary=f"Acquiring {{{{ $labels.prefix }}}} burns its error budget {factor:g} times too fast",
        description=(
            f"{{{{ $value | humanizePercentage }}}} of the acquires of {{{{ $labels.prefix }}}} by "
            f"{{{{ $labels.job }}}} in the last {long} timed out or failed: over {factor:g} times what the "
            f"objective allows, and the last {short} are no better. Refused try-locks are not counted."
        ),
        labels={"long_window": long, "short_window": short},
        dashboard="lockscope-slo",
    )


SLO = Group("lockscope.slo", tuple(_burn(*windows) for windows in WINDOWS), interval=ACQUIRES_INTERVAL)

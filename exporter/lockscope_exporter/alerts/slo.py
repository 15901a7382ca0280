"""The objective of acquiring, and how fast its error budget burns, over four pairs of windows.

The pairs and factors are those of the multi-window, multi-burn-rate method in the Site Reliability Workbook,
chapter 5: 2 % of a 30-day budget spent in an hour or 5 % in six wakes someone; 10 % in a day or in three is a
ticket.
"""

from __future__ import annotations

from lockscope_exporter.alerts.model import Alert, Group, Severity

# (severity, long window, 5-minute spans in it, short window, burn factor)
WINDOWS: tuple[tuple[Severity, str, int, str, float], ...] = (
    ("critical", "1h", 12, "5m", 14.4),
    ("critical", "6h", 72, "30m", 6),
    ("warning", "1d", 288, "2h", 3),
    ("warning", "3d", 864, "6h", 1),
)


def _burn(severity: Severity, long: str, spans: int, short: str, factor: float) -> Alert:
    def ratio(window: str) -> str:
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
              {spans} * avg_over_time(prefix:redis_lock_acquire_failed:increase5m[{long}])
              >= ${{burn_failures}}
            """,
        pending="2m",
        summary=f"Acquiring {{{{ $labels.prefix }}}} burns its error budget {factor:g} times too fast",
        description=(
            f"{{{{ $value | humanizePercentage }}}} of the acquires of {{{{ $labels.prefix }}}} by {{{{ "
            f"$labels.job }}}} in the last {long}, and as many in the last {short}, timed out or failed: "
            f"over {factor:g} times what the objective allows. Refused try-locks are not counted."
        ),
        labels={"long_window": long, "short_window": short},
        dashboard="lockscope-slo",
    )


SLO = Group("lockscope.slo", tuple(_burn(*windows) for windows in WINDOWS), interval="2m")

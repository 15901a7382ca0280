"""What the demo prints: locks by prefix and state, counters by outcome, and which situations were seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from lockscope_exporter.demo.situations import SITUATIONS

if TYPE_CHECKING:
    from rich.console import Console

    from lockscope_exporter.demo.scrape import Seen

_OUTCOMES = (
    ("acquire", "redis_lock_acquire_total", "outcome"),
    ("renew", "redis_lock_renew_total", "outcome"),
    ("release", "redis_lock_release_total", "outcome"),
    ("retry", "redis_lock_retry_total", "reason"),
    ("idempotency", "redis_lock_idempotency_total", "outcome"),
    ("ended", "redis_lock_observed_ended_total", "how"),
)


def summary(console: Console, seen: Seen) -> bool:
    """Print the tables.

    Returns:
        Whether every situation was seen.
    """
    console.print(_locks(seen))
    console.print(_counters(seen))
    table = Table(title="situations", title_justify="left")
    table.add_column("seen")
    table.add_column("what happens")
    table.add_column("where to find it")
    complete = True
    for situation in SITUATIONS:
        found = situation.seen(seen)
        complete = complete and found
        table.add_row(Text("yes" if found else "NO"), situation.name, Text(situation.proof))
    console.print(table)
    return complete


def _locks(seen: Seen) -> Table:
    table = Table(title="locks by prefix and state", title_justify="left")
    for name in ("prefix", "dialect", "state", "now", "most"):
        table.add_column(name, justify="right" if name in {"now", "most"} else "left")
    for labels, now, most in seen.rows("redis_lock_keys"):
        if most:
            table.add_row(
                Text(labels["prefix"]), labels["dialect"], labels["state"], f"{now:.0f}", f"{most:.0f}"
            )
    return table


def _counters(seen: Seen) -> Table:
    table = Table(title="counters by outcome", title_justify="left")
    for name in ("what", "outcome", "job type or prefix", "count"):
        table.add_column(name, justify="right" if name == "count" else "left")
    for what, metric, label in _OUTCOMES:
        sums: dict[tuple[str, str], float] = {}
        for labels, total, _ in seen.rows(metric):
            key = labels[label], labels.get("job_type") or labels["prefix"]
            sums[key] = sums.get(key, 0.0) + total
        for (outcome, who), total in sorted(sums.items()):
            if total:
                table.add_row(what, outcome, Text(who), f"{total:.0f}")
    return table

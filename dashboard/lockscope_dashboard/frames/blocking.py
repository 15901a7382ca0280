"""Who was refused by whom: edges from jobs that wanted a lock, over the lock, to the job that had it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from lockscope import events
from lockscope.jobs import NO_JOB_TYPE
from lockscope_dashboard import text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockscope.journal import Recorded

RECENT: Final = 300.0  # seconds
MOST: Final = 30
REFUSED: Final = frozenset({events.CONTENDED, events.ACQUIRE_TIMEOUT})
EDGES: Final = ["waiter", "key", "holder", "times", "waited"]


def edges_frame(recorded: Iterable[Recorded]) -> pd.DataFrame:
    """Count refusals by who wanted a lock and who had it.

    Args:
        recorded: events of the journal; only refusals that name the holder count.

    Returns:
        One row an edge, the most frequent first, at most ``MOST``: ``waiter`` and ``holder`` (job, or process
        where it has none), ``key`` (printable), ``times``, ``waited`` (seconds in all).
    """
    counted: dict[tuple[str, bytes, str], list[float]] = {}
    for each in recorded:
        event = each.event
        if event.event not in REFUSED or event.blocked_by is None:
            continue
        by = event.blocked_by
        holder = _named(by.job_type, by.host, by.pid)
        waiter = _named(event.job.job_type, each.writer.host, each.writer.pid)
        found = counted.setdefault((waiter, event.key, holder), [0, 0.0])
        found[0] += 1
        found[1] += event.wait_seconds or 0.0
    rows = [
        (waiter, text.cut(text.show(key), 60), holder, int(times), waited)
        for (waiter, key, holder), (times, waited) in counted.items()
    ]
    frame = pd.DataFrame(rows, columns=EDGES)
    return frame.sort_values(["times", "waiter", "key"], ascending=[False, True, True]).head(MOST)


def to_dot(edges: pd.DataFrame, *, dark: bool) -> str:
    """Write edges as a Graphviz graph.

    Args:
        edges: of ``edges_frame``.
        dark: for a dark page.

    Returns:
        DOT; every name is a quoted string, so that no key can write graph of its own.
    """
    ink, line, box = ("#E4EAEF", "#E9A23B", "#18212A") if dark else ("#17212B", "#B45F06", "#F5F7F8")
    font = f'fontname="sans-serif" fontcolor="{ink}" color="{line}"'
    lines = [
        "digraph {",
        'rankdir=LR; bgcolor="transparent"; nodesep=0.15; ranksep=0.7;',
        f'node [{font} fontsize=11 style=filled fillcolor="{box}"];',
        f"edge [{font} fontsize=9];",
    ]
    most = max(edges["times"].max(), 1)
    for kind, shape in (("waiter", "box"), ("key", "cds"), ("holder", "box")):
        lines += [
            f"{_id(kind, name)} [label={_quoted(name)} shape={shape}];" for name in edges[kind].unique()
        ]
    rows: Iterable[Any] = edges.itertuples()
    for row in rows:
        waiter, key, holder = _id("waiter", row.waiter), _id("key", row.key), _id("holder", row.holder)
        look = f"penwidth={1 + 3 * row.times / most:.1f}"
        lines.append(f"{waiter} -> {key} [{look} label={_quoted(text.count(row.times, 'time'))}];")
        lines.append(f"{key} -> {holder} [{look}];")
    return "\n".join([*lines, "}"])


def _named(job_type: str | None, host: str | None, pid: int | None) -> str:
    if job_type and job_type != NO_JOB_TYPE:
        return text.cut(text.safe(job_type), 60)
    return f"{text.cut(text.safe(host) or 'unknown', 40)}/{pid or '?'}"


def _id(kind: str, name: object) -> str:
    return _quoted(f"{kind} {name}")


def _quoted(words: object) -> str:
    escaped = str(words).replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{escaped}"'

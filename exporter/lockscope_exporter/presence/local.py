"""Look at a holder's process itself, where it runs on the reader's own host and the reader can see it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lockscope import tokens

if TYPE_CHECKING:
    from lockscope_exporter.state import Holder

_SLACK = 1.0  # seconds by which two readings of one host's clocks may differ
_ENDED = "ZX"  # states of a process that is dead but not yet waited for


def runs_here(holder: Holder) -> bool | None:
    """Tell whether a holder's process runs, if it is one of this host and of this process's PID namespace.

    Args:
        holder: whose token names host, process and namespace.

    Returns:
        ``True``: it runs. ``False``: it has ended, also if another process has its id by now. ``None``: it is
        a process of another host or container, or the system does not tell.
    """
    here = tokens.process
    known = holder.namespace is not None and bool(holder.pid)
    if not known or (holder.namespace, holder.host) != (here.namespace, here.shown_host):
        return None
    return _runs(holder, holder.pid or 0)


def _runs(holder: Holder, pid: int) -> bool | None:
    exists = _exists(pid)
    if not exists:
        return exists
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        state, threads, began = parse_stat(stat)
        age = float(Path("/proc/uptime").read_bytes().split()[0]) - began / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return False if _exists(pid) is False else None
    if state in _ENDED and threads <= 1:  # of a program whose first thread alone has ended, others run
        return False
    if began == holder.born or holder.started_at is None:
        return True
    return time.time() - age <= holder.started_at + _SLACK


def parse_stat(stat: bytes) -> tuple[str, int, int]:
    """Return state, number of threads and start in clock ticks since boot from ``/proc/<pid>/stat``.

    Raises:
        ValueError, IndexError: it is no such line.
    """
    fields = stat[stat.rindex(b")") + 1 :].split()  # the name before may hold anything
    return fields[0].decode("ascii", "replace"), int(fields[17]), int(fields[19])


def _exists(pid: int) -> bool | None:
    """Tell whether a process has this id; ``None`` if the system does not say."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return None
    return True

"""What is filtered, as a file: CSV that no spreadsheet runs as a formula, and Parquet with exact values."""

from __future__ import annotations

from io import BytesIO
from typing import Final

import pandas as pd

COLUMNS: Final = {
    "key": "key",
    "field": "field",
    "prefix": "prefix",
    "dialect": "dialect",
    "target": "target",
    "db": "db",
    "node": "node",
    "state": "state",
    "evidence": "evidence",
    "holder": "holder_host",
    "pid": "holder_pid",
    "worker": "holder_worker",
    "job": "job_type",
    "job_id": "job_id",
    "alive": "holder_alive",
    "holders": "holders",
    "age": "age_seconds",
    "at_least": "age_is_lower_bound",
    "expected": "expected_hold_seconds",
    "ttl": "ttl_seconds",
    "renewals": "renewals",
    "weak_owner": "weak_owner",
    "sampled_at": "sampled_at",
}
_TRIGGERS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")


def exported(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of ``frames.locks.locks_frame`` that leave the explorer, under plain names.

    Args:
        frame: the rows to export, in order.

    Returns:
        The columns of ``COLUMNS``; times in UTC, durations in seconds; no token in any form.
    """
    found = frame[list(COLUMNS)].rename(columns=COLUMNS).reset_index(drop=True)
    found["state"] = found["state"].astype("str")
    found["evidence"] = found["evidence"].map("\n".join).astype("str")
    found["sampled_at"] = pd.to_datetime(found["sampled_at"], unit="s", utc=True).dt.floor("ms")
    return found


def to_csv(frame: pd.DataFrame) -> bytes:
    """Write rows as CSV (UTF-8 with a byte order mark, as spreadsheets want it).

    Text that a spreadsheet would take for a formula gets an apostrophe before it (OWASP, "CSV injection").
    """
    found = exported(frame)
    for name in found.select_dtypes(include=["str", "object"]):
        found[name] = found[name].map(_defused)
    return found.to_csv(index=False, lineterminator="\r\n").encode("utf-8-sig")


def to_parquet(frame: pd.DataFrame) -> bytes:
    """Write rows as Parquet, values exactly as they are."""
    sink = BytesIO()
    exported(frame).to_parquet(sink, index=False)
    return sink.getvalue()


def _defused(value: str) -> str:
    return f"'{value}" if value.startswith(_TRIGGERS) else value

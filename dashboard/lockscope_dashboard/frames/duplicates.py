"""Idempotency, starving jobs and job progress, by prefix."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pandas as pd

from lockscope import catalog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockscope_exporter.state import ProgressFamily


def idempotency_frame(checks: pd.DataFrame) -> pd.DataFrame:
    """Count idempotency checks by outcome.

    Args:
        checks: columns ``prefix``, ``job_type``, ``outcome``, ``value``.

    Returns:
        One row a prefix and job type, the most blocked duplicates first: the outcomes, ``checks`` and
        ``blocked`` (duplicates, and those found in progress).
    """
    wide = _wide(checks, catalog.IDEMPOTENCY_OUTCOMES)
    wide["checks"] = wide[list(catalog.IDEMPOTENCY_OUTCOMES)].sum(axis="columns")
    wide["blocked"] = wide["duplicate"] + wide["in_progress"]
    return wide[wide["checks"] > 0].sort_values(["blocked", "checks"], ascending=False, kind="stable")


def starving_frame(attempts: pd.DataFrame, retries: pd.DataFrame) -> pd.DataFrame:
    """Find jobs that hardly ever get their lock.

    Args:
        attempts: columns ``prefix``, ``job_type``, ``outcome``, ``value``.
        retries: columns ``prefix``, ``job_type``, ``value``: jobs put back because of a lock.

    Returns:
        One row a prefix and job type with refusals or retries, the worst first: ``acquired``, ``refused``,
        ``retries``, ``share`` (of the attempts that got the lock), ``starving`` (none got it).
    """
    wide = _wide(attempts, catalog.ACQUIRE_OUTCOMES)
    put_back = retries.rename(columns={"value": "retries"})
    wide = wide.merge(put_back, on=["prefix", "job_type"], how="outer")
    numbers = [*catalog.ACQUIRE_OUTCOMES, "retries"]
    wide[numbers] = wide[numbers].fillna(0.0)
    wide["refused"] = wide["contended"] + wide["timeout"]
    tries = wide["acquired"] + wide["refused"]
    wide["share"] = wide["acquired"] / tries.where(tries > 0)
    wide["starving"] = (wide["refused"] + wide["retries"] >= 1) & (wide["acquired"] < 1)
    found = wide[(wide["refused"] >= 1) | (wide["retries"] >= 1)]
    return found.sort_values(["starving", "share", "refused"], ascending=[False, True, False], kind="stable")


def progress_frame(families: Sequence[ProgressFamily]) -> pd.DataFrame:
    """Lay the job-progress keys of all prefixes out.

    Args:
        families: of ``Source.progress``.

    Returns:
        One row a family, the most silent first: ``prefix``, ``db``, ``target``, a count a state, and
        ``silence`` (seconds, NaN if no job says that it runs).
    """
    rows = [
        {
            "prefix": family.prefix,
            "db": family.db,
            "target": family.target,
            **{state: family.keys.get(state, 0) for state in catalog.PROGRESS_STATES},
            "silence": family.silent_seconds or math.nan,
        }
        for family in families
    ]
    frame = pd.DataFrame(rows, columns=["prefix", "db", "target", *catalog.PROGRESS_STATES, "silence"])
    return frame.sort_values(["stale", "running", "prefix"], ascending=[False, False, True], kind="stable")


def _wide(frame: pd.DataFrame, outcomes: tuple[str, ...]) -> pd.DataFrame:
    wide = frame.pivot_table(
        index=["prefix", "job_type"], columns="outcome", values="value", aggfunc="sum", fill_value=0.0
    )
    wide = wide.reindex(columns=list(outcomes), fill_value=0.0).reset_index()
    wide.columns.name = None
    return wide

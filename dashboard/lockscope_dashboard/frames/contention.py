"""Which locks are fought over: attempts, refusals and waits by prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockscope import catalog

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd


def contention_frame(
    attempts: pd.DataFrame, waits: Mapping[str, pd.DataFrame], retries: pd.DataFrame, waiting: pd.DataFrame
) -> pd.DataFrame:
    """Put what is known of contention together.

    Args:
        attempts: columns ``prefix``, ``outcome``, ``value``: calls to acquire.
        waits: by name (``p50``, ``p95``, ``p99``), columns ``prefix``, ``value``: seconds waited.
        retries: columns ``prefix``, ``value``: jobs that were put back because of a lock.
        waiting: columns ``prefix``, ``value``: calls that wait now.

    Returns:
        One row a prefix, the most refusals first: ``prefix``, the outcomes, ``attempts``, ``refused``
        (contended and timed out), ``share`` (refused of all, NaN without attempts), the waits, ``retries``
        and ``waiting``.
    """
    wide = attempts.pivot_table(
        index="prefix", columns="outcome", values="value", aggfunc="sum", fill_value=0.0
    )
    wide = wide.reindex(columns=list(catalog.ACQUIRE_OUTCOMES), fill_value=0.0)
    wide["attempts"] = wide.sum(axis="columns")
    wide["refused"] = wide["contended"] + wide["timeout"]
    wide["share"] = wide["refused"] / wide["attempts"].where(wide["attempts"] > 0)
    for name, frame in waits.items():
        wide[name] = frame.set_index("prefix")["value"]
    for name, frame in (("retries", retries), ("waiting", waiting)):
        wide[name] = frame.set_index("prefix")["value"].reindex(wide.index).fillna(0.0)
    busy = wide[(wide["attempts"] > 0) | (wide["waiting"] > 0)]
    return busy.reset_index().sort_values(
        ["refused", "attempts", "prefix"], ascending=[False, False, True], kind="stable"
    )

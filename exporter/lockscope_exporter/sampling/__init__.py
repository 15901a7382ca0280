"""Sampling live locks: a mirror of what Redis holds, kept true by feeds, deadlines and rolling sweeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockscope_exporter.sampling.mirror import Mirror

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockscope_exporter.source import Source
    from lockscope_exporter.targets import SamplingOptions, Target

__all__ = ["open_source"]


def open_source(targets: Sequence[Target], options: SamplingOptions) -> Source:
    """Return a view of the live locks of these targets; ``start`` it.

    Args:
        targets: the servers to sample.
        options: how to sample and judge.

    Raises:
        UrlError: a target's URL cannot be used.
    """
    return Mirror(targets, options)

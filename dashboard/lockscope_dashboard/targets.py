"""What to sample, from the environment variables that the commands read too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockscope_exporter.targets import LockPattern, SamplingOptions, Target

if TYPE_CHECKING:
    from collections.abc import Mapping


def targets_from(env: Mapping[str, str]) -> tuple[list[Target], SamplingOptions]:
    """Read which server to sample.

    Args:
        env: environment variables; ``LOCKSCOPE_REDIS_URL`` and ``LOCKSCOPE_LOCKS`` (patterns separated by
            spaces, each ``PATTERN`` or ``PATTERN=DIALECT``).

    Returns:
        The targets and the sampling options.
    """
    patterns = []
    for item in env.get("LOCKSCOPE_LOCKS", "").split():
        glob, separator, dialect = item.rpartition("=")
        patterns.append(
            LockPattern(glob.encode(), dialect) if separator and glob else LockPattern(item.encode())
        )
    url = env.get("LOCKSCOPE_REDIS_URL", "").strip() or "redis://127.0.0.1:6379/0"
    return [Target(url, patterns=tuple(patterns))], SamplingOptions()

"""What to sample: servers, the keys that may be locks, and how to judge them. Values only, no sockets."""

from __future__ import annotations

from dataclasses import dataclass, field

UNNAMED = "default"  # what a target is called that a URL alone gives


@dataclass(frozen=True, slots=True)
class LockPattern:
    """A family of keys to watch.

    Attributes:
        glob: Redis glob, as bytes.
        dialect: name of the dialect that its keys are to be read as, ``None`` to recognise each, ``any`` to
            show as ``generic`` what is not recognised, too.
    """

    glob: bytes
    dialect: str | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """One configured server or group of servers.

    Attributes:
        url: ``redis://``, ``rediss://``, ``unix://``, ``sentinel://`` or ``cluster://`` URL.
        name: bounded name, the ``target`` label.
        patterns: families to watch; empty means the defaults of the dialects.
        dbs: database numbers; empty means the one in the URL.
        quorum_group: name of the Redlock group that this server is a member of.
    """

    url: str
    name: str = UNNAMED
    patterns: tuple[LockPattern, ...] = ()
    dbs: tuple[int, ...] = ()
    quorum_group: str | None = None


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """How to sample and judge, the same for every target.

    Attributes:
        prefix_patterns: Redis globs that name families, before the heuristics of ``prefix_of``.
        max_prefixes: cap on distinct prefixes a process.
        expected_hold: seconds by prefix glob beyond which a lock is overdue.
        progress: Redis globs of job-progress keys.
        progress_stale_after: seconds of silence after which a running progress key is stale.
        progress_fields: what the fields in such a key are called, as ``progress.Names.parse`` reads it; empty
            for the usual names.
        state_file: where learned holds survive a restart; ``None`` keeps them in memory.
        mode: ``auto``, or the one feed to use: tracking, notifications, scan.
        interval: seconds between samples in scan mode.
        scan_budget: keys a second that a paced scan may visit on one node.
        timeout: seconds for one answer from Redis.
        gather: seconds for which changes are gathered before they are read, once there are very many: cheaper
            for the server, but locks that come and go meanwhile are not seen. 0 reads at once.
        once: every key is read once, for a list: nothing is counted by family and no lock is looked at again.
    """

    prefix_patterns: tuple[str, ...] = ()
    max_prefixes: int = 200
    expected_hold: dict[str, float] = field(default_factory=dict)
    progress: tuple[str, ...] = ()
    progress_stale_after: float = 60.0
    progress_fields: str = ""
    state_file: str | None = None
    mode: str = "auto"
    interval: float = 1.0
    scan_budget: int = 100_000
    timeout: float = 2.0
    gather: float = 0.05
    once: bool = False

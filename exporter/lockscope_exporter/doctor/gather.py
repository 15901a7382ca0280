"""Gathering the evidence: ask servers, look over keys, watch for a moment, read what is known of the past."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import redis
from redis.exceptions import RedisClusterException

from lockscope.journal import DB
from lockscope_exporter.connect import connect, connect_cluster
from lockscope_exporter.doctor import past
from lockscope_exporter.doctor.evidence import Evidence
from lockscope_exporter.doctor.keyspace import look_over
from lockscope_exporter.doctor.probe import probe
from lockscope_exporter.explain import explain
from lockscope_exporter.nodes import servers
from lockscope_exporter.redis_url import parse_redis_url
from lockscope_exporter.sampling import open_source
from lockscope_exporter.sampling.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lockscope_exporter.doctor.evidence import Holds, Keyspace, ServerEvidence
    from lockscope_exporter.targets import SamplingOptions, Target


def gather(
    targets: Sequence[Target],
    sampling: SamplingOptions,
    *,
    observe: float,
    wait: float,
    scan_keys: int,
    visibility: Mapping[str, float],
    say: Callable[[str], None],
) -> Evidence:
    """Gather everything.

    Args:
        targets: what to look at.
        sampling: how; its ``state_file`` is only read.
        observe: seconds to watch locks for.
        wait: seconds that the first reading of all locks may take.
        scan_keys: keys of each database to look at.
        visibility: see ``Evidence``.
        say: told what is being done.

    Raises:
        UrlError, ConnectError: no server can be found behind a URL.
    """
    asked: list[ServerEvidence] = []
    spaces: list[Keyspace] = []
    for target in targets:
        name = target.name if len(targets) > 1 else ""
        kind = parse_redis_url(target.url).kind
        watch = Watch(target.patterns)
        for server in servers(target.url, sampling.timeout):
            say(f"asking {server.name}")
            answers = replace(probe(server, kind, watch.globs), target=name)
            asked.append(answers)
            if answers.error:
                continue
            for db in target.dbs or (parse_redis_url(target.url).db,):
                say(f"looking over the keys of {server.name} db{db}")
                space = look_over(server, db, watch.patterns, scan_keys, sampling.scan_budget)
                spaces.append(replace(space, target=name))
    evidence = Evidence(
        servers=tuple(asked),
        keyspaces=tuple(spaces),
        explicit=any(target.patterns for target in targets),
        visibility=visibility,
    )
    if all(server.error for server in asked):
        return evidence
    say(f"watching locks for {observe:g} s")
    evidence = _watch(evidence, targets, replace(sampling, state_file=None), observe, wait)
    return _remember(evidence, targets, sampling)


def _watch(
    evidence: Evidence, targets: Sequence[Target], sampling: SamplingOptions, observe: float, wait: float
) -> Evidence:
    source = open_source(targets, sampling)
    source.start()
    try:
        source.wait_ready(wait)
        threading.Event().wait(observe)
        return replace(
            evidence,
            statuses=tuple(source.nodes()),
            locks=tuple(source.locks()),
            families=tuple(source.families()),
            watched=observe,
        )
    finally:
        source.stop()


def _remember(evidence: Evidence, targets: Sequence[Target], sampling: SamplingOptions) -> Evidence:
    known: list[Mapping[str, Holds]] = []
    unread: dict[str, str] = {}
    for target in targets:
        try:
            known.append(_journal(target, sampling.timeout))
        except redis.exceptions.NoPermissionError:
            continue  # whether there is a journal is not known either; it is off unless asked for
        except (redis.RedisError, RedisClusterException, OSError) as error:
            unread["the journal"] = explain(error).what
    if sampling.state_file is not None:
        try:
            known.append(past.from_state_file(Path(sampling.state_file), time.time()))
        except (OSError, ValueError) as error:
            unread[f"the state file {sampling.state_file}"] = str(error)
    known.append(past.from_families(evidence.families))
    return replace(evidence, holds=past.together(*known), unread=unread)


def _journal(target: Target, timeout: float) -> Mapping[str, Holds]:
    url = parse_redis_url(target.url)
    clustered = url.kind == "cluster"
    client = connect_cluster(url, timeout=timeout) if clustered else connect(url, timeout=timeout, db=DB)
    try:
        return past.from_journal(client)
    finally:
        client.close()

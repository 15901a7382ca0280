"""What takes a question to Redis beside the sampler: the audit trail and doctor's checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import redis
import streamlit as st
from redis.exceptions import RedisClusterException

from lockscope_dashboard import source
from lockscope_exporter.connect import ConnectError
from lockscope_exporter.doctor import Finding, examine
from lockscope_exporter.doctor.gather import gather
from lockscope_exporter.explain import explain
from lockscope_exporter.redis_url import parse_redis_url
from lockscope_exporter.release import AuditEntry, open_client, read_audit
from lockscope_exporter.state import LockState

if TYPE_CHECKING:
    from lockscope_exporter.targets import Target

SHOWN: Final = 100
OBSERVED: Final = 2.0  # seconds
READ: Final = 20.0  # seconds that reading all locks may take
SCANNED: Final = 50_000  # keys of each database


@st.cache_data(ttl=5.0, show_spinner=False)
def audit() -> tuple[list[AuditEntry], str]:
    """Return the latest attempts to free a lock, newest first, and why some could not be read."""
    found: list[AuditEntry] = []
    trouble = []
    for target in source.targets():
        for db in _dbs(target):
            try:
                client = open_client(source.sampled(), _place(target.name, db))
            except ConnectError as error:
                trouble.append(str(error))
                continue
            try:
                found += read_audit(client, SHOWN)
            except (redis.RedisError, RedisClusterException, OSError) as error:
                trouble.append(f"The audit trail of {target.name} cannot be read: {explain(error).what}.")
            finally:
                client.close()
    found.sort(key=lambda entry: entry.at, reverse=True)
    return found[:SHOWN], " ".join(dict.fromkeys(trouble))


def examined() -> list[Finding]:
    """Run doctor's checks; takes some seconds and looks over the keyspace at an easy pace.

    Raises:
        ConnectError: no server can be found behind a URL.
    """
    chosen = source.sampled()
    evidence = gather(
        source.targets(),
        chosen.sampling(),
        observe=OBSERVED,
        wait=READ,
        scan_keys=SCANNED,
        visibility={},
        say=lambda _: None,
    )
    return examine(evidence)


def _dbs(target: Target) -> tuple[int, ...]:
    return target.dbs or (parse_redis_url(target.url).db,)


def _place(target: str, db: int) -> LockState:
    """Return something that ``open_client`` takes for a lock of that database."""
    return LockState(b"", "", "generic", "held", (), None, 0.0, target=target, db=db)

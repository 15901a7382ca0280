"""The mirror over other roads: TLS, a unix socket, eighty milliseconds of distance."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

import pytest
import trustme

from faraway import far_away
from lockscope_exporter.targets import Target
from mirroring import PATTERNS, assert_same, mirror, storm
from servers import RedisServer, free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def tls_server(tmp_path) -> Iterator[tuple[RedisServer, str]]:
    """Give a server with a TLS port, and the URL of that."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    port = free_port()
    server = RedisServer(
        tls_port=port,
        tls_cert_file=tmp_path / "cert.pem",
        tls_key_file=tmp_path / "key.pem",
        tls_ca_cert_file=tmp_path / "ca.pem",
        tls_auth_clients="no",
    )
    yield server, f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={tmp_path / 'ca.pem'}"
    server.close()


def test_over_tls(tls_server):
    """Tracking pushes arrive over TLS, a storm of them too."""
    server, url = tls_server
    with mirror(targets=[Target(url, patterns=PATTERNS)]) as source:
        assert source.nodes()[0].mode == "tracking"
        storm(server.client(protocol=2), 31, 3000)
        assert_same(source, [(0, server.client(protocol=2))])


def test_over_a_unix_socket(server, client):
    """A socket file is as good an address as any."""
    with mirror(targets=[Target(f"unix://{server.socket}", patterns=PATTERNS)]) as source:
        assert source.nodes()[0].node == server.socket
        client.set("lock:1", "0" * 32, px=60_000)
        wait_until(lambda: source.lock(b"lock:1"))
        assert source.lock(b"lock:1").node == server.socket


def test_far_away(server, client):
    """Eighty milliseconds away, what a scrape needs is answered from memory, and the mirror is as true."""
    for number in range(100):
        client.set(f"lock:{number}", f"{number:032x}", px=600_000)
    with far_away(server.port) as url, mirror(targets=[Target(url, patterns=PATTERNS)]) as source:
        [node] = source.nodes()
        assert node.mode == "tracking"
        took = []
        for _ in range(20):
            began = time.perf_counter()
            source.nodes()
            source.families()
            took.append(time.perf_counter() - began)
        assert statistics.median(took) < 0.05
        storm(client, 32, 500, keys=50, flush=False)
        assert_same(source, [(0, server.client(protocol=2))])
        client.set("lock:marker", "0" * 32, px=600_000)
        wait_until(lambda: source.lock(b"lock:marker"))
        client.delete("lock:marker")
        wait_until(lambda: source.lock(b"lock:marker") is None)
        counts = next(family for family in source.families() if family.prefix == "lock:marker")
        assert (counts.acquired, counts.ended["released"], counts.ended["expired"]) == (1, 1, 0)


def test_far_away_a_release_shortly_before_the_deadline(server, client):
    """The way that news travel does not make a release look like an expiry."""
    with far_away(server.port) as url, mirror(targets=[Target(url, patterns=PATTERNS)]) as source:
        wait_until(lambda: source.nodes()[0].up)
        early = 0
        for attempt in range(1, 3):
            client.set("lock:1", "0" * 32, px=1_000)
            wait_until(lambda: source.lock(b"lock:1"))
            wait_until(lambda: client.pttl("lock:1") < 400, every=0.005)
            left, _ = client.pipeline().pttl("lock:1").delete("lock:1").execute()
            early += left > 100
            wait_until(lambda attempt=attempt: sum(source.families()[0].ended.values()) == attempt)
        assert early
        assert source.families()[0].ended["released"] >= early

"""Connections by every kind of URL, and the one line that each kind of failure gives, on real servers."""

from __future__ import annotations

import signal
import socket
import threading
from typing import TYPE_CHECKING

import pytest
import redis
import trustme

from lockscope_exporter.connect import ConnectError, connect, connect_cluster, connect_node, verify
from lockscope_exporter.explain import explain
from lockscope_exporter.redis_url import UrlError, parse_redis_url
from lockscope_exporter.redis_url_options import OPTIONS
from servers import Process, RedisServer, free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def connect_ex(port: int) -> int:
    """Return 0 once something listens on the port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port))


def line_of(url: str, timeout: float = 1.0) -> str:
    """Return the line that a failing connection gives."""
    with pytest.raises(ConnectError) as caught:
        verify(url, timeout=timeout)
    line = str(caught.value)
    assert line.isprintable()
    return line


@pytest.fixture(scope="module")
def certificates(tmp_path_factory) -> dict[str, str]:
    """Give a throw-away authority and a certificate for 127.0.0.1 as files."""
    folder: Path = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    leaf = authority.issue_cert("127.0.0.1")
    names = {name: str(folder / f"{name}.pem") for name in ("ca", "cert", "key")}
    authority.cert_pem.write_to_path(names["ca"])
    leaf.cert_chain_pems[0].write_to_path(names["cert"])
    leaf.private_key_pem.write_to_path(names["key"])
    return names


@pytest.fixture(scope="module")
def tls_server(certificates) -> Iterator[tuple[RedisServer, int]]:
    """Give a redis-server with a TLS port that asks for no client certificate."""
    port = free_port()
    server = RedisServer(
        tls_port=port,
        tls_cert_file=certificates["cert"],
        tls_key_file=certificates["key"],
        tls_ca_cert_file=certificates["ca"],
        tls_auth_clients="no",
    )
    yield server, port
    server.close()


@pytest.fixture(scope="module")
def guarded_server() -> Iterator[RedisServer]:
    """Give a redis-server with a password and a user who may only ping."""
    server = RedisServer(port=None)
    client = server.client()
    client.acl_setuser(
        "limited", enabled=True, passwords=["+pw"], keys=["lock:*"], commands=["+ping", "+hello"]
    )
    client.config_set("requirepass", "sesame")
    yield server
    server.close()


@pytest.fixture
def listener() -> Iterator[tuple[int, list[bytes]]]:
    """Give a port where something answers one fixed text, put into the list, then closes."""
    answer: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as sock:

        def serve() -> None:
            while True:
                try:
                    peer, _ = sock.accept()
                except OSError:
                    return
                with peer:
                    peer.recv(1000)
                    peer.sendall(b"".join(answer))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield sock.getsockname()[1], answer
        sock.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def test_tcp_and_socket_urls_connect(server):
    """A TCP URL and a socket URL reach the same server, and pick their database."""
    server.client(db=3).set("here", "yes")
    assert connect(f"redis://127.0.0.1:{server.port}/3").get("here") == b"yes"
    assert connect(f"unix://{server.socket}?db=3").get("here") == b"yes"
    assert connect(f"unix://{server.socket}", db=3).get("here") == b"yes"


def test_a_connection_leaves_no_error_on_the_server(own_server):
    """The handshake sends nothing that a server of this version refuses."""
    client = connect(own_server.url)
    client.config_resetstat()
    connect(own_server.url, db=1).ping()
    assert client.info("errorstats") == {}


def test_a_user_with_ping_only_can_connect(guarded_server):
    """The handshake needs no command beyond HELLO, and PING here."""
    verify(f"redis://limited:pw@127.0.0.1:{guarded_server.port}/0")


def test_refused(tmp_path):
    """Nothing listens: the line says so, for a port and for a socket file."""
    assert "connection refused; check that the server runs there" in line_of(
        f"redis://127.0.0.1:{free_port()}"
    )
    assert "there is no such socket file" in line_of(f"unix://{tmp_path}/none.sock")
    (tmp_path / "file").write_text("")
    assert "connection refused" in line_of(f"unix://{tmp_path}/file")


def test_unknown_host():
    """A host name that does not resolve is named as the fault."""
    assert "the host name is not known" in line_of("redis://no-such-host.invalid:6379")


def test_missing_and_wrong_password(guarded_server):
    """A missing and a wrong password get different advice, and no password is shown."""
    base = f"127.0.0.1:{guarded_server.port}"
    assert "wants a password; write it in the URL" in line_of(f"redis://{base}")
    line = line_of(f"redis://:wrong-secret@{base}")
    assert "refused the user name or password" in line
    assert "wrong-secret" not in line
    assert "refused the user name or password" in line_of(f"redis://nobody:x@{base}")
    assert "refused the user name or password" in line_of(f"redis://:wrong@{base}?protocol=2")


def test_missing_permission_is_named(guarded_server):
    """The command that a user may not run is named."""
    client = connect(f"redis://limited:pw@127.0.0.1:{guarded_server.port}")
    with pytest.raises(Exception, match="permission") as caught:
        client.scan(0)
    assert explain(caught.value).what == 'the user may not run "scan"'


def test_refused_writes_and_wrong_types_are_in_plain_words(own_server):
    """A key of another type, a full server, a replica and too few replicas get advice of their own."""
    client = own_server.client()
    client.set("lockscope:journal", "x")

    def said_of(write: str) -> str:
        with pytest.raises(redis.ResponseError) as caught:
            client.execute_command(*write.split())
        what, fix = explain(caught.value)
        assert "the URL" not in fix
        return what

    assert said_of("XADD lockscope:journal * a b") == "the key holds something of another type"
    client.config_set("maxmemory", "1")
    assert said_of("SET a b") == "the server is out of memory and takes no writes"
    client.config_set("maxmemory", "0")
    client.config_set("min-replicas-to-write", "1")
    assert said_of("SET a b") == "the server takes no writes for now"
    client.replicaof("127.0.0.1", "1")
    assert said_of("SET a b") == "this server is a replica and takes no writes"


def test_unknown_database(server):
    """A database number that the server does not have is named as the fault."""
    assert "the server has no such database" in line_of(f"redis://127.0.0.1:{server.port}/9999")


def test_mute_server(own_server):
    """A server that accepts and never answers gives up within the timeout."""
    own_server.signal(signal.SIGSTOP)
    assert "no answer in time" in line_of(own_server.url, timeout=0.2)


def test_not_redis(listener):
    """A web server, or anything else that is no Redis, is recognised."""
    port, answer = listener
    answer[:] = [b"HTTP/1.1 400 Bad Request\r\n\r\n"]
    assert "does not speak the Redis protocol" in line_of(f"redis://127.0.0.1:{port}")
    answer[:] = []
    assert "closed the connection" in line_of(f"redis://127.0.0.1:{port}")


def test_loading_and_old_servers(listener):
    """A server that loads its data, is full, or is too old for RESP3 gets its own advice."""
    port, answer = listener
    answer[:] = [b"-LOADING Redis is loading the dataset in memory\r\n"]
    assert "is loading its data" in line_of(f"redis://127.0.0.1:{port}")
    answer[:] = [b"-ERR max number of clients reached\r\n"]
    assert "no free connection" in line_of(f"redis://127.0.0.1:{port}")
    answer[:] = [b"-ERR unknown command `HELLO`, with args beginning with: `3`, \r\n"]
    assert "add ?protocol=2" in line_of(f"redis://127.0.0.1:{port}")
    answer[:] = [b"-DENIED Redis is running in protected mode because ...\r\n"]
    assert "protected mode" in line_of(f"redis://127.0.0.1:{port}")
    answer[:] = [b"-ERR \x1b[31mstrange\r\n"]
    assert "\\x1b[31mstrange" in line_of(f"redis://127.0.0.1:{port}")


def test_tls(tls_server, certificates):
    """TLS works with the authority given, or with checks off."""
    _, port = tls_server
    verify(f"rediss://127.0.0.1:{port}?ssl_ca_certs={certificates['ca']}")
    verify(f"rediss://127.0.0.1:{port}?ssl_cert_reqs=CERT_NONE")


def test_tls_faults(tls_server, certificates, server, tmp_path):
    """Each TLS mistake has its own line: untrusted, wrong name, no TLS there, TLS wanted, unreadable file."""
    _, port = tls_server
    assert "certificate is not trusted; add ?ssl_ca_certs=" in line_of(f"rediss://127.0.0.1:{port}")
    wrong = line_of(f"rediss://localhost:{port}?ssl_ca_certs={certificates['ca']}")
    assert "certificate is for another name" in wrong
    plain = line_of(f"rediss://127.0.0.1:{server.port}", timeout=0.2)
    assert "a port without TLS does not answer rediss:// either" in plain
    assert "whether it wants TLS" in line_of(f"redis://127.0.0.1:{port}")
    with pytest.raises(UrlError, match="ssl_ca_certs names no file that can be read"):
        verify(f"rediss://127.0.0.1:{port}?ssl_ca_certs={tmp_path}/none.pem")


def test_tls_client_certificate_wanted(certificates):
    """A server that wants a client certificate says so, and is content with one."""
    port = free_port()
    server = RedisServer(
        tls_port=port,
        tls_cert_file=certificates["cert"],
        tls_key_file=certificates["key"],
        tls_ca_cert_file=certificates["ca"],
    )
    try:
        url = f"rediss://127.0.0.1:{port}?ssl_ca_certs={certificates['ca']}"
        assert "client certificate" in line_of(url)
        verify(f"{url}&ssl_certfile={certificates['cert']}&ssl_keyfile={certificates['key']}")
    finally:
        server.close()


def test_not_a_cluster(server):
    """A plain server behind a cluster URL is named as the fault."""
    assert "this server is no cluster" in line_of(f"cluster://127.0.0.1:{server.port}")
    assert "no node of the cluster answers" in line_of(f"cluster://127.0.0.1:{free_port()}")


def test_cluster():
    """A cluster URL reaches the cluster, and one node of it with the same credentials."""
    port = free_port()
    server = RedisServer(port=port, cluster_enabled="yes", cluster_port=free_port())
    try:
        server.client().execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_until(lambda: server.client().cluster("info")["cluster_state"] == "ok")
        url = parse_redis_url(f"cluster://127.0.0.1:{port}")
        verify(url)
        cluster = connect_cluster(url)
        cluster.set("k", "v")
        assert connect_node(url, "127.0.0.1", port).get("k") == b"v"
        cluster.close()
    finally:
        server.close()


def test_sentinel(server, tmp_path):
    """A Sentinel URL follows the master by name; an unknown name is named as the fault."""
    port = free_port()
    configuration = tmp_path / "sentinel.conf"
    configuration.write_text(
        f"port {port}\nbind 127.0.0.1\nsentinel monitor orders 127.0.0.1 {server.port} 1\n"
    )
    sentinel = Process(["redis-server", str(configuration), "--sentinel"], tmp_path / "log")
    try:
        wait_until(lambda: connect_ex(port) == 0, what="sentinel")
        server.client().set("k", "v")
        assert connect(f"sentinel://127.0.0.1:{port}/orders/0").get("k") == b"v"
        line = line_of(f"sentinel://127.0.0.1:{port}/payments")
        assert 'no Sentinel answers or knows a master "payments"' in line
        assert "no Sentinel answers" in line_of(f"sentinel://127.0.0.1:{free_port()}/orders")
    finally:
        sentinel.stop()


VALUES = {
    "socket_timeout": "1", "socket_connect_timeout": "1", "health_check_interval": "3", "protocol": "2",
    "socket_keepalive": "1", "ssl": "1", "ssl_cert_reqs": "none", "ssl_check_hostname": "0",
}  # fmt: skip


@pytest.mark.parametrize(
    "base", ["redis://h", "rediss://h", "unix:///s", "sentinel://h/m", "sentinels://h/m"]
)
@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_is_understood_or_refused(base, name, certificates):
    """No accepted option fails later: the client library takes each one, or the URL is refused."""
    value = VALUES.get(name, certificates["ca"])
    try:
        client = connect(f"{base}?{name}={value}")
    except UrlError:
        assert name.startswith("ssl")
        return
    client.connection_pool.make_connection()
    client.close()


def test_an_error_without_text_is_named():
    """An error with no text at all still gives a line: its type."""
    assert explain(ValueError()).what == "ValueError"

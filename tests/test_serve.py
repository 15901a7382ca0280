"""Listening addresses: what is accepted, and the line for each that cannot be had."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import httpx
import pytest
import trustme
from starlette.responses import PlainTextResponse

from lockscope_exporter import serve
from lockscope_exporter.serve import ListenError, _why, listen, make_server, parse_listen, url_of
from lockscope_exporter.webconnections import Bounded
from lockscope_exporter.webguard import LiveWebConfig
from servers import wait_until

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9963", ("127.0.0.1", 9963)),
        (":9963", ("", 9963)),
        ("9963", ("127.0.0.1", 9963)),
        ("[::1]:9963", ("::1", 9963)),
        ("localhost:0", ("localhost", 0)),
    ],
)
def test_addresses_are_read(text, address):
    """Host and port, a port alone on loopback, every address, and IPv6 in brackets."""
    assert parse_listen(text) == address


@pytest.mark.parametrize(
    "text", ["", "x", "h:70000", "h:-1", "::1:9963", "[::1", "[::1]", "a b:1", "[h]:1", "h:٣"]
)
def test_what_is_no_address(text):
    """Anything else is refused with the form that is meant."""
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse_listen(text)


def test_a_port_in_use_is_named():
    """A port that something else listens on gives one line with what to do."""
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(ListenError, match=f"127.0.0.1:{port}: the port is in use; .* --listen"):
            listen("127.0.0.1", port)


def test_an_address_of_another_host_is_named():
    """A foreign address or an unknown name is told apart from a port in use."""
    with pytest.raises(ListenError, match="this host has no such address"):
        listen("192.0.2.1", 0)
    with pytest.raises(ListenError, match="the host name is not known"):
        listen("no-such-host.invalid", 0)


def test_a_forbidden_port_is_named():
    """A port that needs more rights is told apart from a port in use."""
    assert "no permission for this port" in _why(PermissionError(errno.EACCES, "Permission denied"))


def test_every_address_means_ipv4_too():
    """Without a host, clients of IPv4 reach it, and the URL that is shown is one that works."""
    with listen("", 0) as sock:
        port = sock.getsockname()[1]
        assert url_of(sock, tls=False) == f"http://localhost:{port}"
        socket.create_connection(("127.0.0.1", port)).close()


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_ipv6():
    """An IPv6 address is listened on and shown in brackets."""
    try:
        sock = listen("::1", 0)
    except ListenError:
        pytest.skip("this host has no IPv6 loopback")
    with sock:
        assert url_of(sock, tls=True) == f"https://[::1]:{sock.getsockname()[1]}"


@pytest.mark.parametrize("host", ["127.0.0.1", ""])
def test_answers_over_a_kept_connection_do_not_wait(host):
    """Connections send at once what they have: a scraper that keeps its connection loses 40 ms otherwise."""
    with listen(host, 0) as sock, socket.create_connection(("127.0.0.1", sock.getsockname()[1])):
        connection, _ = sock.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@contextlib.contextmanager
def serving(app=None, web: Path | None = None, **limits: float):
    """Give the address and URL of a running server, and the server itself."""
    server = make_server(app or PlainTextResponse("hello"), LiveWebConfig(web), **limits)
    with listen("127.0.0.1", 0) as sock:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        try:
            yield sock.getsockname(), url_of(sock, tls=False), server
        finally:
            server.should_exit = True
            thread.join(25)
            assert not thread.is_alive()


def test_connections_without_a_request_are_closed():
    """A client that connects and says nothing, or half a request, is dropped; others are served meanwhile."""
    with serving(patience=0.2) as (address, url, server):
        with socket.create_connection(address, 5) as silent, socket.create_connection(address, 5) as slow:
            slow.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
            with httpx.Client() as kept:
                assert kept.get(url).text == "hello"
                assert silent.recv(1) == b""
                assert slow.recv(1) == b""
                assert kept.get(url).text == "hello"
        wait_until(lambda: not server.server_state.connections)


def test_half_a_second_request_is_not_waited_for_either():
    """After its first answer, a client that begins another request and stops is dropped as well."""
    with serving(patience=0.3) as (address, _, server):
        with socket.create_connection(address, 20) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HT")
            client.sendall(b"TP/1.1\r\n")
            assert b"".join(iter(lambda: client.recv(4096), b"")).endswith(b"hello")
        wait_until(lambda: not server.server_state.connections)


def test_an_answer_that_nobody_takes_is_given_up():
    """A client that asks for much and reads nothing does not keep its answer in memory for ever."""
    with serving(PlainTextResponse("x" * 30_000_000), patience=0.3) as (address, _, server):
        for head in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"GET / HTTP/1.0\r\n\r\n"):
            with socket.create_connection(address, 20) as client:
                client.sendall(head)
                wait_until(lambda: server.server_state.connections, what="a connection")
                wait_until(lambda: not server.server_state.connections, what="the end of the connection")


def test_idle_connections_cost_no_answer():
    """However many connections are open and quiet, requests are answered, and the quietest make room."""
    with serving(most=50) as (address, url, server), contextlib.ExitStack() as stack, httpx.Client() as kept:
        assert kept.get(url).status_code == 200
        silent = [stack.enter_context(socket.create_connection(address, 20)) for _ in range(300)]
        wait_until(lambda: silent[200].recv(1) == b"", what="the older connections to be dropped")
        assert kept.get(url).status_code == 200
        assert httpx.get(url).status_code == 200
        assert len(server.server_state.connections) <= 50


def test_requests_in_work_are_bounded():
    """More requests at a time than the server may work on are answered 503, and then it works as before."""
    release, begun = threading.Event(), threading.Semaphore(0)

    async def app(scope, receive, send):
        begun.release()
        await asyncio.to_thread(release.wait, 30)
        await PlainTextResponse("done")(scope, receive, send)

    with serving(Bounded(app, most=3)) as (_, url, _server), ThreadPoolExecutor(3) as pool:
        try:
            waiting = [pool.submit(httpx.get, url, timeout=30) for _ in range(3)]
            for _ in waiting:
                assert begun.acquire(timeout=30)
            assert httpx.get(url).status_code == 503
        finally:
            release.set()
        assert [one.result().text for one in waiting] == ["done"] * 3
        assert httpx.get(url).text == "done"


def test_the_end_waits_for_answers_only(monkeypatch):
    """Told to stop, the server drops clients that asked nothing, or half, and gives the answer in work."""
    monkeypatch.setattr(serve, "_LAST_ANSWERS", 60)
    begun, release = threading.Event(), threading.Event()

    async def app(scope, receive, send):
        begun.set()
        await asyncio.to_thread(release.wait, 60)
        await PlainTextResponse("the answer")(scope, receive, send)

    with serving(app) as (address, url, server), ThreadPoolExecutor(1) as pool:
        with socket.create_connection(address, 20) as silent, socket.create_connection(address, 20) as half:
            half.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
            asked = pool.submit(httpx.get, url, timeout=60)
            assert begun.wait(30)
            wait_until(lambda: len(server.server_state.connections) == 3)
            server.should_exit = True
            assert (silent.recv(1), half.recv(1)) == (b"", b"")
            release.set()
        assert asked.result().text == "the answer"


def test_the_end_does_not_wait_for_those_who_take_no_answer(caplog):
    """A client that reads nothing, or an answer that never comes, holds the end up for a moment only."""

    async def app(scope, receive, send):
        if scope["path"] == "/never":
            await asyncio.Event().wait()
        await PlainTextResponse("x" * 30_000_000)(scope, receive, send)

    with contextlib.ExitStack() as stack:
        with serving(app) as (address, _, server):
            for path in (b"/", b"/never"):
                client = stack.enter_context(socket.create_connection(address, 20))
                client.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path)
            wait_until(lambda: len(server.server_state.connections) == 2)
            wait_until(lambda: len(server.server_state.tasks) == 1)
            began = time.monotonic()
        assert time.monotonic() - began < 15
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "stopped before an answer was ready: /never" in caplog.text


@pytest.fixture
def tls(tmp_path) -> Path:
    """Give a web configuration file that switches TLS on."""
    leaf = trustme.CA().issue_cert("127.0.0.1")
    leaf.private_key_pem.write_to_path(tmp_path / "key.pem")
    leaf.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    path = tmp_path / "web.yml"
    path.write_text("tls_server_config: {cert_file: cert.pem, key_file: key.pem}")
    return path


def test_the_end_does_not_wait_for_a_client_of_tls(tls, monkeypatch):
    """A client that sent half a request over TLS, and does not answer its end, is dropped at once as well."""
    monkeypatch.setattr(serve, "_LAST_ANSWERS", 60)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with contextlib.ExitStack() as stack, serving(web=tls) as (address, _, server):
        client = stack.enter_context(context.wrap_socket(socket.create_connection(address, 20)))
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
        wait_until(lambda: server.server_state.connections, what="a connection")


def test_a_tls_handshake_that_never_ends_is_cut_off(tls, monkeypatch):
    """A client that connects to a TLS port and says nothing does not keep its place for a minute."""
    monkeypatch.setattr(serve, "_HANDSHAKE", 0.2)
    with serving(web=tls) as (address, _, _server), socket.create_connection(address, 20) as silent:
        assert silent.recv(1) == b""

"""Listening addresses: what is accepted, and the line for each that cannot be had."""

from __future__ import annotations

import errno
import socket
import threading

import httpx
import pytest
from starlette.responses import PlainTextResponse

from lockscope_exporter.serve import ListenError, _why, listen, make_server, parse_listen, url_of
from lockscope_exporter.webguard import LiveWebConfig
from servers import wait_until


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


def test_connections_without_a_request_are_closed():
    """A client that connects and says nothing, or half a request, is dropped; others are served meanwhile."""
    server = make_server(PlainTextResponse("hello"), LiveWebConfig(None), patience=0.2)
    with listen("127.0.0.1", 0) as sock:
        address = sock.getsockname()
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        try:
            with socket.create_connection(address, 5) as silent, socket.create_connection(address, 5) as slow:
                slow.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
                with httpx.Client() as kept:
                    assert kept.get(url_of(sock, tls=False)).text == "hello"
                    assert silent.recv(1) == b""
                    assert slow.recv(1) == b""
                    assert kept.get(url_of(sock, tls=False)).text == "hello"
                wait_until(lambda: not server.server_state.connections)
        finally:
            server.should_exit = True
            thread.join(10)

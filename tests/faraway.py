"""A TCP proxy that makes a server far away: every byte arrives later, in order, at full bandwidth."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class FarAway:
    """Forwards connections to a loopback port, each way with a delay.

    Args:
        port: where to forward to.
        one_way: seconds that every byte travels.
        listen: the port of its own, 0 for any that is free.
    """

    def __init__(self, port: int, one_way: float, listen: int = 0) -> None:
        self._target = port
        self._one_way = one_way
        self._listener = socket.create_server(("127.0.0.1", listen))
        self._sockets: list[socket.socket] = []
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop and cut every connection."""
        for end in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._target))
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets += [near, far]
            for source, sink in ((near, far), (far, near)):
                on_the_way: queue.Queue[tuple[float, bytes]] = queue.Queue()
                threading.Thread(target=self._receive, args=(source, on_the_way), daemon=True).start()
                threading.Thread(target=self._deliver, args=(sink, on_the_way), daemon=True).start()

    def _receive(self, source: socket.socket, on_the_way: queue.Queue[tuple[float, bytes]]) -> None:
        data = b"x"
        while data:
            try:
                data = source.recv(65536)
            except OSError:
                data = b""
            on_the_way.put((time.monotonic() + self._one_way, data))

    def _deliver(self, sink: socket.socket, on_the_way: queue.Queue[tuple[float, bytes]]) -> None:
        while True:
            due, data = on_the_way.get()
            time.sleep(max(due - time.monotonic(), 0.0))
            try:
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                sink.sendall(data)
            except OSError:
                return


@contextlib.contextmanager
def far_away(port: int, round_trip: float = 0.08) -> Iterator[str]:
    """Give the URL of a server as seen over a round trip of this many seconds."""
    proxy = FarAway(port, round_trip / 2)
    try:
        yield f"redis://127.0.0.1:{proxy.port}/0"
    finally:
        proxy.close()

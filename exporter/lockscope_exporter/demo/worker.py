"""One demo worker process; arguments: JOB_TYPE REDIS_URL PORT_FILE [LISTEN]."""

from __future__ import annotations

import logging
import signal
import sys
import time
from pathlib import Path
from threading import Event

import redis
from prometheus_client import start_http_server

import lockscope
from lockscope_exporter.demo.roles import ROLES


def main(job_type: str, redis_url: str, port_file: str, listen: str = "127.0.0.1:0") -> int:
    """Work until SIGTERM; a Redis that does not answer is tried again, as a supervised worker would.

    Metrics are served on ``listen`` (``host:port``); the port goes to ``port_file``.
    """
    stop = Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(lockscope.JSONFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    lockscope.instrument(journal=redis_url)
    host, _, port = listen.rpartition(":")
    server, _ = start_http_server(int(port), addr=host)
    part = Path(f"{port_file}.part")
    part.write_text(str(server.server_port))
    part.rename(port_file)  # whole or not there at all
    client = redis.Redis.from_url(redis_url)
    while not stop.is_set():
        try:
            ROLES[job_type](client, stop)
        except redis.RedisError:
            logging.getLogger("demo").exception("%s failed, starting again", job_type)
            time.sleep(1)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

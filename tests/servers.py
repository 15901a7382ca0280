"""Real servers for the tests, each on a private socket or loopback port, stopped by its own process id."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

T = TypeVar("T")


def wait_until(check: Callable[[], T], timeout: float = 10.0, every: float = 0.02, what: str = "") -> T:
    """Poll ``check`` until it returns something true; return that, or fail with its last answer."""
    deadline = time.monotonic() + timeout
    while True:
        answer = check()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {what or check} (last answer: {answer!r})")
        time.sleep(every)


def free_port() -> int:
    """Return a loopback port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Process:
    """A child process with its output in a file; ``stop`` ends it and all it started, by process group."""

    def __init__(
        self, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> None:
        self.command = list(command)
        self.log = log
        with log.open("ab") as sink:
            self.popen = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                cwd=cwd,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self.popen.pid

    def output(self) -> str:
        """Return what the process printed so far."""
        return self.log.read_text(errors="replace")

    def wait(self, timeout: float) -> int:
        """Return the exit code once the process ends; fail with what it printed if that takes too long."""
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            self.stop(signal.SIGKILL)
            raise AssertionError(f"{self.command} ran longer than {timeout} s: {self.output()}") from None

    def stop(self, sig: int = signal.SIGTERM, timeout: float = 10.0) -> int:
        """Send ``sig`` to the process, then SIGKILL to its group if it does not end; return the exit code."""
        if self.popen.poll() is None:
            self.popen.send_signal(sig)
            try:
                self.popen.wait(timeout)
            except subprocess.TimeoutExpired:
                os.killpg(self.popen.pid, signal.SIGKILL)
        code = self.popen.wait(timeout)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        return code


class RedisServer:
    """A real redis-server (or Valkey: pass ``binary``) on a unix socket, and on TCP if ``port`` is given.

    ``port=0`` means no TCP; ``port=None`` picks a free one. Options are redis.conf directives with
    underscores, such as ``maxmemory="4mb"``. Persistence is off unless asked for.
    """

    def __init__(self, port: int | None = 0, binary: str | None = None, **options: Any) -> None:
        self.binary = binary or shutil.which("redis-server") or "redis-server"
        self.dir = Path(tempfile.mkdtemp(prefix="ls-"))
        self.port = free_port() if port is None else port
        self.socket = str(self.dir / "s")
        self.options = options
        self.process: Process | None = None
        self.start()

    @property
    def url(self) -> str:
        """``redis://`` URL if the server has a port, else ``unix://``."""
        return f"redis://127.0.0.1:{self.port}/0" if self.port else f"unix://{self.socket}?db=0"

    def client(self, **options: Any) -> redis.Redis:
        """Return a fresh redis-py client over the unix socket."""
        return redis.Redis(unix_socket_path=self.socket, **options)

    def start(self, *, loaded: bool = True) -> None:
        """Start the server and wait until it answers; ``loaded=False``: also if only that it still loads."""
        command = [self.binary, "--port", str(self.port), "--bind", "127.0.0.1", "--unixsocket", self.socket]
        defaults = {"save": "", "appendonly": "no", "dir": str(self.dir), "daemonize": "no"}
        for name, value in {**defaults, **self.options}.items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        self.process = Process(command, self.dir / "log")
        wait_until(lambda: self._answers(loaded), what=f"{command}: {self.dir / 'log'}")

    def stop(self, sig: int = signal.SIGTERM) -> None:
        """Stop the server; its folder stays for a later ``start``."""
        if self.process is not None:
            self.process.stop(sig)
            self.process = None

    def signal(self, sig: int) -> None:
        """Send a signal to the server process (SIGSTOP pauses it, SIGCONT lets it go on)."""
        assert self.process is not None
        os.kill(self.process.pid, sig)

    def close(self) -> None:
        """Stop the server and remove its folder."""
        if self.process is not None and self.process.popen.poll() is None:
            os.kill(self.process.pid, signal.SIGCONT)
        self.stop()
        shutil.rmtree(self.dir, ignore_errors=True)

    def _answers(self, loaded: bool) -> bool:
        assert self.process is not None
        if self.process.popen.poll() is not None:
            raise AssertionError(f"redis-server ended: {self.process.output()}")
        client = self.client(retry=Retry(NoBackoff(), 0))
        try:
            client.ping()
        except redis.AuthenticationError:
            return True
        except redis.BusyLoadingError:
            return not loaded
        except redis.ConnectionError as error:
            return "NOAUTH" in str(error)
        except redis.ResponseError as error:
            return "NOAUTH" in str(error) or "DENIED" in str(error)
        else:
            return True
        finally:
            client.close()

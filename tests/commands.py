"""The commands as their users run them: real processes of the console script."""

from __future__ import annotations

import re
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

import httpx

from servers import Process, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping

SCRIPT = str(Path(sys.executable).with_name("lockscope"))


class Exporter:
    """A running ``lockscope export`` on a free port; a context manager.

    Args:
        url: where Redis is; empty if ``arguments`` say it.
        arguments: further words of the command line.
        env: further environment variables.
        tls: the exporter serves TLS.
    """

    def __init__(
        self, url: str, *arguments: str, env: Mapping[str, str] | None = None, tls: bool = False
    ) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="ls-export-")
        where = ["--redis-url", url] if url else []
        command = [SCRIPT, "export", *where, "--listen", "127.0.0.1:0", *arguments]
        self.process = Process(command, Path(self.folder.name) / "log", env)
        self.tls = tls
        try:
            self.url = wait_until(self._announced, timeout=30, what=f"{command} to serve")[1]
        except AssertionError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, path: str = "/metrics", **options: object) -> httpx.Response:
        """Ask once over a fresh connection."""
        return httpx.get(self.url + path, timeout=10, **options)  # type: ignore[arg-type]

    def value(self, name: str, **labels: str) -> float | None:
        """Return the value of the only series of this name and these labels, ``None`` if there is none."""
        found = series(self.get().text, name, **labels)
        assert len(found) <= 1, found
        return found[0] if found else None

    def wait_ready(self) -> Exporter:
        """Wait for ``/-/ready``."""
        wait_until(lambda: self.get("/-/ready").status_code == 200, timeout=30, what="ready")
        return self

    def close(self, sig: int = signal.SIGTERM) -> int:
        """Stop it; return its exit status."""
        code = self.process.stop(sig)
        self.folder.cleanup()
        return code

    def _announced(self) -> re.Match[str] | None:
        assert self.process.popen.poll() is None, self.process.output()
        return re.search(r"serving (https?://\S+)/metrics", self.process.output())


def series(text: str, name: str, **labels: str) -> list[float]:
    """Return the values of all series of a name with at least these labels, from the plain text format."""
    values = []
    for line in text.splitlines():
        found = re.fullmatch(rf"{name}(?:\{{(.*)\}})? (\S+)", line)
        if found and labels.items() <= dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', found[1] or "")).items():
            values.append(float(found[2]))
    return values

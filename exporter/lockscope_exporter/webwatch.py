"""What ``lockscope watch --exporter`` asks for: everything that is live, and what workers said since."""

from __future__ import annotations

import gzip
import re
import secrets
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route

from lockscope_exporter.exposition import accepts_gzip
from lockscope_exporter.listing import family_object, lock_object, node_object
from lockscope_exporter.watching.tail import Heard
from lockscope_exporter.webshared import encoded, json_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.requests import Request

    from lockscope_exporter.source import Source
    from lockscope_exporter.watching.tail import Tail
    from lockscope_exporter.webshared import Shared

_FRESH = 0.4  # seconds that a snapshot serves whoever asks next
_SHARE = 4.0  # times its own cost that a snapshot serves, so that watching takes a fifth of a core at most
_GZIP_LEVEL = 1
_MOST = 1_000  # happenings in one answer
_TIMEOUT = 10.0
_NUMBER = re.compile(r"[0-9]{1,15}")


class WatchApi:
    """Answers people who watch through the exporter; a hundred of them cost what one costs.

    Args:
        source: a running source.
        tail: what workers told the journal; ``None`` where no journal is read.
        errors: returns why a journal cannot be read.
        shared: runs the work.
    """

    def __init__(
        self, source: Source, tail: Tail | None, errors: Callable[[], Sequence[str]], shared: Shared
    ) -> None:
        self._source = source
        self._tail = tail
        self._errors = errors
        self._shared = shared
        self._run = secrets.token_hex(8)
        self._snapshot = _Snapshot(source)

    def routes(self) -> list[Route]:
        """Return its routes."""
        return [
            Route("/api/v1/snapshot", self.snapshot),
            Route("/api/v1/happened", self.happened),
        ]

    async def snapshot(self, request: Request) -> Response:
        """Answer with every lock, the counts by prefix and the state of every node."""
        if not self._source.ready():
            return json_answer({"error": "first sample not complete"}, 503)
        compress = accepts_gzip(request.headers.get("accept-encoding", ""))
        work = partial(self._snapshot.body, compress=compress)
        try:
            body = await self._shared.run(("snapshot", compress), work, _TIMEOUT)
        except TimeoutError:
            return json_answer({"error": f"not done within {_TIMEOUT:.0f} s"}, 503)
        headers = {"Vary": "Accept-Encoding"} | ({"Content-Encoding": "gzip"} if compress else {})
        return Response(body, media_type="application/json", headers=headers)

    async def happened(self, request: Request) -> Response:
        """Answer with what came after a number of this run; without one, with the last number."""
        query = request.query_params
        after, run = query.get("after"), query.get("run", self._run)
        if set(query) - {"after", "run"} or not (after is None or _NUMBER.fullmatch(after)):
            return json_answer(
                {"error": "give run=NAME and after=NUMBER as answered here before, or nothing"}, 400
            )
        if self._tail is None:
            heard = Heard([], 0, 0)
        elif run != self._run:
            heard = self._tail.after(0)  # numbers of another run of the exporter say nothing here: all is new
        else:
            heard = self._tail.after(None if after is None else int(after))
        told = heard.happened[-_MOST:]
        return json_answer({
            "run": self._run,
            "last": heard.last,
            "missed": heard.missed + len(heard.happened) - len(told),
            "happened": [one.to_object() for one in told],
            "journal": self._tail is not None,
            "errors": list(self._errors()),
        })  # fmt: skip


class _Snapshot:
    """Everything as bytes, made again only when it is no longer fresh."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._guard = threading.Lock()
        self._bodies: dict[bool, bytes] = {}
        self._made = 0.0
        self._cost = 0.0

    def body(self, *, compress: bool) -> bytes:
        """Return the body of an answer."""
        with self._guard:
            began = time.monotonic()
            if not self._bodies or began - self._made > max(_FRESH, _SHARE * self._cost):
                self._bodies = {False: self._whole()}
                self._made, self._cost = began, 0.0
            if compress not in self._bodies:
                self._bodies[compress] = gzip.compress(self._bodies[False], _GZIP_LEVEL, mtime=0)
            self._cost = max(self._cost, time.monotonic() - began)
            return self._bodies[compress]

    def _whole(self) -> bytes:
        locks = self._source.locks()
        families = self._source.families()
        # One by one: encoding everything at once would keep every other thread waiting.
        parts = {
            "locks": [encoded(lock_object(lock)) for lock in locks],
            "families": [encoded(family_object(family)) for family in families],
            "nodes": [encoded(node_object(node)) for node in self._source.nodes()],
        }
        return b"{%s}" % b",".join(
            b'"%s":[%s]' % (name.encode(), b",".join(found)) for name, found in parts.items()
        )

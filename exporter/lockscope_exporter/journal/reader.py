"""Follow the journal of one target with a thread of its own; several exporters may read the same."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

import redis
from redis.exceptions import NoPermissionError, RedisClusterException

from lockscope.clock import ServerClock
from lockscope.journal import DB, KEY
from lockscope_exporter.connect import connect, connect_cluster
from lockscope_exporter.explain import explain
from lockscope_exporter.redis_url import parse_redis_url
from lockscope_exporter.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockscope_exporter.journal.leases import Overlap
    from lockscope_exporter.journal.ledger import JournalLedger
    from lockscope_exporter.targets import Target

_log = logging.getLogger("lockscope.journal")
_BLOCK = 1.0  # seconds that a read waits for something new
_BATCH = 100  # entries in one answer
_ANSWER = 5.0  # seconds for one answer
_PAUSE = 1.0  # seconds before a server that failed is tried again
_CLOCK_EVERY = 10.0
_START = "0-0"

Fields = dict[bytes, bytes]


class JournalReader:
    """Reads the journal into a ledger.

    An exporter that starts while the whole journal is still there counts it from the beginning, so its
    counters go on where they were before a restart. Where the beginning was trimmed off, it counts from now
    on and takes what is left as history only: counters that start again somewhere in the middle would look
    like a burst of events.

    Args:
        target: whose journal; whatever database its URL names, the stream is in the first.
        ledger: where entries go.
        guard: held around every use of the ledger.

    Attributes:
        error: why the journal cannot be read, in one line; empty if it can.
        caught_up: everything that was there was read once.
    """

    def __init__(self, target: Target, ledger: JournalLedger, guard: threading.RLock) -> None:
        self.error = ""
        self.caught_up = threading.Event()
        self._target = target
        self._url = parse_redis_url(target.url)
        self._ledger = ledger
        self._guard = guard
        self._clock = ServerClock()
        self._clock_at = 0.0
        self._last: str | bytes | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"lockscope-{target.name}-journal", daemon=True
        )

    def start(self) -> None:
        """Begin in the background."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end."""
        self._stopping.set()

    def join(self) -> None:
        """Wait for the thread to end."""
        if self._thread.is_alive():
            self._thread.join()

    def now(self) -> float:
        """Return the server's unix time in seconds, as far as known."""
        return time.time() + self._clock.offset()

    def _run(self) -> None:
        while not self._stopping.is_set():
            client: Any = None
            try:
                client = self._open()
                self._clock_at = 0.0
                while not self._stopping.is_set():
                    self._read(client)
            except (redis.RedisError, RedisClusterException, OSError) as error:
                reason = explain(error)
                self._fail(f"{reason.what}; {reason.fix}")
            except Exception as error:  # noqa: BLE001 - whatever it is, reading has to go on
                _log.exception("reading the journal of %s failed", self._target.name)
                self._fail(explain(error).what)
            finally:
                if client is not None:
                    with contextlib.suppress(Exception):
                        client.close()
            self._stopping.wait(_PAUSE)

    def _open(self) -> Any:
        if self._url.kind == "cluster":
            return connect_cluster(self._url, timeout=_ANSWER, protocol=2)
        return connect(self._url, timeout=_ANSWER, db=DB, protocol=2)

    def _read(self, client: Any) -> None:
        if time.monotonic() >= self._clock_at:
            self._clock_at = time.monotonic() + _CLOCK_EVERY
            with contextlib.suppress(
                redis.ResponseError
            ):  # TIME may not be granted; then this host's clock is it
                self._clock.measure(lambda: _time(client))
            self._notice_another(client)
        if self._last is None:
            self._begin(client)
        wait = None if not self.caught_up.is_set() else int(_BLOCK * 1000)
        answer = client.xread({KEY: self._last}, count=_BATCH, block=wait)
        entries = answer[0][1] if answer else []
        self._take(entries, count=True)
        if len(entries) < _BATCH:
            self.caught_up.set()
        self.error = ""

    def _notice_another(self, client: Any) -> None:
        """Begin anew with a stream that took this one's place and numbers its entries lower.

        So it is after a failover to a host whose clock is behind, or if the stream was deleted and the clock
        set back. What was counted before is not counted again: entries have numbers of their own.
        """
        if self._last is None:
            return
        with contextlib.suppress(NoPermissionError):
            _, newest = _extent(client)
            if _place(newest) < _place(self._last):
                self._last = _START

    def _begin(self, client: Any) -> None:
        """Decide from where to count, and read what was before as history."""
        whole, last = _extent(client)
        if not whole:
            position = _START
            while not self._stopping.is_set():
                answer = client.xrange(
                    KEY, min="-" if position == _START else b"(" + _raw(position), max=last, count=_BATCH
                )
                if not answer:
                    break
                self._take(answer, count=False)
                position = answer[-1][0]
        self._last = _START if whole else last

    def _take(self, entries: Iterable[tuple[bytes, Fields | None]], *, count: bool) -> None:
        with self._guard:
            for number, fields in entries:
                if count:
                    self._last = number
                if fields is not None:
                    self._ledger.take(fields, count=count)
            found = self._ledger.tick(self.now(), count=count)
        if count:
            for overlap in found:
                _report(overlap, self._target.name)

    def _fail(self, why: str) -> None:
        if why != self.error:
            _log.warning("the journal of %s cannot be read: %s", self._target.name, why)
        self.error = why
        self.caught_up.set()


def _extent(client: Any) -> tuple[bool, bytes | str]:
    """Return whether the stream has lost none of its entries, and the last one's id.

    Raises:
        redis.ResponseError: the key holds something else, or may not be read.
    """
    try:
        about = client.xinfo_stream(KEY)
    except NoPermissionError:
        newest = client.xrevrange(KEY, count=1)
        return not newest, newest[0][0] if newest else _START
    except redis.ResponseError as error:
        if "no such key" in str(error):
            return True, _START
        raise
    added = about.get("entries-added")  # since Redis 7.0
    return added is not None and int(added) == int(about["length"]), about["last-generated-id"]


def _place(number: bytes | str) -> tuple[int, int]:
    """Return the two numbers of an entry's id, which are what ids are ordered by."""
    milliseconds, _, sequence = _raw(number).partition(b"-")
    return int(milliseconds), int(sequence)


def _time(client: Any) -> Any:
    answer = client.time()
    return answer[0] if isinstance(answer, dict) else answer


def _raw(position: bytes | str) -> bytes:
    return position.encode() if isinstance(position, str) else position


def _report(overlap: Overlap, target: str) -> None:
    first, second = overlap.first.writer, overlap.second.writer
    _log.warning(
        "two holders of %s at once for %.3f s: %s/%s had lost it, %s/%s came in",
        shown(overlap.key.decode("utf-8", "backslashreplace"), 200),
        overlap.seconds,
        shown(first.host, 80),
        first.pid,
        shown(second.host, 80),
        second.pid,
        extra={
            "event": "lock.overlap",
            "lock_key": shown(overlap.key.decode("utf-8", "backslashreplace"), 512),
            "prefix": overlap.prefix,
            "target": target,
            "overlap_seconds": round(overlap.seconds, 6),
        },
    )

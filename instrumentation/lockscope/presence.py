"""Presence: one connection a process and server that is there as long as the process is.

It subscribes to ``lockscope:alive:<worker>``. Readers ask ``PUBSUB NUMSUB``: when the process ends, in
whatever way, its socket closes and the count drops. Nothing is written, and a paused process stays present.

Tokens say how far to trust that: ``p=1`` where the server had confirmed the subscription before the lock was
taken, ``p=0`` where there is none, nothing while it is not known yet.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import threading
import time
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

import redis

from lockscope.endpoints import EndpointError, endpoint_of
from lockscope.guards import guard
from lockscope.interrupts import interrupts
from lockscope.tokens import process

if TYPE_CHECKING:
    from lockscope.endpoints import Endpoint

CHANNEL: Final = "lockscope:alive:"
CONFIRMED: Final = ";p=1"
ABSENT: Final = ";p=0"
UNKNOWN: Final = ""

_PING = 15.0  # seconds of silence before the connection is tried
_FIRST_WAIT = 0.25  # seconds that a process's first acquire may wait for its presence, should TLS take long
_PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6, 3.0)  # seconds before a new attempt; readers forgive ten
_STABLE = 5.0  # seconds after which a connection that fails did not fail at once
_REFUSED_PAUSE = 60.0  # seconds before a server that refused is asked again
_MARK = "_lockscope_presence"
_jitter = random.Random()  # its own: the application's sequence of random numbers stays as it is
_log = logging.getLogger("lockscope.presence")


class Announcement:
    """The presence of this process at one server.

    Attributes:
        flag: what tokens say of it: ``CONFIRMED``, ``ABSENT`` or ``UNKNOWN``.
        started: its thread runs, in this process.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.clients: WeakSet[Any] = WeakSet()
        self.refresh()

    def refresh(self) -> None:
        """Begin anew without any connection or thread, as in a forked child."""
        self.flag = UNKNOWN
        self.started = False
        self._starting = threading.RLock()  # a signal handler may take a lock as well
        self._tried = threading.Event()
        self._connection: Any = None
        self._complained = False

    def start(self) -> None:
        """Start the thread, and wait a moment for its first attempt."""
        with self._starting:
            if not self.started:
                # A few milliseconds of the first acquire buy tokens that prove what they say.
                self.started = True
                try:
                    threading.Thread(target=self._run, name="lockscope-presence", daemon=True).start()
                except RuntimeError:  # no more threads, or the interpreter is about to end
                    self.started = False
                    self.flag = ABSENT
                    return
        self._tried.wait(_FIRST_WAIT)

    def leave(self) -> None:
        """Close this process's copy of a connection that belongs to the parent."""
        if self._connection is not None:
            with contextlib.suppress(Exception):
                self._connection.disconnect()

    def _run(self) -> None:
        failures = 0
        while not self._done():
            confirmed = False
            began = time.monotonic()
            try:
                connection = self.endpoint.open(self._keep)
                self._subscribe(connection)
                self.flag, confirmed = CONFIRMED, True
                self._tried.set()
                self._stay(connection)
            except redis.ResponseError as error:
                self.flag = ABSENT
                pause = _REFUSED_PAUSE
                self._complain(error)
            except Exception as error:  # noqa: BLE001 - whatever it was, presence goes on trying
                if confirmed:
                    failures = 0
                    pause = 0.0 if time.monotonic() - began > _STABLE else _PAUSES[0]
                else:
                    self.flag = ABSENT
                    pause = _PAUSES[min(failures, len(_PAUSES) - 1)] * _jitter.uniform(0.75, 1.0)
                    failures += 1
                _log.debug("presence lost its connection: %r", error)
            self._drop()
            self._tried.set()
            time.sleep(pause)

    def _done(self) -> bool:
        """Tell whether the application has no client of this server any more; nothing is left to do then."""
        with self._starting:
            if self.clients or not self._tried.is_set():
                return False
            self.refresh()
            return True

    def _keep(self, connection: Any) -> None:
        self._connection = connection

    def _complain(self, error: Exception) -> None:
        if not self._complained:
            self._complained = True
            _log.warning(
                "the server refuses presence, so nobody can tell whether holders live (%s); grant SUBSCRIBE "
                "and the channels %s*, or switch it off with LOCKSCOPE_PRESENCE=0",
                error,
                CHANNEL,
            )

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.disconnect()

    def _subscribe(self, connection: Any) -> None:
        """Subscribe, under a name that ``CLIENT LIST`` shows."""
        channel = CHANNEL + process.worker
        with contextlib.suppress(redis.ResponseError):  # the name is for people; it may be forbidden
            connection.send_command("CLIENT", "SETNAME", channel)
            connection.read_response()
        connection.send_command("SUBSCRIBE", channel)
        connection.read_response()

    def _stay(self, connection: Any) -> None:
        """Read until the connection fails; ping when there is nothing to read."""
        while True:
            if not connection.can_read(timeout=_PING):
                connection.send_command("PING")
            connection.read_response()


_making = guard()
_announcements: dict[tuple[object, ...], Announcement] = {}
_NOWHERE: Final = "none"


def announce(client: Any) -> str:
    """Be present at the server of this client.

    Args:
        client: the client of a lock that is about to be acquired.

    Returns:
        What the lock's token says of presence, to be appended to its head.
    """
    mark = getattr(client, _MARK, None)
    if type(mark) is not Announcement:
        if mark is _NOWHERE:
            return ABSENT
        mark = _announcement(client)
        if mark is None:
            return ABSENT
    if not mark.started:
        mark.start()
    return mark.flag


def _announcement(client: Any) -> Announcement | None:
    found: Announcement | None = None
    try:
        endpoint = endpoint_of(client)
        with _making:
            found = _announcements.get(endpoint.key)
            if found is None:
                found = _announcements[endpoint.key] = Announcement(endpoint)
        found.clients.add(client)
    except EndpointError as error:
        _log.debug("no presence: %s", error)
    except Exception as error:  # a client of unknown make must go on working
        if interrupts(error):
            raise
        _log.debug("no presence", exc_info=True)
    try:
        setattr(client, _MARK, found or _NOWHERE)
    except Exception as error:  # a client that takes no attributes is looked up each time
        if interrupts(error):
            raise
    return found


def _in_child() -> None:
    for announcement in _announcements.values():
        announcement.leave()
        announcement.refresh()


os.register_at_fork(after_in_child=_in_child)

"""Watching through an exporter: no access to Redis is needed, and Redis notices nothing."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from lockscope_exporter.state import NodeStatus
from lockscope_exporter.watching import told
from lockscope_exporter.watching.address import AnswerError, Asker, NotYetError
from lockscope_exporter.watching.happenings import Happening
from lockscope_exporter.watching.objects import (
    count,
    family_of,
    happening_of,
    lock_of,
    node_of,
    sentence,
    text,
)
from lockscope_exporter.watching.tail import Tail
from lockscope_exporter.watching.watched import Look

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockscope_exporter.watching.address import Address
    from lockscope_exporter.watching.tail import Heard

_TIMEOUT = 5.0  # seconds for a connection
_FAREWELL = 0.5  # seconds for the thread to end; it holds nothing that would be missed
_KEPT = 2_000
_RUN = 100  # characters of the name of a run
_SHARE = 4.0  # times what taking in an answer costs that it is left alone


class Remote:
    """A ``Watched`` that asks an exporter.

    Args:
        address: of the exporter.
        every: seconds between two questions, at least.
        journal: ask for what workers told, too.
    """

    def __init__(self, address: Address, *, every: float, journal: bool) -> None:
        self._address = address
        self._every = every
        self._journal = journal
        self._asker = Asker(address, _TIMEOUT)
        self._tail = Tail(since=0.0, most=_KEPT)
        self._asked: tuple[str, int] | None = None
        self._look = Look((), (), ())
        self._notes: tuple[str, ...] = ()
        self._trouble = ""
        self._ready = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lockscope-watch-exporter", daemon=True)

    def check(self) -> None:
        """Ask once, so that what is wrong with the address is said at once.

        Raises:
            AnswerError: the exporter gives no answer that can be used.
        """
        try:
            self._hear()
            with contextlib.suppress(NotYetError):
                self._take()
        except BaseException:
            self._asker.close()
            raise

    def start(self) -> None:
        """Begin in the background."""
        self._thread.start()

    def stop(self) -> None:
        """End, and close the connection."""
        self._stopping.set()
        self._asker.cut()
        self._thread.join(_FAREWELL)

    def wait_ready(self, timeout: float) -> bool:
        """Wait until the exporter has told everything once; return whether it has."""
        return self._ready.wait(timeout)

    def look(self) -> Look:
        """Return what the exporter said last."""
        return self._look

    def after(self, number: int | None) -> Heard:
        """Return what workers told after a number."""
        return self._tail.after(number)

    def notes(self) -> tuple[str, ...]:
        """Return why something is missing."""
        return self._notes

    @property
    def trouble(self) -> str:
        """Why there is no answer at the moment; else empty."""
        return self._trouble

    def _run(self) -> None:
        pause = self._every
        while not self._stopping.wait(pause):
            spent = time.thread_time()  # what waiting for an answer costs, the exporter spares by itself
            try:
                self._take()
                self._hear()
                self._say("")
            except AnswerError as error:
                if not self._stopping.is_set():
                    self._fail(str(error))
            pause = max(self._every, _SHARE * (time.thread_time() - spent))
        self._asker.close()

    def _take(self) -> None:
        answer = self._asker.ask("/api/v1/snapshot")
        with _understood():
            self._look = Look(
                [lock_of(one) for one in answer["locks"]],
                [family_of(one) for one in answer["families"]],
                [node_of(one) for one in answer["nodes"]],
            )
        self._ready.set()

    def _hear(self) -> None:
        """Take in what workers told since the last question; the first one only asks for its number."""
        path = "/api/v1/happened"
        if self._asked is not None:
            path += "?run={}&after={}".format(*self._asked)
        answer = self._asker.ask(path)
        with _understood():
            self._asked = quote(text(answer["run"])[:_RUN], safe="", errors="replace"), count(answer["last"])
            if not self._journal:
                return
            for one in answer["happened"]:
                self._tail.note(happening_of(one))
            if missed := count(answer["missed"]):
                self._tail.note(told.missed(missed, time.time()))
            self._notes = tuple([f"journal: {sentence(error)}" for error in answer["errors"]])
            if not answer["journal"]:
                self._notes = ("the exporter reads no journal (--journal): waiting and losses are not shown",)

    def _say(self, trouble: str) -> None:
        """Tell once of trouble, and of its end."""
        if trouble != self._trouble:
            text = trouble or f"exporter {self._address.shown}: answers again"
            self._tail.note(Happening(time.time(), "note", "", text=text))
        self._trouble = trouble

    def _fail(self, why: str) -> None:
        """Keep what was said last, and say that it is old."""
        self._say(f"exporter {self._address.shown}: {why}")
        nodes = [replace(node, up=False, error=f"exporter: {why}") for node in self._look.nodes]
        if not nodes:
            nodes = [
                NodeStatus("default", self._address.shown, up=False, mode="", age_seconds=0.0, error=why)
            ]
        self._look = self._look._replace(nodes=nodes, old=True)


@contextlib.contextmanager
def _understood() -> Iterator[None]:
    """Turn what an answer lacks into one error."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise AnswerError(f"answers in a form of another version ({type(error).__name__}: {error})") from None

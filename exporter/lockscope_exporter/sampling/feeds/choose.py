"""The best feed that a server and its permissions allow, and why it is not a better one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from redis.exceptions import ResponseError

from lockscope_exporter.explain import explain
from lockscope_exporter.sampling.feeds.notifications import NotificationFeed, missing_classes
from lockscope_exporter.sampling.feeds.scan import NoFeed
from lockscope_exporter.sampling.feeds.tracking import TrackingFeed
from lockscope_exporter.sampling.watch import MAX_TRACKED, tracked_prefixes
from lockscope_exporter.text import shown_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from threading import Event

    from redis.connection import AbstractConnection

    from lockscope_exporter.sampling.feeds.changes import Feed
    from lockscope_exporter.sampling.watch import Watch
    from lockscope_exporter.sampling.wire import Line
    from lockscope_exporter.targets import SamplingOptions

_RESP3 = 3


class Chosen(NamedTuple):
    """A running feed.

    Attributes:
        feed: the feed.
        warnings: sentences on what it cannot do, or why it is not a better one.
        blind: globs that it does not tell of; only looking finds their keys.
    """

    feed: Feed
    warnings: tuple[str, ...] = ()
    blind: tuple[bytes, ...] = ()


def choose_feed(
    line: Line,
    connect: Callable[[], AbstractConnection],
    watch: Watch,
    dbs: Sequence[int],
    options: SamplingOptions,
    stopping: Event,
) -> Chosen:
    """Start the best feed.

    Args:
        line: where to ask what the server is set to.
        connect: opens a further connection.
        watch: the keys that matter.
        dbs: the databases that matter.
        options: the feed that is wanted, and the seconds of silence after which the server counts as lost.
        stopping: ends all waiting.

    Raises:
        redis.ResponseError: the one feed that is wanted cannot be had.
        redis.ConnectionError, redis.TimeoutError: the connection is lost.
    """
    warnings: list[str] = []
    for mode, start in (
        ("tracking", partial(_tracking, line, connect, watch, options.timeout)),
        ("notifications", partial(_notifications, line, connect, watch.globs, dbs, options.timeout)),
    ):
        if options.mode not in ("auto", mode):
            continue
        try:
            chosen = start()
        except ResponseError as error:
            if options.mode == mode:
                raise
            warnings.append(explain(error).what)
        else:
            return chosen._replace(warnings=(*warnings, *chosen.warnings))
    if options.mode == "auto":
        warnings.append("changes are found by scanning only: short locks may go unseen")
    return Chosen(NoFeed(stopping), tuple(warnings))


def _tracking(line: Line, connect: Callable[[], AbstractConnection], watch: Watch, timeout: float) -> Chosen:
    prefixes, blind = tracked_prefixes(watch.globs)
    if not prefixes:
        raise ResponseError("tracking needs patterns that begin with fixed text")
    if len(prefixes) > MAX_TRACKED:
        raise ResponseError(
            f"{len(prefixes)} distinct prefixes are too many to track (at most {MAX_TRACKED}), every write "
            "to the server would cost more: use fewer, broader patterns"
        )
    if int(line.connection.protocol) != _RESP3:
        raise ResponseError("tracking needs RESP3, but the URL says protocol=2")
    connection = connect()
    try:
        feed = TrackingFeed(connection, [one for one in prefixes if one not in watch.lazy], timeout)
    except ResponseError:
        connection.disconnect()  # type: ignore[no-untyped-call]
        raise
    return Chosen(feed, tuple(map(_blind_warning, blind)), blind)


def _notifications(
    line: Line,
    connect: Callable[[], AbstractConnection],
    globs: Sequence[bytes],
    dbs: Sequence[int],
    timeout: float,
) -> Chosen:
    answer = line.ask_one(b"CONFIG", b"GET", b"notify-keyspace-events")
    pairs = answer if isinstance(answer, dict) else dict(zip(answer[::2], answer[1::2], strict=True))
    setting: bytes = pairs.get(b"notify-keyspace-events", b"")
    lacks = missing_classes(setting.decode())
    if lacks:
        raise ResponseError(f"keyspace notifications lack {', '.join(lacks)}")
    connection = connect()
    try:
        return Chosen(NotificationFeed(connection, globs, dbs, setting.decode(), timeout))
    except ResponseError:
        connection.disconnect()  # type: ignore[no-untyped-call]
        raise


def _blind_warning(glob: bytes) -> str:
    return (
        f"pattern {shown_key(glob, 60)} begins with a wildcard and cannot be tracked: "
        "its keys are found by scanning"
    )

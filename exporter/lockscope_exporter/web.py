"""The exporter's web application: metrics, health, a landing page and the locks as JSON."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from lockscope_exporter import exposition
from lockscope_exporter.collector import LockCollector
from lockscope_exporter.collectors import OfTarget, Overflow, Together
from lockscope_exporter.configuration import OptionError, glob
from lockscope_exporter.landing import landing_page
from lockscope_exporter.listing import ORDERS, STATES, Filter, lock_object, node_object, select
from lockscope_exporter.redis_url import hide_passwords
from lockscope_exporter.text import shown
from lockscope_exporter.webshared import Shared, encoded, json_answer
from lockscope_exporter.webwatch import WatchApi

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from prometheus_client.registry import Collector
    from starlette.datastructures import QueryParams
    from starlette.requests import Request

    from lockscope_exporter.source import Source
    from lockscope_exporter.state import NodeStatus
    from lockscope_exporter.watching.tail import Tail

SCRAPE_TIMEOUT_HEADER = "X-Prometheus-Scrape-Timeout-Seconds"
MAX_LISTED = 10_000

_DEFAULT_TIMEOUT = 10.0  # Prometheus' own default for a scrape
_MARGIN = 0.1  # share of the scraper's timeout that is left for the answer's way back
_NOTHING_FOREIGN = "default-src 'none'; style-src 'unsafe-inline'"
_NAMED = 20  # targets that a message names
_STALE_AFTER = 60.0  # seconds without a word from a node that counts as up


def create_app(
    source: Source,
    *collectors: Collector,
    tail: Tail | None = None,
    errors: Callable[[], Sequence[str]] = tuple,
) -> Starlette:
    """Return the application that serves what a source knows.

    Args:
        source: a running source; starting and stopping it is the caller's.
        collectors: further metrics to serve.
        tail: what workers told the journal, for people who watch; ``None`` where none is read.
        errors: returns why a journal cannot be read.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Together(LockCollector(source), Overflow(source), *collectors))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    handlers = _Handlers(source, registry, collectors)
    return Starlette(
        routes=[
            Route("/", handlers.landing),
            Route("/metrics", handlers.metrics),
            Route("/probe", handlers.probe),
            Route("/-/healthy", handlers.healthy),
            Route("/-/ready", handlers.ready),
            Route("/api/v1/locks", handlers.locks),
            *WatchApi(source, tail, errors, Shared(threads=1)).routes(),
        ]
    )


class _Handlers:
    def __init__(
        self, source: Source, registry: CollectorRegistry, collectors: Sequence[Collector] = ()
    ) -> None:
        self._source = source
        self._registry = registry
        self._collectors = collectors
        self._scrapes = Shared(threads=2)
        self._lists = Shared(threads=1)

    async def metrics(self, request: Request) -> Response:
        """Answer a scrape of everything."""
        return await self._scrape(request, "", lambda: self._registry)

    async def probe(self, request: Request) -> Response:
        """Answer a scrape of one configured target; a name only, so nobody can aim the exporter elsewhere."""
        names = request.query_params.getlist("target")
        if len(names) != 1 or set(request.query_params) != {"target"}:
            return PlainTextResponse(
                f"name one target, as in /probe?target={self._source.names()[0]}, and nothing else\n", 400
            )
        part = self._source.part(names[0])
        if part is None:
            return PlainTextResponse(f"{no_such_target(names[0], self._source.names())}\n", 404)
        return await self._scrape(request, names[0], partial(_registry_of, part, names[0], self._collectors))

    async def _scrape(
        self, request: Request, name: str, registry: Callable[[], CollectorRegistry]
    ) -> Response:
        """Answer in the format that is asked for, within the time that there is."""
        content_type = exposition.negotiate(request.headers.get("accept", ""))
        compress = exposition.accepts_gzip(request.headers.get("accept-encoding", ""))
        timeout = scrape_timeout(request.headers.get(SCRAPE_TIMEOUT_HEADER, ""))
        work = partial(_rendered, registry, content_type, compress=compress)
        try:
            body = await self._scrapes.run((name, content_type, compress), work, timeout)
        except TimeoutError:
            return PlainTextResponse(f"not done within the scrape's timeout ({timeout:.1f} s)\n", 503)
        headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
        if compress:
            headers["Content-Encoding"] = "gzip"
        return Response(body, headers=headers)

    async def healthy(self, request: Request) -> Response:
        """Answer 200 unless a node that counts as up has been silent: then a restart would help."""
        del request
        silent = silent_nodes(self._source.nodes())
        if silent:
            return PlainTextResponse(f"silent for more than {_STALE_AFTER:.0f} s: {', '.join(silent)}\n", 503)
        return PlainTextResponse("healthy\n")

    async def ready(self, request: Request) -> Response:
        """Answer 200 once every target was sampled or found unreachable."""
        del request
        if not self._source.ready():
            return PlainTextResponse("first sample not complete\n", 503)
        return PlainTextResponse("ready\n")

    async def landing(self, request: Request) -> Response:
        """Show people where they are."""
        del request
        page = landing_page(self._source.nodes(), self._source.families())
        return HTMLResponse(
            page, headers={"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
        )

    async def locks(self, request: Request) -> Response:
        """List live locks, the most urgent first, with the same filters as ``lockscope ls``."""
        try:
            wanted, order, limit = read_query(request.query_params)
        except ValueError as error:
            return json_answer({"error": str(error)}, 400)
        for name in sorted(wanted.targets):
            if self._source.part(name) is None:
                return json_answer({"error": no_such_target(name, self._source.names())}, 404)
        work = partial(_listed, self._source, wanted, order, limit)
        try:
            body = await self._lists.run((wanted, order, limit), work, _DEFAULT_TIMEOUT)
        except TimeoutError:
            return json_answer({"error": f"not done within {_DEFAULT_TIMEOUT:.0f} s; ask for less"}, 503)
        return Response(body, media_type="application/json")


def no_such_target(name: str, names: Sequence[str]) -> str:
    """Return a line that says that there is no target of a name, and which there are."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    there = ", ".join(names[:_NAMED])
    return f'no target is called "{shown(hide_passwords(name), 80)}"; configured are {there}{more}'


def silent_nodes(nodes: Iterable[NodeStatus]) -> list[str]:
    """Return the nodes that count as up and have said nothing for a minute: their figures would be stale."""
    return [f"{node.target} {node.node}" for node in nodes if node.up and node.age_seconds > _STALE_AFTER]


def scrape_timeout(header: str) -> float:
    """Return how long a scrape may take, in seconds, by the header that Prometheus sends."""
    try:
        seconds = float(header)
    except ValueError:
        return _DEFAULT_TIMEOUT
    if not (math.isfinite(seconds) and seconds > 0):
        return _DEFAULT_TIMEOUT
    return min(seconds, 600.0) * (1 - _MARGIN)


def read_query(query: QueryParams) -> tuple[Filter, str, int]:
    """Read the filters, order and limit of a request for locks.

    Raises:
        ValueError: a parameter is unknown or has no meaning; the text names it.
    """
    known = {"key", "prefix", "state", "dialect", "target", "host", "job_type", "order", "limit"}
    for name in query:
        if name not in known:
            raise ValueError(f"parameter {name!r} is not known; known are {', '.join(sorted(known))}")
    states = frozenset(query.getlist("state"))
    if not states <= set(STATES):
        raise ValueError(f"state must be one of {', '.join(STATES)}")
    order = query.get("order", "urgency")
    if order not in ORDERS:
        raise ValueError(f"order must be one of {', '.join(ORDERS)}")
    limit = query.get("limit", str(MAX_LISTED))
    if not (limit.isascii() and limit.isdecimal() and len(limit) < 10):  # noqa: PLR2004 - a 32-bit number
        raise ValueError("limit must be a whole number")
    try:
        key = glob(query["key"]) if "key" in query else b""
    except OptionError as error:
        raise ValueError(f"key: {error}") from error
    wanted = Filter(
        key=key,
        prefixes=frozenset(query.getlist("prefix")),
        states=states,
        dialects=frozenset(query.getlist("dialect")),
        targets=frozenset(query.getlist("target")),
        host=query.get("host", ""),
        job_type=query.get("job_type", ""),
    )
    return wanted, order, int(limit)


def _listed(source: Source, wanted: Filter, order: str, limit: int) -> bytes:
    sources = [part for name in wanted.targets if (part := source.part(name))] or [source]
    found = select((lock for part in sources for lock in part.locks()), wanted, order)
    nodes = [node for part in sources for node in part.nodes()]
    return encoded({
        "locks": [lock_object(lock) for lock in found[:limit]],
        "total": len(found),
        "complete": all(node.up for node in nodes),
        "nodes": [node_object(node) for node in nodes],
    })  # fmt: skip


def _registry_of(part: Source, name: str, collectors: Sequence[Collector]) -> CollectorRegistry:
    """Return what is to be said of one target: its families and nodes, and what others tell of it."""
    names = frozenset({name, *(node.target for node in part.nodes())})
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Together(LockCollector(part), *(OfTarget(each, names) for each in collectors)))
    return registry


def _rendered(registry: Callable[[], CollectorRegistry], content_type: str, *, compress: bool) -> bytes:
    return exposition.render(registry(), content_type, compress=compress)

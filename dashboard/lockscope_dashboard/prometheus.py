"""A small client of Prometheus' HTTP API: one query, one answer, one clear line when there is none."""

from __future__ import annotations

import base64
import json
import math
import threading
import time
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlencode, urlsplit, urlunsplit
from urllib.request import Request, urlopen

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_BYTES: Final = 20_000_000
BACK_OFF: Final = 5.0


class PrometheusError(Exception):
    """Prometheus gave no usable answer; the text says why, without credentials."""


@dataclass(frozen=True, slots=True)
class Series:
    """One series of an answer.

    Attributes:
        labels: its labels, without the name.
        points: unix time in seconds and value, oldest first; values that are no number are left out.
    """

    labels: dict[str, str]
    points: tuple[tuple[float, float], ...]


@dataclass(slots=True)
class Prometheus:
    """A server to ask.

    Attributes:
        url: base URL, with user and password if it wants them.
        timeout: seconds to wait for one answer.
        clock: monotonic seconds.
    """

    url: str
    timeout: float = 4.0
    clock: Callable[[], float] = time.monotonic
    _failed: tuple[float, str] | None = field(init=False, default=None)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def instant(self, query: str, at: float | None = None) -> list[Series]:
        """Ask for values at one instant.

        Args:
            query: PromQL expression.
            at: unix time in seconds, now if not given.

        Raises:
            PrometheusError: no usable answer.
        """
        form = {"query": query, "timeout": f"{self.timeout:.0f}s"}
        if at is not None:
            form["time"] = f"{at:.3f}"
        return _series(self._ask("query", form))

    def range(self, query: str, start: float, end: float, step: float) -> list[Series]:
        """Ask for the course of values.

        Args:
            query: PromQL expression.
            start: unix time in seconds of the first point.
            end: unix time in seconds of the last.
            step: seconds between points.

        Raises:
            PrometheusError: no usable answer.
        """
        form = {"query": query, "start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:.3f}"}
        return _series(self._ask("query_range", form | {"timeout": f"{self.timeout:.0f}s"}))

    def _ask(self, path: str, form: dict[str, str]) -> Any:
        with self._lock:
            failed = self._failed
        if failed is not None and self.clock() - failed[0] < BACK_OFF:
            raise PrometheusError(failed[1])
        try:
            answer = self._post(path, form)
        except PrometheusError as error:
            if not isinstance(error, QueryError):
                with self._lock:
                    self._failed = (self.clock(), str(error))
            raise
        with self._lock:
            self._failed = None
        return answer

    def _post(self, path: str, form: dict[str, str]) -> Any:
        bare, credentials = _split(self.url)
        request = Request(f"{bare}/api/v1/{path}", data=urlencode(form).encode(), method="POST")  # noqa: S310 - scheme checked
        if credentials:
            request.add_header("Authorization", f"Basic {credentials}")
        try:
            with urlopen(request, timeout=self.timeout) as response:  # noqa: S310 - scheme checked in _split
                body = response.read(MOST_BYTES + 1)
        except HTTPError as error:
            with error:
                raise _refused(bare, error.code, error.read(10_000)) from None
        except (URLError, TimeoutError, HTTPException, OSError) as error:
            words = str(getattr(error, "reason", error)) or type(error).__name__
            raise PrometheusError(f"Prometheus at {bare} does not answer: {words}") from None
        if len(body) > MOST_BYTES:
            raise QueryError(f"Prometheus at {bare} sent more than {MOST_BYTES // 1_000_000} MB")
        answer = _json(bare, body)
        if answer.get("status") != "success":
            raise _refused(bare, 0, body)
        return answer.get("data")


class QueryError(PrometheusError):
    """Prometheus answers, but not to this query."""


def quoted(value: str) -> str:
    """Write a label value as a PromQL string."""
    return json.dumps(value, ensure_ascii=False)


def selector(metric: str, **labels: str) -> str:
    """Write a selector of the series with these label values; empty ones are left out."""
    chosen = ",".join(f"{name}={quoted(value)}" for name, value in labels.items() if value)
    return f"{metric}{{{chosen}}}" if chosen else metric


def _split(url: str) -> tuple[str, str]:
    """Take the credentials out of a URL; raise ``PrometheusError`` if it is no http(s) URL."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not host:
        raise PrometheusError("LOCKSCOPE_PROMETHEUS_URL is not an http:// or https:// URL")
    name = f"[{host}]" if ":" in host else host
    bare = urlunsplit((parts.scheme, f"{name}:{port}" if port else name, parts.path.rstrip("/"), "", ""))
    if parts.username is None:
        return bare, ""
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return bare, base64.b64encode(pair.encode()).decode("ascii")


def _refused(bare: str, code: int, body: bytes) -> PrometheusError:
    try:
        reason = str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return PrometheusError(f"Prometheus at {bare} answered with HTTP status {code}")
    return QueryError(f"Prometheus at {bare} refused the query: {reason}")


def _json(bare: str, body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise PrometheusError(f"What answers at {bare} is not Prometheus")
    return answer


def _series(data: Any) -> list[Series]:
    try:
        if data["resultType"] == "scalar":
            return [Series({}, _points([data["result"]]))]
        return [
            Series(
                {name: value for name, value in item["metric"].items() if name != "__name__"},
                _points(item["values"] if "values" in item else [item["value"]]),
            )
            for item in data["result"]
        ]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise PrometheusError("Prometheus sent an answer of an unknown form") from None


def _points(pairs: list[tuple[float, str]]) -> tuple[tuple[float, float], ...]:
    points = ((float(at), float(value)) for at, value in pairs)
    return tuple((at, value) for at, value in points if not math.isnan(value))

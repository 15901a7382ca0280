"""Log records: one an event, fields in ``extra``, and any application's logging takes them unchanged."""

from __future__ import annotations

import io
import json
import logging
import re
from typing import TYPE_CHECKING, Any

import pytest
import redis
import structlog
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import lockscope
from lockscope import Job, JSONFormatter, LockEvent, Owner, events, fingerprint, tokens
from lockscope.sinks import logs
from lockscope.sinks.logs import LEVELS, LogSink, fields_of
from shim import Observed, run_python

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servers import RedisServer

HOSTILE = [
    b"lock:\n2026-01-01 ERROR root logged in",
    b"lock:\r\x1b[31mred\x1b[0m",
    b"lock:\xff\xfe\x00",
    "lock:\u2028\u202egpj".encode(),
    b'lock:"}{"level":"critical"',
    b"lock:%s%d%(levelname)s{0}",
    b"=cmd|' /C calc'!A1",
    b"<script>alert(1)</script>",
]


class Records(logging.Handler):
    """Keeps the records."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.records: list[Any] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep ``record``."""
        self.records.append(record)

    def named(self, name: str) -> list[Any]:
        """Return the records of one event."""
        return [record for record in self.records if getattr(record, "event", "") == name]


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """Leave the loggers that tests configure as they were found."""
    loggers = [logging.getLogger(name) for name in (None, "lockscope", "lockscope.sinks", "tests.logs")]
    before = [
        (one, one.handlers[:], one.level, one.propagate, one.disabled, one.filters[:]) for one in loggers
    ]
    yield
    lockscope.uninstrument()
    for one, handlers, level, propagate, disabled, filters in before:
        one.handlers[:], one.filters[:] = handlers, filters
        one.setLevel(level)
        one.propagate, one.disabled = propagate, disabled


@pytest.fixture
def records() -> Records:
    """Collect everything that the logger ``lockscope`` writes."""
    handler = Records()
    logger = logging.getLogger("lockscope")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    return handler


def private(handler: logging.Handler) -> logging.Logger:
    """Return a logger that writes everything to ``handler`` and to nobody else."""
    logger = logging.getLogger("tests.logs")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    return logger


def event_of(name: str = events.RELEASED, key: bytes = b"lock:a", **fields: Any) -> LockEvent:
    """Return an event that some sink might be given."""
    return LockEvent(name, key, "lock:*", 1732896000.0, **fields)


# --- fields and levels


def test_the_fields_of_a_lease(client: redis.Redis, records: Records) -> None:
    """Acquire and release are INFO, renewals DEBUG; each record carries all that is known and no token."""
    with (
        Observed(presence=False),
        lockscope.job("invoice.generate", job_id="8812", resource_id="order-7"),
        client.lock("lock:order:4711", timeout=10) as lock,
    ):
        token = client.get("lock:order:4711")
        lock.extend(1)
    got, renewed, gave = records.records
    assert [record.levelno for record in records.records] == [logging.INFO, logging.DEBUG, logging.INFO]
    assert [record.event for record in records.records] == ["lock.acquired", "lock.renewed", "lock.released"]
    for record in records.records:
        assert record.name == "lockscope"
        assert record.lock_key == "lock:order:4711"
        assert record.prefix == "lock:order:*"
        assert record.lock_owner == fingerprint(token)
        assert (record.host, record.pid) == (tokens.process.host, tokens.process.pid)
        assert (record.job_type, record.job_id, record.resource_id) == ("invoice.generate", "8812", "order-7")
        assert token.decode() not in JSONFormatter().format(record)
        assert not hasattr(record, "blocked_by")
        assert not hasattr(record, "trace_id")
    assert (got.outcome, got.lock_ttl, got.ttl_remaining, got.attempts) == ("acquired", 10, 10, 1)
    assert got.getMessage() == "lock.acquired lock:order:4711"
    assert got.wait_seconds >= 0
    assert not hasattr(got, "hold_seconds")
    assert (renewed.outcome, renewed.lock_ttl) == ("renewed", 10)
    assert (gave.outcome, gave.lock_ttl) == ("released", pytest.approx(11, abs=1))
    assert gave.hold_seconds > 0
    assert not hasattr(gave, "unprotected_seconds")


def test_losses_and_errors_stand_out(client: redis.Redis, records: Records) -> None:
    """A loss is a WARNING with the time worked unprotected, an error an ERROR with what was raised."""
    with Observed(presence=False):
        lock = client.lock("lock:a", timeout=10)
        lock.acquire()
        client.delete("lock:a")
        with pytest.raises(redis.exceptions.LockError):
            lock.extend(1)
        with pytest.raises(redis.exceptions.LockError):
            lock.release()
        with pytest.raises(redis.DataError):
            lock.acquire(token=[1])
    _, lost, gone, failed = records.records
    assert [(record.event, record.levelname) for record in (lost, gone, failed)] == [
        ("lock.renew_lost", "WARNING"),
        ("lock.release_lost", "WARNING"),
        ("lock.acquire_error", "ERROR"),
    ]
    assert lost.outcome == gone.outcome == "lost"
    assert failed.error.startswith("DataError: Invalid input of type")


def test_contention_says_who_holds_the_lock(client: redis.Redis, records: Records) -> None:
    """A refusal names host, process and job of the holder, and since when, in the message and as fields."""
    with Observed(presence=False):
        with lockscope.job("holder.job", job_id="1"):
            client.lock("lock:a", timeout=10).acquire()
        client.lock("lock:a").acquire(blocking=False)
    (record,) = records.named("lock.contended")
    assert record.levelno == logging.INFO
    assert record.blocked_by.pop("held_for") < 5
    process = tokens.process
    assert record.blocked_by == {
        "host": process.host,
        "pid": process.pid,
        "job_type": "holder.job",
        "job_id": "1",
    }
    assert record.getMessage() == f"lock.contended lock:a, held by {process.host}/{process.pid}"


def test_every_event_has_its_level() -> None:
    """Success is INFO, renewals DEBUG, losses WARNING, errors ERROR."""
    handler = Records()
    sink = LogSink(private(handler))
    for name in LEVELS:
        sink(event_of(name, key=name.encode()))
    levels = {record.event.removeprefix("lock."): record.levelname for record in handler.records}
    assert levels == {
        "acquired": "INFO",
        "contended": "INFO",
        "acquire_timeout": "WARNING",
        "acquire_error": "ERROR",
        "waiting": "DEBUG",
        "renewed": "DEBUG",
        "renew_lost": "WARNING",
        "renew_error": "ERROR",
        "released": "INFO",
        "release_lost": "WARNING",
        "release_error": "ERROR",
        "abandoned": "DEBUG",
        "retry": "INFO",
        "idempotency": "DEBUG",
        "duplicate": "INFO",
        "force_released": "WARNING",
    }


def test_nothing_is_made_that_nobody_wants(client: redis.Redis) -> None:
    """At level WARNING a lock cycle makes no record at all, and the sink says so beforehand."""
    handler, logger = Records(), logging.getLogger("lockscope")
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING)
    sink = LogSink()
    assert not sink.wants(events.ACQUIRED)
    assert sink.wants(events.RELEASE_LOST)
    with Observed(presence=False), client.lock("lock:a", timeout=5):
        pass
    assert handler.records == []


def test_the_template_of_an_event_never_varies() -> None:
    """Error trackers group records by their template: keys and hosts are arguments of it, never part."""
    handler = Records()
    sink = LogSink(private(handler))
    for key in HOSTILE:
        sink(event_of(events.ACQUIRE_TIMEOUT, key, blocked_by=Owner(host=key.decode("latin-1"), pid=1)))
    assert {record.msg for record in handler.records} == {"lock.acquire_timeout %s, held by %s/%s"}
    assert all(record.getMessage().isprintable() for record in handler.records)


# --- rate limit


def test_repeated_contention_is_limited_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """One record a key in ten seconds; the next says for how many refusals it stands. Losses always come."""
    now = [1000.0]
    monkeypatch.setattr(logs.time, "monotonic", lambda: now[0])
    handler = Records()
    sink = LogSink(private(handler))
    for _ in range(50):
        sink(event_of(events.CONTENDED))
        sink(event_of(events.ACQUIRE_TIMEOUT))
        sink(event_of(events.RELEASE_LOST))
    sink(event_of(events.CONTENDED, b"lock:b"))
    assert [record.lock_key for record in handler.named("lock.contended")] == ["lock:a", "lock:b"]
    assert handler.named("lock.acquire_timeout") == []
    assert len(handler.named("lock.release_lost")) == 50
    assert not hasattr(handler.named("lock.contended")[0], "stands_for")
    now[0] += 10
    sink(event_of(events.ACQUIRE_TIMEOUT))
    (record,) = handler.named("lock.acquire_timeout")
    assert record.stands_for == 100
    assert record.getMessage().endswith("lock:a (100 refusals)")
    now[0] += 10
    sink(event_of(events.CONTENDED))
    assert not hasattr(handler.records[-1], "stands_for")


def test_contention_on_endless_keys_keeps_little_memory() -> None:
    """Refusals on a hundred thousand keys leave a bounded table behind."""
    sink = LogSink(private(logging.NullHandler()))
    for number in range(5000):
        sink(event_of(events.CONTENDED, f"lock:{number}".encode()))
    assert len(sink._written) <= 1024


# --- JSON


def parsed(record: Any) -> dict[str, Any]:
    """Format a record and read it back, as a strict reader would."""

    def no_constant(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    line = JSONFormatter().format(record)
    assert line.splitlines() == [line]
    assert line.isascii()
    fields = json.loads(line, parse_constant=no_constant)
    assert isinstance(fields, dict)
    return fields


@pytest.mark.parametrize("key", HOSTILE)
def test_hostile_keys_are_one_line(client: redis.Redis, records: Records, key: bytes) -> None:
    """A key of newlines, escapes, quotes or bytes that are no text is one line of JSON, and one of text."""
    with Observed(presence=False), client.lock(key, timeout=5):
        pass
    for record in records.records:
        fields = parsed(record)
        assert fields["event"] == record.event
        assert fields["lock_key"] == record.lock_key
        assert record.lock_key.isprintable()
        text = logging.Formatter("%(levelname)s %(message)s %(prefix)s").format(record)
        assert text.isprintable()


def test_keys_of_64_kib_are_cut(records: Records) -> None:
    """A huge key is cut where people can still read it, and the record says that it is."""
    with Observed(presence=False):
        lockscope.retried("contended", b"\xff" * 65536)
    (record,) = records.records
    assert record.lock_key == ("\\xff" * 512)[:512] + "…"
    assert len(parsed(record)["message"]) < 600


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(min_size=1, max_size=80))
@example(text="a\nb\x1b[0m")
@example(text="\ud800\udcff")
def test_whatever_others_wrote_is_printable(text: str) -> None:
    """Ids, reasons and what a foreign token says of its holder come out as printable bounded text."""
    event = event_of(
        events.CONTENDED,
        text.encode("utf-8", "surrogatepass"),
        job=Job(text, text, text),
        reason=text,
        blocked_by=Owner(host=text, job_type=text, job_id=text),
    )
    fields = fields_of(event)
    for name in ("lock_key", "job_type", "job_id", "resource_id", "reason"):
        assert fields[name].isprintable()
    assert all(value.isprintable() for value in fields["blocked_by"].values())
    record = logging.makeLogRecord({"msg": "m", **fields})
    assert parsed(record)["reason"] == fields["reason"]


def test_json_carries_time_level_logger_message_and_extras() -> None:
    """Time in UTC to the millisecond, level, logger, message, each extra field, exception and stack."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JSONFormatter())
    logger = private(handler)
    try:
        _ = 1 / 0
    except ZeroDivisionError:
        logger.exception("failed %s", "there", extra={"order": 7}, stack_info=True)
    fields = json.loads(stream.getvalue())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", fields.pop("time"))
    assert "ZeroDivisionError" in fields.pop("exception")
    assert "test_logs.py" in fields.pop("stack")
    assert fields == {"level": "ERROR", "logger": "tests.logs", "message": "failed there", "order": 7}
    record = logging.makeLogRecord({"created": 1732896000.123, "msecs": 123.0})
    assert parsed(record)["time"] == "2024-11-29T16:00:00.123Z"


class Broken:
    """An object that cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


def _circle() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return circle


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        ({b"key": 1}, "{b'key': 1}"),
        ({(1, 2): 3}, "{(1, 2): 3}"),
        (b"\xff", "b'\\xff'"),
        ({1}, "{1}"),
        (Broken(), "<Broken>"),
        (_circle(), "[[...]]"),
        ("\ud800", "\ud800"),
    ],
    ids=["nan", "infinity", "bytes key", "tuple key", "bytes", "set", "broken", "circle", "surrogate"],
)
def test_json_takes_whatever_an_application_logs(value: object, shown: str) -> None:
    """What JSON has no form for becomes text; the rest of the record is as ever."""
    fields = parsed(logging.makeLogRecord({"msg": "m", "odd": value, "even": 2}))
    assert (fields["odd"], fields["even"], fields["message"]) == (shown, 2, "m")


def test_extras_do_not_cover_what_a_record_is() -> None:
    """An extra field named like time, level, logger or message does not take its place."""
    extras = {"time": "never", "level": "none", "logger": "nobody"}
    fields = parsed(logging.makeLogRecord({"msg": "m", "name": "app", "levelname": "INFO", **extras}))
    assert (fields["level"], fields["logger"], fields["message"]) == ("INFO", "app", "m")
    assert fields["time"].endswith("Z")


# --- other people's logging


def test_structlog_formats_our_records(client: redis.Redis) -> None:
    """The ProcessorFormatter of structlog renders the records with their fields."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_log_level, structlog.stdlib.ExtraAdder()],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logging.getLogger().addHandler(handler)
    logging.getLogger("lockscope").setLevel(logging.INFO)
    with Observed(presence=False), client.lock("lock:order:1\n", timeout=5):
        pass
    got, gave = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (got["event"], got["level"], got["lock_key"]) == ("lock.acquired", "info", "lock:order:1\\n")
    assert (gave["event"], gave["outcome"], gave["prefix"]) == ("lock.released", "released", "lock:order:*")


DJANGO = """
from django.conf import settings
settings.configure(LOGGING={
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "lockscope.JSONFormatter"}},
    "handlers": {"out": {"class": "logging.StreamHandler", "stream": sys.stdout, "formatter": "json"}},
    "root": {"handlers": ["out"], "level": "INFO"},
    "loggers": {"lockscope": {"level": "DEBUG"}},
})
import django
django.setup()
"""
CELERY = """
import celery
celery.Celery("app").log.setup(loglevel="DEBUG", logfile=sys.stdout, redirect_stdouts=False)
"""
FASTAPI = """
import logging, uvicorn
logging.basicConfig(stream=sys.stdout, level="DEBUG", format="%(levelname)s %(message)s")
uvicorn.Config("app:app").configure_logging()
"""
WORK = """
import redis
client = redis.Redis(unix_socket_path=sys.argv[1])
with client.lock("lock:\\n1", timeout=5) as lock:
    lock.extend(1)
"""


@pytest.mark.parametrize("application", [DJANGO, CELERY, FASTAPI], ids=["django", "celery", "fastapi"])
@pytest.mark.parametrize("first", ["logging", "lockscope"])
def test_logging_of_an_application(server: RedisServer, application: str, first: str) -> None:
    """Records reach the handlers of a Django, Celery or FastAPI application, whichever came up first."""
    start = "import lockscope; lockscope.instrument(presence=False)\n"
    steps = [application, start] if first == "logging" else [start, application]
    done = run_python("".join(["import sys\n", *steps, WORK]), server.socket)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if "lock." in line]
    assert len(lines) == 3
    assert all(name in line for name, line in zip(("acquired", "renewed", "released"), lines, strict=True))
    assert all("lock:\\n1" in line or "lock:\\\\n1" in line for line in lines)

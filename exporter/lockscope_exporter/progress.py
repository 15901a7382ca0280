"""Job-progress keys: what a worker wrote about its job, and whether it fell silent. Pure.

A payload is a JSON object in a string, or a hash. Its fields are found by name, without regard to case and
separators: ``lastHeartbeat`` is ``last_heartbeat``.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from lockscope_exporter.dialects.model import ReadPlan
from lockscope_exporter.moments import moment, span
from lockscope_exporter.text import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockscope_exporter.dialects.model import Reading

Said = Literal["running", "failed", "completed"]
ProgressState = Literal["running", "stale", "failed", "completed"]

MAX_PAYLOAD = 64 * 1024
"""Bytes of a JSON payload; a longer one is no progress report."""
MAX_FIELDS = 256
"""Fields of a hash payload; one with more is no progress report."""
STALE_AFTER = 60.0
"""Seconds of silence after which a running job is stale, unless the user says otherwise."""

_TEXT = 80  # characters of a status or worker that are shown
_WORDS: dict[str, Said] = {}
for _said, _words in (
    ("running", "running run started processing inprogress progress active busy working executing retrying"),
    ("failed", "failed failure fail error errored exception dead killed timeout timedout"),
    ("completed", "completed complete done finished success successful succeeded ok"),
):
    _WORDS.update(dict.fromkeys(_words.split(), _said))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Names:
    """Names of the fields in a payload; the first that is there counts, of the heartbeats the latest.

    Attributes:
        status: what state the job is in.
        progress: how far it is, a number.
        heartbeat: when the worker last gave a sign: epoch seconds or milliseconds, or ISO 8601.
    """

    status: tuple[str, ...] = ("status", "state")
    progress: tuple[str, ...] = ("progress", "percent", "percentage")
    heartbeat: tuple[str, ...] = ("last_heartbeat", "heartbeat", "heartbeat_at", "updated_at")

    @classmethod
    def parse(cls, text: str) -> Names:
        """Read ``status=phase,heartbeat=seen_at|touched_at``; fields that are not named keep their defaults.

        Raises:
            ValueError: the text is not of that form; the message says which part.
        """
        chosen: dict[str, tuple[str, ...]] = {}
        known = [field.name for field in fields(cls)]
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            name, separator, given = part.partition("=")
            names = tuple(filter(None, (one.strip() for one in given.split("|"))))
            if not separator or not names or name.strip() not in known:
                raise ValueError(f"{part!r} is not NAME=FIELD with NAME one of {', '.join(known)}")
            chosen[name.strip()] = names
        return cls(**chosen)


DEFAULT_NAMES = Names()


@dataclass(frozen=True, slots=True)
class Report:
    """What a progress key says.

    Attributes:
        key: the full key.
        status: the status as written, for people; empty if there is none.
        said: what the status means; ``None`` for a job that waits or was cancelled, or a word not known.
        progress: the number written, on the writer's scale; ``None`` if there is none.
        heartbeat_at: unix time in seconds of the last sign of life; ``None`` if there is none.
    """

    key: bytes
    status: str = ""
    said: Said | None = None
    progress: float | None = None
    heartbeat_at: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """A progress key, judged.

    Attributes:
        state: ``None`` for a job that waits or was cancelled, or whose status is not known: not counted.
        silent_seconds: time since the last sign of life, ``None`` if there never was one.
        evidence: one sentence that says why.
    """

    state: ProgressState | None
    silent_seconds: float | None
    evidence: str


def plan_progress(type: str) -> ReadPlan | None:  # noqa: A002 - Redis calls it so
    """Say how to read a progress key of this Redis type; ``None`` for never."""
    if type == "string":
        return ReadPlan("GETRANGE", (0, MAX_PAYLOAD), MAX_PAYLOAD + 1)
    if type == "hash":
        return ReadPlan("HSCAN", (0, b"COUNT", MAX_FIELDS + 1), MAX_FIELDS + 1)
    return None


def decode_progress(reading: Reading, names: Names = DEFAULT_NAMES) -> Report | None:
    """Read a progress report; never raises, whatever the bytes.

    Args:
        reading: a string or hash.
        names: what the fields are called.

    Returns:
        The report, or ``None`` if this is none: no object, or neither a status nor a heartbeat in it.
    """
    payload = _payload(reading)
    if payload is None:
        return None
    by_name: dict[str, Any] = {}
    for name, value in payload.items():
        by_name.setdefault(_plain(name), value)
    status = _first(by_name, names.status)
    beats = [moment(by_name[plain]) for plain in map(_plain, names.heartbeat) if plain in by_name]
    progress = _number(_first(by_name, names.progress))
    heartbeat_at = max((beat for beat in beats if beat is not None), default=None)
    word = status if isinstance(status, str) else ""
    if not word and heartbeat_at is None:
        return None
    last_word = word.rpartition(".")[2]  # Python enums are written JobStatus.STARTED
    said = _WORDS.get(_plain(last_word)) if word else "running"
    return Report(reading.key, shown(word, _TEXT), said, progress, heartbeat_at)


def judge(report: Report, now: float, stale_after: float = STALE_AFTER) -> Verdict:
    """Judge a report: only a running job can be stale, and only one that ever gave a sign.

    Args:
        report: what the key says.
        now: unix time in seconds.
        stale_after: seconds of silence.
    """
    silent = None if report.heartbeat_at is None else max(0.0, now - report.heartbeat_at)
    if report.said is None:
        return Verdict(None, silent, f"status {report.status!r} says neither that it runs nor how it ended")
    if report.said != "running":
        return Verdict(report.said, silent, f"status {report.status!r}")
    if silent is None:
        return Verdict("running", None, "running, without a heartbeat that could be judged")
    if silent > stale_after:
        return Verdict("stale", silent, f"running, but silent for {span(silent)}: its worker died or hangs")
    return Verdict("running", silent, f"running, last sign {span(silent)} ago")


def _payload(reading: Reading) -> Mapping[str, Any] | None:
    value = reading.value
    if isinstance(value, dict):
        if not 0 < len(value) <= MAX_FIELDS:
            return None
        return {name.decode("utf-8", "replace"): _text(content) for name, content in value.items()}
    if not isinstance(value, bytes) or len(value) > MAX_PAYLOAD or value.lstrip()[:1] != b"{":
        return None
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _text(raw: bytes) -> str:
    return raw[: 4 * _TEXT].decode("utf-8", "replace")


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "", name.lower())


def _first(by_name: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((by_name[plain] for plain in map(_plain, names) if plain in by_name), None)


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        text = value.strip().removesuffix("%").strip()
        if not re.fullmatch(r"\d{1,12}(\.\d{1,12})?", text, re.ASCII):
            return None
        return float(text)
    if not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < 1e15 and math.isfinite(value) else None  # noqa: PLR2004 - not believable

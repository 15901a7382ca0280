"""Text of a command line or an environment to ``Target`` and ``SamplingOptions``; no click, no sockets."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lockscope_exporter.dialects import ANY, DIALECTS, NAMES
from lockscope_exporter.progress import Names
from lockscope_exporter.redis_url import parse_redis_url
from lockscope_exporter.targets import LockPattern, SamplingOptions, Target
from lockscope_exporter.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DEFAULT_URL = "redis://127.0.0.1:6379/0"
FEEDS = ("auto", "tracking", "notifications", "scan")

_SEPARATOR = re.compile(r"(?<!\\)[,\s]+")
_DIALECT_NAME = re.compile(r"[a-z][a-z0-9_.-]*", re.IGNORECASE)
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*(ms|s|m|h|d|)", re.ASCII)
_UNITS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LITERAL = re.compile(rb"(?<!\\)[A-Za-z0-9\x80-\xff](?![^\[]*\])")  # outside of a character class
_MAX_PATTERN = 1024
_OPTION_OF_FIELD = {"targets_file": "targets"}  # `Options.targets` is what the file and the rest come to


class OptionError(ValueError):
    """An option that cannot be used; the text says why and what to write."""


def split_list(text: str) -> list[str]:
    r"""Split a list at commas and white space; a glob with one of them writes it ``\,`` or ``\ ``."""
    return [re.sub(r"\\([,\s])", r"\1", item) for item in _SEPARATOR.split(text.strip()) if item]


def join_list(items: Iterable[str]) -> str:
    """Write a list as one environment variable that ``split_list`` reads back."""
    return ",".join(re.sub(r"(?<!\\)([,\s])", r"\\\1", item) for item in items)


def glob(text: str) -> bytes:
    r"""Check a Redis glob and return it as bytes.

    Raises:
        OptionError: it is empty, too long, or has a ``[`` without ``]`` or a lone ``\`` at its end.
    """
    if not text.strip():
        raise OptionError("the pattern is empty; write a Redis glob such as lock:*")
    if len(text) > _MAX_PATTERN:
        raise OptionError(f"the pattern {_quoted(text)} is longer than {_MAX_PATTERN} characters")
    if re.fullmatch(r"(?:[^\\]|\\.)*\\", text, re.DOTALL):
        raise OptionError(f"the pattern {_quoted(text)} ends in a lone \\; write \\\\ for a backslash")
    bare = re.sub(r"\\.", "", text, flags=re.DOTALL)
    if re.search(r"\[(?![^\[]*\])", bare):
        raise OptionError(f"the pattern {_quoted(text)} has a [ without ]; write \\[ for a bracket")
    return text.encode("utf-8", "surrogateescape")


def name_glob(text: str) -> str:
    """Check a Redis glob that also names a family, and so has to be text.

    Raises:
        OptionError: it is no valid glob, or not UTF-8.
    """
    try:
        return glob(text).decode()
    except UnicodeDecodeError:
        raise OptionError(
            f"the pattern {_quoted(text)} is not UTF-8; write ? for a byte that is no text"
        ) from None


def lock_pattern(text: str) -> LockPattern:
    r"""Read ``PATTERN`` or ``PATTERN=DIALECT``; a pattern with a ``=`` of its own writes it ``\=``.

    A pattern alone says that its keys are locks, of whatever library, unless it names nothing (``*``).

    Raises:
        OptionError: the pattern is invalid or the dialect unknown.
    """
    pattern, equals, dialect = text.strip().rpartition("=")
    if not equals or pattern.endswith("\\") or not _DIALECT_NAME.fullmatch(dialect):
        found = glob(text.strip())
        return LockPattern(found, ANY if _LITERAL.search(found) else None)
    if dialect == ANY:
        return LockPattern(glob(pattern), ANY)
    if dialect not in NAMES:
        near = difflib.get_close_matches(dialect, NAMES, 3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(sorted(DIALECTS))}"
        what = f"dialect {_quoted(dialect)} is not known"
        raise OptionError(rf"{what} (a = in the pattern is written \=); {hint}")
    return LockPattern(glob(pattern), NAMES[dialect].name)


def duration(text: str) -> float:
    """Read a duration and return seconds: ``30``, ``500ms``, ``90s``, ``5m``, ``2h``, ``1d``.

    Raises:
        OptionError: it is no duration, or not longer than zero.
    """
    found = _DURATION.fullmatch(text.strip().lower())
    seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if seconds <= 0:
        raise OptionError(f"{_quoted(text)} is no duration; write seconds, or 500ms, 90s, 5m, 2h, 1d")
    return seconds


def expected_hold(text: str) -> tuple[str, float]:
    """Read ``PATTERN=DURATION``.

    Raises:
        OptionError: one part is missing or invalid.
    """
    pattern, equals, length = text.strip().rpartition("=")
    if not equals:
        raise OptionError(f"{_quoted(text)} is not PATTERN=DURATION, as in lock:report:*=10m")
    return name_glob(pattern), duration(length)


def progress_fields(text: str) -> str:
    """Check names of progress fields, such as ``status=phase,heartbeat=seen_at|touched_at``.

    Raises:
        OptionError: it is not of that form.
    """
    try:
        Names.parse(text)
    except ValueError as error:
        raise OptionError(str(error)) from None
    return text


@dataclass(frozen=True, slots=True)
class Options:
    """Options as they were written: what command line, environment and child processes share.

    Attributes:
        redis_url: where Redis is.
        targets_file: file that names several targets instead, empty for none; see ``targets_file``.
        target: names of the targets, or of their Redlock groups, to look at; none for all.
        locks: ``PATTERN[=DIALECT]``, none for the well-known prefixes.
        db: database numbers, none for the URL's.
        prefixes: Redis globs that name families.
        max_prefixes: cap on distinct prefixes.
        expected_hold: ``PATTERN=DURATION``.
        progress: globs of job-progress keys.
        progress_stale_after: duration.
        progress_fields: names of the fields in them, empty for the usual ones.
        feed: how to follow changes.
        interval: duration between scans.
        scan_budget: keys a second that a scan may visit.
        timeout: duration to wait for one answer.
        state_file: where learned holds are kept, empty for memory.
    """

    redis_url: str = DEFAULT_URL
    targets_file: str = ""
    target: tuple[str, ...] = ()
    locks: tuple[str, ...] = ()
    db: tuple[int, ...] = ()
    prefixes: tuple[str, ...] = ()
    max_prefixes: int = 200
    expected_hold: tuple[str, ...] = ()
    progress: tuple[str, ...] = ()
    progress_stale_after: str = "60s"
    progress_fields: str = ""
    feed: str = "auto"
    interval: str = "1s"
    scan_budget: int = 100_000
    timeout: str = "2s"
    state_file: str = ""

    def targets(self) -> tuple[Target, ...]:
        """Return what to sample; patterns and databases of a targets file go before those of the options.

        Raises:
            UrlError: the URL cannot be used.
            OptionError: a pattern or the targets file cannot be used, or there is no target of a name.
        """
        patterns = tuple(lock_pattern(text) for text in self.locks)
        if not self.targets_file:
            parse_redis_url(self.redis_url)
            return chosen((Target(self.redis_url.strip(), patterns=patterns, dbs=self.db),), self.target)
        if self.redis_url.strip() != DEFAULT_URL:
            raise OptionError(
                "servers are named both by --redis-url (LOCKSCOPE_REDIS_URL) and by --targets "
                "(LOCKSCOPE_TARGETS); give one of them"
            )
        # Reading the file needs the checks of this module.
        from lockscope_exporter.targets_file import read_targets  # noqa: PLC0415

        found = chosen(read_targets(Path(self.targets_file)), self.target)
        return tuple(replace(one, patterns=one.patterns or patterns, dbs=one.dbs or self.db) for one in found)

    def sampling(self) -> SamplingOptions:
        """Return how to sample.

        Raises:
            OptionError: an option cannot be used.
        """
        for text in (*self.prefixes, *self.progress):
            name_glob(text)
        if self.feed not in FEEDS:
            raise OptionError(f"feed {_quoted(self.feed)} is not known; write one of {', '.join(FEEDS)}")
        return SamplingOptions(
            prefix_patterns=self.prefixes,
            max_prefixes=self.max_prefixes,
            expected_hold=dict(expected_hold(text) for text in self.expected_hold),
            progress=self.progress,
            progress_stale_after=duration(self.progress_stale_after),
            progress_fields=progress_fields(self.progress_fields),
            state_file=self.state_file or None,
            mode=self.feed,
            interval=duration(self.interval),
            scan_budget=self.scan_budget,
            timeout=duration(self.timeout),
        )

    def environment(self) -> dict[str, str]:
        """Return the environment variables that hand these options to another process."""
        default = Options()
        variables = {}
        for name in Options.__dataclass_fields__:
            value = getattr(self, name)
            if isinstance(value, tuple):
                value = join_list(map(str, value))
            if name == "redis_url" or value != _written(getattr(default, name)):
                variables[variable(name)] = str(value)
        return variables


def chosen(targets: tuple[Target, ...], names: tuple[str, ...]) -> tuple[Target, ...]:
    """Return the targets of some names, all of them without names.

    The name of a Redlock group means its servers as the group that they are; the name of one of them means
    that server alone, whose copies are then shown as what it holds.

    Raises:
        OptionError: a name is no target's and no group's.
    """
    known = {target.name for target in targets} | {target.quorum_group for target in targets} - {None}
    for name in names:
        if name not in known:
            there = ", ".join(sorted(map(str, known)))
            raise OptionError(f"no target is called {_quoted(name)}; there are {shown(there, 300)}")
    if not names:
        return targets
    return tuple(
        target if target.quorum_group in names else replace(target, quorum_group=None)
        for target in targets
        if target.name in names or target.quorum_group in names
    )


def variable(option: str) -> str:
    """Return the environment variable of an option: ``LOCKSCOPE_REDIS_URL`` of ``redis_url``."""
    option = _OPTION_OF_FIELD.get(option, option)
    return f"LOCKSCOPE_{option.upper().replace('-', '_')}"


def from_environment(environ: Mapping[str, str]) -> Options:
    """Read the options of a process that has no command line of its own, such as the explorer.

    Args:
        environ: environment variables; unset and empty ones mean the default.

    Returns:
        The options; ``targets`` and ``sampling`` check them.

    Raises:
        OptionError: a number is none; the message names the variable.
    """
    given: dict[str, object] = {}
    for name in Options.__dataclass_fields__:
        text = environ.get(variable(name), "").strip()
        if not text:
            continue
        default = getattr(Options(), name)
        if isinstance(default, tuple):
            items = split_list(text)
            given[name] = tuple(_whole(item, name) for item in items) if name == "db" else tuple(items)
        else:
            given[name] = _whole(text, name) if isinstance(default, int) else text
    return Options(**given)  # type: ignore[arg-type]  # each value has the type of its default


def _written(value: object) -> object:
    return join_list(map(str, value)) if isinstance(value, tuple) else value


def _whole(text: str, name: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):  # noqa: PLR2004 - a 32-bit number
        raise OptionError(f"{variable(name)} takes a whole number, not {_quoted(text)}")
    return int(text)


def _quoted(text: str) -> str:
    return f'"{shown(text, 60)}"'

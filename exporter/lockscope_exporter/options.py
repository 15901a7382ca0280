"""Click options that commands share; each has an environment variable ``LOCKSCOPE_<OPTION>``."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import click

from lockscope_exporter import configuration as conf
from lockscope_exporter.configuration import Options
from lockscope_exporter.dialects import DIALECTS
from lockscope_exporter.redis_url import parse_redis_url
from lockscope_exporter.text import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from click.shell_completion import CompletionItem


class Checked(click.ParamType[str]):
    """Text that a function of ``configuration`` accepts; lists in the environment follow ``split_list``."""

    def __init__(self, name: str, check: Callable[[str], object]) -> None:
        self.name = name
        self.check = check

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text unchanged if the check accepts it."""
        text = str(value)
        try:
            self.check(text)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return text

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        """Split a list at commas and white space."""
        return conf.split_list(rv)


class LocksParam(Checked):
    """``PATTERN[=DIALECT]``, with completion of the dialect."""

    def __init__(self) -> None:
        super().__init__("pattern[=dialect]", conf.lock_pattern)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Offer the known dialects after ``=``."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only when a shell asks

        del ctx, param
        pattern, equals, start = incomplete.rpartition("=")
        if not equals:
            return []
        return [CompletionItem(f"{pattern}={name}") for name in sorted(DIALECTS) if name.startswith(start)]


class ListedChoice(click.Choice[str]):
    """One of several words; lists in the environment follow ``split_list``."""

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        """Split a list at commas and white space."""
        return conf.split_list(rv)


class Whole(click.IntRange):
    """A whole number of a range; the message says which."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            end = "on" if self.max is None else f"to {self.max}"
            self.fail(f'"{shown(str(value), 60)}" is not a whole number from {self.min} {end}', param, ctx)


class Real(click.types.FloatParamType):
    """A number."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f'"{shown(str(value), 60)}" is not a number', param, ctx)


class ListedInt(Whole):
    """Whole numbers; lists in the environment follow ``split_list``."""

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        """Split a list at commas and white space."""
        return conf.split_list(rv)


def option(*names: str, **settings: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return ``click.option`` with its environment variable ``LOCKSCOPE_<NAME>``, shown in the help."""
    settings.setdefault("envvar", conf.variable(names[0].removeprefix("--").partition("/")[0]))
    settings.setdefault("show_envvar", True)
    settings.setdefault("show_default", settings.get("default") not in (None, "", ()))
    return click.option(*names, **settings)


DURATION = Checked("duration", conf.duration)
TEXT = Checked("text", str)
GLOB = Checked("pattern", conf.glob)
NAME_GLOB = Checked("pattern", conf.name_glob)
_DEFAULT = Options()

_OPTIONS = (
    option(
        "--redis-url",
        type=Checked("url", parse_redis_url),
        default=_DEFAULT.redis_url,
        help="Where Redis is: redis://, rediss://, unix://, sentinel://host/master or cluster://host,host. "
        "A password is best given through the environment variable.",
    ),
    option(
        "--targets",
        "targets_file",
        type=click.Path(dir_okay=False),
        default="",
        help="YAML or TOML file that names several targets, instead of --redis-url.",
    ),
    option(
        "--target",
        type=TEXT,
        multiple=True,
        help="Only this target or Redlock group of the targets file; may be repeated.",
    ),
    option(
        "--locks",
        type=LocksParam(),
        multiple=True,
        help="Keys to watch, as a Redis glob, and how to read them; may be repeated. "
        "Without it: the well-known prefixes of lock libraries.",
    ),
    option(
        "--db",
        type=ListedInt(0, 65535),
        multiple=True,
        help="Database number, instead of the one in the URL; may be repeated.",
    ),
    option(
        "--prefixes",
        type=NAME_GLOB,
        multiple=True,
        help="Redis glob that names a family of keys, before the built-in grouping; may be repeated.",
    ),
    option(
        "--max-prefixes",
        type=Whole(1, 10_000),
        default=_DEFAULT.max_prefixes,
        help='Distinct prefixes at most; the rest count as "other".',
    ),
    option(
        "--expected-hold",
        type=Checked("pattern=duration", conf.expected_hold),
        multiple=True,
        help="How long locks of a prefix are normally held, as in lock:report:*=10m; may be repeated. "
        "Without it: learned from past holds.",
    ),
    option(
        "--progress",
        type=NAME_GLOB,
        multiple=True,
        help="Redis glob of job-progress keys; may be repeated.",
    ),
    option(
        "--progress-stale-after",
        type=DURATION,
        default=_DEFAULT.progress_stale_after,
        help="Silence after which a running progress key is stale.",
    ),
    option(
        "--progress-fields",
        type=Checked("name=field", conf.progress_fields),
        default=_DEFAULT.progress_fields,
        help="What the fields in progress keys are called, as in status=phase,heartbeat=seen_at.",
    ),
    option(
        "--feed",
        type=click.Choice(conf.FEEDS),
        default=_DEFAULT.feed,
        help="How to follow changes; auto takes the cheapest that the server offers.",
    ),
    option("--interval", type=DURATION, default=_DEFAULT.interval, help="Pause between two scans."),
    option(
        "--scan-budget",
        type=Whole(100, 10_000_000),
        default=_DEFAULT.scan_budget,
        help="Keys a second that a scan may visit on one server.",
    ),
    option(
        "--timeout", type=DURATION, default=_DEFAULT.timeout, help="Time to wait for an answer from Redis."
    ),
    option(
        "--state-file",
        type=click.Path(dir_okay=False),
        default="",
        help="File that keeps learned hold times over a restart.",
    ),
)


def redis_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say what to sample and how, as its keyword argument ``options``."""

    @functools.wraps(function)
    def command(**given: Any) -> Any:
        ours = {name: given.pop(name) for name in Options.__dataclass_fields__}
        return function(options=Options(**ours), **given)

    for decorate in reversed(_OPTIONS):
        command = decorate(command)
    return command

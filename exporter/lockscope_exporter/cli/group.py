"""The group ``lockscope``: which commands there are. A command's module is imported when it runs."""

from __future__ import annotations

import contextlib
import gc
import importlib
import sys
from typing import TYPE_CHECKING, NamedTuple

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

COMPLETE_VARIABLE = "_LOCKSCOPE_COMPLETE"  # set by a shell that asks what could follow


class Entry(NamedTuple):
    """One command: the module in this folder that holds ``command``, and its line in the help."""

    module: str
    help: str


COMMANDS: dict[str, Entry] = {
    "demo": Entry("demo", "Show it all: real workers with faults, exporter, explorer, Prometheus."),
    "export": Entry("export", "Sample Redis and serve the metrics to Prometheus."),
    "explore": Entry("explore", "Open the lock explorer in a browser."),
    "ls": Entry("ls", "List the locks that are held now."),
    "watch": Entry("watch", "Watch the locks live in the terminal, and what happens to them."),
    "contention": Entry("contention", "Show who wants which lock in vain: a short look at MONITOR."),
    "why": Entry("why", "Tell who holds a lock, whether the holder lives, and what to do."),
    "release": Entry("release", "Free one lock, if it is still the one that was seen."),
    "doctor": Entry("doctor", "Check servers, permissions, patterns, locks and TTLs; say what to do."),
    "rules": Entry("rules", "Write the Prometheus alerting and recording rules."),
    "dashboards": Entry("dashboards", "Write the Grafana dashboards."),
    "completion": Entry("completion", "Print the script for completion in a shell."),
}


class LazyGroup(click.Group):
    """A group that knows its commands by name, so that each call imports only the one it runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of the table."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command, ``None`` if there is none of that name."""
        del ctx
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        gc.disable()  # importing makes no garbage, and the search for it takes a third of the time
        try:
            with _without_opentelemetry():
                module = importlib.import_module(f"lockscope_exporter.cli.{entry.module}")
        finally:
            gc.enable()
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


@contextlib.contextmanager
def _without_opentelemetry() -> Iterator[None]:
    """Keep redis-py from loading OpenTelemetry's SDK, a fifth of the time that a command takes to start.

    Where the SDK is installed, redis-py loads it for metrics of its own that no command turns on; it does
    without as where it is not. Whoever runs a command under OpenTelemetry has loaded it before.
    """
    names = ("opentelemetry.metrics", "opentelemetry.sdk.metrics")
    held_back = [] if "opentelemetry" in sys.modules else list(names)
    sys.modules.update(dict.fromkeys(held_back))  # type: ignore[arg-type]  # None: it cannot be imported
    try:
        yield
    finally:
        for name in held_back:
            del sys.modules[name]


def _version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    del param
    if value and not ctx.resilient_parsing:
        from lockscope._version import __version__  # noqa: PLC0415 - brings the shim and Redis with it

        click.echo(f"lockscope, version {__version__}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Options can be set as LOCKSCOPE_<OPTION> in the environment. Exit status: 0 done; 1 a finding of "
    "doctor, of why or of a headless demo, or a lock that release did not free; 2 a usage or connection "
    "error, or an incomplete result; 130 interrupted; 141 the reader of the output went away.",
)
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_version,
    help="Show the version and exit.",
)  # fmt: skip
def lockscope() -> None:
    """See the Redis locks of any library: who holds them, since when, and whether the holder lives."""

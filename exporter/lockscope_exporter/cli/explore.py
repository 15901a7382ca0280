"""``lockscope explore``: the lock explorer, in a process of Streamlit's own."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lockscope_exporter import serve
from lockscope_exporter.cli.errors import CommandError
from lockscope_exporter.configuration import variable
from lockscope_exporter.options import Whole, option, redis_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockscope_exporter.configuration import Options


class _Port(Whole):
    """A port; ``tcp://…`` is what Kubernetes puts into ``LOCKSCOPE_PORT`` for a service named so."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the port."""
        if str(value).startswith("tcp://") and param is not None:
            value = param.get_default(ctx) if ctx is not None else value
        return super().convert(value, param, ctx)


@click.command(
    epilog="Further settings of the explorer are environment variables, see the documentation. "
    "Releasing a lock from a page stays off unless LOCKSCOPE_ALLOW_RELEASE=1."
)
@option("--port", type=_Port(1, 65535), default=8501, help="Port to serve on.")
@option("--address", default="127.0.0.1", help="Address to serve on; for other hosts, put a proxy before it.")
@option("--prometheus-url", default="", help="Prometheus to read history from.")
@option("--browser/--no-browser", default=False, help="Open a browser too.")
@redis_options
def command(*, options: Options, port: int, address: str, prometheus_url: str, browser: bool) -> None:
    """Serve the lock explorer, until Ctrl-C."""
    options.targets()
    options.sampling()
    app = app_file()
    try:
        serve.listen(address, port).close()
    except serve.ListenError as error:
        raise CommandError(str(error).replace("--listen", "--port or --address")) from error
    environment = {**os.environ, **options.environment()}
    if prometheus_url:
        environment[variable("prometheus_url")] = prometheus_url
    sys.stdout.flush()
    sys.stderr.flush()
    # This process becomes Streamlit: signals and the exit status are its own, and nothing stays behind.
    os.execve(sys.executable, streamlit_command(app, port, address, browser=browser), environment)  # noqa: S606


def app_file() -> Path:
    """Return the explorer's main script.

    Raises:
        CommandError: the extra is not installed.
    """
    needed = ("lockscope_dashboard", "streamlit", "pandas")
    missing = [name for name in needed if not importlib.util.find_spec(name)]
    if missing:
        raise CommandError(
            f'the explorer needs the extra "dashboard" ({missing[0]} is not installed); '
            "install lockscope again with it, as in: pip install '.[dashboard]' in a checkout"
        )
    spec = importlib.util.find_spec("lockscope_dashboard")
    places: Sequence[str] = (spec and spec.submodule_search_locations) or ()
    for place in places:
        app = Path(place) / "app.py"
        if app.is_file():
            return app
    raise CommandError("the package lockscope_dashboard has no app.py; install lockscope again")


def streamlit_command(app: Path, port: int, address: str, *, browser: bool) -> list[str]:
    """Return the command line that serves a Streamlit script."""
    return [
        sys.executable, "-m", "lockscope_dashboard.serve", "run", str(app),
        "--server.port", str(port),
        "--server.address", address,
        "--server.headless", str(not browser).lower(),
        "--browser.gatherUsageStats", "false",
    ]  # fmt: skip

"""``lockscope export``: sample Redis and serve metrics."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lockscope_exporter import serve
from lockscope_exporter.announce import Announcer
from lockscope_exporter.cli.errors import CommandError
from lockscope_exporter.connect import check_files
from lockscope_exporter.journal import JournalFeed
from lockscope_exporter.journal.where import check_setting, journal_targets
from lockscope_exporter.options import Checked, option, redis_options
from lockscope_exporter.sampling import open_source
from lockscope_exporter.watching.tail import Tail
from lockscope_exporter.web import create_app
from lockscope_exporter.webconfig import WebConfigError
from lockscope_exporter.webguard import LiveWebConfig

if TYPE_CHECKING:
    from lockscope_exporter.configuration import Options

logger = logging.getLogger("lockscope.exporter")

_TOLD = 2_000  # what workers said, kept for people who watch
LEVELS = ("debug", "info", "warning", "error")


@click.command(
    epilog="Ends with status 0 at SIGTERM or Ctrl-C. Redis need not be there at the start: "
    "/metrics then says redis_lock_up 0, and sampling begins when Redis answers."
)
@option(
    "--listen",
    type=Checked("host:port", serve.parse_listen),
    default="127.0.0.1:9963",
    help="Address to serve on. Beyond the own host, think of --web-config-file.",
)
@option(
    "--web-config-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TLS and basic authentication, in the form of Prometheus' web.config.file.",
)
@option("--log-level", type=click.Choice(LEVELS), default="info", help="Least severe records to log.")
@option(
    "--journal",
    type=Checked("url", check_setting),
    is_flag=False,
    flag_value="1",
    default="0",
    show_default=False,
    help="Serve the metrics of workers too, from the journal that they write: in the Redis that is sampled, "
    "or in the one of this URL.",
)
@redis_options
def command(
    options: Options, listen: str, web_config_file: Path | None, log_level: str, journal: str
) -> None:
    """Sample Redis and serve the metrics of its locks to Prometheus."""
    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(message)s")
    targets = options.targets()
    for target in targets:
        check_files(target.url)
    source = open_source(targets, options.sampling())
    tail = Tail(since=time.time(), most=_TOLD)
    feed = JournalFeed(journal_targets(journal, targets), options.sampling().max_prefixes, tail)
    try:
        live = LiveWebConfig(web_config_file)
        sock = serve.listen(*serve.parse_listen(listen))
    except (WebConfigError, serve.ListenError) as error:
        raise CommandError(str(error)) from error
    source.start()
    feed.start()
    try:
        logger.info("serving %s/metrics", serve.url_of(sock, tls=live.config().tls is not None))
        with Announcer(source):
            collectors = feed.collectors()
            app = create_app(source, *collectors, tail=tail if collectors else None, errors=feed.errors)
            serve.serve(app, sock, live)
    finally:
        feed.stop()
        source.stop()
        sock.close()

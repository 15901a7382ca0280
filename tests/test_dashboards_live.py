"""Each query of each panel, run by a real Prometheus that scraped the demo with its faults."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

import pytest

from lockscope_exporter.alerts import RuleOptions
from lockscope_exporter.demo.scrape import WORKER_METRICS
from lockscope_exporter.demo.stage import Plan, Stage
from lockscope_exporter.shipped import write_rules
from monitoring import PrometheusServer
from servers import free_port, wait_until
from test_dashboards import BOARDS, filled, targets

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

SECONDS = 1 / 60  # every minute of the rules' windows is a second here

# What the demo does not produce, by board and panel. A panel that does give data must not be here.
WITHOUT_DATA = {
    ("lockscope-exporter", "Sink errors"): "no sink of the demo fails",
    ("lockscope-queues", "Progress keys by state"): "the demo watches no progress keys",
    ("lockscope-queues", "Longest silence of a running job"): "the demo watches no progress keys",
}


class Scraped:
    """The demo's stage, kept going by a thread, and a Prometheus with the shipped rules that scrapes it."""

    def __init__(self, folder: Path) -> None:
        listen = f"127.0.0.1:{free_port()}"
        (folder / "demo").mkdir()
        self.stage = Stage(Plan(None, listen, None, None), folder / "demo", print)
        self.stage.start()
        write_rules(folder / "rules", RuleOptions(window_scale=SECONDS))
        self.prometheus = PrometheusServer(
            folder / "prometheus",
            [
                {
                    "job_name": "lockscope",
                    "static_configs": [{"targets": [listen]}],
                    # Workers are scraped themselves; what the journal says of them must not count twice.
                    "metric_relabel_configs": [
                        {
                            "source_labels": ["__name__"],
                            "regex": f"({'|'.join(sorted(WORKER_METRICS))})(_total|_bucket|_count|_sum)?",
                            "action": "drop",
                        }
                    ],
                },
                {
                    "job_name": "workers",
                    "file_sd_configs": [
                        {"files": [str(folder / "demo" / "workers.json")], "refresh_interval": "1s"}
                    ],
                },
            ],
            rules=str(folder / "rules" / "*.yml"),
        )
        self.failure: Exception | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on)
        self._thread.start()

    def _go_on(self) -> None:
        while not self._over.wait(0.3):
            try:
                self.stage.step()
            except Exception as error:  # noqa: BLE001 - shown by the test that asks next
                self.failure = error
                return

    def answers(self, expr: str) -> bool:
        """Tell whether a query gives at least one number now."""
        assert self.failure is None
        text = filled(expr.replace("$__rate_interval", "20s").replace("$__range", "1h"))
        return any(not math.isnan(float(one["value"][1])) for one in self.prometheus.query(text))

    def close(self) -> None:
        """Stop everything."""
        self._over.set()
        self._thread.join(30)
        self.prometheus.close()
        self.stage.stop()


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """Give the running demo and its Prometheus."""
    scraped = Scraped(tmp_path_factory.mktemp("demo"))
    yield scraped
    scraped.close()


@pytest.mark.parametrize("name", BOARDS)
def test_every_query_gives_data(scraped: Scraped, name: str) -> None:
    """Each query of the board gives numbers from the demo; exceptions are listed above with their reason."""
    queries = [query for query in targets(BOARDS[name]) if (name, query[0]) not in WITHOUT_DATA]

    def missing() -> list[tuple[str, str]]:
        return [query for query in queries if not scraped.answers(query[1])]

    wait_until(lambda: not missing(), timeout=90, every=1, what=f"no data: {missing()}")


def test_list_of_panels_without_data_is_true(scraped: Scraped) -> None:
    """A panel that is listed as without data has none, and exists."""
    listed = {
        (name, title): expr
        for name, board in BOARDS.items()
        for title, expr in targets(board)
        if (name, title) in WITHOUT_DATA
    }
    assert listed.keys() == WITHOUT_DATA.keys()
    assert not [panel for panel, expr in listed.items() if scraped.answers(expr)]


def test_rules_run_without_a_failure(scraped: Scraped) -> None:
    """Prometheus evaluates every rule on the demo's data with no error and no warning."""
    assert scraped.failure is None
    wait_until(
        lambda: all(
            rule["health"] == "ok" for group in scraped.prometheus.rule_groups() for rule in group["rules"]
        ),
        timeout=30,
        what=[
            (rule["name"], rule["health"], rule.get("lastError"))
            for group in scraped.prometheus.rule_groups()
            for rule in group["rules"]
            if rule["health"] != "ok"
        ],
    )

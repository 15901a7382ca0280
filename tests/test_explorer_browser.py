"""The running explorer in a real browser: what people see and click."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

import lockscope_dashboard
from explorer_stage import HOLDER, SCENE, WAITER, WORKER, Folder, chromium, start_explorer, start_prometheus
from lockscope import tokens
from lockscope.jobs import Job
from lockscope_dashboard.pages import MENU
from servers import RedisServer, free_port, wait_until

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

# Where an address has a path, the frontend of Streamlit asks for its server below that path first, then
# beside it. The first two answers are 404, the browser logs them, and no page can keep it from that.
OWN_PROBES = re.compile(rf"/({'|'.join(entry.name for entry in MENU[1:])})/_stcore/(health|host-config)")
NOT_FOUND = "Failed to load resource: the server responded with a status of 404 (Not Found)"
SLOW = 30_000  # milliseconds; a loaded machine may need that, a good one a tenth


@pytest.fixture(scope="module")
def redis_server():
    """Give the Redis that the explorer watches."""
    server = RedisServer(port=None)
    yield server
    server.close()


@pytest.fixture(scope="module")
def explorer(redis_server):
    """Give the URL of a running explorer."""
    folder = Folder()
    yield start_explorer(folder, redis_server.url, "--interval", "200ms")
    folder.close()


@pytest.fixture(scope="module")
def browser():
    """Give a chromium."""
    with chromium() as started:
        yield started


@pytest.fixture
def client(redis_server):
    """Give a client of the watched Redis, with nothing in it."""
    client = redis_server.client()
    client.flushall()
    yield client
    client.close()


def open_tab(browser, trouble, **settings):
    """Open a tab that collects whatever goes wrong in it."""
    context = browser.new_context(viewport={"width": 1280, "height": 860}, timezone_id="UTC", **settings)
    tab = context.new_page()
    tab.set_default_timeout(SLOW)
    expect.set_options(timeout=SLOW)
    tab.on("pageerror", lambda error: trouble.append(str(error)))
    tab.on("dialog", lambda dialog: (trouble.append(f"dialog: {dialog.message}"), dialog.dismiss()))

    def failed(request):
        # What a tab still loads when it goes elsewhere is given up, and servers of some tests are stopped.
        if not request.url.startswith(("http://127.0.0.1", "blob:")):
            trouble.append(f"failed: {request.url}")

    def said(message):
        where = urlsplit(message.location.get("url", "")).path
        if message.type == "error" and not (message.text == NOT_FOUND and OWN_PROBES.fullmatch(where)):
            trouble.append(f"console: {message.text} ({where})")

    tab.on("requestfailed", failed)
    tab.on("console", said)
    return tab


@pytest.fixture
def page(browser):
    """Give a fresh tab; any error on its console fails the test."""
    trouble = []
    tab = open_tab(browser, trouble)
    yield tab
    tab.goto("about:blank")
    tab.context.close()
    assert trouble == []


class Refreshes:
    """Counts what the server sends to a tab; to be made before the tab opens a page."""

    def __init__(self, tab):
        self.number = 0
        self.last = time.monotonic()
        self.tab = tab
        tab.on("websocket", lambda socket: socket.on("framereceived", self._came))

    def _came(self, _):
        self.number += 1
        self.last = time.monotonic()

    def wait(self):
        """Wait until something more was sent."""
        before = self.number
        self._until(lambda: self.number > before, "a refresh")

    def wait_quiet(self, seconds):
        """Wait until nothing was sent for so long."""
        self._until(lambda: time.monotonic() - self.last > seconds, "no refresh any more")

    def _until(self, check, what):
        def looked():
            self.tab.evaluate("0")  # events come in while the browser is asked something
            return check()

        until(looked, what)


def until(check, what):
    """Wait as long as a loaded machine may need."""
    return wait_until(check, timeout=SLOW / 1000, every=0.05, what=what)


def hold(client, key, *, job="order.sync", ttl=60_000):
    """Take a lock as the shim would."""
    client.set(key, tokens.describe(Job(job_type=job, job_id="j7"), time.time()), px=ttl)


def keys(page):
    """Return the keys that the table shows, in order."""
    return page.locator("a.key").all_inner_texts()


def shows(page, *wanted):
    """Wait until the table shows exactly these keys, in order."""
    until(lambda: keys(page) == list(wanted), f"{wanted} on the page")


def params(page):
    """Return the query parameters of the address."""
    return parse_qs(page.evaluate("location.search").removeprefix("?"))  # page.url lags behind


def says(tab, **wanted):
    """Wait until the address has exactly these parameters, each once."""
    found = {name: [value] for name, value in wanted.items()}
    until(lambda: params(tab) == found, f"{wanted} in the address")


def test_lock_appears_counts_down_and_goes(page, explorer, client):
    """A lock shows up on its own, its time runs down between refreshes, and it leaves when it is over."""
    page.goto(f"{explorer}/?refresh=1+s")
    expect(page.get_by_role("heading", name="Live locks")).to_be_visible()
    hold(client, "lock:order:42", ttl=50_000)
    shows(page, "lock:order:42")
    text = page.locator("td.ttl .text")
    first = float(text.inner_text().removesuffix(" s"))
    until(lambda: 0 < float(text.inner_text().removesuffix(" s")) < first, "countdown")
    client.pexpire("lock:order:42", 100)
    expect(page.get_by_text("No lock is held right now")).to_be_visible()


def test_filters_sort_and_pages_live_in_the_address(page, explorer, client):
    """Search, state, sorting and paging change list and address; the address shows the same list again."""
    with client.pipeline() as pipe:
        for number in range(60):
            pipe.set(f"lock:order:{number:02d}", b"%032d" % number, px=100_000 + number * 1000)
        for number in range(3):
            pipe.set(f"lock:ever:{number}", b"%032d" % (100 + number))
        pipe.execute()
    page.goto(explorer)
    expect(page.get_by_text("1 to 50 of 63 locks")).to_be_visible()
    page.get_by_role("button", name="No TTL").click()
    shows(page, "lock:ever:0", "lock:ever:1", "lock:ever:2")
    says(page, state="no_ttl")
    expect(page.get_by_role("button", name="No TTL")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="No TTL").click()
    expect(page.get_by_text("1 to 50 of 63 locks")).to_be_visible()
    page.get_by_placeholder("key, holder, job").fill("lock:order:*")
    page.keyboard.press("Enter")
    expect(page.get_by_text("1 to 50 of 60 locks (filtered from 63)")).to_be_visible()
    page.get_by_role("button", name="Lock", exact=True).click()
    until(lambda: keys(page)[:1] == ["lock:order:00"], "sorted by key")
    page.get_by_role("button", name="Next page").click()
    expect(page.get_by_text("51 to 60 of 60 locks")).to_be_visible()
    found = [f"lock:order:{number}" for number in range(50, 60)]
    shows(page, *found)
    says(page, q="lock:order:*", sort="key", page="2")
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    shows(page, *found)
    page.get_by_role("button", name="Previous page").click()
    page.get_by_role("button", name="Lock", exact=True).click()
    until(lambda: keys(page)[:1] == ["lock:order:59"], "sorted the other way round")


SAID = """window.said = [];
const push = history.pushState.bind(history);
history.pushState = (state, title, url) => { window.said.push(String(url)); push(state, title, url); };"""


@pytest.fixture
def late(page):
    """Give a function that hands the tab an address which a refresh, asked for before a click, comes with."""
    streams = []

    def relay(stream):
        streams.append(stream)
        stream.connect_to_server()

    def come(address):
        message = ForwardMsg()
        message.page_info_changed.query_string = address
        streams[-1].send(message.SerializeToString())
        until(
            lambda: any(said.endswith(f"?{address}") for said in page.evaluate("window.said")),
            f"{address} said",
        )

    page.route_web_socket(re.compile("_stcore/stream"), relay)
    page.add_init_script(SAID)
    return come


def test_address_that_a_late_refresh_sets_back_is_put_right(page, explorer, client, late):
    """An address that comes late has lost what was clicked and typed since; the next refresh mends it all."""
    for number in range(3):
        hold(client, f"lock:order:{number}")
        hold(client, f"lock:mail:{number}")
    page.goto(f"{explorer}/?refresh=1+s&prefix=lock:mail:*&sort=key")
    shows(page, *(f"lock:mail:{number}" for number in range(3)))
    page.get_by_placeholder("key, holder, job").fill("mail:1")
    page.keyboard.press("Enter")
    shows(page, "lock:mail:1")
    whole = {"refresh": "1 s", "prefix": "lock:mail:*", "sort": "key", "q": "mail:1"}
    says(page, **whole)
    late("refresh=1+s&sort=key")
    says(page, **whole)
    shows(page, "lock:mail:1")


def test_a_new_filter_on_a_later_page_is_one_step_in_the_history(page, explorer, client):
    """Filter and first page go into the address together: Back shows what was looked at before."""
    for number in range(60):
        client.set(f"lock:order:{number:02d}", b"%032d" % number, px=100_000 + number * 1000)
    page.add_init_script(SAID)
    page.goto(f"{explorer}/?refresh=1+s&sort=key&page=2")
    expect(page.get_by_text("51 to 60 of 60 locks")).to_be_visible()
    page.evaluate("window.said.length = 0")
    page.get_by_placeholder("key, holder, job").fill("order:1")
    page.keyboard.press("Enter")
    shows(page, *(f"lock:order:1{number}" for number in range(10)))
    says(page, refresh="1 s", sort="key", q="order:1")
    assert len(page.evaluate("window.said")) == 1
    page.go_back()
    expect(page.get_by_text("51 to 60 of 60 locks")).to_be_visible()


def test_back_after_the_link_to_the_list_leads_to_the_lock(page, explorer, client):
    """The way back to the list is one step, with the interval that was chosen there."""
    hold(client, "lock:order:1")
    page.goto(f"{explorer}/?refresh=Pause&q=order")
    page.locator("tr", has_text="lock:order:1").click()
    expect(page.get_by_text("What to do")).to_be_visible()
    page.locator("[data-testid=stPageLink]").get_by_role("link", name="Live locks").click()
    shows(page, "lock:order:1")
    says(page, refresh="Pause", q="order")
    page.go_back()
    expect(page.get_by_text("What to do")).to_be_visible()
    says(page, key="lock:order:1")


def test_refresh_control_leaves_the_list_as_it_is(page, explorer, client, late):
    """What is filtered stays when the interval is chosen, even where the address is a click behind."""
    hold(client, "lock:order:1")
    hold(client, "lock:mail:1")
    page.goto(f"{explorer}/?refresh=Pause&q=mail&sort=key")
    shows(page, "lock:mail:1")
    late("refresh=Pause")
    says(page, refresh="Pause")
    page.get_by_role("radio", name="1 s", exact=True).click()
    says(page, refresh="1 s", q="mail", sort="key")
    shows(page, "lock:mail:1")


def test_choice_of_a_prefix_filters(page, explorer, client):
    """A prefix picked from the list is a filter, in the address too."""
    hold(client, "lock:order:1")
    hold(client, "lock:mail:1")
    page.goto(explorer)
    expect(page.locator("a.key")).to_have_count(2)
    page.get_by_role("combobox", name="Prefix").click()
    page.get_by_role("option", name="lock:mail:*").click()
    shows(page, "lock:mail:1")
    says(page, prefix="lock:mail:*")


def test_row_leads_to_its_lock_although_rows_move(page, explorer, client):
    """A click opens the lock that was clicked, by its key: rows that come and go above it do not matter."""
    hold(client, "lock:order:2")
    page.goto(f"{explorer}/?sort=key&refresh=1+s")
    shows(page, "lock:order:2")
    hold(client, "lock:order:1")
    page.locator("tr", has_text="lock:order:2").click()
    expect(page.locator(".top .key", has_text="lock:order:2")).to_be_visible()
    assert urlsplit(page.url).path == "/lock"
    says(page, key="lock:order:2")
    expect(page.get_by_text("What to do")).to_be_visible()
    page.go_back()
    shows(page, "lock:order:1", "lock:order:2")
    says(page, sort="key", refresh="1 s")
    expect(page.get_by_role("radio", name="1 s", exact=True)).to_be_checked()


def test_there_and_back_while_pages_refresh(page, explorer, client):
    """Going to a lock and back at any instant of the list's refresh always ends on a whole page."""
    hold(client, "lock:order:1")
    page.goto(f"{explorer}/?refresh=1+s&q=lock:order:*")
    for step in range(5):
        shows(page, "lock:order:1")
        page.wait_for_timeout(170 * step)
        page.locator("a.key").click()
        expect(page.locator(".top .key")).to_have_text("lock:order:1")
        if step % 2:
            page.go_back()
        else:
            page.locator("[data-testid=stPageLink] a", has_text="Live locks").click()
        until(lambda: params(page).get("q") == ["lock:order:*"], "the filter in the address")


def test_deep_link_of_a_lock_and_keyboard(page, explorer, client):
    """A link to a lock opens its page, and the list can be used with the keyboard alone."""
    hold(client, "lock:order:42", job="invoice.generate")
    page.goto(f"{explorer}/lock?key=lock%3Aorder%3A42")
    expect(page.get_by_text("invoice.generate j7")).to_be_visible()
    expect(page.get_by_role("link", name="Holders")).to_be_visible()
    page.goto(explorer)
    shows(page, "lock:order:42")
    page.locator("a.key").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("invoice.generate j7")).to_be_visible()


def test_typed_text_and_place_survive_refreshes(page, explorer, client):
    """A refresh takes away neither half-typed text nor the keyboard's place nor the scroll position."""
    for number in range(40):
        hold(client, f"lock:order:{number:02d}")
    page.goto(f"{explorer}/?refresh=1+s&sort=key")
    expect(page.locator("a.key")).to_have_count(40)
    box = page.get_by_placeholder("key, holder, job")
    box.press_sequentially("half ty")
    row = page.locator("tbody tr").nth(30)
    row.scroll_into_view_if_needed()
    main = page.locator("[data-testid=stMain]")
    place = main.evaluate("node => node.scrollTop")
    assert place > 0
    hold(client, "lock:zzz:1")
    expect(page.locator("a.key")).to_have_count(41)
    assert box.input_value() == "half ty"
    assert page.evaluate("document.activeElement.tagName") == "INPUT"
    assert main.evaluate("node => node.scrollTop") == place
    assert page.locator("a.key").nth(30).inner_text() == "lock:order:30"


def test_pause_stops_the_page_and_resume_catches_up(page, explorer, client):
    """While paused the list stays as it is, although the sampler goes on."""
    hold(client, "lock:order:1")
    refreshes = Refreshes(page)
    page.goto(f"{explorer}/?refresh=1+s")
    shows(page, "lock:order:1")
    refreshes.wait()
    page.get_by_role("radio", name="Pause").click()
    until(lambda: params(page).get("refresh") == ["Pause"], "paused")
    refreshes.wait_quiet(2.0)  # a refresh that was under way when the button was pressed may still come
    hold(client, "lock:order:2")
    other = page.context.new_page()
    other.goto(f"{explorer}/?refresh=1+s&sort=key")
    shows(other, "lock:order:1", "lock:order:2")
    other.close()
    assert keys(page) == ["lock:order:1"]
    page.get_by_role("radio", name="1 s", exact=True).click()
    expect(page.locator("a.key")).to_have_count(2)


HTML = "lock:<img src=x onerror=alert(1)><script>alert(2)</script>"
MARKDOWN = "lock:**bold** [link](javascript:alert(1)) $x$ :red[y]"
HOSTILE = {
    HTML.encode(): HTML,
    MARKDOWN.encode(): MARKDOWN,
    b"lock:=HYPERLINK(1)": "lock:=HYPERLINK(1)",
    "lock:\u202egnp.exe\u200b".encode(): r"lock:\u202egnp.exe\u200b",
    b"lock:\xff\n\x00": r"lock:\xff\x0a\x00",
}


def test_hostile_keys_are_text_on_every_page(page, explorer, client):
    """HTML, Markdown, formulas, direction marks and binary show as they are, and nothing of them runs."""
    for key in HOSTILE:
        client.set(key, tokens.describe(Job(job_type="<b>job</b>", job_id="**x**"), time.time()), px=60_000)
    page.goto(f"{explorer}/?sort=key")
    expect(page.locator("a.key")).to_have_count(len(HOSTILE))
    assert set(keys(page)) == set(HOSTILE.values())
    for shown in (HTML, MARKDOWN):
        page.goto(explorer)
        page.locator("a.key", has_text=shown).click()
        expect(page.locator(".top .key")).to_have_text(shown)
        expect(page.get_by_text("<b>job</b> **x**")).to_be_visible()
    for name in ("Holders", "Contention", "TTL advice", "Audit and health"):
        page.get_by_role("link", name=name).click()
        expect(page.get_by_role("heading", name=name)).to_be_visible()
        expect(page.locator("tbody tr").first).to_be_visible()
    assert page.evaluate("document.querySelectorAll('img[src=x]').length") == 0


def test_redis_that_goes_away_and_comes_back(page):
    """While Redis is down the page says so; it recovers on its own."""
    server, folder = RedisServer(port=None), Folder()
    try:
        client = server.client()
        hold(client, "lock:order:1", ttl=600_000)
        client.close()
        page.goto(
            start_explorer(folder, server.url, "--interval", "200ms", "--timeout", "500ms") + "/?refresh=1+s"
        )
        shows(page, "lock:order:1")
        server.stop()
        expect(page.get_by_text("Redis cannot be read")).to_be_visible()
        server.start()
        expect(page.get_by_text("Redis cannot be read")).to_be_hidden()
        expect(page.get_by_text("No lock is held right now")).to_be_visible()
        page.goto("about:blank")
    finally:
        folder.close()
        server.close()


COLLECTIONS = """
import gc, sys
def tell(phase, info):
    if phase == "stop" and info["generation"] == 2:
        print(f"searched everything, {gc.get_freeze_count()} objects left out", file=sys.stderr, flush=True)
gc.callbacks.append(tell)
"""


def test_runs_of_viewers_do_not_search_all_objects_for_garbage(page, redis_server, client):
    """Not every run ends with a full collection, and one never looks at what was imported."""
    folder = Folder()
    finished = []

    def came(frame):
        finished.append(ForwardMsg.FromString(frame).WhichOneof("type") == "script_finished")

    try:
        (folder.path / "sitecustomize.py").write_text(COLLECTIONS)
        url = start_explorer(folder, redis_server.url, env={"PYTHONPATH": str(folder.path)})
        hold(client, "lock:order:1")
        page.on("websocket", lambda socket: socket.on("framereceived", came))
        page.goto(f"{url}/?refresh=1+s")
        shows(page, "lock:order:1")
        output = folder.processes[-1].output

        def told():
            return re.findall(r"searched everything, (\d+) objects", output())

        before, runs = len(told()), sum(finished)
        until(lambda: page.evaluate("1") and sum(finished) >= runs + 8, "eight refreshes")
        assert len(told()) - before < 4
        url = start_explorer(
            folder,
            redis_server.url,
            env={"PYTHONPATH": str(folder.path), "STREAMLIT_RUNNER_POST_SCRIPT_GC": "true"},
        )
        output = folder.processes[-1].output
        page.goto(f"{url}/?refresh=1+s")
        until(lambda: page.evaluate("1") and told() and int(told()[-1]) > 100_000, "a search without imports")
        page.goto("about:blank")
    finally:
        folder.close()


CHANGES = """nodes => new Promise(done => {
  let changes = 0;
  const look = new MutationObserver(found => { changes += found.length; });
  for (const node of nodes) look.observe(node, {attributes: true});
  setTimeout(() => done([nodes.length, changes]), 1500);
})"""


def test_bar_that_hardly_moves_is_not_drawn_anew(page, explorer, client):
    """Bars of locks that live for an hour leave the browser in peace, however often the list refreshes."""
    for number in range(20):
        hold(client, f"lock:order:{number:02d}", ttl=3_600_000)
    page.goto(f"{explorer}/?refresh=1+s")
    expect(page.locator("a.key")).to_have_count(20)
    bars, changes = page.locator("td.ttl .bar i").evaluate_all(CHANGES)
    assert bars == 20
    assert changes <= 20  # a step of half a percent each 18 s, six ticks in that time


def test_rows_of_one_name_do_not_pile_up(page):
    """Whatever names a component is given, after each update it has a node an item and no more."""
    page.goto("about:blank")
    script = Path(lockscope_dashboard.__file__).parent / "components" / "base.js"
    page.add_script_tag(content=script.read_text())
    found = page.evaluate("""() => {
      const list = document.createElement("ul");
      const draw = items => {
        reconcile(list, items, item => item[0], () => el("li"), (node, item) => put(node, item));
        return [...list.children].map(node => node.textContent).join(" ");
      };
      return [["a1", "a2", "b3"], ["a1", "a4"], ["b5", "a6", "a7"]].map(draw);
    }""")
    assert found == ["a1 a2 b3", "a1 a4", "b5 a6 a7"]


CUT_OFF = """[...document.querySelectorAll("[data-testid=stMain] button")].filter(node => node.offsetParent
    && !node.closest(".ls") && node.getBoundingClientRect().right > innerWidth
  ).map(node => node.innerText)"""


def test_usable_on_a_phone(page, explorer, client):
    """At 390 pixels nothing sticks out to the side or is cut off, and a row shows everything."""
    hold(client, "lock:order:" + "x" * 200)
    client.set("lock:ever", "x" * 32)
    page.set_viewport_size({"width": 390, "height": 844})
    for path in ("/", "/lock?key=lock:ever", "/holders", "/health"):
        page.goto(explorer + path)
        expect(page.locator(".ls").first).to_be_visible()
        wide = page.locator("[data-testid=stMain]").evaluate("node => node.scrollWidth - node.clientWidth")
        assert wide <= 0, path
        assert page.evaluate(CUT_OFF) == [], path
    page.goto(explorer)
    left = page.locator("tbody tr", has_text="lock:ever").locator(".ttl")
    expect(left).to_have_text("never")
    named = "node => getComputedStyle(node, '::before').content"
    assert left.evaluate(named) == '"Expires in"'  # the column heads are not shown at that width
    assert page.locator("td.age").first.evaluate(named) == '"Held for"'


CONTRAST = """nodes => nodes.map(node => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const light = colour => {
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map(value => value / 255)
      .map(value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const style = getComputedStyle(node);
  const [a, b] = [light(style.color), light(style.backgroundColor)].sort((x, y) => y - x);
  return [node.dataset.state, (a + 0.05) / (b + 0.05)];
})"""


@pytest.fixture(scope="module")
def scene():
    """Give an explorer over a lively Redis and a Prometheus, with one holder that was killed."""
    server, folder = RedisServer(port=None), Folder()
    metrics, exporter = free_port(), free_port()
    journal = {"LOCKSCOPE_JOURNAL": server.url}
    folder.script("worker", WORKER, server.url, str(metrics), env=journal)
    waiter = folder.script("waiter", WAITER, server.url, "lock:invoice:8812", "invoice.send", env=journal)
    until(lambda: waiter.output().count("released") > 2, "runs of the waiter before somebody keeps the lock")
    lively = folder.script("scene", SCENE, server.url, "600")
    options = ["--redis-url", server.url, "--listen", f"127.0.0.1:{exporter}"]
    folder.start("exporter", [sys.executable, "-m", "lockscope_exporter", "export", *options])
    holder = folder.script("holder", HOLDER, server.url, "lock:invoice:8812", "invoice.generate", env=journal)
    prometheus = start_prometheus(folder, metrics, exporter)
    release = {"LOCKSCOPE_ALLOW_RELEASE": "1"}
    url = start_explorer(folder, server.url, "--prometheus-url", prometheus, env=release)
    until(lambda: "ready" in lively.output(), "scene")
    until(lambda: "holding" in holder.output(), "holder")
    yield url, holder
    folder.close()
    server.close()


def test_killed_worker_turns_orphaned_on_screen(page, scene):
    """A worker that is killed while one looks on shows as gone within seconds, with the evidence."""
    url, holder = scene
    page.goto(f"{url}/?q=8812&refresh=1+s")
    row = page.locator("tbody tr", has_text="lock:invoice:8812")
    expect(row.locator(".badge")).to_have_text("held")
    expect(row.locator(".who")).to_have_attribute("title", re.compile("process alive"))
    holder.stop(signal.SIGKILL)
    expect(row.locator(".badge")).to_have_text("orphaned")
    expect(row.locator(".why")).to_contain_text("invoice.generate")
    row.click()
    expect(page.get_by_text("The holder is gone, nobody works")).to_be_visible()


def test_release_of_an_orphan_end_to_end(page):
    """The dialog survives refreshes while one types, frees the orphan that was seen, and shows the trail."""
    server, folder = RedisServer(port=None), Folder()
    try:
        holder = folder.script("holder", HOLDER, server.url, "lock:invoice:1", "invoice.generate")
        until(lambda: "holding" in holder.output(), "holder")
        url = start_explorer(folder, server.url, env={"LOCKSCOPE_ALLOW_RELEASE": "1"})
        refreshes = Refreshes(page)
        page.goto(f"{url}/lock?key=lock:invoice:1&refresh=1+s")
        expect(page.get_by_text("alive", exact=True)).to_be_visible()
        page.get_by_role("button", name="Release this lock").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_text("holds it and lives")).to_be_visible()
        dialog.get_by_role("button", name="Close").click()
        expect(dialog).to_be_hidden()
        holder.stop(signal.SIGKILL)
        expect(page.locator(".top .badge")).to_have_text("orphaned")
        page.get_by_role("button", name="Release this lock").click()
        expect(dialog.get_by_text("Dry run")).to_be_visible()
        expect(dialog.get_by_text("holds it and lives")).to_be_hidden()
        dialog.get_by_label("Type the key to confirm").press_sequentially("lock:invoice:1")
        for _ in range(2):  # the page behind goes on, and the dialog must not lose what was typed
            refreshes.wait()
        expect(dialog.get_by_label("Type the key to confirm")).to_have_value("lock:invoice:1")
        dialog.get_by_label("Reason").fill("killed by a deploy")
        dialog.get_by_role("button", name="Release", exact=True).click()
        expect(dialog.get_by_text("Released.")).to_be_visible()
        client = server.client()
        assert not client.exists("lock:invoice:1")
        client.close()
        dialog.get_by_role("button", name="Close").click()
        expect(page.get_by_text("is held at the moment")).to_be_visible()
        page.get_by_role("link", name="Audit and health").click()
        expect(page.get_by_text("killed by a deploy")).to_be_visible()
        page.goto("about:blank")
    finally:
        folder.close()
        server.close()


PICTURES = {
    "live-locks": "/",
    "one-lock": "/lock?key=lock:invoice:8812",
    "holders": "/holders",
    "contention": "/contention?window=15+min",
    "ttl-advice": "/ttl?window=15+min",
    "duplicates": "/duplicates?window=15+min",
    "health": "/health",
}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_in_both_themes(browser, scene, tmp_path, theme):
    """Every page draws without an error in both themes, badges are legible, and its picture is kept.

    With LOCKSCOPE_SCREENSHOTS set to a folder the pictures go there: that is how docs/images is made.
    """
    url, _ = scene
    folder = Path(os.environ.get("LOCKSCOPE_SCREENSHOTS") or tmp_path)
    trouble = []
    tab = open_tab(browser, trouble, color_scheme=theme)
    for name, path in PICTURES.items():
        tab.goto(url + path)
        tab.locator(".ls").first.wait_for()
        expect(tab.get_by_test_id("stException")).to_have_count(0)
        if name in {"contention", "ttl-advice"}:
            tab.locator("canvas, svg.marks").first.wait_for()
        if name == "live-locks":
            expect(tab.locator(".tile[data-name=waiting] .value")).to_have_text(re.compile(r"^\d+$"))
            found = dict(tab.locator(".badge").evaluate_all(CONTRAST))
            assert {"held", "no_ttl"} <= found.keys()
            assert min(found.values()) >= 4.5, found
        expect(tab.get_by_test_id("stSkeleton")).to_have_count(0)
        tab.screenshot(path=folder / f"{name}-{theme}.png", animations="disabled")
        assert (folder / f"{name}-{theme}.png").stat().st_size > 20_000
    tab.goto(url + PICTURES["one-lock"])
    tab.get_by_role("button", name="Release this lock").click()
    expect(tab.get_by_role("dialog").get_by_text("Dry run")).to_be_visible()
    tab.get_by_role("dialog").get_by_label("Reason").wait_for()
    button = tab.get_by_role("dialog").get_by_role("button", name="Release", exact=True)
    assert button.evaluate_all(CONTRAST)[0][1] >= 4.5
    tab.screenshot(path=folder / f"release-{theme}.png", animations="disabled")
    tab.goto("about:blank")
    tab.context.close()
    assert trouble == []

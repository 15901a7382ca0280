"""The running explorer in a real browser: what people see and click."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect, sync_playwright

from explorer_stage import HOLDER, SCENE, WAITER, WORKER, Folder, start_explorer, start_prometheus
from lockscope import tokens
from lockscope.jobs import Job
from servers import RedisServer, free_port, wait_until

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
# The frontend of Streamlit looks for its server below a deep link's path first; these 404s are its own.
OWN_PROBES = re.compile(r"/\w+/_stcore/(health|host-config)$")
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
    path = shutil.which("chromium")
    if path is None:
        pytest.fail("chromium is not installed; run tests/system-packages.sh")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def client(redis_server):
    """Give a client of the watched Redis, with nothing in it."""
    client = redis_server.client()
    client.flushall()
    yield client
    client.close()


@pytest.fixture
def page(browser):
    """Give a fresh tab; any error on its console fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, timezone_id="UTC")
    tab = context.new_page()
    tab.set_default_timeout(SLOW)
    expect.set_options(timeout=SLOW)
    trouble = []
    tab.on("pageerror", lambda error: trouble.append(str(error)))
    tab.on("dialog", lambda dialog: (trouble.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    tab.on("requestfailed", lambda request: trouble.append(f"failed: {request.url}"))

    def said(message):
        where = urlsplit(message.location.get("url", "")).path
        if message.type == "error" and not OWN_PROBES.search(where):
            trouble.append(f"console: {message.text} ({where})")

    tab.on("console", said)
    yield tab
    tab.goto("about:blank")
    context.close()
    left = [
        line
        for line in trouble
        if "ERR_ABORTED" not in line and not line.startswith(("failed: http://127.0.0.1", "failed: blob:"))
    ]
    assert left == []


def hold(client, key, *, job="order.sync", ttl=60_000):
    """Take a lock as the shim would."""
    client.set(key, tokens.describe(Job(job_type=job, job_id="j7"), time.time()), px=ttl)


def keys(page):
    """Return the keys that the table shows, in order."""
    return page.locator("a.key").all_inner_texts()


def shows(page, *wanted):
    """Wait until the table shows exactly these keys, in order."""
    wait_until(
        lambda: keys(page) == list(wanted), timeout=SLOW / 1000, every=0.1, what=f"{wanted} on the page"
    )


def params(page):
    """Return the query parameters of the address."""
    return parse_qs(urlsplit(page.url).query)


def test_lock_appears_counts_down_and_goes(page, explorer, client):
    """A lock shows up on its own, its time runs down between refreshes, and it leaves when it is over."""
    page.goto(f"{explorer}/?refresh=1+s")
    expect(page.get_by_role("heading", name="Live locks")).to_be_visible()
    hold(client, "lock:order:42", ttl=4_000)
    shows(page, "lock:order:42")
    text = page.locator("td.ttl .text")
    first = float(text.inner_text().removesuffix(" s"))
    wait_until(lambda: 0 < float(text.inner_text().removesuffix(" s")) < first, every=0.05, what="countdown")
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
    assert params(page)["state"] == ["no_ttl"]
    expect(page.get_by_role("button", name="No TTL")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="No TTL").click()
    expect(page.get_by_text("1 to 50 of 63 locks")).to_be_visible()
    page.get_by_placeholder("key, holder, job").fill("lock:order:*")
    page.keyboard.press("Enter")
    expect(page.get_by_text("1 to 50 of 60 locks (filtered from 63)")).to_be_visible()
    page.get_by_role("button", name="Lock", exact=True).click()
    wait_until(lambda: keys(page)[:1] == ["lock:order:00"], what="sorted by key")
    page.get_by_role("button", name="Next page").click()
    expect(page.get_by_text("51 to 60 of 60 locks")).to_be_visible()
    found, address = keys(page), page.url
    assert found == [f"lock:order:{number}" for number in range(50, 60)]
    assert params(page) == {"q": ["lock:order:*"], "sort": ["key"], "page": ["2"]}
    page.goto("about:blank")
    page.goto(address)
    shows(page, *found)
    page.get_by_role("button", name="Previous page").click()
    page.get_by_role("button", name="Lock", exact=True).click()
    wait_until(lambda: keys(page)[:1] == ["lock:order:59"], what="sorted the other way round")


def test_choice_of_a_prefix_filters(page, explorer, client):
    """A prefix picked from the list is a filter, in the address too."""
    hold(client, "lock:order:1")
    hold(client, "lock:mail:1")
    page.goto(explorer)
    expect(page.locator("a.key")).to_have_count(2)
    page.get_by_role("combobox", name="Prefix").click()
    page.get_by_role("option", name="lock:mail:*").click()
    shows(page, "lock:mail:1")
    assert params(page)["prefix"] == ["lock:mail:*"]


def test_row_leads_to_its_lock_although_rows_move(page, explorer, client):
    """A click opens the lock that was clicked, by its key: rows that come and go above it do not matter."""
    hold(client, "lock:order:2")
    page.goto(f"{explorer}/?sort=key&refresh=1+s")
    shows(page, "lock:order:2")
    hold(client, "lock:order:1")
    page.locator("tr", has_text="lock:order:2").click()
    expect(page.locator(".top .key", has_text="lock:order:2")).to_be_visible()
    assert urlsplit(page.url).path == "/lock"
    assert params(page) == {"key": ["lock:order:2"]}
    expect(page.get_by_text("What to do")).to_be_visible()
    page.go_back()
    shows(page, "lock:order:1", "lock:order:2")
    assert params(page)["sort"] == ["key"]


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
        page.wait_for_url(lambda url: "q=" in url)
        assert params(page)["q"] == ["lock:order:*"]


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


def test_pause_stops_the_page_and_resume_catches_up(page, explorer, client):
    """While paused the list stays as it is, although the sampler goes on."""
    hold(client, "lock:order:1")
    page.goto(f"{explorer}/?refresh=1+s")
    shows(page, "lock:order:1")
    page.get_by_role("radio", name="Pause").click()
    wait_until(lambda: params(page).get("refresh") == ["Pause"], what="paused")
    page.wait_for_timeout(1500)  # a refresh that was under way when the button was pressed may still come
    expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")
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
    """While Redis is down the page says so and keeps what it knows; it recovers on its own."""
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


def test_usable_on_a_phone(page, explorer, client):
    """At 390 pixels nothing sticks out to the side, and a row shows everything."""
    hold(client, "lock:order:" + "x" * 200)
    client.set("lock:ever", "x" * 32)
    page.set_viewport_size({"width": 390, "height": 844})
    for path in ("/", "/lock?key=lock:ever", "/holders", "/health"):
        page.goto(explorer + path)
        expect(page.locator(".ls").first).to_be_visible()
        wide = page.locator("[data-testid=stMain]").evaluate("node => node.scrollWidth - node.clientWidth")
        assert wide <= 0, path
    page.goto(explorer)
    expect(page.locator("tbody tr", has_text="lock:ever").locator(".ttl")).to_have_text("never")


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
    folder.script("waiter", WAITER, server.url, "lock:invoice:8812", "invoice.send", env=journal)
    time.sleep(2.5)  # some runs of the waiter before somebody keeps the lock
    lively = folder.script("scene", SCENE, server.url, "600")
    options = ["--redis-url", server.url, "--listen", f"127.0.0.1:{exporter}"]
    folder.start("exporter", [sys.executable, "-m", "lockscope_exporter", "export", *options])
    holder = folder.script("holder", HOLDER, server.url, "lock:invoice:8812", "invoice.generate", env=journal)
    prometheus = start_prometheus(folder, metrics, exporter)
    release = {"LOCKSCOPE_ALLOW_RELEASE": "1"}
    url = start_explorer(folder, server.url, "--prometheus-url", prometheus, env=release)
    wait_until(lambda: "ready" in lively.output(), what="scene")
    wait_until(lambda: "holding" in holder.output(), what="holder")
    yield url, holder
    folder.close()
    server.close()


def test_killed_worker_turns_orphaned_on_screen(page, scene):
    """A worker that is killed while one looks on shows as gone within seconds, with the evidence."""
    url, holder = scene
    page.goto(f"{url}/?q=8812&refresh=1+s")
    row = page.locator("tbody tr", has_text="lock:invoice:8812")
    expect(row.locator(".badge")).to_have_text("held")
    time.sleep(1.5)  # presence is announced and seen; before that, nobody could tell a killed process
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
        wait_until(lambda: "holding" in holder.output(), what="holder")
        url = start_explorer(folder, server.url, env={"LOCKSCOPE_ALLOW_RELEASE": "1"})
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
        age = page.locator(".held .big").inner_text()
        dialog.get_by_label("Type the key to confirm").press_sequentially("lock:invoice:1")
        wait_until(lambda: page.locator(".held .big").inner_text() != age, what="the page behind goes on")
        time.sleep(1.2)  # one refresh of the page behind: the dialog must not lose what was typed
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
    context = browser.new_context(
        viewport={"width": 1280, "height": 860}, color_scheme=theme, timezone_id="UTC"
    )
    tab = context.new_page()
    tab.set_default_timeout(SLOW)
    trouble = []
    tab.on("pageerror", lambda error: trouble.append(str(error)))
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
        tab.wait_for_timeout(400)  # let the last transition end before the picture
        tab.screenshot(path=folder / f"{name}-{theme}.png")
        assert (folder / f"{name}-{theme}.png").stat().st_size > 20_000
    tab.goto(url + PICTURES["one-lock"])
    tab.get_by_role("button", name="Release this lock").click()
    expect(tab.get_by_role("dialog").get_by_text("Dry run")).to_be_visible()
    tab.get_by_role("dialog").get_by_label("Reason").wait_for()
    tab.wait_for_timeout(600)
    tab.screenshot(path=folder / f"release-{theme}.png")
    tab.goto("about:blank")
    context.close()
    assert trouble == []

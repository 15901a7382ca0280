"""Who may free a lock from a page, and that the page frees exactly what was seen."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

import lockscope_dashboard
from explorer_stage import HOLDER, Folder
from lockscope import tokens
from lockscope.jobs import Job
from lockscope_dashboard import access, source
from lockscope_dashboard.settings import Settings, from_environment
from lockscope_exporter.release import read_audit
from servers import wait_until

APP = Path(lockscope_dashboard.__file__).parent / "app.py"
ON = Settings(allow_release=True)
ROLES = Settings(allow_release=True, release_roles=("oncall", "sre"))
SIGNED_OUT = {"is_logged_in": False}
ANN = {"is_logged_in": True, "email": "ann@example.org", "groups": ["dev", "sre"]}
NO_CLAIM = {"is_logged_in": True, "email": "eve@example.org"}
BOB = {"is_logged_in": True, "name": "Bob", "roles": "dev, support"}


@pytest.mark.parametrize(
    ("settings", "user", "allowed", "why"),
    [
        (Settings(), {}, False, "LOCKSCOPE_ALLOW_RELEASE=1"),
        (Settings(), ANN, False, "LOCKSCOPE_ALLOW_RELEASE=1"),
        (ON, {}, True, ""),
        (ROLES, {}, False, "sign-in is not configured"),
        (ROLES, SIGNED_OUT, False, "sign in"),
        (ON, SIGNED_OUT, False, "sign in"),
        (ON, ANN, False, "LOCKSCOPE_RELEASE_ROLES"),
        (ROLES, ANN, True, ""),
        (ROLES, BOB, False, "free locks, Bob has none"),
        (ROLES, {"is_logged_in": "yes", "roles": ["sre"]}, False, "sign in"),
        (ROLES, NO_CLAIM, False, "free locks, eve@example.org has none"),
        (ROLES, {"is_logged_in": True}, False, "free locks, somebody without a name has none"),
        (ROLES, {"is_logged_in": True, "groups": {"sre": 1}}, False, "has none"),
    ],
)
def test_who_may_free_a_lock(settings, user, allowed, why):
    """Off by default; with sign-in only named roles; roles without sign-in are nobody's."""
    found = access.decide(settings, user, "10.0.0.7")
    assert found.allowed is allowed
    assert why in found.why_not
    assert found.sign_in == (user.get("is_logged_in") not in (None, True) and settings.allow_release)


def test_audit_names_the_person():
    """A signed-in person is named by their e-mail address, an anonymous viewer by their address."""
    assert access.decide(ROLES, ANN, None).user == "ann@example.org"
    assert access.decide(ON, {}, "10.0.0.7").user == "viewer at 10.0.0.7"


@pytest.mark.parametrize("value", ["", "0", "no", "false", "off", "2", "yes please"])
def test_release_is_off_unless_clearly_on(value):
    """Only a clear yes switches releases on."""
    assert not from_environment({"LOCKSCOPE_ALLOW_RELEASE": value}).allow_release


@pytest.fixture
def app(server, monkeypatch):
    """Give a function that opens the page of a lock."""
    monkeypatch.setenv("LOCKSCOPE_REDIS_URL", server.url)
    monkeypatch.setenv("LOCKSCOPE_INTERVAL", "100ms")
    monkeypatch.setenv("LOCKSCOPE_ALLOW_RELEASE", "1")
    monkeypatch.setenv("LOCKSCOPE_JOURNAL", "0")
    monkeypatch.delenv("LOCKSCOPE_PROMETHEUS_URL", raising=False)
    st.cache_resource.clear()

    def open_lock(key, user=None):
        page = AppTest.from_file(str(APP), default_timeout=30)
        page.user = user or {}
        page.switch_page("pages/lock.py")
        page.query_params["key"] = key
        page.run()
        assert not page.exception, [one.value for one in page.exception]
        return page

    yield open_lock
    st.cache_resource.clear()


def hold(client, key, worker=None):
    """Take a lock as the shim would, in the name of a worker that lives or does not."""
    token = tokens.describe(Job(job_type="invoice.generate", job_id="1"), time.time())
    if worker:
        token = token.replace(tokens.process.worker.encode(), worker.encode())
    client.set(key, token, px=600_000)
    return token


def state_of(key):
    """Return the state of a lock as the explorer's sampler knows it."""
    found = source.board().source.lock(key)
    return found and found.state


def press(page, label):
    """Press a button by its label."""
    button = next(one for one in page.button if one.label == label)
    return button.click().run()


def texts(page):
    """Return what the page says in boxes."""
    return " ".join(one.value for kind in (page.error, page.warning, page.success, page.info) for one in kind)


@pytest.fixture
def holder(server):
    """Give a process that holds a lock through the shim."""
    folder = Folder()
    process = folder.script("holder", HOLDER, server.url, "lock:dead:1", "invoice.generate")
    wait_until(lambda: "holding" in process.output(), timeout=30, what="lock taken")
    yield process
    folder.close()


def test_orphan_is_freed_once_key_and_reason_are_typed(app, client, holder):
    """The dialog shows the evidence, asks for key and reason, frees the orphan and records who did it."""
    app("lock:dead:1")
    wait_until(
        lambda: (found := source.board().source.lock(b"lock:dead:1")) and found.holder.alive == "alive"
    )
    holder.stop(signal.SIGKILL)
    wait_until(lambda: state_of(b"lock:dead:1") == "orphaned", timeout=40, what="orphaned")
    page = press(app("lock:dead:1"), "Release this lock …")
    assert "Dry run" in texts(page)
    press(page, "Release")
    assert "not this lock's key" in texts(page)
    assert "Say why" in texts(page)
    assert client.exists("lock:dead:1")
    page.text_input(key="release-key").set_value("lock:dead:1")
    page.text_input(key="release-reason").set_value("deploy killed it")
    press(page, "Release")
    assert "Released." in texts(page), texts(page)
    assert not client.exists("lock:dead:1")
    entry = read_audit(client)[0]
    assert (entry.outcome, entry.key, entry.reason) == ("released", b"lock:dead:1", "deploy killed it")
    assert entry.user.startswith("viewer at")


def test_living_holder_is_refused_without_insistence(app, client):
    """A lock whose holder lives stays, however well the key is typed, until the viewer insists."""
    voice = client.pubsub()
    voice.subscribe("lockscope:alive:bbbbbbbbbbbb")
    voice.get_message(timeout=2)
    hold(client, "lock:alive:1", "bbbbbbbbbbbb")
    app("lock:alive:1")
    wait_until(
        lambda: (found := source.board().source.lock(b"lock:alive:1")) and found.holder.alive == "alive"
    )
    page = press(app("lock:alive:1"), "Release this lock …")
    assert "holds it and lives" in texts(page)
    page.text_input(key="release-key").set_value("lock:alive:1")
    page.text_input(key="release-reason").set_value("I want it")
    press(page, "Release")
    assert "tick the box" in texts(page)
    assert client.exists("lock:alive:1")
    page.checkbox(key="release-force").check()
    press(page, "Release")
    assert not client.exists("lock:alive:1")
    assert read_audit(client)[0].forced
    voice.close()


def test_lock_that_changed_hands_meanwhile_stays(app, client):
    """Between opening the dialog and pressing the button the lock got a new owner: it is not freed."""
    hold(client, "lock:busy:1")
    page = press(app("lock:busy:1"), "Release this lock …")
    page.text_input(key="release-key").set_value("lock:busy:1")
    page.text_input(key="release-reason").set_value("stuck")
    page.checkbox(key="release-force").check()
    new = hold(client, "lock:busy:1")
    press(page, "Release")
    assert "Not released: the lock is not as it was seen." in texts(page)
    assert client.get("lock:busy:1") == new


def fill(page, key):
    """Type what the dialog wants to know."""
    page.text_input(key="release-key").set_value(key)
    page.text_input(key="release-reason").set_value("stuck")
    page.checkbox(key="release-force").check()


def test_what_was_seen_long_ago_is_looked_at_anew(app, client):
    """A dialog left open for more than a minute frees nothing at first: it shows what is there now."""
    hold(client, "lock:slow:1")
    page = press(app("lock:slow:1"), "Release this lock …")
    fill(page, "lock:slow:1")
    new = hold(client, "lock:slow:1")
    wait_until(
        lambda: source.board().source.lock(b"lock:slow:1").holder.fingerprint == tokens.fingerprint(new),
        what="the new token sampled",
    )
    source.board().clock = lambda: time.time() + 61
    press(page, "Release")
    assert "looked at anew" in texts(page)
    assert tokens.fingerprint(new) in "".join(one.value for one in page.markdown)
    assert client.get("lock:slow:1") == new
    assert read_audit(client) == []
    press(page, "Release")
    assert "Released." in texts(page), texts(page)
    assert not client.exists("lock:slow:1")


def test_dialog_does_not_come_back_by_itself(app, client):
    """Who leaves the page with the dialog open and comes back has to open it again."""
    hold(client, "lock:order:1")
    page = press(app("lock:order:1"), "Release this lock …")
    assert "Dry run" in texts(page)
    page.switch_page("pages/holders.py").run()
    page.switch_page("pages/lock.py")
    page.query_params["key"] = "lock:order:1"
    page.run()
    assert "Dry run" not in texts(page)
    assert [one.label for one in page.button if one.label.startswith("Release")] == ["Release this lock …"]


def test_hostile_key_is_freed_by_its_text(app, client):
    """A key that cannot be typed is confirmed by the text that stands for it, and only it is freed."""
    key = b"lock:\xff<b>\n"
    hold(client, key)
    hold(client, b"lock:\xff<b>")
    page = press(app(r"lock:\xff<b>\x0a"), "Release this lock …")
    page.text_input(key="release-key").set_value(r"lock:\xff<b>\x0a")
    page.text_input(key="release-reason").set_value("test")
    page.checkbox(key="release-force").check()
    press(page, "Release")
    assert client.keys("lock:*") == [b"lock:\xff<b>"]


@pytest.mark.parametrize(
    ("user", "offered", "why"),
    [
        (SIGNED_OUT, "Sign in", "Sign in to free locks"),
        (BOB, "", "free locks, Bob has none"),
        (NO_CLAIM, "", "free locks, eve@example.org has none"),
        (ANN, "Release this lock …", ""),
    ],
)
def test_with_sign_in_only_named_roles_get_the_button(app, client, monkeypatch, user, offered, why):
    """Signed out one may sign in, without a role or a claim one gets the reason, with a role the button."""
    monkeypatch.setenv("LOCKSCOPE_RELEASE_ROLES", "oncall, sre")
    hold(client, "lock:order:1")
    page = app("lock:order:1", user)
    assert why in "".join(one.value for one in page.caption).replace("\\", "")
    labels = [one.label for one in page.button]
    assert [label for label in labels if label.startswith(("Sign in", "Release"))] == (
        [offered] if offered else []
    )


def test_sign_in_that_is_not_set_up_is_a_sentence(app, client, monkeypatch):
    """Where signing in cannot work the page says what is missing."""
    monkeypatch.setenv("LOCKSCOPE_RELEASE_ROLES", "sre")
    hold(client, "lock:order:1")
    page = press(app("lock:order:1", SIGNED_OUT), "Sign in")
    assert not page.exception
    assert "Signing in is not possible" in texts(page)


def test_role_taken_away_while_the_dialog_is_open_counts(app, client, monkeypatch):
    """The right to free is asked for again when the button is pressed, not only when the dialog opens."""
    monkeypatch.setenv("LOCKSCOPE_RELEASE_ROLES", "sre")
    hold(client, "lock:order:1")
    page = press(app("lock:order:1", ANN), "Release this lock …")
    page.text_input(key="release-key").set_value("lock:order:1")
    page.text_input(key="release-reason").set_value("stuck")
    page.checkbox(key="release-force").check()
    page.user = BOB
    button = next((one for one in page.button if one.label == "Release"), None)
    assert button is not None
    button.click().run()
    assert client.exists("lock:order:1")


def test_signed_in_person_is_named_in_the_audit_trail(app, client, monkeypatch):
    """The trail holds the e-mail address of who freed the lock."""
    monkeypatch.setenv("LOCKSCOPE_RELEASE_ROLES", "sre")
    hold(client, "lock:order:1")
    page = press(app("lock:order:1", ANN), "Release this lock …")
    page.text_input(key="release-key").set_value("lock:order:1")
    page.text_input(key="release-reason").set_value("stuck")
    page.checkbox(key="release-force").check()
    press(page, "Release")
    assert not client.exists("lock:order:1")
    assert read_audit(client)[0].user == "ann@example.org"


def test_no_button_while_releases_are_off(app, client, monkeypatch):
    """Without the switch there is no button, only the line that tells how to get one."""
    monkeypatch.setenv("LOCKSCOPE_ALLOW_RELEASE", "0")
    hold(client, "lock:order:1")
    page = app("lock:order:1")
    assert not [one for one in page.button if one.label.startswith("Release")]
    assert any(
        "LOCKSCOPE\\_ALLOW\\_RELEASE\\=1" in one.value
        or "LOCKSCOPE_ALLOW_RELEASE" in one.value.replace("\\", "")
        for one in page.caption
    )


def test_lock_that_is_gone_cannot_be_freed(app, client):
    """The dialog of a lock that nobody holds says so."""
    page = press(app("lock:nothing"), "Release this lock …")
    assert "Nobody holds this lock now." in texts(page)
    assert read_audit(client) == []

"""Signing in to the explorer: a real OpenID Connect provider, the real explorer, a real browser."""

from __future__ import annotations

import json
import sysconfig
from pathlib import Path

import pytest
from playwright.sync_api import expect

from explorer_stage import Folder, answers, chromium, start_explorer
from servers import RedisServer, free_port, wait_until

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

KEY = "lock:order:1"
SLOW = 30_000  # milliseconds
USERS = (
    {"sub": "u-1", "email": "ann@example.org", "roles": ["operators"]},
    {"sub": "u-2", "email": "bob@example.org", "groups": ["readers"]},
    {"sub": "u-3", "preferred_username": "<b>*eve*</b>", "roles": "none"},
)


@pytest.fixture(scope="module")
def redis_server():
    """Give the Redis that the explorer watches."""
    server = RedisServer(port=None)
    yield server
    server.close()


@pytest.fixture(scope="module")
def explorer(redis_server):
    """Give the URL of an explorer where operators may free locks."""
    folder, provider, port = Folder(), free_port(), free_port()
    options = [part for user in USERS for part in ("--user-claims", json.dumps(user))]
    program = Path(sysconfig.get_path("scripts")) / "oidc-provider-mock"
    folder.start("provider", [str(program), "--port", str(provider), *options])
    discovery = f"http://127.0.0.1:{provider}/.well-known/openid-configuration"
    wait_until(lambda: answers(discovery), timeout=30, what="the provider")
    secrets = folder.path / ".streamlit" / "secrets.toml"
    secrets.parent.mkdir()
    secrets.write_text(
        f'[auth]\nredirect_uri = "http://127.0.0.1:{port}/oauth2callback"\nclient_id = "lockscope"\n'
        f'client_secret = "s"\ncookie_secret = "thirty-two characters and some more"\n'
        f'server_metadata_url = "{discovery}"\n'
    )
    env = {"LOCKSCOPE_ALLOW_RELEASE": "1", "LOCKSCOPE_RELEASE_ROLES": "operators,admins"}
    yield start_explorer(folder, redis_server.url, env=env, port=port)
    folder.close()


@pytest.fixture(scope="module")
def browser():
    """Give a chromium."""
    with chromium() as started:
        yield started


@pytest.fixture
def page(browser, redis_server):
    """Give a tab of a browser in which nobody is signed in, and a lock without a living holder."""
    with redis_server.client() as client:
        client.flushall()
        client.set(KEY, "8743c9c0", px=600_000)
    expect.set_options(timeout=SLOW)
    context = browser.new_context()
    tab = context.new_page()
    tab.set_default_timeout(SLOW)
    yield tab
    context.close()


def sign_in(page, explorer, sub):
    """Sign in from the lock's page as a user of the provider, and go back there."""
    page.goto(f"{explorer}/lock?key={KEY}")
    expect(page.get_by_text("Sign in to free locks.")).to_be_visible()
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name=sub, exact=True).click()
    page.wait_for_url(f"{explorer}/**")
    page.goto(f"{explorer}/lock?key={KEY}")


def test_an_operator_signs_in_and_frees_a_lock_under_their_own_name(page, explorer, redis_server):
    """The audit entry carries the name that the provider vouches for, and signing out ends it."""
    sign_in(page, explorer, "u-1")
    expect(page.get_by_text("Signed in as ann@example.org.")).to_be_visible()
    page.get_by_role("button", name="Release this lock").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Type the key to confirm").fill(KEY)
    dialog.get_by_label("Reason").fill("its host was switched off")
    dialog.get_by_text("Free it although its holder may still work").click()
    dialog.get_by_role("button", name="Release", exact=True).click()
    expect(dialog.get_by_text("Released.")).to_be_visible()
    with redis_server.client() as client:
        assert not client.exists(KEY)
        [(_, entry)] = client.xrevrange("lockscope:audit", count=1)
        client.set(KEY, "8743c9c0", px=600_000)
    assert b"ann@example.org" in b" ".join(entry.values())
    dialog.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("button", name="End session").click()  # the provider asks, too
    page.wait_for_url(f"{explorer}/**")
    page.goto(f"{explorer}/lock?key={KEY}")
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    expect(page.get_by_role("button", name="Release this lock")).to_have_count(0)


@pytest.mark.parametrize(("sub", "name"), [("u-2", "bob@example.org"), ("u-3", "<b>*eve*</b>")])
def test_somebody_without_the_role_is_told_so_and_may_sign_out(page, explorer, sub, name):
    """The name is shown as text, whatever is in it; no button leads to the dialog."""
    sign_in(page, explorer, sub)
    expect(page.get_by_text(f"Signed in as {name}.")).to_be_visible()
    expect(page.get_by_text(f"Of the roles that may free locks, {name} has none.")).to_be_visible()
    expect(page.get_by_role("button", name="Release this lock")).to_have_count(0)
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()


def test_somebody_who_says_no_at_the_provider_is_not_signed_in(page, explorer):
    """Coming back without consent leaves everything as it was."""
    page.goto(f"{explorer}/lock?key={KEY}")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Deny").click()
    page.wait_for_url(f"{explorer}/**")
    page.goto(f"{explorer}/lock?key={KEY}")
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()

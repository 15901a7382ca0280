"""Freeing a lock by hand: what was seen, what will happen, a key to type, and what came of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import streamlit as st
from streamlit.errors import StreamlitAuthError

from lockscope_dashboard import source, text
from lockscope_dashboard.access import Access, decide
from lockscope_dashboard.frames import locks
from lockscope_dashboard.views.health import all_answer, code, literal, of
from lockscope_exporter import release
from lockscope_exporter.connect import ConnectError
from lockscope_exporter.evidence import holder_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockscope_exporter.release import ReleasePlan, ReleaseResult
    from lockscope_exporter.state import LockState

SEEN: Final = "lockscope_release_seen"
DONE: Final = "lockscope_release_done"
FRESH: Final = 60.0  # seconds; what was seen longer ago is looked at anew before anything is freed
GOOD: Final = {"ready": "success", "released": "success", "resurrected": "warning", "gone": "info"}


class Seen(NamedTuple):
    """What the dialog is about.

    Attributes:
        params: what names the lock.
        lock: the lock as it was seen, ``None`` if it was not held.
        at: when that was, unix time in seconds.
        places: where it was held; in several, nobody can say which one is meant.
    """

    params: Mapping[str, str]
    lock: LockState | None
    at: float
    places: int


def viewer() -> Access:
    """Return whether the viewer of this page may free locks."""
    return decide(source.options(), dict(st.user), st.context.ip_address)


def offer(params: Mapping[str, str]) -> None:
    """Draw the button that opens the dialog, or why there is none.

    Args:
        params: what names the lock, see ``frames.locks.find``. The lock is looked up by that when the button
            is pressed, and kept exactly as it was seen then, never by its place in a list.
    """
    access = viewer()
    found: Seen | None = st.session_state.get(SEEN)
    if found is not None and found.params != params:
        forget()
    if access.signed_in:
        sign_out(access.user)
    if access.allowed:
        st.button(
            "Release this lock …",
            icon=":material/lock_open_right:",
            key="release",
            on_click=_see,
            args=(params,),
        )
        if SEEN in st.session_state:
            dialog()
        return
    st.caption(f"{literal(access.why_not[:1].upper() + access.why_not[1:])}.", width="content")
    if access.sign_in and st.button("Sign in", key="sign-in"):
        sign_in()


def sign_in() -> None:
    """Send the viewer to the identity provider, or say what of the sign-in is not set up."""
    try:
        st.login()
    except StreamlitAuthError as error:
        st.warning(f"**Signing in is not possible.** {literal(' '.join(str(error).split()))}")


def sign_out(user: str) -> None:
    """Say who is signed in, and offer to end that: a browser may be shared."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(f"Signed in as {literal(user)}.", width="content")
        if st.button("Sign out", key="sign-out", type="tertiary"):
            st.logout()


def _see(params: Mapping[str, str]) -> None:
    snapshot = source.board().snapshot(max_age=0.0)
    found = locks.find(snapshot.frame, params)
    lock = snapshot.locks[int(found.index[0])] if len(found) == 1 else None
    st.session_state[SEEN] = Seen(params, lock, source.board().clock(), len(found))
    st.session_state.pop(DONE, None)


def forget() -> None:
    """Forget what was seen: the dialog was closed, or another page opened."""
    for name in (SEEN, DONE):
        st.session_state.pop(name, None)


@st.dialog("Release a lock", width="large", icon=":material/lock_open_right:", on_dismiss=forget)
def dialog() -> None:
    """Draw the dialog, from what was seen when it was opened."""
    found: Seen = st.session_state[SEEN]
    done: ReleaseResult | None = st.session_state.get(DONE)
    anew = done is None and source.board().clock() - found.at > FRESH
    if anew:
        _see(found.params)
    lock: LockState | None = st.session_state[SEEN].lock
    if lock is None and st.session_state[SEEN].places > 1:
        st.info(
            "This key is locked in several places. Close this, and choose the one that you mean.",
            icon=":material/account_tree:",
        )
        return
    if lock is None:
        known = all_answer(of(source.board().source.nodes(), [found.params.get("target", "")]))
        st.info(
            "Nobody holds this lock now."
            if known
            else "Whether somebody holds this lock is not known while not everything can be read.",
            icon=":material/lock_open:" if known else ":material/help:",
        )
        return
    plan = release.plan(lock)
    seen(lock, plan)
    if done is not None:
        outcome(done)
        return
    if plan.blocked is not None:
        st.error(literal(f"{plan.blocked.reason}."), icon=":material/block:")
        return
    outcome(attempt(plan, rehearse=True))
    if plan.needs_force:
        st.warning(
            f"**{literal(plan.needs_force)}.** Freeing it lets two work at once, unless you know better.",
            icon=":material/warning:",
        )
    form(lock, plan, anew=anew)


def seen(lock: LockState, plan: ReleasePlan) -> None:
    """Draw what the dialog is about."""
    st.markdown(
        f"{code(text.cut(text.show(lock.key), 400))}  \n:small[seen {text.absolute(lock.sampled_at)}]"
    )
    lines = [f"- {literal(line)}" for line in lock.evidence]
    lines += [
        f"- holder {literal(holder_name(holder))}, token fingerprint {code(holder.fingerprint)}"
        for holder in plan.holders[:5]
    ]
    st.markdown("\n".join(lines))
    if plan.steps:
        st.markdown("**What will happen**\n\n" + "\n".join(f"1. {literal(step)}" for step in plan.steps))
    for warning in plan.warnings:
        st.warning(literal(f"{warning}."), icon=":material/warning:")


def form(lock: LockState, plan: ReleasePlan, *, anew: bool) -> None:
    """Ask for the key, a reason and, where the holder may live, for insistence; then free the lock.

    Args:
        lock: the lock.
        plan: how it would be freed.
        anew: the lock was looked at only now; whoever pressed the button had seen what was before.
    """
    wanted = text.identify(text.show(lock.key), lock.key)
    with st.form("release-form", border=False, enter_to_submit=False):
        typed = st.text_input("Type the key to confirm", placeholder=wanted, key="release-key")
        reason = st.text_input(
            "Reason", placeholder="for the audit trail", key="release-reason", max_chars=300
        )
        force = bool(plan.needs_force) and st.checkbox(
            "Free it although its holder may still work", key="release-force"
        )
        pressed = st.form_submit_button("Release", type="primary", key="release-submit")
    if not pressed:
        return
    if anew:
        st.warning(
            "Not released yet: what you saw was more than a minute old. The lock was looked at anew; check "
            "what the dialog says now, then press Release again.",
            icon=":material/update:",
        )
        return
    confirmed = typed == wanted or text.unshow(typed) == lock.key
    missing = [
        words
        for words, wrong in (
            ("The typed key is not this lock's key.", not confirmed),
            ("Say why, for the audit trail.", not reason.strip()),
            ("Its holder may still work: tick the box to insist.", bool(plan.needs_force) and not force),
        )
        if wrong
    ]
    if missing:
        st.error(" ".join(missing), icon=":material/edit:")
        return
    st.session_state[DONE] = attempt(plan, reason=reason.strip(), force=force)
    st.rerun()


def attempt(
    plan: ReleasePlan, *, rehearse: bool = False, reason: str = "", force: bool = False
) -> ReleaseResult:
    """Rehearse a plan, or carry it out; whatever goes wrong is a result."""
    access = viewer()  # asked again: it may have changed since the dialog was opened
    try:
        client = release.open_client(source.sampled(), plan.lock)
    except ConnectError as error:
        return release.ReleaseResult("failed", str(error))
    try:
        if rehearse:
            return release.rehearse(client, plan, force=True)
        result = release.execute(
            client,
            plan,
            allow=access.allowed,
            user=access.user or "nobody",
            reason=reason,
            force=force,
            confirm=plan.lock.key if force else None,
        )
        return result if access.allowed else replace(result, detail=access.why_not)
    finally:
        client.close()


def outcome(result: ReleaseResult) -> None:
    """Say what came of it."""
    words = {
        "ready": "Dry run, nothing was changed:",
        "released": "Released.",
        "resurrected": "Released, and taken again at once.",
        "changed": "Not released: the lock is not as it was seen.",
        "gone": "Not released: it is gone already.",
        "refused": "Refused.",
        "failed": "Not released:",
        "unknown": "The server did not answer: nobody knows.",
    }
    draw = {"success": st.success, "warning": st.warning, "info": st.info}.get(
        GOOD.get(result.outcome, ""), st.error
    )
    more = "".join(f"\n\n{literal(line)}" for line in result.warnings)
    trail = f"\n\nRecorded as {code(result.audit_id)}." if result.audit_id else ""
    said = words.get(result.outcome, result.outcome)
    detail = result.detail[:1].upper() + result.detail[1:] if said.endswith(".") else result.detail
    draw(f"**{said}** {literal(detail)}.{trail}{more}")

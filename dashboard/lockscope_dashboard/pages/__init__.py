"""One file a page; this table names them, in the order of the menu."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import streamlit as st

from lockscope_dashboard import source
from lockscope_dashboard.components import load
from lockscope_dashboard.views import address, release
from lockscope_dashboard.views.health import literal

if TYPE_CHECKING:
    from collections.abc import Callable

_HERE: Final = Path(__file__).parent
_ICON: Final = str(_HERE.parent / "assets" / "icon.png")
_wired: ContextVar[bool] = ContextVar("wired", default=False)


class Entry(NamedTuple):
    """One page of the menu: its file, which is also its address, its title and its icon."""

    name: str
    title: str
    icon: str


MENU: Final = (
    Entry("live", "Live locks", ":material/lock:"),
    Entry("lock", "One lock", ":material/key:"),
    Entry("holders", "Holders", ":material/groups:"),
    Entry("contention", "Contention", ":material/traffic:"),
    Entry("ttl", "TTL advice", ":material/timer:"),
    Entry("duplicates", "Duplicates", ":material/content_copy:"),
    Entry("health", "Audit and health", ":material/health_and_safety:"),
)


def run() -> None:
    """Set the frame up and run the page that the address names; the first one answers at ``/``."""
    st.set_page_config(page_title="lockscope", page_icon=_ICON, layout="wide")
    st.logo(_ICON, size="medium")
    load("frame", isolated=False)(key="frame", data={"dark": st.context.theme.type == "dark"})
    chosen = st.navigation(
        [
            st.Page(_HERE / f"{page.name}.py", title=page.title, icon=page.icon, default=page is MENU[0])
            for page in MENU
        ],
        position="top",
    )
    try:
        source.board()
    except ValueError as error:
        st.error(f"**The explorer cannot start.** {literal(str(error))}", icon=":material/settings_alert:")
        return
    if chosen.url_path != "lock":
        release.forget()
    if chosen.url_path:
        address.leave()
    token = _wired.set(True)
    try:
        chosen.run()
    finally:
        _wired.reset(token)


def show(draw: Callable[[], None]) -> None:
    """Draw a page inside the frame.

    Streamlit runs the files of a ``pages`` folder by themselves until some session has called
    ``st.navigation``; a first visitor who follows a deep link would see a page without its frame.

    Args:
        draw: the page.
    """
    if _wired.get():
        draw()
    else:
        run()

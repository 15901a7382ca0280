"""One file a page; this table names them, in the order of the menu."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

if TYPE_CHECKING:
    from pathlib import Path

LIVE = ("live.py", "Live locks", ":material/lock:", "live")
TABLE = (
    LIVE,
    ("lock.py", "One lock", ":material/key:", "lock"),
)


def all_pages(folder: Path) -> list[st.Page]:
    """Return the pages; the first is the default one and answers at ``/``."""
    return [
        st.Page(folder / file, title=title, icon=icon, url_path=path, default=index == 0)
        for index, (file, title, icon, path) in enumerate(TABLE)
    ]

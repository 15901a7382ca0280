"""The explorer's own page elements, written for Streamlit's component interface, version 2.

A component gets plain data, builds its part of the page with ``textContent`` (never from markup), and sends
back what was asked for by name: a key, a column, a page number. Nothing refers to a row number.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

import streamlit as st

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer


@lru_cache(maxsize=16)
def load(name: str, *, isolated: bool = True) -> ComponentRenderer:
    """Return the component whose script and style are ``name.js`` and ``name.css`` beside this file.

    Args:
        name: base name of the two files.
        isolated: its style is for itself, and the page's is not for it.

    Returns:
        The function that mounts it; where it is isolated, the shared ``base.css`` and ``base.js`` come first.
    """
    folder = files(__name__)

    def read(file: str) -> str:
        return folder.joinpath(file).read_text(encoding="utf-8")

    return st.components.v2.component(
        f"lockscope_{name}",
        css=(read("base.css") if isolated else "") + read(f"{name}.css"),
        js=(read("base.js") if isolated else "") + read(f"{name}.js"),
        isolate_styles=isolated,
    )

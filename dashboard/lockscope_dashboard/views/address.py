"""The address of the list of locks, remembered while one looks at something else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import streamlit as st

if TYPE_CHECKING:
    from lockscope_dashboard.frames.locks import Filters

BOUND: Final = ("q", "prefix", "holder", "dialect", "db", "target")  # Streamlit keeps these in the URL itself
OWN: Final = ("state", "sort", "page")
_PLACE: Final = "lockscope_list"


def remember(filters: Filters) -> None:
    """Note the filters of the list, for ``back``."""
    place = {name: [str(value) for value in getattr(filters, name)] for name in BOUND if name != "q"}
    place["q"] = [filters.q] if filters.q else []
    place["refresh"] = [st.session_state.get("refresh", "")]
    st.session_state[_PLACE] = place | {name: st.query_params.get_all(name) for name in OWN}


def remembered() -> dict[str, list[str]]:
    """Return the filters last seen, those that are set."""
    place: dict[str, list[str]] = st.session_state.get(_PLACE, {})
    return {name: values for name, values in place.items() if any(values)}


def back() -> None:
    """Draw the way back to the list as it was."""
    st.page_link("pages/live.py", label="Live locks", icon=":material/arrow_back:", query_params=remembered())

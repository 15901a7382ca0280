"""The head of a page: its title, and how often it looks again."""

from __future__ import annotations

from typing import Final

import streamlit as st

INTERVALS: Final[dict[str, float | None]] = {"1 s": 1.0, "2 s": 2.0, "5 s": 5.0, "15 s": 15.0, "Pause": None}
NAME: Final = "refresh"  # in the address
_CHOSEN: Final = "lockscope_refresh"
_PRESSED: Final = "lockscope_refresh_pressed"


def pressed() -> bool:
    """Tell whether the page is drawn because its refresh control was used, not because its address changed.

    To be asked before ``header`` draws it.
    """
    return bool(st.session_state.get(_PRESSED))


def header(title: str, default: str = "2 s") -> float | None:
    """Draw a title with the refresh control beside it.

    What was chosen stands in the address, and holds for this page until its tab is closed: whoever looks at a
    lock and comes back finds the list as it was.

    Args:
        title: of the page.
        default: interval where nobody has chosen one, one of ``INTERVALS``.

    Returns:
        Seconds between refreshes, ``None`` while paused.
    """
    chosen: dict[str, str] = st.session_state.setdefault(_CHOSEN, {})
    key = f"{_CHOSEN}_{title}"
    asked = st.query_params.get(NAME)
    wanted = asked if asked in INTERVALS else chosen.get(title, default)
    st.session_state[key] = chosen[title] = wanted
    st.session_state[_PRESSED] = False
    _say(wanted, default)

    def choose() -> None:
        st.session_state[_PRESSED] = True
        chosen[title] = st.session_state[key]
        _say(chosen[title], default)

    with st.container(horizontal=True, vertical_alignment="center"):
        st.title(title, anchor=False, width="stretch")
        st.segmented_control(
            "Refresh every",
            list(INTERVALS),
            required=True,
            key=key,
            on_change=choose,
            label_visibility="collapsed",
        )
    return INTERVALS[wanted]


def params(title: str, default: str = "2 s") -> dict[str, list[str]]:
    """Return what the address of another page says of the interval chosen there; the default is left out."""
    wanted = st.session_state.get(_CHOSEN, {}).get(title, default)
    return {NAME: [wanted]} if wanted != default else {}


def _say(wanted: str, default: str) -> None:
    """Make the address say it; what is the default is left out.

    What it says already is not said again: while a page is changing, that would be an entry in the history of
    the browser with the path of the one and the parameters of the other.
    """
    if wanted != default:
        if st.query_params.get_all(NAME) != [wanted]:
            st.query_params[NAME] = wanted
    elif NAME in st.query_params:
        del st.query_params[NAME]

"""What of the list of locks lives in its address: filters, states, order and page.

A part of a page that refreshes by itself may run with an address that is a click older than what the viewer
sees: the next refresh was asked for before the click changed the address. So the session is what counts, and
the address follows it; it is read when the page is opened or its address changes. Streamlit's own
``bind="query-params"`` is not used here: whoever changes one parameter sends all of them, as old as they are,
and nothing would put back a bound one that is lost so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import streamlit as st

from lockscope_dashboard.frames.locks import SEVERITY, SORTS
from lockscope_dashboard.views import refresh

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockscope_dashboard.frames.locks import Filters

LONGEST_NUMBER: Final = 8
TITLE: Final = "Live locks"
PICKED: Final = ("prefix", "holder", "dialect", "db", "target")  # filters with several values; "q" has one
AHEAD: Final = "lockscope_ahead"  # of the session: the viewer has changed what the address does not say yet
_PLACE: Final = "lockscope_place"
_FILTERS: Final = "lockscope_filters"


class Place(NamedTuple):
    """Which part of the list is looked at.

    Attributes:
        states: states to show, all if empty.
        sort: column; ``descending`` the other way round.
        number: page number, from 1.
    """

    states: tuple[str, ...] = ()
    sort: str = "state"
    descending: bool = False
    number: int = 1

    def params(self) -> dict[str, list[str]]:
        """Return it as parameters of the address; what is the default is empty."""
        sort = f"{self.sort}-desc" if self.descending else self.sort
        return {
            "state": list(self.states),
            "sort": [sort] if sort != Place().sort else [],
            "page": [str(self.number)] if self.number > 1 else [],
        }


def parse(get_all: Callable[[str], list[str]]) -> Place:
    """Read a place from the parameters of an address; nonsense means the default."""
    sort, _, direction = (get_all("sort") or [Place().sort])[-1].partition("-")
    number = (get_all("page") or ["1"])[-1]
    plain = number.isascii() and number.isdecimal() and len(number) <= LONGEST_NUMBER
    return Place(
        states=tuple(state for state in SEVERITY if state in get_all("state")),
        sort=sort if sort in SORTS else Place().sort,
        descending=direction == "desc" and sort in SORTS,
        number=max(1, int(number)) if plain else 1,
    )


def open_page() -> None:
    """Take place and filters from the address; once, when the page is opened or its address has changed."""
    if st.session_state.get(AHEAD):
        return
    st.session_state[_PLACE] = parse(st.query_params.get_all)
    st.session_state[_FILTERS] = None  # the page is that of the address, whatever was filtered before
    st.session_state["q"] = (st.query_params.get_all("q") or [""])[-1]
    for name in PICKED:
        st.session_state[name] = list(dict.fromkeys(st.query_params.get_all(name)))


def run_ahead() -> None:
    """Remember that the viewer has just changed something which the address does not say yet."""
    st.session_state[AHEAD] = True


def leave() -> None:
    """Let the address count when the list is opened again; to be called on other pages."""
    st.session_state[AHEAD] = False


def place() -> Place:
    """Return the place that the viewer looks at."""
    found: Place = st.session_state.get(_PLACE) or Place()
    return found


def go_to(new: Place) -> None:
    """Look at another place."""
    run_ahead()
    st.session_state[_PLACE] = new


def follow(filters: Filters) -> None:
    """Make the address say what is shown, and go to the first page when other filters are set."""
    before = st.session_state.get(_FILTERS)
    st.session_state[_FILTERS] = filters
    if before is not None and before != filters and place().number > 1:
        go_to(place()._replace(number=1))
    _say(filters)
    st.session_state[AHEAD] = False


def correct(number: int, filters: Filters) -> None:
    """Take note that the list has no such page as the address says, and which one is shown instead."""
    if number != place().number:
        st.session_state[_PLACE] = place()._replace(number=number)
        _say(filters)


def back() -> None:
    """Draw the way back to the list as it was."""
    params = _params(st.session_state.get(_FILTERS)) | refresh.params(TITLE)
    st.page_link(
        "pages/live.py",
        label=TITLE,
        icon=":material/arrow_back:",
        query_params={name: values for name, values in params.items() if values},
    )


def _say(filters: Filters) -> None:
    """Make the address say what is shown, in one step: each is an entry in the history of the browser."""
    wanted = _params(filters)
    if any(st.query_params.get_all(name) != values for name, values in wanted.items()):
        others = {name: st.query_params.get_all(name) for name in st.query_params if name not in wanted}
        st.query_params.from_dict(others | {name: values for name, values in wanted.items() if values})


def _params(filters: Filters | None) -> dict[str, list[str]]:
    found = place().params()
    if filters is not None:
        found |= {"q": [filters.q] if filters.q else []}
        found |= {name: list(getattr(filters, name)) for name in PICKED}
    return found

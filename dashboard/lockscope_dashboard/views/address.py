"""What of the list of locks lives in its address, beside the filters that Streamlit itself keeps there.

A part of a page that refreshes by itself may run with an address that is a click older than what the viewer
sees: the next refresh was asked for before the click changed the address. So the session is what counts, and
the address follows it; it is read when the page is opened or its address changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import streamlit as st

from lockscope_dashboard.frames.locks import SEVERITY, SORTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockscope_dashboard.frames.locks import Filters

LONGEST_NUMBER: Final = 8
BOUND: Final = ("q", "prefix", "holder", "dialect", "db", "target")  # Streamlit keeps these in the address
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
    """Take the place from the address; once, when the page is opened or its address has changed."""
    st.session_state[_PLACE] = parse(st.query_params.get_all)


def place() -> Place:
    """Return the place that the viewer looks at."""
    found: Place = st.session_state.get(_PLACE) or Place()
    return found


def go_to(new: Place) -> None:
    """Look at another place."""
    st.session_state[_PLACE] = new


def follow(filters: Filters) -> None:
    """Make the address say what is shown, and go to the first page when other filters are set."""
    before = st.session_state.get(_FILTERS)
    st.session_state[_FILTERS] = filters
    if before is not None and before != filters and place().number > 1:
        go_to(place()._replace(number=1))
    for name, values in place().params().items():
        if st.query_params.get_all(name) != values:
            if values:
                st.query_params[name] = values
            else:
                del st.query_params[name]


def back() -> None:
    """Draw the way back to the list as it was."""
    filters: Filters | None = st.session_state.get(_FILTERS)
    params = dict(place().params())
    if filters is not None:
        params |= {name: [str(value) for value in getattr(filters, name)] for name in BOUND if name != "q"}
        params["q"] = [filters.q] if filters.q else []
    st.page_link(
        "pages/live.py",
        label="Live locks",
        icon=":material/arrow_back:",
        query_params={name: values for name, values in params.items() if values},
    )

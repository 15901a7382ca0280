"""Where a page's history comes from, and how to get one where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from lockscope_dashboard.views.health import literal

if TYPE_CHECKING:
    from lockscope_dashboard.history import Asking

SWITCH_ON = """\
LOCKSCOPE_JOURNAL=1    # in the environment of the workers, beside lockscope.instrument()
LOCKSCOPE_PROMETHEUS_URL=http://127.0.0.1:9090 lockscope explore"""


def teach(what: str) -> None:
    """Say that a page needs a history, and how to give it one.

    Args:
        what: what the page would show, as the object of a sentence.
    """
    st.info(
        f"**There is no history to show {literal(what)} from.** Redis itself tells only the present. "
        "Let the workers write the journal, or let a Prometheus scrape them and `lockscope export`:",
        icon=":material/history:",
    )
    st.code(SWITCH_ON, language="bash")


def draw(asking: Asking, *, journal: bool = False) -> None:
    """Say where the history comes from, or why it is missing."""
    if asking.trouble:
        st.warning(f"**History is missing.** {literal(asking.trouble)}", icon=":material/cloud_off:")
    elif asking.available:
        st.caption("History: from Prometheus, by what the shim counted in the workers.")
    elif journal:
        st.caption(
            "History: from the journal, as far back as it reaches. With Prometheus one may choose a time: "
            "start the explorer with --prometheus-url."
        )


def nothing(past: str, what: str) -> None:
    """Say that Prometheus answers, but has nothing to tell."""
    st.info(
        f"Prometheus has no {literal(what)} for {past}. Either nothing happened, or it does not "
        "scrape the workers: each needs `lockscope.instrument()` and an address for its metrics.",
        icon=":material/search_off:",
    )

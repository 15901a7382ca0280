"""The one sampler of this server process, shared by every viewer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import streamlit as st

from lockscope_dashboard import settings
from lockscope_dashboard.board import Board
from lockscope_exporter import configuration
from lockscope_exporter.sampling import open_source

if TYPE_CHECKING:
    from lockscope_dashboard.settings import Settings


@st.cache_resource(show_spinner=False)
def options() -> Settings:
    """Return the explorer's settings, read once."""
    return settings.from_environment(os.environ)


@st.cache_resource(show_spinner=False, on_release=Board.stop)
def board() -> Board:
    """Return the running board; the first viewer starts it and waits up to two seconds for a first sample.

    Raises:
        ValueError: a URL, a pattern or a number in the environment cannot be used.
    """
    chosen = configuration.from_environment(os.environ)
    made = Board(open_source(chosen.targets(), chosen.sampling()))
    made.start()
    made.source.wait_ready(2.0)
    return made

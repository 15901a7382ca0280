"""The readers of this server process, shared by every viewer: the sampler and the journal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import streamlit as st

from lockscope_dashboard import settings
from lockscope_dashboard.board import Board
from lockscope_exporter import configuration
from lockscope_exporter.journal import JournalFeed
from lockscope_exporter.journal.where import journal_targets
from lockscope_exporter.sampling import open_source

if TYPE_CHECKING:
    from lockscope_dashboard.settings import Settings
    from lockscope_exporter.configuration import Options
    from lockscope_exporter.targets import Target


@st.cache_resource(show_spinner=False)
def options() -> Settings:
    """Return the explorer's settings, read once."""
    return settings.from_environment(os.environ)


@st.cache_resource(show_spinner=False)
def sampled() -> Options:
    """Return what is sampled and how, read once.

    Raises:
        ValueError: a number in the environment is none.
    """
    return configuration.from_environment(os.environ)


@st.cache_resource(show_spinner=False)
def targets() -> tuple[Target, ...]:
    """Return the servers that are sampled, read once: later changes of a targets file do not count.

    Raises:
        ValueError: a URL, a pattern or the targets file cannot be used.
    """
    return sampled().targets()


@st.cache_resource(show_spinner=False, on_release=Board.stop)
def board() -> Board:
    """Return the running board; the first viewer starts it and waits up to two seconds for a first sample.

    Raises:
        ValueError: a URL, a pattern or a number in the environment cannot be used.
    """
    chosen = sampled()
    made = Board(open_source(targets(), chosen.sampling()))
    made.start()
    made.source.wait_ready(2.0)
    return made


@st.cache_resource(show_spinner=False, on_release=JournalFeed.stop)
def journal() -> JournalFeed:
    """Return the running reader of the journal; the first who asks waits up to two seconds for the past.

    Raises:
        ValueError: ``LOCKSCOPE_JOURNAL`` is neither on, off nor a URL.
    """
    chosen = sampled()
    found = journal_targets(os.environ.get("LOCKSCOPE_JOURNAL", "1"), targets())
    feed = JournalFeed(found, chosen.max_prefixes)
    feed.start()
    feed.wait_ready(2.0)
    return feed

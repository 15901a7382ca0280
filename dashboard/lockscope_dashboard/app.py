"""The lock explorer: ``streamlit run app.py`` starts here. Wires the pages, nothing else."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from lockscope_dashboard import pages

HERE = Path(__file__).parent


def main() -> None:
    """Set the frame up and run the page that the address names."""
    st.set_page_config(page_title="lockscope", page_icon=":material/lock:", layout="wide")
    st.navigation(pages.all_pages(HERE / "pages"), position="top").run()


main()

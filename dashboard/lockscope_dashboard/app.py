"""The lock explorer: ``streamlit run app.py`` starts here. Wires the pages, nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import streamlit as st

from lockscope_dashboard import pages

HERE: Final = Path(__file__).parent
LAYOUT: Final = """<style>
.stMainBlockContainer { padding-inline: clamp(0.8rem, 2.5vw, 2.5rem); max-width: 1680px; margin: 0 auto; }
.stMain [data-testid="stHeading"] h1 { padding: 0.1rem 0 0.3rem; }
</style>"""


def main() -> None:
    """Set the frame up and run the page that the address names."""
    icon = str(HERE / "assets" / "icon.png")
    st.set_page_config(page_title="lockscope", page_icon=icon, layout="wide")
    st.logo(icon, size="medium")
    st.html(LAYOUT)
    st.navigation(pages.all_pages(HERE / "pages"), position="top").run()


main()

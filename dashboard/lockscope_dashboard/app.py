"""The lock explorer: ``streamlit run app.py`` starts here. Wires the pages, nothing else."""

from __future__ import annotations

from lockscope_dashboard import pages

pages.run()

"""``python -m lockscope_dashboard.serve run app.py …``: Streamlit, ready before the first visitor comes.

Streamlit imports and runs an app when somebody looks at it. What takes seconds then, importing pandas and
reading every lock once, is done or begun here before the server listens.
"""

from __future__ import annotations

import gc
import threading

from streamlit.web.cli import main

from lockscope_dashboard import source
from lockscope_dashboard.frames import locks
from lockscope_dashboard.views import address, figures, health, refresh, release, table, tiles

# What every page draws with is imported here, before two threads could import it at once.
DRAWN_WITH = (address, figures, health, refresh, release, tiles)


def warm_up() -> None:
    """Start the reader that the viewers share, and draw up the first list of locks."""
    try:
        board = source.board()
    except ValueError:
        return  # the page says so
    ordered = locks.order(locks.apply(board.snapshot().frame, locks.Filters()), "state")
    table.rows(locks.page(ordered, 1, 50)[0])


if __name__ == "__main__":
    gc.freeze()  # what was imported stays for good: no search for garbage need look at it
    threading.Thread(target=warm_up, name="warm-up", daemon=True).start()
    main(prog_name="streamlit")

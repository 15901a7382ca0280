"""The command ``lockscope``. Importing this module needs nothing that is not in the base package."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# What the extra brings: missing modules of these names mean that it is not installed.
_EXTRA = frozenset({"click", "rich", "starlette", "uvicorn", "yaml", "bcrypt"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the console script ``lockscope``.

    Args:
        arguments: words after the program's name; those of the process if left out.

    Returns:
        The exit status: 0 done, 1 a finding, 2 a usage or connection error or an incomplete result, 130
        interrupted, 141 the reader of the output went away.
    """
    collecting = gc.isenabled()
    gc.disable()  # while modules are loaded; the command turns it on again
    try:
        from lockscope_exporter.cli.run import run  # noqa: PLC0415 - must be able to fail inside this try

        return run(sys.argv[1:] if arguments is None else arguments)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        sys.stderr.write(
            f'lockscope: the command line needs the extra "exporter" ({error.name} is not installed); '
            "install lockscope again with it, as in: pip install '.[exporter]' in a checkout\n"
        )
        return 2
    finally:
        if arguments is None:
            gc.freeze()  # the process ends: to search ten thousand locks for garbage first would take a while
        if collecting:
            gc.enable()

"""Run benchmarks: ``python -m tests.bench`` for all, ``python -m tests.bench mirror_churn`` for some.

A benchmark is a module beside this one with a ``main()`` that prints its table, next to what it is measured
against and the bar it has to clear.
"""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main(wanted: list[str]) -> int:
    """Run the benchmarks whose names begin with one of the words given, or all; return the exit code."""
    sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent)]  # both `tests.servers` and `servers` are in use
    names = sorted(path.stem for path in HERE.glob("*.py") if not path.stem.startswith("_"))
    chosen = [name for name in names if not wanted or any(name.startswith(word) for word in wanted)]
    if not chosen:
        print(f"no benchmark is called {' or '.join(wanted)}; there are {', '.join(names)}", file=sys.stderr)
        return 2
    for name in chosen:
        module = importlib.import_module(f"tests.bench.{name}")
        if not hasattr(module, "main"):
            continue
        print(f"\n== {name}: {(module.__doc__ or '').strip().splitlines()[0]}")
        began = time.monotonic()
        module.main()
        print(f"   ({time.monotonic() - began:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Write every generated file; with ``--check`` write nothing and fail if one differs."""

from __future__ import annotations

import sys
from pathlib import Path

from grafana.generate.files import generated_files

ROOT = Path(__file__).parents[2]


def main(arguments: list[str]) -> int:
    """Write or compare the generated files; return the exit code."""
    check = arguments == ["--check"]
    if arguments and not check:
        sys.stderr.write("usage: python -m grafana.generate [--check]\n")
        return 2
    differing = 0
    for name, text in generated_files().items():
        path = ROOT / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        differing += 1
        sys.stdout.write(f"{'differs' if check else 'wrote'}: {name}\n")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return 1 if check and differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Packages that need an older redis-py, in a folder of their own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

FOLDER = Path(sys.prefix) / "older"
REQUIREMENTS = Path(__file__).with_name("requirements-older.txt")


def older_packages() -> dict[str, str]:
    """Return the environment of a process that sees them, or skip the test with the way to install them."""
    if not (FOLDER / "redis").is_dir():
        pytest.skip(f"run: {sys.executable} -m pip install --target {FOLDER} -r {REQUIREMENTS}")
    return {"PYTHONPATH": str(FOLDER)}

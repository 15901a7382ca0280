"""One thing described to a person: a title and labelled lines. Wrapped on a terminal, whole in a pipe."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, NamedTuple

import click
from rich.text import Text

from lockscope_exporter.console import console
from lockscope_exporter.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LABEL = 10  # columns
_NARROWEST = 40


class Fact(NamedTuple):
    """Lines under one label.

    Attributes:
        label: one word.
        lines: what to say; nothing is printed if there are none.
        style: how a terminal shows the first line.
        copied: the lines are to be copied, so they are never wrapped.
    """

    label: str
    lines: Sequence[str]
    style: str = ""
    copied: bool = False


def print_facts(title: str, facts: Iterable[Fact]) -> None:
    """Print a title and its facts; nothing in them can act on a terminal."""
    out = console()
    width = max(out.width - _LABEL - 3, _NARROWEST) if out.is_terminal else None
    lines = [Text(shown(title), "bold")]
    for fact in facts:
        label = fact.label
        for number, whole in enumerate(fact.lines):
            for part in _wrapped(shown(whole), None if fact.copied else width):
                lines.append(
                    Text.assemble((f"  {label:<{_LABEL}} ", "dim"), (part, "" if number else fact.style))
                )
                label = ""
    if out.is_terminal:
        for line in lines:
            out.print(line)
    else:
        click.echo("\n".join(line.plain.rstrip() for line in lines))


def _wrapped(line: str, width: int | None) -> list[str]:
    if width is None or len(line) <= width:
        return [line]
    return textwrap.wrap(line, width, subsequent_indent="  ", break_on_hyphens=False) or [line]

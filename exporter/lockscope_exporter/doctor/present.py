"""Findings as lines of text, wrapped to the terminal. Pure."""

from __future__ import annotations

import textwrap
from collections import Counter
from typing import TYPE_CHECKING

from rich.text import Text

from lockscope_exporter.doctor.finding import SEVERITIES
from lockscope_exporter.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lockscope_exporter.doctor.finding import Finding, Severity

STYLES: dict[Severity, str] = {
    "critical": "bold red",
    "warning": "bold yellow",
    "unknown": "magenta",
    "note": "cyan",
    "ok": "green",
}
_SEVERAL: dict[Severity, str] = {"warning": "warnings", "note": "notes"}  # others are no nouns
_INDENT = " " * 10
_LONGEST = 2000  # characters of one finding


def lines(findings: Sequence[Finding], width: int) -> Iterator[Text]:
    """Yield the findings, a paragraph each, those that are fine in one line each, and a sum."""
    told = ""
    for finding in findings:
        where = f" ({shown(finding.where, 120)})" if finding.where else ""
        body = f"{finding.check}{where}: {shown(finding.text, _LONGEST)}"
        wrapped = _wrapped(body, width)
        line = Text(f"{finding.severity:<8}  {wrapped[0]}")
        line.stylize(STYLES[finding.severity], 0, len(finding.severity))
        yield line
        for more in wrapped[1:]:
            yield Text(f"{_INDENT}{more}")
        if finding.fix:
            fix = "the same" if finding.fix == told else finding.fix
            told = finding.fix
            for number, more in enumerate(_wrapped(f"do: {shown(fix, _LONGEST)}", width)):
                line = Text(f"{_INDENT}{more}")
                if not number:
                    line.stylize("bold", len(_INDENT), len(_INDENT) + 3)
                yield line
    yield Text("")
    yield Text(summary(findings), "bold")


def summary(findings: Sequence[Finding]) -> str:
    """Return how many findings of each severity there are."""
    counts = Counter(finding.severity for finding in findings)
    return (
        ", ".join(_counted(counts[severity], severity) for severity in SEVERITIES if counts[severity])
        or "nothing found"
    )


def _counted(count: int, severity: Severity) -> str:
    return f"{count} {severity if count == 1 else _SEVERAL.get(severity, severity)}"


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text, max(width - len(_INDENT), 30), break_long_words=True, break_on_hyphens=False
    ) or [""]

"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from lockscope_exporter.text import label_text

Severity = Literal["critical", "warning", "unknown", "note", "ok"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
FINDINGS: frozenset[Severity] = frozenset({"critical", "warning"})
"""What makes the exit status 1. What is not known is no finding, and never taken for fine."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check found.

    Attributes:
        check: name of the check, a word.
        severity: critical and warning want something done; unknown could not be looked at; note is worth
            knowing; ok was looked at and is fine.
        text: what is so, in one or two sentences.
        fix: what to do about it, empty where nothing is to be done.
        where: server, database or family that it is about, empty for all.
        data: the numbers behind it, for programs.
    """

    check: str
    severity: Severity
    text: str
    fix: str = ""
    where: str = ""
    data: dict[str, Any] = field(default_factory=dict)

    def to_object(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            "check": self.check,
            "severity": self.severity,
            "where": label_text(self.where),
            "text": label_text(self.text),
            "fix": label_text(self.fix),
            "data": self.data,
        }


def by_severity(finding: Finding) -> int:
    """Order findings: the worst first."""
    return SEVERITIES.index(finding.severity)

"""Is this Redis fit to keep locks, and does lockscope see them all? Evidence, then a check a question."""

from lockscope_exporter.doctor.checks import examine
from lockscope_exporter.doctor.evidence import Evidence
from lockscope_exporter.doctor.finding import Finding

__all__ = ["Evidence", "Finding", "examine"]

"""Who wants which lock, from a short look at MONITOR: every client of every language, no shim needed."""

from lockscope_exporter.contention.report import CallerCount, KeyCount, Report, merge

__all__ = ["CallerCount", "KeyCount", "Report", "merge"]
